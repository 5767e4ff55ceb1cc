"""Conversations of a noisy player of a grid game in text: what small base models are pretrained on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from freshper.config.envs.cliff_walking import CliffWalkingConfig
from freshper.config.envs.frozen_lake import FrozenLakeConfig
from freshper.config.envs.frozen_lake_image import FrozenLakeImageConfig
from freshper.config.envs.sokoban import SokobanConfig
from freshper.config.envs.sokoban_image import SokobanImageConfig
from freshper.envs.expert import Game, good_actions, winnable_actions
from freshper.envs.frozen_lake import REPLY
from freshper.envs.make import make_env
from freshper.envs.seeds import train_seed
from freshper.envs.sokoban import SokobanText

# Ways to break the format that the environment must refuse: no tags, an unclosed tag, nothing, no such action.
_MALFORMED = ("{}", "<answer>{}", "", "<answer>action</answer>")

Message = dict[str, str]
GameConfig = FrozenLakeConfig | FrozenLakeImageConfig | SokobanConfig | SokobanImageConfig | CliffWalkingConfig
"""Settings of the games that small base models are pretrained on."""


@dataclass(frozen=True)
class Player:
    """How the demonstrations are played, per turn."""

    expert_probability: float
    """Chance of a move towards success; otherwise, and where there is none, one of the four moves at random."""
    malformed_probability: float
    """Chance of a reply that the environment cannot read."""
    teaches_all: bool = True
    """Whether every reply is learned from; otherwise only moves towards success, which shows what to do in the places
    where the others lead."""


def make_game(config: GameConfig) -> Game:
    """Return the game of a config."""
    return cast(Game, make_env(config))


def play(
    env: Game, seed: int, player: Player, rng: np.random.Generator, max_turns: int
) -> tuple[list[Message], list[bool]]:
    """Play one episode (at most `max_turns` turns of it).

    Returns:
        The conversation, the player as the assistant, and for each of its replies whether it is to be learned from.
    """
    observation, info = env.reset(seed=seed)
    messages = [{"role": "system", "content": info["system"]}]
    taught = []
    for _ in range(max_turns):
        good = good_actions(env)
        reply = draw_reply(env.actions, good, player, rng)
        taught.append(is_taught(player, reply, env.actions, good))
        messages += [{"role": "user", "content": observation}, {"role": "assistant", "content": reply}]
        observation, _, terminated, truncated, _ = env.step(reply)
        if terminated or truncated:
            break
    return messages, taught


def play_corrected(
    env: SokobanText, seed: int, expert_probability: float, rng: np.random.Generator, max_turns: int
) -> tuple[list[Message], list[Message]]:
    """Play as :func:`play`, with random moves that leave the room solvable.

    Returns:
        The conversation, and the same with a move towards success in the place of every reply: what to learn wherever
        the player came to, as in DAgger (Ross et al. 2011), instead of from its own good moves alone.
    """
    observation, info = env.reset(seed=seed)
    played = [{"role": "system", "content": info["system"]}]
    corrected = list(played)
    for _ in range(max_turns):
        good = good_actions(env)
        right = int(rng.choice(good))
        action = right if rng.random() < expert_probability else int(rng.choice(winnable_actions(env)))
        reply = REPLY.format(env.actions[action])
        for messages, content in ((played, reply), (corrected, REPLY.format(env.actions[right]))):
            messages += [{"role": "user", "content": observation}, {"role": "assistant", "content": content}]
        observation, _, terminated, truncated, _ = env.step(reply)
        if terminated or truncated:
            break
    return played, corrected


def draw_reply(actions: Sequence[str], good: Sequence[int], player: Player, rng: np.random.Generator) -> str:
    """One reply of a noisy player: ids `good` are the moves towards success, of which there may be none."""
    expert = rng.random() < player.expert_probability and len(good) > 0
    action = actions[int(rng.choice(good)) if expert else int(rng.integers(len(actions)))]
    broken = rng.random() < player.malformed_probability
    return (_MALFORMED[int(rng.integers(len(_MALFORMED)))] if broken else REPLY).format(action)


def is_taught(player: Player, reply: str, actions: Sequence[str], good: Sequence[int]) -> bool:
    """Whether a player's reply is to be learned from."""
    return player.teaches_all or reply in {REPLY.format(actions[action]) for action in good}


def encode(
    tokenizer: PreTrainedTokenizerBase, messages: list[Message], taught: Sequence[bool] | None = None
) -> tuple[Tensor, Tensor]:
    """Return token ids [T] of a conversation and a mask [T] of the assistant's tokens, end markers included.

    `taught` leaves out replies: one entry for each, all of them by default.
    """
    replies = iter(taught if taught is not None else itertools.repeat(True))
    ids = torch.tensor(tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False))
    start, end = tokenizer.convert_tokens_to_ids("<|assistant|>"), tokenizer.eos_token_id
    mask = torch.zeros(len(ids), dtype=torch.bool)
    begun = None
    for position, token in enumerate(ids.tolist()):
        if token == start:
            begun = position + 1
        elif token == end and begun is not None:
            mask[begun : position + 1] = next(replies)
            begun = None
    return ids, mask


class Demonstrations:
    """An endless, seeded stream of encoded conversations; its seeds are never those of evaluation."""

    def __init__(self, config: GameConfig, tokenizer: PreTrainedTokenizerBase, seed: int) -> None:
        self._config = config
        self._env = make_game(config)
        self._tokenizer = tokenizer
        self._seed = seed
        self._rng = np.random.default_rng(seed)
        self._episodes = 0

    def draw(self, count: int, player: Player, max_turns: int) -> list[tuple[Tensor, Tensor]]:
        """Return the next `count` conversations as (ids, mask), longest first."""
        conversations = []
        for _ in range(count):
            seed = train_seed(self._config, self._seed, self._episodes)
            self._episodes += 1
            conversations.append(encode(self._tokenizer, *play(self._env, seed, player, self._rng, max_turns)))
        return sorted(conversations, key=lambda conversation: len(conversation[0]), reverse=True)

    def draw_corrected(
        self, count: int, expert_probability: float, max_turns: int
    ) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return the next `count` conversations as (ids, mask, ids to learn where the mask is set), longest first."""
        assert isinstance(self._env, SokobanText)
        lessons = []
        for _ in range(count):
            seed = train_seed(self._config, self._seed, self._episodes)
            self._episodes += 1
            played, corrected = play_corrected(self._env, seed, expert_probability, self._rng, max_turns)
            (ids, mask), (answers, _) = encode(self._tokenizer, played), encode(self._tokenizer, corrected)
            assert len(ids) == len(answers), "every move takes as many tokens"
            lessons.append((ids, mask, answers))
        return sorted(lessons, key=lambda lesson: len(lesson[0]), reverse=True)
