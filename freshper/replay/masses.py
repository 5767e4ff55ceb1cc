"""Masses of rows, base^alpha, with running sums inside blocks and buckets for drawing.

Sums are recomputed from the rows when next asked for after a change, never adjusted by a difference, so they cannot
drift however long the run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# A row is searched in two steps: over blocks of this many rows, then inside one block.
_BLOCK = 16
# Masses keep this far from the ends of float64, so that no sum of them overflows.
_LARGEST_MASS = 1e290
# The largest float below 1. Times a positive sum it rounds to less than the sum.
BELOW_ONE = 1 - 2.0**-53
# After so many changes without a draw the notes of what changed are merged.
_MOST_CHANGES = 1000


def masses_of(bases: FloatArray, alpha: float) -> FloatArray:
    """base^alpha, and zero for a base of zero also when alpha is 0. ValueError where float64 cannot hold it."""
    with np.errstate(over="ignore"):
        masses = bases**alpha
    if not len(bases) or (bases.min() > 0 and masses.min() >= 1 / _LARGEST_MASS and masses.max() <= _LARGEST_MASS):
        return masses
    positive = bases > 0
    bad = positive & ~((masses >= 1 / _LARGEST_MASS) & (masses <= _LARGEST_MASS))
    if bad.any():
        entry = int(np.argmax(bad))
        raise ValueError(f"base priority of entry {entry}, {bases[entry]}, to the power {alpha} leaves float64")
    # Where the base is zero: 0^0 would be 1.
    return masses * positive


class BucketMasses:
    """[buckets, width] masses. Slot = bucket * width + offset; ``width`` is a power of two."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.block = min(width, _BLOCK)
        self.rows = np.zeros((0, width))
        self.per_bucket = width // self.block
        self.block_reach = np.zeros((0, self.block + 1))
        """Running sums of the masses inside each block, after a leading zero."""
        self.bucket_reach = np.zeros((0, self.per_bucket + 1))
        """Running sums of the blocks inside each bucket, after a leading zero."""
        self._block_sum = np.zeros((0, self.per_bucket))
        self.total = np.zeros(0)
        """Sum of each bucket."""
        self._changes: list[IntArray] = []
        self._block_starts = np.arange(0, width, self.block)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.rows.nbytes + self.block_reach.nbytes + self.bucket_reach.nbytes + self.total.nbytes

    def grow(self, buckets: int) -> None:
        """Room for ``buckets`` more, all zero."""
        blocks = buckets * self.per_bucket
        self.rows = np.concatenate((self.rows, np.zeros((buckets, self.width))))
        self.block_reach = np.concatenate((self.block_reach, np.zeros((blocks, self.block + 1))))
        self.bucket_reach = np.concatenate((self.bucket_reach, np.zeros((buckets, self.per_bucket + 1))))
        self._block_sum = np.concatenate((self._block_sum, np.zeros((buckets, self.per_bucket))))
        self.total = np.concatenate((self.total, np.zeros(buckets)))

    def write(self, slots: IntArray, masses: FloatArray | float, within: IntArray | None = None) -> None:
        """Set masses. Of a slot given twice the last value stays. ``within``: the buckets, if known and few."""
        self.rows.reshape(-1)[slots] = masses
        if within is not None:
            slots = (within[:, None] * self.width + self._block_starts).reshape(-1)
        self._changes.append(slots)
        if len(self._changes) > _MOST_CHANGES:
            self._changes = [np.unique(np.concatenate(self._changes) // self.block) * self.block]

    def at(self, slots: IntArray) -> FloatArray:
        """Masses of rows."""
        return self.rows.reshape(-1).take(slots)

    def refresh(self) -> IntArray:
        """Bring the sums up to date; returns the buckets that had changed, possibly repeated."""
        if not self._changes:
            return np.zeros(0, dtype=np.int64)
        slots = np.concatenate(self._changes)
        self._changes = []
        blocks = slots // self.block if len(slots) < len(self.block_reach) else np.arange(len(self.block_reach))
        reach = self.rows.reshape(-1, self.block).take(blocks, axis=0).cumsum(axis=1)
        self.block_reach[blocks, 1:] = reach
        if self.per_bucket == 1:
            self.total[blocks] = reach[:, -1]
            return blocks
        self._block_sum.reshape(-1)[blocks] = reach[:, -1]
        buckets = blocks // self.per_bucket
        reach = self._block_sum.take(buckets, axis=0).cumsum(axis=1)
        self.bucket_reach[buckets, 1:] = reach
        self.total[buckets] = reach[:, -1]
        return buckets

    def search(self, buckets: IntArray, share: FloatArray) -> IntArray:
        """Slots [n] found in ``buckets`` [n] at ``share`` [n], in [0, 1], of their mass; the totals must be positive.

        The row found has positive mass: running sums rise only there, and the target lies below the total.
        """
        blocks = buckets
        if self.per_bucket > 1:
            reach = self.bucket_reach.take(buckets, axis=0)
            target = np.minimum(share, BELOW_ONE) * reach[:, -1]
            found = _first_above(reach, target)
            blocks = buckets * self.per_bucket + found
            place = np.arange(0, reach.size, reach.shape[1]) + found
            before = reach.take(place)
            share = (target - before) / (reach.take(place + 1) - before)
        reach = self.block_reach.take(blocks, axis=0)
        return blocks * self.block + _first_above(reach, np.minimum(share, BELOW_ONE) * reach[:, -1])


def _first_above(reach: FloatArray, target: FloatArray) -> IntArray:
    """Per line of running sums [n, 1 + k], the part in which they first exceed ``target`` [n]."""
    return (reach[:, 1:] > target[:, None]).argmax(axis=1)
