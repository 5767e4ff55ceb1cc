"""Group-relative advantages (GRPO): an episode is compared with others on the same environment instance."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from freshper.algorithms.advantages import normalise, training_rewards, turn_widths, with_advantages
from freshper.config.algorithm import AlgorithmConfig
from freshper.replay.trajectory import Trajectory


def groups(trajectories: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """Neighbours with the same `group_id`, in order."""
    return [list(members) for _, members in itertools.groupby(trajectories, key=lambda t: t.group_id)]


def group_returns(members: Sequence[Trajectory]) -> NDArray[np.float64]:
    """[G] training return of each episode: environment rewards plus format penalties, undiscounted."""
    return np.array([training_rewards(t).sum() for t in members])


def has_variance(members: Sequence[Trajectory]) -> bool:
    """Whether the returns of a group differ: only then does it tell good episodes from bad ones."""
    return bool(np.ptp(group_returns(members)) > 1e-6)


def relative(returns: NDArray[np.float64], divide_by_std: bool) -> NDArray[np.float64]:
    """A_i = (R_i - mean R) / std R (DeepSeekMath, arXiv 2402.03300, section 4.1.2).

    Args:
        returns: [G] returns of one group.
        divide_by_std: false leaves out the division, which weighs groups by how much their returns differ (Dr. GRPO,
            arXiv 2503.20783). The deviation is that of a sample (divisor G - 1), as trainers of the field take it;
            a group without spread gets zeros.
    """
    if divide_by_std:
        return normalise(returns, float(returns.mean()), float(returns.std(ddof=1)))
    return returns - returns.mean()


def grpo(trajectories: Sequence[Trajectory], config: AlgorithmConfig) -> list[Trajectory]:
    """Every sampled token gets its episode's return relative to the group.

    Mean and deviation of the group are kept in `info` (`group_mean`, `group_std`): a replayed trajectory is compared
    with the episodes that it was collected with.

    Args:
        trajectories: one fresh batch, members of a group side by side.
        config: group.divide_by_std, whiten, advantage_clip.
    """
    raw, info = [], []
    for members in groups(trajectories):
        returns = group_returns(members)
        facts = {"group_mean": float(returns.mean()), "group_std": float(returns.std(ddof=1))}
        for trajectory, advantage in zip(members, relative(returns, config.group.divide_by_std), strict=True):
            raw.append(np.full(turn_widths(trajectory).sum(), advantage))
            info.append(facts)
    return with_advantages(trajectories, raw, config, info)
