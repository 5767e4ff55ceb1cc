"""Advantages of fresh trajectories, computed once at collection and kept for every later replay."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from freshper.config.algorithm import AlgorithmConfig
from freshper.replay.trajectory import Trajectory


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
    spread = values.std()
    centred = values - values.mean()
    return centred / spread if spread > 1e-8 else np.zeros_like(values)


def reinforce_pp(trajectories: Sequence[Trajectory], config: AlgorithmConfig) -> list[Trajectory]:
    """REINFORCE++ (arXiv 2501.03262): every sampled token gets its turn's return-to-go, whitened over the batch.

    Args:
        trajectories: one fresh batch.
        config: gamma, whiten, advantage_clip.

    Returns:
        The same trajectories with `advantages` filled in.
    """
    per_token = []
    for trajectory in trajectories:
        returns = turn_returns(trajectory.turn_rewards + trajectory.turn_penalties, config.gamma)
        widths = trajectory.turn_spans[:, 1] - trajectory.turn_spans[:, 0]
        per_token.append(np.repeat(returns, widths))
    flat = np.concatenate(per_token)
    if config.whiten:
        flat = whiten(flat)
    if config.advantage_clip is not None:
        flat = flat.clip(-config.advantage_clip, config.advantage_clip)
    return _with_advantages(trajectories, flat)


def rewhiten(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Whiten stored advantages again over a replay batch, as released code does (`replay.renormalise_advantages`)."""
    flat = np.concatenate([t.advantages[t.response_mask] for t in trajectories]).astype(np.float64)
    return _with_advantages(trajectories, whiten(flat))


def without_advantages(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Zero advantages: the placebo arm, whose replay steps only move the optimiser's state."""
    return [dataclasses.replace(t, advantages=np.zeros_like(t.advantages)) for t in trajectories]


def _with_advantages(trajectories: Sequence[Trajectory], flat: NDArray[np.float64]) -> list[Trajectory]:
    result, start = [], 0
    for trajectory in trajectories:
        advantages = np.zeros(trajectory.n_tokens, dtype=np.float32)
        count = int(trajectory.response_mask.sum())
        advantages[trajectory.response_mask] = flat[start : start + count]
        result.append(dataclasses.replace(trajectory, advantages=advantages))
        start += count
    return result
