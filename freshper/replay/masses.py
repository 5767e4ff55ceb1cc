"""Masses of rows, base^alpha, with running sums inside blocks and buckets for drawing.

Sums are recomputed from the rows when next asked for after a change, never adjusted by a difference, so they cannot
drift however long the run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Masses keep this far from the ends of float64, so that no sum of them overflows.
_LARGEST_MASS = 1e290
# The largest float below 1. Times a positive sum it rounds to less than the sum.
BELOW_ONE = 1 - 2.0**-53
# After so many changes without a draw the notes of what changed are merged.
_MOST_CHANGES = 1000
# In a wide bucket a row is searched in two steps: over blocks of this many rows, then inside one block.
BLOCK = 16


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


def sums_by_line(lines: FloatArray, zero: int = 0) -> FloatArray:
    """Running sums along each of many short lines [n, k] >= 0, behind ``zero`` zeros: [n, zero + k].

    They never fall, and rise only where a value is positive: each is the one before plus a value. (A product with a
    triangle of ones is twice as fast, but then this would depend on the order in which a BLAS adds.)
    """
    sums = np.zeros((len(lines), zero + lines.shape[1]))
    np.cumsum(lines, axis=1, out=sums[:, zero:])
    return sums


def running_sums(values: FloatArray, out: FloatArray) -> None:
    """Running sums of many ``values`` [a multiple of ``BLOCK``] >= 0, as ``sums_by_line``, written to ``out``."""
    sums, ends = sums_by_line(values.reshape(-1, BLOCK)), out.reshape(-1, BLOCK)
    ends[:1] = sums[:1]
    # Only the blocks' own sums remain to be added in turn.
    np.add(sums[1:], sums[:-1, -1].cumsum()[:, None], out=ends[1:])


class BucketMasses:
    """[buckets, width] masses. Slot = bucket * width + offset; ``width`` is a power of two."""

    def __init__(self, width: int) -> None:
        self.width = width
        # A second step costs more than it saves where there would be but two blocks.
        self.block = width if width <= 2 * BLOCK else BLOCK
        self.per_bucket = width // self.block
        self.rows = np.zeros((0, width))
        self.block_reach = np.zeros((0, self.block))
        """Running sums of the masses inside each block."""
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
        parts = (self.rows, self.block_reach, self.bucket_reach, self._block_sum, self.total)
        return sum(part.nbytes for part in parts)

    def grow(self, buckets: int) -> None:
        """Room for ``buckets`` more, all zero."""

        def longer(array: FloatArray, lines: int) -> FloatArray:
            return np.concatenate((array, np.zeros((lines, *array.shape[1:]))))

        self.rows = longer(self.rows, buckets)
        self.block_reach = longer(self.block_reach, buckets * self.per_bucket)
        self.bucket_reach = longer(self.bucket_reach, buckets)
        self._block_sum = longer(self._block_sum, buckets)
        self.total = longer(self.total, buckets)

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

    def refresh(self) -> IntArray | None:
        """Bring the sums up to date; returns the buckets that had changed, possibly repeated. None if none had."""
        if not self._changes:
            return None
        blocks = np.concatenate(self._changes)
        self._changes = []
        blocks = blocks // self.block if len(blocks) < len(self.block_reach) else np.arange(len(self.block_reach))
        reach = sums_by_line(self.rows.reshape(-1, self.block).take(blocks, axis=0))
        self.block_reach[blocks] = reach
        if self.per_bucket == 1:
            self.total[blocks] = reach[:, -1]
            return blocks
        self._block_sum.reshape(-1)[blocks] = reach[:, -1]
        buckets = blocks // self.per_bucket
        reach = sums_by_line(self._block_sum.take(buckets, axis=0), zero=1)
        self.bucket_reach[buckets] = reach
        self.total[buckets] = reach[:, -1]
        return buckets

    def search(self, buckets: IntArray, share: FloatArray) -> IntArray:
        """Slots [n] found in ``buckets`` [n] at ``share`` [n], in [0, 1], of their mass; the totals must be positive.

        The row found has positive mass: running sums rise only there, and the target lies below the total.
        """
        if self.per_bucket == 1:
            reach = self.block_reach.take(buckets, axis=0)
            return buckets * self.block + _first_above(reach, share * reach[:, -1])
        reach = self.bucket_reach.take(buckets, axis=0)
        target = np.minimum(share, BELOW_ONE)
        target *= reach[:, -1]
        found = (reach > target[:, None]).argmax(axis=1)
        # The leading zero makes the part before the one found the start of it.
        target -= reach.reshape(-1).take(np.arange(-1, reach.size - 1, reach.shape[1]) + found)
        blocks = buckets * self.per_bucket + found - 1
        reach = self.block_reach.take(blocks, axis=0)
        return blocks * self.block + _first_above(reach, target)


def _first_above(reach: FloatArray, target: FloatArray) -> IntArray:
    """Per line of running sums [n, k], the part in which they first exceed ``target`` [n], even if rounded too high."""
    return (reach > np.minimum(target, reach[:, -1] * BELOW_ONE)[:, None]).argmax(axis=1)
