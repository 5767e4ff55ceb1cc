"""Which rows live: grouped into buckets that share one clock value, hence one age.

Freshness then never touches a row. A row stores base^alpha once; its age factor belongs to its bucket, of which there
are few. A clock value with more rows than ``width`` simply fills several buckets. Keys rise by one per row and the rows
of a bucket are consecutive, so a key is found by bisection over the buckets' first keys, without a dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freshper.replay.bucket_order import BucketOrder
from freshper.replay.masses import BucketMasses

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_NO_ROW = -1.0


@dataclass
class Extrema:
    """Per bucket, over its live rows. A bucket without such a row has the neutral element (inf, inf, 0, 0)."""

    least_mass: FloatArray
    least_positive_mass: FloatArray
    largest_base: FloatArray
    concentration: FloatArray
    """Sum of (mass / bucket sum)^2: what the bucket adds to the sum of squared probabilities."""


class BucketTable:
    """Live rows with their priorities. Slot = bucket * width + offset addresses a row; buckets are recycled."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows = 0
        self.next_key = 0
        self.newest_clock = 0
        """Clock of the last row added, still alive or not; clocks start at 0."""
        self.base = np.zeros((0, width))
        """Base priority of each row; -1 where no row lives."""
        self.masses = BucketMasses(width)
        self.clock = np.zeros(0, dtype=np.int64)
        self.first_key = np.zeros(0, dtype=np.int64)
        self.count = np.zeros(0, dtype=np.int64)
        self._queue = BucketOrder()
        self._free: list[int] = []
        self._open = -1
        self._open_used = 0
        self._stale_extrema = np.zeros(0, dtype=np.bool_)
        self._extrema = Extrema(*(np.zeros(0) for _ in range(4)))

    @property
    def order(self) -> IntArray:
        """Buckets in use, oldest first; a view."""
        return self._queue.buckets

    @property
    def nbytes(self) -> int:
        """Bytes of the per-row arrays, free slots included."""
        return self.base.nbytes + self.masses.nbytes

    def require_clock(self, clock: int) -> None:
        """ValueError if ``clock`` lies before the newest row, or before 0."""
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
        head, used = 0, np.zeros(0, dtype=np.int64)
        if self._open >= 0 and self.clock[self._open] == clock:
            head = min(n, self.width - self._open_used)
            slots[:head] = self._open * self.width + self._open_used + np.arange(head)
            self.count[self._open] += head
            self._open_used += head
            used = np.array([self._open])
        if head < n:
            fresh = self._take_buckets(-(-(n - head) // self.width))
            slots[head:] = (fresh[:, None] * self.width + np.arange(self.width)).reshape(-1)[: n - head]
            self.clock[fresh] = clock
            self.first_key[fresh] = keys[head] + np.arange(len(fresh)) * self.width
            self.count[fresh] = self.width
            self._open, self._open_used = int(fresh[-1]), n - head - (len(fresh) - 1) * self.width
            self.count[self._open] = self._open_used
            self._queue.append(fresh, self.first_key[fresh])
            used = np.concatenate((used, fresh)) if head else fresh
        self.rows += n
        self.next_key += n
        self._write(slots, bases, masses, used)
        return keys, slots

    def write(self, slots: IntArray, bases: FloatArray, masses: FloatArray) -> None:
        """Set the priorities of live rows. Of a slot given twice the last value stays."""
        self._write(slots, bases, masses, None)

    def remove(self, slots: IntArray) -> None:
        """Forget live rows (distinct slots); empty buckets become free for reuse."""
        buckets = slots // self.width
        np.subtract.at(self.count, buckets, 1)
        self.rows -= len(slots)
        self._write(slots, _NO_ROW, 0.0, None)
        self._release(len(np.unique(buckets[self.count[buckets] == 0])))

    def remove_oldest(self, n: int) -> IntArray:
        """Forget the n oldest live rows; returns the slots they had. The same as ``remove``, in fewer steps."""
        # Each bucket in use has a live row, so n buckets are enough.
        front = self.order[:n]
        reach = self.count[front].cumsum()
        emptied = int(reach.searchsorted(n, side="right"))
        touched = front[: emptied + 1].copy()
        slots = self.live_slots(touched)[:n]
        if emptied < len(front):
            self.count[front[emptied]] = reach[emptied] - n
        self.count[front[:emptied]] = 0
        self.rows -= n
        self._write(slots, _NO_ROW, 0.0, touched)
        self._release(emptied)
        return slots

    def find(self, keys: IntArray) -> IntArray:
        """Slots of ``keys``, [n]; -1 for a key that is no longer, or was never, alive."""
        if not self.rows:
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
        return self.first_key.take(slots // self.width) + (slots & (self.width - 1))

    def live_slots(self, buckets: IntArray | None = None) -> IntArray:
        """Slots of the live rows of ``buckets``, bucket by bucket; of all in order of age, oldest first, if None."""
        buckets = self.order if buckets is None else buckets
        place, offset = np.nonzero(self.base[buckets] >= 0)
        return buckets[place] * self.width + offset

    def extrema(self) -> Extrema:
        """Extrema per bucket. Costs one pass over the rows of the buckets changed since the last call."""
        changed = np.flatnonzero(self._stale_extrema)
        if changed.size:
            base, mass, e = self.base[changed], self.masses.rows[changed], self._extrema
            live, total = np.where(base >= 0, mass, np.inf), mass.sum(axis=1)
            e.least_mass[changed] = live.min(axis=1)
            e.least_positive_mass[changed] = np.where(live > 0, live, np.inf).min(axis=1)
            e.largest_base[changed] = base.max(axis=1, initial=0.0)
            e.concentration[changed] = np.square(mass / np.where(total > 0, total, 1.0)[:, None]).sum(axis=1)
            self._stale_extrema[changed] = False
        return self._extrema

    def state(self) -> dict[str, Any]:
        """Arrays and integers from which ``restore`` rebuilds this table, slot for slot."""
        slots = self.live_slots()
        return {
            "slots": slots,
            "bases": self.base.reshape(-1)[slots],
            "masses": self.masses.at(slots),
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
        self._grow(len(buckets))
        self._free = free.tolist()
        self._queue.append(order, state["first_keys"])
        self.clock[order], self.first_key[order] = state["clocks"], state["first_keys"]
        self.count[:] = np.bincount(slots // self.width, minlength=len(buckets))
        self.rows = len(slots)
        self.next_key, self.newest_clock, self._open, self._open_used = state["counters"].tolist()
        if self.rows and not self.keys_at(slots).max() < self.next_key:
            raise ValueError(f"next key {self.next_key} is already in use")
        if self._open != -1 and self._open not in order or not 0 <= self._open_used <= self.width:
            raise ValueError(f"open bucket {self._open} with {self._open_used} rows is not in use")
        self.write(slots, state["bases"], state["masses"])

    def _write(
        self, slots: IntArray, bases: FloatArray | float, masses: FloatArray | float, within: IntArray | None
    ) -> None:
        self.base.reshape(-1)[slots] = bases
        self.masses.write(slots, masses, within)
        self._stale_extrema[slots // self.width if within is None else within] = True

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
        zeros = np.zeros(extra, dtype=np.int64)
        self.clock = np.concatenate((self.clock, zeros))
        self.first_key = np.concatenate((self.first_key, zeros))
        self.count = np.concatenate((self.count, zeros))
        self.base = np.concatenate((self.base, np.full((extra, self.width), _NO_ROW)))
        self.masses.grow(extra)
        e = self._extrema
        parts = (e.least_mass, e.least_positive_mass, e.largest_base, e.concentration)
        self._extrema = Extrema(*(np.concatenate((part, np.zeros(extra))) for part in parts))
        # Never used buckets must show neutral extrema too.
        self._stale_extrema = np.concatenate((self._stale_extrema, np.ones(extra, dtype=np.bool_)))
        self._free[:0] = range(old + extra - 1, old - 1, -1)
