"""Buckets in order of age: a queue of bucket numbers with the first key of each, beside one another for bisection."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


class BucketOrder:
    """Grows at the new end; shrinks mostly at the old end, rarely in the middle."""

    def __init__(self) -> None:
        self._line = np.zeros((2, 0), dtype=np.int64)
        self._start = 0
        self._end = 0

    @property
    def buckets(self) -> IntArray:
        """Bucket numbers, oldest first; a view."""
        return self._line[0, self._start : self._end]

    @property
    def first_keys(self) -> IntArray:
        """Key of the first row that each bucket was given, ascending; a view."""
        return self._line[1, self._start : self._end]

    def append(self, buckets: IntArray, first_keys: IntArray) -> None:
        """Add buckets younger than all others."""
        size, n = self._end - self._start, len(buckets)
        if self._end + n > self._line.shape[1]:
            # Twice what is needed, so that this copy is rare however long the queue.
            longer = np.zeros((2, 2 * (size + n)), dtype=np.int64)
            longer[:, :size] = self._line[:, self._start : self._end]
            self._line, self._start, self._end = longer, 0, size
        self._line[0, self._end : self._end + n] = buckets
        self._line[1, self._end : self._end + n] = first_keys
        self._end += n

    def drop(self, n: int, counts: IntArray) -> IntArray:
        """Take out the n buckets whose entry in ``counts`` is zero; returns them, oldest first."""
        front = self._line[0, self._start : self._start + n]
        if not counts[front].any():
            # First in, first out: nothing has to move.
            self._start += n
            return front.copy()
        gone = counts[self.buckets] == 0
        dropped = self.buckets[gone]
        kept = self._line[:, self._start : self._end][:, ~gone]
        self._end -= n
        self._line[:, self._start : self._end] = kept
        return dropped
