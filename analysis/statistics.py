"""Statistics over runs: centres, intervals, improvement, profiles.

A list of groups is a list of arrays, one per task, each with one value per run. Bootstrap intervals resample the runs
of each task on their own (stratified), with a generator of their own and a fixed seed: the same data give the same
interval in every process. Formulas of the aggregates: Agarwal et al. 2021, Deep RL at the Edge of the Statistical
Precipice (arXiv 2108.13264).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analysis.student import t_quantile

FloatArray = NDArray[np.float64]
Aggregate = Callable[[Sequence[FloatArray]], FloatArray]
"""Groups of shape [..., runs], one per task -> [...]."""

LEVEL, REPLICATES, SEED = 0.95, 2000, 0


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval."""

    value: float
    """The estimate."""
    low: float | None
    """Lower end; None where none can be known (one run)."""
    high: float | None
    """Upper end."""
    n: int
    """Runs, or pairs of runs."""

    def contains(self, value: float) -> bool | None:
        """Whether a value lies inside, ends included; None without an interval."""
        return None if self.low is None or self.high is None else self.low <= value <= self.high


def mean(groups: Sequence[FloatArray]) -> FloatArray:
    """Mean over tasks of the mean over runs."""
    return np.mean([np.mean(group, axis=-1) for group in groups], axis=0)


def median(groups: Sequence[FloatArray]) -> FloatArray:
    """Median over tasks of the mean over runs; for a single task the median over its runs."""
    if len(groups) == 1:
        return np.median(groups[0], axis=-1)
    return np.median([np.mean(group, axis=-1) for group in groups], axis=0)


def iqm(groups: Sequence[FloatArray]) -> FloatArray:
    """Interquartile mean: the mean of the middle half of all runs of all tasks (a quarter of them, rounded down, is cut
    off at each end)."""
    pooled = np.sort(np.concatenate(groups, axis=-1), axis=-1)
    cut = pooled.shape[-1] // 4
    return pooled[..., cut : pooled.shape[-1] - cut].mean(axis=-1)


AGGREGATES: Mapping[str, Aggregate] = {"mean": mean, "median": median, "iqm": iqm}


def t_interval(values: Sequence[float] | FloatArray, level: float = LEVEL) -> Interval:
    """Mean with its Student t interval."""
    data = np.asarray(values, np.float64)
    n = len(data)
    centre = float(data.mean())
    if n < 2:
        return Interval(centre, None, None, n)
    half = t_quantile(0.5 + level / 2, n - 1) * float(data.std(ddof=1)) / math.sqrt(n)
    return Interval(centre, centre - half, centre + half, n)


def resample(group: FloatArray, replicates: int, rng: np.random.Generator) -> FloatArray:
    """[replicates, runs]: bootstrap samples of the runs of one task."""
    return group[rng.integers(0, len(group), (replicates, len(group)))]


def bootstrap_interval(
    groups: Sequence[FloatArray],
    aggregate: Aggregate = mean,
    level: float = LEVEL,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> Interval:
    """Aggregate with its percentile interval from a stratified bootstrap. No interval if no task has two runs."""
    data = [np.asarray(group, np.float64) for group in groups]
    value = float(aggregate(data))
    n = sum(len(group) for group in data)
    if all(len(group) < 2 for group in data):
        return Interval(value, None, None, n)
    rng = np.random.default_rng(seed)
    samples = aggregate([resample(group, replicates, rng) for group in data])
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), n)


def interval(
    values: Sequence[float] | FloatArray, kind: Literal["t", "bootstrap"] = "t", centre: str = "mean"
) -> Interval:
    """Interval of the runs of one task: Student t of the mean, or bootstrap of any of `AGGREGATES`."""
    data = np.asarray(values, np.float64)
    return t_interval(data) if kind == "t" and centre == "mean" else bootstrap_interval([data], AGGREGATES[centre])


def difference(mine: Mapping[int, float], other: Mapping[int, float], level: float = LEVEL) -> tuple[Interval, bool]:
    """Difference of two arms' means with its interval.

    Args:
        mine, other: seed -> value.

    Returns:
        The difference, and whether it was taken seed by seed: Student t of the paired differences where both arms have
        the same seeds, else Welch's interval (n is then the number of runs of both).
    """
    if set(mine) == set(other):
        return t_interval([mine[seed] - other[seed] for seed in sorted(mine)], level), True
    a, b = np.array(list(mine.values())), np.array(list(other.values()))
    centre, n = float(a.mean() - b.mean()), len(a) + len(b)
    if len(a) < 2 or len(b) < 2:
        return Interval(centre, None, None, n), False
    va, vb = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    if va + vb == 0:
        return Interval(centre, centre, centre, n), False
    degrees = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    half = t_quantile(0.5 + level / 2, degrees) * math.sqrt(va + vb)
    return Interval(centre, centre - half, centre + half, n), False


def _shares(size: int, replicates: int, rng: np.random.Generator) -> FloatArray:
    """[replicates, size]: how often each run is in a bootstrap sample, divided by the number of runs."""
    return rng.multinomial(size, np.full(size, 1 / size), replicates) / size


def _wins(x: FloatArray, y: FloatArray) -> FloatArray:
    """[n, m]: 1 where a run of x beats one of y, 1/2 where they are equal."""
    return (x[:, None] > y[None, :]) + 0.5 * (x[:, None] == y[None, :])


def probability_of_improvement(
    mine: Sequence[FloatArray],
    other: Sequence[FloatArray],
    level: float = LEVEL,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> Interval:
    """Chance that a run of ours beats one of the other arm on a task drawn at random: mean over tasks of
    P(X > Y) + P(X = Y) / 2 (Mann-Whitney U / nm), with a stratified bootstrap interval. n counts our runs."""
    wins = [_wins(np.asarray(x, np.float64), np.asarray(y, np.float64)) for x, y in zip(mine, other, strict=True)]
    value = float(np.mean([table.mean() for table in wins]))
    n = sum(len(table) for table in wins)
    if all(max(table.shape) < 2 for table in wins):
        return Interval(value, None, None, n)
    rng = np.random.default_rng(seed)
    samples = []
    for table in wins:
        rows, columns = (_shares(size, replicates, rng) for size in table.shape)
        samples.append(np.sum(rows @ table * columns, axis=1))
    low, high = np.quantile(np.mean(samples, axis=0), [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(low), float(high), n)


def performance_profile(
    groups: Sequence[FloatArray],
    thresholds: FloatArray,
    level: float = LEVEL,
    replicates: int = REPLICATES,
    seed: int = SEED,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share of runs with a score above each threshold (mean over tasks), and its pointwise bootstrap band.

    Returns:
        Profile, lower and upper band, each [thresholds]; the band is NaN if every task has one run only.
    """
    above = [(np.asarray(group, np.float64)[:, None] > thresholds).astype(np.float64) for group in groups]
    profile = np.mean([table.mean(axis=0) for table in above], axis=0)
    if all(len(table) < 2 for table in above):
        band = np.full(len(thresholds), math.nan)
        return profile, band, band.copy()
    rng = np.random.default_rng(seed)
    samples = np.mean([_shares(len(table), replicates, rng) @ table for table in above], axis=0)
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return profile, low, high
