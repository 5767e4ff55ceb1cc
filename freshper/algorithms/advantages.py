"""Advantages of fresh trajectories, computed once at collection and kept for every later replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freshper.config.algorithm import AlgorithmConfig
from freshper.replay.trajectory import Trajectory

_NO_SPREAD = 1e-8


def training_rewards(trajectory: Trajectory) -> NDArray[np.float64]:
    """[n] reward of each turn in training: the environment's plus the format penalty."""
    return trajectory.turn_rewards.astype(np.float64) + trajectory.turn_penalties


def turn_widths(trajectory: Trajectory) -> NDArray[np.int64]:
    """[n] sampled tokens of each turn."""
    return (trajectory.turn_spans[:, 1] - trajectory.turn_spans[:, 0]).astype(np.int64)


def turn_returns(rewards: NDArray[np.floating], gamma: float) -> NDArray[np.float64]:
    """Returns-to-go per turn: R_k = sum over j >= k of gamma^(j-k) r_j.

    Args:
        rewards: [n] training reward of each turn (environment reward plus format penalty).
        gamma: discount per turn (paper: 1).
    """
    returns = np.zeros(len(rewards))
    running = 0.0
    for turn in range(len(rewards) - 1, -1, -1):
        running = float(rewards[turn]) + gamma * running
        returns[turn] = running
    return returns


def whiten(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Zero mean, unit variance; constant values become zero (no signal) instead of amplified rounding noise."""
    return normalise(values, float(values.mean()), float(values.std()))


def normalise(values: NDArray[np.float64], mean: float, std: float) -> NDArray[np.float64]:
    """(values - mean) / std; zeros where there is no spread to divide by."""
    return (values - mean) / std if std > _NO_SPREAD else np.zeros_like(values)


def reinforce_pp(trajectories: Sequence[Trajectory], config: AlgorithmConfig) -> list[Trajectory]:
    """REINFORCE++ (arXiv 2501.03262): every sampled token gets its turn's return-to-go, whitened over the batch.

    Args:
        trajectories: one fresh batch.
        config: gamma, whiten, advantage_clip.

    Returns:
        The same trajectories with `advantages` filled in.
    """
    per_token = [np.repeat(turn_returns(training_rewards(t), config.gamma), turn_widths(t)) for t in trajectories]
    return with_advantages(trajectories, per_token, config)


def with_advantages(
    trajectories: Sequence[Trajectory],
    raw: Sequence[NDArray[np.float64]],
    config: AlgorithmConfig,
    info: Sequence[Mapping[str, Any]] | None = None,
) -> list[Trajectory]:
    """Fill in advantages: whitened over all response tokens of the batch and clipped, where the config says so.

    The mean and deviation of the whitening go into `info` (`advantage_mean`, `advantage_std`), so that an advantage
    which is estimated anew later can be put on the same scale.

    Args:
        trajectories: one fresh batch.
        raw: per trajectory [R] advantages of its response tokens.
        config: whiten, advantage_clip.
        info: further entries for each trajectory's `info`.
    """
    flat = np.concatenate(raw)
    extra: dict[str, Any] = {}
    if config.whiten:
        extra = {"advantage_mean": float(flat.mean()), "advantage_std": float(flat.std())}
    done = []
    for row, (trajectory, advantages) in enumerate(zip(trajectories, raw, strict=True)):
        facts = {**trajectory.info, **extra, **({} if info is None else info[row])}
        done.append(with_scaled(dataclasses.replace(trajectory, info=facts), advantages, config))
    return done


def with_scaled(trajectory: Trajectory, advantages: NDArray[np.float64], config: AlgorithmConfig) -> Trajectory:
    """The trajectory with raw advantages [R] put on the scale of its own batch and clipped."""
    if config.whiten:
        advantages = normalise(advantages, trajectory.info["advantage_mean"], trajectory.info["advantage_std"])
    if config.advantage_clip is not None:
        advantages = advantages.clip(-config.advantage_clip, config.advantage_clip)
    return _replaced(trajectory, advantages)


def rewhiten(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Whiten stored advantages again over a replay batch, as released code does (`replay.renormalise_advantages`)."""
    parts = [t.advantages[t.response_mask].astype(np.float64) for t in trajectories]
    ends = np.cumsum([len(part) for part in parts])[:-1]
    whitened = np.split(whiten(np.concatenate(parts)), ends)
    return [_replaced(t, values) for t, values in zip(trajectories, whitened, strict=True)]


def without_advantages(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Zero advantages: the placebo arm, whose replay steps only move the optimiser's state."""
    return [dataclasses.replace(t, advantages=np.zeros_like(t.advantages)) for t in trajectories]


def _replaced(trajectory: Trajectory, values: NDArray[np.float64]) -> Trajectory:
    advantages = np.zeros(trajectory.n_tokens, dtype=np.float32)
    advantages[trajectory.response_mask] = values
    return dataclasses.replace(trajectory, advantages=advantages)
