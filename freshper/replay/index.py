"""The priority index: which rows are alive, how likely each is, and which leave. Knows nothing of what a row holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from freshper.config.replay import ReplayConfig
from freshper.replay.buckets import BucketTable
from freshper.replay.eviction import lowest_priority
from freshper.replay.masses import masses_of
from freshper.replay.priority import checked_bases
from freshper.replay.sampler import PrioritySampler

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Added:
    """Rows that entered, [n] keys and slots, and the slots that were vacated for them (possibly reused at once)."""

    keys: IntArray
    slots: IntArray
    evicted: IntArray


@dataclass(frozen=True)
class UpdateReport:
    """Entries of an update that reached a live row, and entries whose row had been evicted."""

    applied: int
    stale: int


@dataclass(frozen=True)
class KeyDraw:
    """A draw without its trajectories; all [B]."""

    keys: IntArray
    """Identify the rows for as long as they live, and are never reused."""
    slots: IntArray
    """Where the rows are until the next insertion."""


def bucket_width(capacity: int) -> int:
    """Rows per bucket, a power of two: grows with the root of the capacity, as then does the number of buckets.

    A draw after changes adds up all buckets, and rows of the changed ones; measured, this balances the two.
    """
    return int(np.clip(2 ** int(np.ceil(np.log2(np.sqrt(capacity) / 10))), 8, 256))


class PriorityIndex:
    """At most ``capacity`` rows with base priorities and ages. Single-threaded; deterministic given the generator."""

    def __init__(self, config: ReplayConfig) -> None:
        self.config = config
        self.table = BucketTable(bucket_width(config.capacity))
        self.sampler = PrioritySampler(self.table, config.decay, config.priority.alpha, config.uniform_mix)

    def __len__(self) -> int:
        return self.table.rows

    @property
    def slots(self) -> int:
        """Slots addressable now; grows as rows arrive."""
        return self.table.base.size

    def add(self, bases: ArrayLike, clock: int) -> Added:
        """Insert one row per base priority, evicting as many rows first as the capacity requires.

        With ``priority.initial: max`` every row enters at the largest base alive after the eviction (1 when there is no
        positive one), whatever its own. Raises ValueError, changing nothing, on a bad base, on a clock that goes back,
        and on more rows than the buffer can hold.
        """
        bases = checked_bases(bases)
        n, capacity = len(bases), self.config.capacity
        if n > capacity:
            raise ValueError(f"{n} trajectories at once do not fit a replay capacity of {capacity}")
        masses = masses_of(bases, self.config.priority.alpha)
        self.table.require_clock(clock)
        evicted = self._evict(self.table.rows + n - capacity, clock)
        if self.config.priority.initial == "max":
            bases = np.full(n, self.largest_base() or 1.0)
            masses = masses_of(bases, self.config.priority.alpha)
        keys, slots = self.table.append(bases, masses, clock)
        return Added(keys, slots, evicted)

    def largest_base(self) -> float:
        """Largest base priority of a live row; 0 when empty."""
        return float(self.table.extrema().largest_base.max(initial=0.0))

    def update(self, keys: ArrayLike, bases: ArrayLike) -> UpdateReport:
        """Replace base priorities. Of a key given twice the last value stays; keys of evicted rows are only counted.

        Raises ValueError, changing nothing, on a bad base, also when its row is gone.
        """
        keys = np.asarray(keys, dtype=np.int64)
        bases = checked_bases(bases, keys)
        if keys.shape != bases.shape:
            raise ValueError(f"{keys.shape} keys but {bases.shape} base priorities")
        masses = masses_of(bases, self.config.priority.alpha)
        slots = self.table.find(keys)
        live = slots >= 0
        applied = int(np.count_nonzero(live))
        if applied == len(keys):
            self.table.write(slots, bases, masses)
        else:
            self.table.write(slots[live], bases[live], masses[live])
        return UpdateReport(applied, len(keys) - applied)

    def draw(self, size: int, clock: int, rng: np.random.Generator) -> KeyDraw:
        """Stratified draw of ``size`` rows at ``clock``, with replacement."""
        slots = self.sampler.draw(size, clock, rng)
        return KeyDraw(self.table.keys_at(slots), slots)

    def probabilities(self, slots: IntArray, clock: int) -> FloatArray:
        """Probability of live rows under the sampling distribution at ``clock``."""
        return self.sampler.probabilities(slots, clock)

    def ages(self, slots: IntArray, clock: int) -> IntArray:
        """Ages of live rows, in clock units."""
        return clock - self.table.clock[slots // self.table.width]

    def _evict(self, n: int, clock: int) -> IntArray:
        if n <= 0:
            return np.zeros(0, dtype=np.int64)
        if self.config.eviction == "fifo":
            return self.table.remove_oldest(n)
        victims = lowest_priority(self.sampler, n, clock)
        self.table.remove(victims)
        return victims
