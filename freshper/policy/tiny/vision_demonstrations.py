"""Conversations of a noisy player of a game in pictures: what its small base model is pretrained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from freshper.config.envs.frozen_lake_image import FrozenLakeImageConfig
from freshper.config.envs.sokoban_image import SokobanImageConfig
from freshper.envs import frozen_lake_image, sokoban_image
from freshper.envs.expert import good_actions
from freshper.envs.frozen_lake_image import FrozenLakeImage
from freshper.envs.seeds import train_seed
from freshper.envs.sokoban_image import SokobanImage
from freshper.policy.load import Policy
from freshper.policy.tiny.demonstrations import Message, Player, draw_reply, encode, is_taught
from freshper.policy.tiny.vision_architecture import MERGE, PATCH, VISION_END
from freshper.replay.images import Album, PackedImage

PictureConfig = FrozenLakeImageConfig | SokobanImageConfig
"""Settings of the games in pictures that small base models are pretrained on."""
PictureGame = FrozenLakeImage | SokobanImage
_CELLS = str.maketrans("SFHG", "__OG")


@dataclass(frozen=True)
class Shown:
    """A conversation with images."""

    ids: Tensor
    """[T] token ids."""
    mask: Tensor
    """[T] true at the player's tokens."""
    images: tuple[PackedImage, ...]
    """What its image tokens stand for, in order."""
    labels: Tensor
    """[T] id of a word that the model shall name at that token, for the sake of looking; -100 for none."""


def game_texts(config: PictureConfig) -> list[str]:
    """Texts of the environment, for the tokenizer."""
    if isinstance(config, SokobanImageConfig):
        return [sokoban_image.SYSTEM, sokoban_image.INSTRUCTION, "Invalid reply. Reward -0.1. Turn 1, 9 left\n"]
    calm, slippery = (frozen_lake_image.instruction(FrozenLakeImageConfig(slippery=slips)) for slips in (False, True))
    return [frozen_lake_image.SYSTEM, calm, slippery, "Invalid reply. Reward 0. Turn 1, 9 left\n"]


def cells(env: PictureGame) -> list[str]:
    """What every cell of the present picture holds, row by row: the symbols of the text game, one token each."""
    if isinstance(env, SokobanImage):
        return list("".join(env.grid()))
    tiles = "".join(env.desc).translate(_CELLS)
    return [*tiles[: env.state], "P", *tiles[env.state + 1 :]]


def places(env: PictureGame) -> list[tuple[int, int]]:
    """(row, column) of the player, then of what it has to move, then of where to: where a small model is to go is hard
    to learn from moves alone."""
    if isinstance(env, SokobanImage):
        return [env.player, *env.boxes, *env.layout.targets]
    return [divmod(env.state, env.config.size), divmod("".join(env.desc).index("G"), env.config.size)]


class GamePictures:
    """An endless, seeded stream of encoded conversations; its seeds are never those of evaluation."""

    def __init__(self, config: PictureConfig, policy: Policy, seed: int) -> None:
        """
        Args:
            config: the game.
            policy: its tokenizer and placeholders.
            seed: fixes the stream.
        """
        assert policy.vision is not None
        self._config, self._tokenizer, self._vision, self._seed = config, policy.tokenizer, policy.vision, seed
        self._env: PictureGame = (
            SokobanImage(config) if isinstance(config, SokobanImageConfig) else FrozenLakeImage(config)
        )
        self._rng = np.random.default_rng(seed)
        self._episodes = 0
        self._word_ids: dict[str, int] = {}
        # One visual token a cell is the case in which its label can say what the cell holds.
        self._names_cells = config.cell_pixels == PATCH * MERGE

    def draw(self, count: int, player: Player, max_turns: int) -> list[Shown]:
        """The next `count` conversations, longest first."""
        shown = []
        for _ in range(count):
            seed = train_seed(self._config, self._seed, self._episodes)
            self._episodes += 1
            shown.append(self._play(seed, player, max_turns))
        return sorted(shown, key=lambda conversation: len(conversation.ids), reverse=True)

    def _play(self, seed: int, player: Player, max_turns: int) -> Shown:
        env, album = self._env, Album()
        observation, info = env.reset(seed=seed)
        messages: list[Message] = [{"role": "system", "content": info["system"]}]
        images: list[PackedImage] = []
        words: list[str] = []
        taught: list[bool] = []
        for _ in range(max_turns):
            images.append(album.pack(observation["image"]))
            words += cells(env) if self._names_cells else []
            words += [word for row, column in places(env) for word in (f"row{row}", f"col{column}")]
            good = good_actions(env)
            reply = draw_reply(env.actions, good, player, self._rng)
            taught.append(is_taught(player, reply, env.actions, good))
            content = self._vision.message(observation["text"], images[-1])
            messages += [{"role": "user", "content": content}, {"role": "assistant", "content": reply}]
            observation, _, terminated, truncated, _ = env.step(reply)
            if terminated or truncated:
                break
        ids, mask = encode(self._tokenizer, messages, taught)
        return Shown(ids, mask, tuple(images), self._labels(ids, words))

    def _labels(self, ids: Tensor, words: Sequence[str]) -> Tensor:
        """For each picture what its cells hold, at the image's tokens, and at the tokens after it rows and columns of
        :func:`places`."""
        ends = (ids == self._tokenizer.convert_tokens_to_ids(VISION_END)).nonzero()[:, 0]
        named = (ids == self._vision.image_id) if self._names_cells else torch.zeros_like(ids, dtype=torch.bool)
        for offset in range(2 * len(places(self._env))):
            named[ends + offset] = True
        labels = torch.full_like(ids, -100)
        labels[named] = torch.tensor([self._word_id(word) for word in words])
        return labels

    def _word_id(self, word: str) -> int:
        if word not in self._word_ids:
            (self._word_ids[word],) = self._tokenizer(word).input_ids
        return self._word_ids[word]
