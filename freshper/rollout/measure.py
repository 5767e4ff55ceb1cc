"""Play a policy on evaluation seeds of a grid game and compare its moves with the expert's: the pretraining report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import torch

from freshper.envs.answer import parse_action
from freshper.envs.expert import Game, good_actions
from freshper.envs.seeds import eval_seed
from freshper.policy.load import Policy
from freshper.policy.tiny.demonstrations import GameConfig, make_game
from freshper.policy.tiny.tokenizer import MAX_LENGTH
from freshper.rollout.collect import EnvPool, Limits, collect
from freshper.rollout.engine import Sampling
from freshper.rollout.hf_engine import HFEngine

_MAX_NEW_TOKENS = 8


@dataclass(frozen=True)
class Score:
    """What a policy reached on the first `episodes` evaluation seeds."""

    episodes: int
    """Number of evaluation episodes, one per seed."""
    success: float
    """Share of episodes that end in success (the goal reached, all boxes on targets)."""
    mean_return: float
    """Mean sum of rewards of an episode."""
    valid: float
    """Share of turns whose action could be read."""
    optimal_by_turn: list[float]
    """Share of the replies of turn 1, 2, ... that come a move closer to success (invalid replies count against it)."""
    chance_by_turn: list[float]
    """The same share for a uniformly random legal action in the same states."""


class _Watched(gymnasium.Env[Any, str]):
    """A game that notes for every reply whether it helps, and how likely a random move would have."""

    def __init__(self, game: Game, note: Callable[[int, bool, float], None], show: Callable[[Any], Any]) -> None:
        self.game, self.note, self.show = game, note, show
        self.turn = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.turn = 0
        observation, info = self.game.reset(seed=seed, options=options)
        return self.show(observation), info

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        actions, good = self.game.actions, good_actions(self.game)
        name = parse_action(action, actions)
        self.note(self.turn, name is not None and actions.index(name) in good, len(good) / len(actions))
        self.turn += 1
        observation, *rest = self.game.step(action)
        return self.show(observation), *rest


def measure(
    policy: Policy,
    config: GameConfig,
    episodes: int,
    seed: int,
    greedy: bool = False,
    show: Callable[[Any], Any] = lambda observation: observation,
) -> Score:
    """Play the first `episodes` evaluation seeds with the whole history as context, at temperature 1 or greedily.

    An episode whose conversation outgrows `MAX_LENGTH` tokens ends there, as in training.

    Args:
        policy: model that plays.
        config: the game.
        episodes: evaluation seeds.
        seed: fixes the sampling.
        greedy: take the most probable token.
        show: what the policy gets to see of an observation, for controls.
    """
    helped: dict[int, list[bool]] = defaultdict(list)
    by_chance: dict[int, list[float]] = defaultdict(list)

    def note(turn: int, good: bool, chance: float) -> None:
        helped[turn].append(good)
        by_chance[turn].append(chance)

    generator = torch.Generator(policy.device).manual_seed(seed)
    sampling = Sampling(_MAX_NEW_TOKENS, greedy=greedy)
    played = collect(
        policy,
        lambda: HFEngine(policy, sampling, generator, MAX_LENGTH),
        EnvPool(lambda: _Watched(make_game(config), note, show)),
        [eval_seed(config, index) for index in range(episodes)],
        Limits(MAX_LENGTH, 0.0),
        policy_version=0,
        iteration=0,
    )
    turns = sum(len(trajectory.turn_rewards) for trajectory in played)
    return Score(
        episodes=episodes,
        success=sum(trajectory.info["success"] for trajectory in played) / episodes,
        mean_return=sum(trajectory.episode_return for trajectory in played) / episodes,
        valid=sum(trajectory.info["valid_rate"] * len(trajectory.turn_rewards) for trajectory in played) / turns,
        optimal_by_turn=[sum(helped[turn]) / len(helped[turn]) for turn in sorted(helped)],
        chance_by_turn=[sum(by_chance[turn]) / len(by_chance[turn]) for turn in sorted(by_chance)],
    )
