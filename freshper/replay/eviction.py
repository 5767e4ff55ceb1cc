"""Which rows a full buffer drops (design section 4, point 10). A tie goes to the older row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from freshper.replay.buckets import BucketTable
from freshper.replay.sampler import PrioritySampler

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def fifo(table: BucketTable, n: int) -> IntArray:
    """Slots of the n oldest rows."""
    return table.oldest(n)


def lowest_priority(table: BucketTable, sampler: PrioritySampler, n: int, clock: int) -> IntArray:
    """Slots of the n rows of least sampling weight at ``clock``.

    Reads one minimum per bucket, then the rows of n buckets: the n least rows lie in the n buckets with the least
    minima, because any other bucket's rows are preceded by those n minima.
    """
    buckets = table.order
    factor = sampler.log_age_factor(buckets, clock)
    with np.errstate(divide="ignore"):
        chosen = _least(np.log(table.extrema().least_mass[buckets]) + factor, n)
        slots = table.live_slots(buckets[chosen])
        rows = np.log(table.mass.reshape(-1)[slots]) + np.repeat(factor[chosen], table.count[buckets[chosen]])
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
