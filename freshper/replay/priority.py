"""Base priority of a trajectory, before freshness (paper section 3.2; design section 4, points 4, 5 and 9).

A base priority is |signal| + epsilon with the signal averaged over response tokens only: prompt and observation
tokens carry no gradient. It is the *raw* signal; a loss already multiplied by importance weights must not come back.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from freshper.config.replay import PriorityConfig
from freshper.replay.trajectory import Trajectory

FloatArray = NDArray[np.float64]


def base_priorities(
    config: PriorityConfig,
    trajectories: Sequence[Trajectory],
    td_errors: Sequence[NDArray[np.floating]] | None = None,
) -> FloatArray:
    """Base priorities [n] of n trajectories under ``config.base``.

    reward |R| (the score, without format penalties), advantage mean |A|, td_error mean |delta|, all plus epsilon;
    uniform 1. ``td_errors`` holds one array [T] per trajectory, read at response tokens, and is required for
    `td_error`. A trajectory without response tokens has signal 0. Raises ValueError naming the entry that is not
    finite.
    """
    if config.base == "uniform":
        return np.ones(len(trajectories))
    if config.base == "reward":
        signal = np.array([abs(t.episode_return) for t in trajectories], dtype=np.float64)
    elif config.base == "advantage":
        signal = np.array([_masked_mean_abs(t.advantages, t.response_mask) for t in trajectories], dtype=np.float64)
    else:
        signal = _td_signal(trajectories, td_errors)
    return checked_bases(signal + config.epsilon)


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
        if np.shape(errors) != trajectory.response_mask.shape:
            shape = trajectory.response_mask.shape
            raise ValueError(f"TD errors of entry {entry} have shape {np.shape(errors)}, expected {shape}")
    pairs = zip(td_errors, trajectories, strict=True)
    return np.array([_masked_mean_abs(errors, t.response_mask) for errors, t in pairs], dtype=np.float64)


def _masked_mean_abs(values: NDArray[np.floating], mask: NDArray[np.bool_]) -> float:
    kept = values[mask]
    return float(np.abs(kept).mean(dtype=np.float64)) if kept.size else 0.0
