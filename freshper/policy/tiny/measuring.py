"""What a small base model reaches on evaluation episodes: the last part of its recipe.json."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import gymnasium
import numpy as np

from freshper.config.env import EnvConfig
from freshper.config.model import ModelConfig
from freshper.config.rollout import RolloutConfig
from freshper.config.run import EvaluationConfig, RunConfig
from freshper.learner.evaluation import episode_metrics, play
from freshper.policy.load import Policy
from freshper.policy.tiny.demonstrations import GameConfig, make_game
from freshper.rollout.collect import EnvPool
from freshper.rollout.measure import measure

Show = Callable[[Any], Any]
"""From an observation to what the policy gets to see of it."""
GameKind = tuple[bool, Show]
"""Whether the policy plays greedily, and what it is shown."""
TaskKind = tuple[bool, Callable[[Any], gymnasium.Env[Any, str]]]
"""Whether the policy plays greedily, and what makes the environment of a task."""
_MAX_NEW_TOKENS = 8
_PRINTED_TURNS = 10


def unchanged(observation: Any) -> Any:
    """The observation as it is."""
    return observation


def blank(observation: dict[str, Any]) -> dict[str, Any]:
    """The observation with a grey picture."""
    return {**observation, "image": np.full_like(observation["image"], 128)}


def of_other_maps(config: GameConfig, seed: int) -> Show:
    """Observations with the first picture of another map, drawn anew each time."""
    other, seeds = make_game(config), np.random.default_rng(seed)

    def show(observation: dict[str, Any]) -> dict[str, Any]:
        first: Any = other.reset(seed=int(seeds.integers(2**31)))[0]
        return {**observation, "image": first["image"]}

    return show


def measure_game(
    policy: Policy, config: GameConfig, episodes: int, seed: int, kinds: Mapping[str, GameKind]
) -> dict[str, dict[str, Any]]:
    """Kind -> score on a grid game, each line printed as it comes.

    Args:
        policy: model that plays.
        config: the game.
        episodes: evaluation seeds.
        seed: fixes the sampling.
        kinds: by the name that they get in the record.
    """
    measured = {}
    for name, (greedy, show) in kinds.items():
        score = measure(policy, config, episodes, seed, greedy, show)
        print(
            f"{name}: success {score.success:.3f}, return {score.mean_return:.2f}, valid turns {score.valid:.3f}, "
            f"good moves by turn {' '.join(f'{share:.2f}' for share in score.optimal_by_turn[:_PRINTED_TURNS])}",
            flush=True,
        )
        measured[name] = asdict(score)
    return measured


def measure_tasks(
    policy: Policy,
    model: ModelConfig,
    envs: Sequence[EnvConfig],
    episodes: int,
    seed: int,
    kinds: Mapping[str, TaskKind],
) -> dict[str, dict[str, dict[str, float]]]:
    """Task -> kind -> metrics of evaluation episodes, each line printed as it comes.

    Args:
        policy: model that plays.
        model: where it comes from.
        envs: the tasks.
        episodes: evaluation episodes of each.
        seed: fixes the sampling.
        kinds: by the name that they get in the record.
    """
    measured: dict[str, dict[str, dict[str, float]]] = {}
    for env in envs:
        config = RunConfig(
            seed=seed,
            env=env,
            model=model,
            rollout=RolloutConfig(max_new_tokens=_MAX_NEW_TOKENS),
            evaluation=EvaluationConfig(episodes=episodes),
        )
        measured[env.name] = {}
        for name, (greedy, make) in kinds.items():
            metrics = episode_metrics(play(policy, config, 0, greedy, EnvPool(functools.partial(make, env))))
            print(
                f"{env.name}, {name}: success {metrics['success']:.3f}, valid {metrics['valid_rate']:.3f}", flush=True
            )
            measured[env.name][name] = metrics
    return measured
