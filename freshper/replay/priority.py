"""Base priority of a trajectory, before freshness (paper section 3.2; design section 4, points 4, 5 and 9).

A base priority is |signal| + epsilon with the signal averaged over response tokens only: prompt and observation
tokens carry no gradient. It is the *raw* signal; a loss already multiplied by importance weights must not come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from freshper.config.replay import PriorityConfig
from freshper.replay.trajectory import Trajectory

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Signals:
    """What models say of n trajectories; each is required by the base that reads it only."""

    td_errors: Sequence[NDArray[np.floating]] | None = None
    """[n] arrays [R]: TD error of each response token."""
    entropies: NDArray[np.floating] | None = None
    """[n] mean entropy of the policy over response tokens, nats."""


def base_priorities(
    config: PriorityConfig, trajectories: Sequence[Trajectory], signals: Signals | None = None
) -> FloatArray:
    """Base priorities [n] of n trajectories under ``config.base``; all but `uniform` plus epsilon.

    `uniform` 1; `reward` |R|, the score without format penalties; `advantage` mean |A|; `td_error` mean |delta|
    (Schaul et al. 2016); `success` 1 for a success, else 0 (RLEP, arXiv 2507.07451, replays verified successes only);
    `low_entropy` exp(-H) for a success, else 0 (ExGRPO, arXiv 2510.02245, replays successes of low entropy H first).
    A trajectory without response tokens has signal 0. Raises ValueError naming the entry that is not finite, or the
    signal that is missing.
    """
    signals = signals or Signals()
    if config.base == "uniform":
        return np.ones(len(trajectories))
    if config.base == "reward":
        signal = np.array([abs(t.episode_return) for t in trajectories], dtype=np.float64)
    elif config.base == "advantage":
        signal = np.array([_mean_abs(t.advantages[t.response_mask]) for t in trajectories], dtype=np.float64)
    elif config.base == "td_error":
        signal = _td_signal(trajectories, signals.td_errors)
    else:
        signal = np.array([bool(t.info["success"]) for t in trajectories], dtype=np.float64)
        if config.base == "low_entropy":
            signal *= _confidence(trajectories, signals.entropies)
    return checked_bases(signal + config.epsilon)


def changes_with_training(base: str, critic: bool) -> bool:
    """Whether the base priority of a stored trajectory changes as policy or critic are trained.

    Rewards and successes are facts. Advantages stay as they were at collection unless a critic can estimate them anew.
    """
    return base in ("td_error", "low_entropy") or (base == "advantage" and critic)


def checked_bases(bases: ArrayLike, keys: NDArray[np.int64] | None = None) -> FloatArray:
    """A float64 copy [n] of ``bases``; ValueError naming the first entry that is NaN, infinite or negative."""
    bases = np.array(bases, dtype=np.float64)
    if bases.ndim != 1:
        raise ValueError(f"base priorities must be one-dimensional, got shape {bases.shape}")
    # A NaN is its array's minimum, and fails the comparison as negative and infinite entries do.
    if len(bases) and not (bases.min() >= 0 and bases.max() < np.inf):
        entry = int(np.argmin((bases >= 0) & (bases < np.inf)))
        key = "" if keys is None else f" (key {keys[entry]})"
        raise ValueError(f"base priority of entry {entry}{key} is {bases[entry]}; it must be finite and >= 0")
    return bases


def _td_signal(trajectories: Sequence[Trajectory], td_errors: Sequence[NDArray[np.floating]] | None) -> FloatArray:
    if td_errors is None or len(td_errors) != len(trajectories):
        given = "none" if td_errors is None else str(len(td_errors))
        raise ValueError(
            f"base td_error needs one array of TD errors per trajectory ({len(trajectories)}), got {given}"
        )
    for entry, (trajectory, errors) in enumerate(zip(trajectories, td_errors, strict=True)):
        expected = (int(trajectory.response_mask.sum()),)
        if np.shape(errors) != expected:
            raise ValueError(f"TD errors of entry {entry} have shape {np.shape(errors)}, expected {expected}")
    return np.array([_mean_abs(errors) for errors in td_errors], dtype=np.float64)


def _confidence(trajectories: Sequence[Trajectory], entropies: NDArray[np.floating] | None) -> FloatArray:
    if entropies is None or len(entropies) != len(trajectories):
        given = "none" if entropies is None else str(len(entropies))
        raise ValueError(f"base low_entropy needs one entropy per trajectory ({len(trajectories)}), got {given}")
    return np.exp(-np.asarray(entropies, dtype=np.float64))


def _mean_abs(values: NDArray[np.floating]) -> float:
    return float(np.abs(values).mean(dtype=np.float64)) if values.size else 0.0
