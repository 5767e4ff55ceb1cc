"""Where the priorities live: rows grouped into buckets that share one clock value, hence one age.

Freshness then never touches a row. A row stores base^alpha once; its age factor belongs to its bucket, of which there
are few. A clock value with more rows than ``width`` simply fills several buckets. Keys rise by one per row and the rows
of a bucket are consecutive, so a key is found by bisection over the buckets' first keys, without a dictionary.

Sums and extrema of a bucket are recomputed from its rows when next asked for after a change, never adjusted by a
difference, so they cannot drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freshper.replay.bucket_order import BucketOrder

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# A row is searched in two steps: over sums of blocks of this many rows, then inside one block.
_BLOCK = 16
# Masses keep this far from the ends of float64, so that no sum of them overflows.
_LARGEST_MASS = 1e290


@dataclass
class Extrema:
    """Per bucket, over its live rows. A bucket without such a row has the neutral element (inf, inf, 0, 0)."""

    least_mass: FloatArray
    least_positive_mass: FloatArray
    largest_base: FloatArray
    concentration: FloatArray
    """Sum of (mass / bucket sum)^2: what the bucket adds to the sum of squared probabilities."""


class BucketTable:
    """Masses base^alpha of the live rows. Slot = bucket * width + offset addresses a row; buckets are recycled."""

    def __init__(self, alpha: float, width: int) -> None:
        self.alpha = alpha
        self.width = width
        self.block = min(width, _BLOCK)
        self.rows = 0
        self.next_key = 0
        self.newest_clock = int(np.iinfo(np.int64).min)
        """Clock of the last row added, alive or not."""
        self.base = np.zeros((0, width))
        """Base priority of each row; -1 where no row lives."""
        self.mass = np.zeros((0, width))
        self.block_reach = np.zeros((0, self.block))
        """Running sums of the masses inside each block."""
        self.bucket_reach = np.zeros((0, width // self.block))
        """Running sums of the blocks inside each bucket."""
        self.clock = np.zeros(0, dtype=np.int64)
        self.first_key = np.zeros(0, dtype=np.int64)
        self.count = np.zeros(0, dtype=np.int64)
        self.total = np.zeros(0)
        self._queue = BucketOrder()
        self._free: list[int] = []
        self._open = -1
        self._open_used = 0
        self._touched: list[IntArray] = []
        self._stale_extrema = np.zeros(0, dtype=np.bool_)
        self._extrema = Extrema(*(np.zeros(0) for _ in range(4)))

    @property
    def order(self) -> IntArray:
        """Buckets in use, oldest first; a view."""
        return self._queue.buckets

    @property
    def nbytes(self) -> int:
        """Bytes of the per-row arrays, free slots included."""
        return self.base.nbytes + self.mass.nbytes + self.block_reach.nbytes

    @property
    def alive(self) -> NDArray[np.bool_]:
        """[buckets, width] where a row lives. O(number of rows)."""
        return self.base >= 0

    def masses_of(self, bases: FloatArray) -> FloatArray:
        """base^alpha; a base of zero has mass zero also when alpha is 0. ValueError where float64 cannot hold it."""
        with np.errstate(over="ignore"):
            masses = bases**self.alpha
        if not len(bases) or (bases.min() > 0 and 1 / _LARGEST_MASS <= masses.min() and masses.max() <= _LARGEST_MASS):
            return masses
        positive = bases > 0
        bad = positive & ~((masses >= 1 / _LARGEST_MASS) & (masses <= _LARGEST_MASS))
        if bad.any():
            entry = int(np.argmax(bad))
            raise ValueError(f"base priority of entry {entry}, {bases[entry]}, to the power {self.alpha} leaves float64")
        # Where the base is zero: 0^0 would be 1.
        return masses * positive

    def require_clock(self, clock: int) -> None:
        """ValueError if ``clock`` lies before the newest row."""
        if clock < self.newest_clock:
            raise ValueError(
                f"clock {clock} is before {self.newest_clock}, that of the newest row; it must not go back"
            )

    def append(self, bases: FloatArray, masses: FloatArray, clock: int) -> tuple[IntArray, IntArray]:
        """Add n rows at ``clock``, not earlier than the newest row (ValueError). Returns their keys and slots, [n]."""
        n = len(bases)
        self.require_clock(clock)
        if n == 0:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.newest_clock = clock
        keys = np.arange(self.next_key, self.next_key + n, dtype=np.int64)
        slots = np.empty(n, dtype=np.int64)
        head = 0
        if self._open >= 0 and self.clock[self._open] == clock:
            head = min(n, self.width - self._open_used)
            slots[:head] = self._open * self.width + self._open_used + np.arange(head)
            self.count[self._open] += head
            self._open_used += head
        if head < n:
            fresh = self._take_buckets(-(-(n - head) // self.width))
            slots[head:] = (fresh[:, None] * self.width + np.arange(self.width)).reshape(-1)[: n - head]
            self.clock[fresh] = clock
            self.first_key[fresh] = keys[head] + np.arange(len(fresh)) * self.width
            self.count[fresh] = self.width
            self._open, self._open_used = int(fresh[-1]), n - head - (len(fresh) - 1) * self.width
            self.count[self._open] = self._open_used
            self._queue.append(fresh, self.first_key[fresh])
        self.rows += n
        self.next_key += n
        self.base.reshape(-1)[slots] = bases
        self.mass.reshape(-1)[slots] = masses
        self._mark_run(slots)
        return keys, slots

    def write(self, slots: IntArray, bases: FloatArray, masses: FloatArray) -> None:
        """Set the priorities of live rows. Of a slot given twice the last value stays."""
        self.base.reshape(-1)[slots] = bases
        self.mass.reshape(-1)[slots] = masses
        self._touched.append(slots)

    def remove(self, slots: IntArray) -> None:
        """Forget live rows (distinct slots); empty buckets become free for reuse."""
        buckets = slots // self.width
        np.subtract.at(self.count, buckets, 1)
        self._clear(slots)
        self._touched.append(slots)
        self._release(len(np.unique(buckets[self.count[buckets] == 0])))

    def remove_oldest(self, n: int) -> IntArray:
        """Forget the n oldest live rows; returns the slots they had. The same as ``remove``, in fewer steps."""
        # Each bucket in use has a live row, so n buckets are enough.
        front = self.order[:n]
        reach = self.count[front].cumsum()
        emptied = int(reach.searchsorted(n, side="right"))
        last = min(emptied, len(front) - 1)
        slots = self.live_slots(front[: last + 1])[:n]
        if emptied < len(front):
            self.count[front[emptied]] = reach[emptied] - n
        self.count[front[:emptied]] = 0
        self._clear(slots)
        self._mark_run(slots)
        self._release(emptied)
        return slots

    def find(self, keys: IntArray) -> IntArray:
        """Slots of ``keys``, [n]; -1 for a key that is no longer, or was never, alive."""
        if not self.order.size:
            return np.full(len(keys), -1, dtype=np.int64)
        first_keys = self._queue.first_keys
        place = first_keys.searchsorted(keys, side="right") - 1
        offset = keys - first_keys[place]
        slots = self.order[place] * self.width + offset
        if place.min(initial=0) >= 0 and offset.max(initial=0) < self.width:
            inside = self.base.reshape(-1)[slots] >= 0
        else:
            inside = (place >= 0) & (offset < self.width)
            inside &= self.base.reshape(-1)[np.where(inside, slots, 0)] >= 0
        return slots if inside.all() else np.where(inside, slots, -1)

    def keys_at(self, slots: IntArray) -> IntArray:
        """Keys of live rows."""
        buckets = slots // self.width
        return self.first_key[buckets] + (slots - buckets * self.width)

    def live_slots(self, buckets: IntArray | None = None) -> IntArray:
        """Slots of the live rows of ``buckets``, bucket by bucket; of all in order of age, oldest first, if None."""
        buckets = self.order if buckets is None else buckets
        place, offset = np.nonzero(self.base[buckets] >= 0)
        return buckets[place] * self.width + offset

    def refresh_totals(self) -> IntArray:
        """Bring ``total`` and the running sums up to date; returns the buckets that had changed, possibly repeated."""
        if not self._touched:
            return np.zeros(0, dtype=np.int64)
        slots = np.concatenate(self._touched)
        self._touched = []
        blocks = slots // self.block if len(slots) < len(self.block_reach) else np.arange(len(self.block_reach))
        reach = self.mass.reshape(-1, self.block).take(blocks, axis=0).cumsum(axis=1)
        self.block_reach[blocks] = reach
        per_bucket = self.bucket_reach.shape[1]
        buckets = blocks
        if per_bucket > 1:
            buckets = blocks // per_bucket
            sums = self.block_reach[:, -1].reshape(-1, per_bucket)
            reach = sums.take(buckets, axis=0).cumsum(axis=1)
            self.bucket_reach[buckets] = reach
        self.total[buckets] = reach[:, -1]
        self._stale_extrema[buckets] = True
        return buckets

    def extrema(self) -> Extrema:
        """Extrema per bucket. Costs one pass over the rows of the buckets changed since the last call."""
        self.refresh_totals()
        changed = np.flatnonzero(self._stale_extrema)
        if changed.size:
            mass, e = self.mass[changed], self._extrema
            live = np.where(self.base[changed] >= 0, mass, np.inf)
            e.least_mass[changed] = live.min(axis=1)
            e.least_positive_mass[changed] = np.where(live > 0, live, np.inf).min(axis=1)
            e.largest_base[changed] = self.base[changed].max(axis=1, initial=0.0)
            total = np.where(self.total[changed] > 0, self.total[changed], 1.0)
            e.concentration[changed] = np.square(mass / total[:, None]).sum(axis=1)
            self._stale_extrema[changed] = False
        return self._extrema

    def state(self) -> dict[str, Any]:
        """Arrays and integers from which ``restore`` rebuilds this table, slot for slot."""
        slots = self.live_slots()
        return {
            "slots": slots,
            "bases": self.base.reshape(-1)[slots],
            "masses": self.mass.reshape(-1)[slots],
            "order": self.order.copy(),
            "clocks": self.clock[self.order],
            "first_keys": self.first_key[self.order],
            "free": np.array(self._free, dtype=np.int64),
            "counters": np.array([self.next_key, self.newest_clock, self._open, self._open_used], dtype=np.int64),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Fill this empty table. Raises ValueError where the state contradicts itself."""
        slots, order, free = state["slots"], state["order"], state["free"]
        buckets = np.sort(np.concatenate((order, free)))
        if not np.array_equal(buckets, np.arange(len(buckets))):
            raise ValueError("buckets in use and free buckets do not add up to all buckets")
        if len(np.unique(slots)) != len(slots) or not np.array_equal(np.unique(slots // self.width), np.sort(order)):
            raise ValueError("slots are not distinct, or not those of the buckets in use")
        if np.any(np.diff(state["clocks"]) < 0) or np.any(np.diff(state["first_keys"]) <= 0):
            raise ValueError("clocks or keys of the buckets are not in order of age")
        self._free = []
        self._grow(len(buckets))
        self._free = free.tolist()
        self._queue.append(order, state["first_keys"])
        self.clock[order], self.first_key[order] = state["clocks"], state["first_keys"]
        self.count[:] = np.bincount(slots // self.width, minlength=len(buckets))
        self.rows = len(slots)
        self.next_key, self.newest_clock, self._open, self._open_used = state["counters"].tolist()
        if self.rows and not self.keys_at(slots).max() < self.next_key:
            raise ValueError(f"next key {self.next_key} is already in use")
        self.write(slots, state["bases"], state["masses"])

    def _clear(self, slots: IntArray) -> None:
        self.base.reshape(-1)[slots] = -1.0
        self.mass.reshape(-1)[slots] = 0.0
        self.rows -= len(slots)

    def _mark_run(self, slots: IntArray) -> None:
        # Slots in unbroken sequence: every block-th, and the last, meet every block that they touch.
        self._touched += [slots[:: self.block], slots[-1:]]

    def _release(self, emptied: int) -> None:
        if emptied:
            freed = self._queue.drop(emptied, self.count)
            # Taken again from the end of the list: in reverse, the bucket freed first is reused first.
            self._free.extend(freed[::-1].tolist())
            if self._open >= 0 and self.count[self._open] == 0:
                self._open = -1

    def _take_buckets(self, n: int) -> IntArray:
        if len(self._free) < n:
            self._grow(max(n - len(self._free), len(self.clock), 8))
        taken = self._free[-n:][::-1]
        del self._free[-n:]
        return np.array(taken, dtype=np.int64)

    def _grow(self, extra: int) -> None:
        """Room for ``extra`` more buckets; doubling makes the copies constant per row over the life of the table."""
        old = len(self.clock)

        def longer(array: NDArray) -> NDArray:
            return np.concatenate((array, np.zeros((extra, *array.shape[1:]), dtype=array.dtype)))

        for name in ("mass", "bucket_reach", "clock", "first_key", "count", "total", "_stale_extrema"):
            setattr(self, name, longer(getattr(self, name)))
        self.base = np.concatenate((self.base, np.full((extra, self.width), -1.0)))
        self.block_reach = np.zeros((self.mass.size // self.block, self.block))
        # All running sums are due again after the move.
        self._touched.append(np.arange(self.mass.size))
        e = self._extrema
        self._extrema = Extrema(
            *(longer(a) for a in (e.least_mass, e.least_positive_mass, e.largest_base, e.concentration))
        )
        # Never used buckets must show neutral extrema too.
        self._stale_extrema[old:] = True
        self._free[:0] = range(old + extra - 1, old - 1, -1)
