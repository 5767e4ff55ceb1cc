"""Shared by the replay tests: tiny trajectories, and the textbook O(N) formulas to compare with."""

from __future__ import annotations

from typing import Any

import numpy as np

from freshper.config.replay import DecayConfig, ReplayConfig
from freshper.replay.trajectory import Trajectory

LAWS = ("none", "exponential", "polynomial", "window")
PLACEMENTS = ("inside_alpha", "outside_alpha")


def make_config(capacity: int = 64, **changes: Any) -> ReplayConfig:
    """A replay config from plain values, with dotted keys written as `decay__tau`."""
    nested: dict[str, Any] = {"capacity": capacity}
    for name, value in changes.items():
        section, _, key = name.partition("__")
        if key:
            nested.setdefault(section, {})[key] = value
        else:
            nested[section] = value
    return ReplayConfig(**nested)


def make_trajectory(mark: int = 0, episode_return: float = 1.0, tokens: int = 6, advantage: float = 0.5) -> Trajectory:
    """A trajectory that can be recognised by ``mark``: two sampled tokens at the end."""
    mask = np.arange(tokens) >= tokens - 2
    return Trajectory(
        token_ids=np.arange(mark, mark + tokens, dtype=np.int32),
        response_mask=mask,
        behaviour_logprobs=np.where(mask, -0.25, 0).astype(np.float32),
        turn_spans=np.array([[tokens - 2, tokens]], dtype=np.int32),
        turn_rewards=np.array([episode_return], dtype=np.float32),
        turn_penalties=np.zeros(1, dtype=np.float32),
        advantages=np.where(mask, advantage, 0).astype(np.float32),
        episode_return=episode_return,
        group_id=mark,
        seed=mark,
        policy_version=0,
        iteration=0,
        info={"mark": mark},
    )


def assert_same(left: Trajectory, right: Trajectory) -> None:
    """Field by field equality, dtypes included."""
    for name, value in vars(left).items():
        other = vars(right)[name]
        if isinstance(value, np.ndarray):
            assert value.dtype == other.dtype and np.array_equal(value, other), name
        else:
            assert value == other and type(value) is type(other), name


def brute_decay(decay: DecayConfig, age: float) -> float:
    """w(age) of one entry, from the definition."""
    if decay.law == "exponential":
        return float(np.exp(np.longdouble(-age) / np.longdouble(decay.tau)))
    if decay.law == "polynomial":
        return float((1 + age / decay.tau) ** -decay.power)
    if decay.law == "window":
        return 1.0 if age <= decay.tau else 0.0
    return 1.0


def brute_probabilities(config: ReplayConfig, bases: np.ndarray, clocks: np.ndarray, now: int) -> np.ndarray:
    """P of every row, in extended precision, by the formula of design section 4."""
    alpha, decay = np.longdouble(config.priority.alpha), config.decay
    ages = (now - clocks).astype(np.longdouble)
    if decay.law == "exponential":
        w = np.exp(-(ages - ages.min()) / np.longdouble(decay.tau))
    elif decay.law == "polynomial":
        w = (1 + ages / np.longdouble(decay.tau)) ** -np.longdouble(decay.power)
    else:
        w = np.array([brute_decay(decay, float(age)) for age in ages], dtype=np.longdouble)
    base = bases.astype(np.longdouble)
    mass = (base * w) ** alpha if decay.placement == "inside_alpha" else base**alpha * w
    mass[(base == 0) | (w == 0)] = 0
    mix = np.longdouble(config.uniform_mix)
    return ((1 - mix) * mass / mass.sum() + mix / len(bases)).astype(np.float64)
