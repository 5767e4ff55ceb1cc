"""Which rows a full buffer drops, when not simply the oldest (design section 4, point 10)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from freshper.replay.sampler import PrioritySampler

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def lowest_priority(sampler: PrioritySampler, n: int, clock: int) -> IntArray:
    """Slots of the n rows of least sampling weight at ``clock``; of equal rows the older.

    Reads one minimum per bucket, then the rows of n buckets: the n least rows lie in the n buckets with the least
    minima, because any other bucket's rows are preceded by those n minima.
    """
    table = sampler.table
    buckets = table.order
    factor = sampler.log_age_factor(buckets, clock)
    with np.errstate(divide="ignore"):
        chosen = _least(np.log(table.extrema().least_mass[buckets]) + factor, n)
        slots = table.live_slots(buckets[chosen])
        rows = np.log(table.masses.at(slots)) + np.repeat(factor[chosen], table.count[buckets[chosen]])
    return slots[_least(rows, n)]


def _least(values: FloatArray, n: int) -> IntArray:
    """Indices of the n least values, ascending; of equal values the earlier. All of them if there are at most n."""
    if n >= len(values):
        return np.arange(len(values))
    limit = np.partition(values, n - 1)[n - 1]
    below = values < limit
    equal = np.flatnonzero(values == limit)
    below[equal[: n - np.count_nonzero(below)]] = True
    return np.flatnonzero(below)
