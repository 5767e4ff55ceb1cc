"""Generalised advantage estimation over the tokens or the turns of a conversation (GAE, arXiv 1506.02438)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freshper.algorithms.advantages import training_rewards, turn_widths, with_advantages, with_scaled
from freshper.config.algorithm import AlgorithmConfig
from freshper.replay.trajectory import Trajectory

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """What a critic makes of one trajectory; all [R], at its response tokens."""

    values: FloatArray
    """Value of the state before each sampled token."""
    td_errors: FloatArray
    """delta of the token, or of its turn under `gae_over: turns`."""
    advantages: FloatArray
    """Not whitened."""
    returns: FloatArray
    """lambda-returns: what the values are trained towards."""
    trained: NDArray[np.bool_]
    """Tokens whose value is trained: all, or the first of each turn."""


def estimate(trajectory: Trajectory, values: NDArray[np.floating], config: AlgorithmConfig) -> Estimate:
    """TD errors, advantages and lambda-returns under given values.

    delta_t = r_t + gamma_t V_(t+1) - V_t and A_t = delta_t + gamma_t lambda A_(t+1) (eqs. 10 and 16). A turn's reward
    arrives with its last token. gamma_t is gamma where a turn ends and 1 inside it (`discount_per: turn`), or gamma
    throughout. An episode ends in value 0 also where it was cut: its return is what is trained and measured.

    Args:
        trajectory: rewards and turns.
        values: [R] value of the state before each sampled token.
        config: gamma, discount_per, gae_lambda, gae_over.
    """
    rewards, widths = training_rewards(trajectory), turn_widths(trajectory)
    value: FloatArray = np.asarray(values, dtype=np.float64)
    last = np.cumsum(widths) - 1
    first = last - widths + 1
    if config.gae_over == "turns":
        td_errors, advantages = _backwards(rewards, value[first], np.full(len(rewards), config.gamma), config)
        trained = np.zeros(len(value), dtype=np.bool_)
        trained[first] = True
        returns = np.repeat(advantages + value[first], widths)
        return Estimate(value, np.repeat(td_errors, widths), np.repeat(advantages, widths), returns, trained)
    per_token = np.zeros(len(value))
    per_token[last] = rewards
    discounts = np.full(len(value), config.gamma if config.discount_per == "token" else 1.0)
    discounts[last] = config.gamma
    td_errors, advantages = _backwards(per_token, value, discounts, config)
    return Estimate(value, td_errors, advantages, advantages + value, np.ones(len(value), dtype=np.bool_))


def ppo(
    trajectories: Sequence[Trajectory], values: Sequence[NDArray[np.floating]], config: AlgorithmConfig
) -> tuple[list[Trajectory], list[Estimate]]:
    """Fill in the advantages and values of a fresh batch.

    Args:
        trajectories: one fresh batch.
        values: per trajectory [R] the critic's values.
        config: see :func:`estimate`; whiten, advantage_clip.
    """
    estimates = [estimate(t, v, config) for t, v in zip(trajectories, values, strict=True)]
    done = with_advantages(trajectories, [e.advantages for e in estimates], config)
    return [_with_values(t, e.values) for t, e in zip(done, estimates, strict=True)], estimates


def reestimated(
    trajectories: Sequence[Trajectory], estimates: Sequence[Estimate], config: AlgorithmConfig
) -> list[Trajectory]:
    """Replayed trajectories with advantages of the present critic, on the scale of the batch they were collected in."""
    return [with_scaled(t, e.advantages, config) for t, e in zip(trajectories, estimates, strict=True)]


def _backwards(
    rewards: FloatArray, values: FloatArray, discounts: FloatArray, config: AlgorithmConfig
) -> tuple[FloatArray, FloatArray]:
    td_errors = rewards + discounts * np.append(values[1:], 0.0) - values
    advantages = np.zeros(len(values))
    running = 0.0
    for step in range(len(values) - 1, -1, -1):
        running = td_errors[step] + discounts[step] * config.gae_lambda * running
        advantages[step] = running
    return td_errors, advantages


def _with_values(trajectory: Trajectory, values: FloatArray) -> Trajectory:
    stored = np.zeros(trajectory.n_tokens, dtype=np.float32)
    stored[trajectory.response_mask] = values
    return dataclasses.replace(trajectory, values=stored)
