"""Conversations of a noisy player of FrozenLake in pictures: what its small base model is pretrained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from freshper.config.envs.frozen_lake_image import FrozenLakeImageConfig
from freshper.envs.expert import good_actions
from freshper.envs.frozen_lake_image import SYSTEM, FrozenLakeImage, instruction
from freshper.envs.seeds import train_seed
from freshper.policy.load import Policy
from freshper.policy.tiny.demonstrations import Message, Player, draw_reply, encode, is_taught
from freshper.policy.tiny.vision_architecture import MERGE, PATCH, VISION_END
from freshper.replay.images import Album, PackedImage

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


def lake_texts() -> list[str]:
    """Texts of the environment, for the tokenizer."""
    config = FrozenLakeImageConfig()
    slippery = FrozenLakeImageConfig(slippery=True)
    return [SYSTEM, instruction(config), instruction(slippery), "Invalid reply. Reward 0. Turn 1, 9 left\n"]


class LakePictures:
    """An endless, seeded stream of encoded conversations; its seeds are never those of evaluation."""

    def __init__(self, config: FrozenLakeImageConfig, policy: Policy, seed: int) -> None:
        """
        Args:
            config: the game.
            policy: its tokenizer and placeholders.
            seed: fixes the stream.
        """
        assert policy.vision is not None
        self._config, self._tokenizer, self._vision, self._seed = config, policy.tokenizer, policy.vision, seed
        self._env = FrozenLakeImage(config)
        self._rng = np.random.default_rng(seed)
        self._episodes = 0
        # One visual token a tile is the case in which a label can say what it shows.
        self._labelled = config.cell_pixels == PATCH * MERGE

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
            words += self._words()
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

    def _labels(self, ids: Tensor, words: list[str]) -> Tensor:
        """Words for image tokens and the four tokens after each image, in the order of :meth:`_words`."""
        labels = torch.full_like(ids, -100)
        if self._labelled:
            ends = (ids == self._tokenizer.convert_tokens_to_ids(VISION_END)).nonzero()[:, 0]
            named = ids == self._vision.image_id
            for offset in range(4):
                named[ends + offset] = True
            labels[named] = torch.tensor(self._tokenizer.convert_tokens_to_ids(words))
        return labels

    def _words(self) -> list[str]:
        """What every tile of the present picture holds (player, ice, hole or goal), then the rows and columns of player
        and goal: where a small model is to go is hard to learn from moves alone."""
        tiles = "".join(self._env.desc).translate(_CELLS)
        state, size = self._env.state, self._config.size
        shown = [*tiles[:state], "P", *tiles[state + 1 :]]
        places = [divmod(state, size), divmod(tiles.index("G"), size)]
        return [*shown, *(word for row, column in places for word in (f"row{row}", f"col{column}"))]
