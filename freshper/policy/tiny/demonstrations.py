"""Conversations of a noisy player on FrozenLake: what the small base model is pretrained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from freshper.config.env import FrozenLakeConfig
from freshper.envs.expert import optimal_actions
from freshper.envs.frozen_lake import REPLY, FrozenLakeText
from freshper.envs.lake_map import ACTIONS
from freshper.envs.seeds import train_seed

# Ways to break the format that the environment must refuse: no tags, an unclosed tag, nothing, no such action.
_MALFORMED = ("{}", "<answer>{}", "", "<answer>action</answer>")

Message = dict[str, str]


@dataclass(frozen=True)
class Player:
    """How the demonstrations are played, per turn."""

    expert_probability: float
    """Chance of a shortest-path move; otherwise one of the four moves at random."""
    malformed_probability: float
    """Chance of a reply that the environment cannot read."""


def play(env: FrozenLakeText, seed: int, player: Player, rng: np.random.Generator, max_turns: int) -> list[Message]:
    """Play one episode (at most `max_turns` turns of it) and return the conversation, the player as the assistant."""
    observation, info = env.reset(seed=seed)
    messages = [{"role": "system", "content": info["system"]}]
    best = optimal_actions(env.desc)
    for _ in range(max_turns):
        expert = rng.random() < player.expert_probability
        action = ACTIONS[int(rng.choice(best[env.state])) if expert else int(rng.integers(len(ACTIONS)))]
        broken = rng.random() < player.malformed_probability
        reply = (_MALFORMED[int(rng.integers(len(_MALFORMED)))] if broken else REPLY).format(action)
        messages += [{"role": "user", "content": observation}, {"role": "assistant", "content": reply}]
        observation, _, terminated, truncated, _ = env.step(reply)
        if terminated or truncated:
            break
    return messages


def encode(tokenizer: PreTrainedTokenizerBase, messages: list[Message]) -> tuple[Tensor, Tensor]:
    """Return token ids [T] of a conversation and a mask [T] of the assistant's tokens, end markers included."""
    ids = torch.tensor(tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False))
    start, end = tokenizer.convert_tokens_to_ids("<|assistant|>"), tokenizer.eos_token_id
    mask = torch.zeros(len(ids), dtype=torch.bool)
    begun = None
    for position, token in enumerate(ids.tolist()):
        if token == start:
            begun = position + 1
        elif token == end and begun is not None:
            mask[begun : position + 1] = True
            begun = None
    return ids, mask


class Demonstrations:
    """An endless, seeded stream of encoded conversations; its maps are never those of evaluation."""

    def __init__(self, config: FrozenLakeConfig, tokenizer: PreTrainedTokenizerBase, seed: int) -> None:
        self._config = config
        self._env = FrozenLakeText(config)
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
            messages = play(self._env, seed, player, self._rng, max_turns)
            conversations.append(encode(self._tokenizer, messages))
        return sorted(conversations, key=lambda conversation: len(conversation[0]), reverse=True)
