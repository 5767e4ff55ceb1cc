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
from freshper.policy.tiny.demonstrations import Message, Player, draw_reply, encode
from freshper.policy.tiny.vision_architecture import MERGE, PATCH
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
    """[image tokens] id of the word for what is in that part of the image; -100 for none."""


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
        # One visual token a tile is the case in which labels say what is where.
        self._labelled = config.cell_pixels == PATCH * MERGE
        self._words = {word: self._tokenizer.convert_tokens_to_ids(word) for word in "P_OG"}

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
        labels: list[int] = []
        for _ in range(max_turns):
            images.append(album.pack(observation["image"]))
            labels += self._cells()
            reply = draw_reply(env.actions, good_actions(env), player, self._rng)
            content = self._vision.message(observation["text"], images[-1])
            messages += [{"role": "user", "content": content}, {"role": "assistant", "content": reply}]
            observation, _, terminated, truncated, _ = env.step(reply)
            if terminated or truncated:
                break
        ids, mask = encode(self._tokenizer, messages)
        return Shown(ids, mask, tuple(images), torch.tensor(labels))

    def _cells(self) -> list[int]:
        """What every tile of the present picture holds: player, ice, hole or goal."""
        tiles = list("".join(self._env.desc).translate(_CELLS))
        tiles[self._env.state] = "P"
        if self._labelled:
            return [self._words[tile] for tile in tiles]
        pixels = self._config.size * self._config.cell_pixels
        return [-100] * self._vision.tokens(pixels, pixels)
