"""Conversations of noisy players on sums and on the generated search world: what the small text models are made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from freshper.config.envs.math import MathConfig, Task
from freshper.config.envs.search import SearchConfig
from freshper.envs.math.env import REPLY, MathText
from freshper.envs.search.env import ANSWER, SEARCH, SearchText
from freshper.envs.seeds import train_seed
from freshper.policy.tiny.demonstrations import Message, encode

TextConfig = MathConfig | SearchConfig
AIME_TASKS: tuple[Task, ...] = ("gcd", "lcm", "count_primes", "simple_equations")
"""What `env=aime` generates."""
WORLDS = 12
"""Worlds that search is learned in; none of them is that of the task, so no fact of it is known beforehand."""
_NAME = re.compile(r"\b[A-Z][a-z]+(?: [A-Z][a-z]+)*")


def solve(env: MathText, rng: np.random.Generator, skill: float) -> str:
    """A try at a sum: right with probability `skill`, else any number of about that size."""
    gold = int(env.problem.answer)
    value = gold if rng.random() < skill else int(rng.integers(-9, 28))
    return REPLY.format(f" {value}")


class Searcher:
    """Follows the articles that lead to the answer, with probability `skill` a turn, else picks a name it has seen."""

    def __init__(self) -> None:
        self._step = 0
        self._seen: list[str] = []

    def start(self, question: str) -> None:
        """A new question."""
        self._step = 0
        self._seen = names(question)

    def reply(self, env: SearchText, observation: str, rng: np.random.Generator, skill: float) -> str:
        """The next search or the answer."""
        self._seen += names(observation)
        path, golds = env.question.path, env.question.golds
        if rng.random() < skill:
            if self._step == len(path):
                return ANSWER.format(f" {golds[0]}")
            self._step += 1
            return SEARCH.format(f" {path[self._step - 1]}")
        name = self._seen[int(rng.integers(len(self._seen)))] if self._seen else "river"
        return (SEARCH if rng.random() < 0.7 else ANSWER).format(f" {name}")


def names(text: str) -> list[str]:
    """Capitalised words that stand together, without the first word of a sentence about the game."""
    return [name for name in _NAME.findall(text) if name not in ("Question", "Where", "On", "Who", "The", "Think")]


class TextDemonstrations:
    """An endless, seeded stream of encoded conversations; its seeds are never those of evaluation."""

    def __init__(self, configs: Sequence[TextConfig], tokenizer: PreTrainedTokenizerBase, seed: int) -> None:
        """
        Args:
            configs: tasks that take turns.
            tokenizer: makes tokens of the conversations.
            seed: fixes the stream.
        """
        self._tokenizer, self._seed = tokenizer, seed
        self._rng = np.random.default_rng(seed)
        self._episodes = 0
        self._config = configs[0]
        self.envs: list[MathText | SearchText] = []
        for config in configs:
            if isinstance(config, MathConfig):
                self.envs.append(MathText(config))
            else:
                worlds = range(config.world_seed + 1, config.world_seed + 1 + WORLDS)
                self.envs += [SearchText(config.model_copy(update={"world_seed": world})) for world in worlds]

    def draw(self, count: int, skill: float) -> list[tuple[Tensor, Tensor]]:
        """Return the next `count` conversations as (ids, mask of the player's tokens), longest first."""
        conversations = []
        for _ in range(count):
            seed = train_seed(self._config, self._seed, self._episodes)
            self._episodes += 1
            env = self.envs[self._episodes % len(self.envs)]
            conversations.append(encode(self._tokenizer, self._play(env, seed, skill)))
        return sorted(conversations, key=lambda conversation: len(conversation[0]), reverse=True)

    def _play(self, env: MathText | SearchText, seed: int, skill: float) -> list[Message]:
        if isinstance(env, MathText):
            return _converse(env, seed, lambda observation: solve(env, self._rng, skill))
        searcher = Searcher()

        def reply(observation: str) -> str:
            if observation.startswith("Think"):
                searcher.start(env.question.text)
                observation = ""
            return searcher.reply(env, observation, self._rng, skill)

        return _converse(env, seed, reply)


def _converse(env: MathText | SearchText, seed: int, player: Callable[[str], str]) -> list[Message]:
    observation, info = env.reset(seed=seed)
    messages = [{"role": "system", "content": info["system"]}]
    over = False
    while not over:
        reply = player(observation)
        messages += [{"role": "user", "content": observation}, {"role": "assistant", "content": reply}]
        observation, _, terminated, truncated, _ = env.step(reply)
        over = terminated or truncated
    return messages
