"""Exact prioritised draws over the buckets: P(row) = (1 - mix) * base^alpha * w(age)^(alpha or 1) / Z + mix / N.

Draws are stratified (Schaul et al. 2016, appendix B.2.1): the unit interval is cut into B equal parts with one uniform
number in each. A position selects a bucket by its share of the mass, then a row inside the bucket.

What makes it cheap: with exponential decay the ratios between buckets do not depend on the current time, so bucket
masses are kept relative to a fixed reference clock and only those of changed buckets are computed again. Other laws
recompute one number per bucket when the clock moves. No row is ever refreshed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from freshper.config.replay import DecayConfig
from freshper.replay.buckets import BucketTable
from freshper.replay.decay import is_clock_invariant, log_sampling_decay
from freshper.replay.masses import BELOW_ONE, BLOCK, running_sums

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Leave the reference before the total mass comes near the ends of float64 (1e-308, 1e308): what is still
# representable then reaches down to a share of 1e-150 of the total.
_TOTAL_RANGE = (1e-150, 1e150)
# Relative masses are cut off here, at 5e173: any above 1e150 moves the reference, and then none is above 1.
_LARGEST_LOG_MASS = 400.0
_TINY = np.finfo(np.float64).tiny


class PrioritySampler:
    """Draws from a ``BucketTable``. Reads the table only; all its own state is a cache, save the reference."""

    def __init__(self, table: BucketTable, config: DecayConfig, alpha: float, uniform_mix: float) -> None:
        self.table = table
        self.config = config
        self.alpha = alpha
        self.mix = uniform_mix
        self.reference: tuple[int, float] = (0, 0.0)
        """Clock at which the decay of clock-invariant laws is 1, and the logarithm that every mass is divided by."""
        self._invariant = is_clock_invariant(config)
        self._clock: int | None = None
        self._strata = np.zeros(0)
        self._make_room(0)

    def total(self, clock: int) -> float:
        """Mass of all rows at ``clock``, relative to the reference: 0 when nothing can be drawn by priority."""
        self._synchronise(clock)
        return float(self._reach[-1])

    def drawable(self, clock: int) -> bool:
        """Whether a draw at ``clock`` is possible: a live row, and mass unless sampling is uniform altogether."""
        return self.table.rows > 0 and (self.mix == 1 or self.total(clock) > 0)

    def draw(self, size: int, clock: int, rng: np.random.Generator) -> IntArray:
        """Slots [size] of a stratified draw with replacement, in no order of age. RuntimeError if not drawable."""
        if not self.drawable(clock):
            raise RuntimeError(f"nothing to draw: {self.table.rows} rows with total sampling mass 0 at clock {clock}")
        if len(self._strata) != size:
            self._strata = np.arange(size, dtype=np.float64)
        positions = rng.random(size)
        positions += self._strata
        positions /= size
        return self._locate(positions)

    def locate(self, positions: FloatArray, clock: int) -> IntArray:
        """Slots of positions in [0, 1]: the first 1 - mix of the interval is by priority, the rest uniform over rows.

        A row owns the half-open stretch [left, right). A row of mass zero owns none, so not even a position exactly on
        a border, or rounded up to 1, finds it.
        """
        self._synchronise(clock)
        return self._locate(positions)

    def probabilities(self, slots: IntArray, clock: int) -> FloatArray:
        """P of live rows [n]; sums to 1 over all of them."""
        total = self.total(clock)
        if total == 0:
            p = np.zeros(len(slots))
        else:
            buckets = slots // self.table.width
            # A bucket without mass has sum 0; its rows have mass 0 as well.
            p = self.table.masses.at(slots) / np.maximum(self.table.masses.total.take(buckets), _TINY)
            p *= self._mass.take(buckets) / total
        return p if self.mix == 0 else (1 - self.mix) * p + self.mix / self.table.rows

    def bucket_shares(self, clock: int) -> FloatArray:
        """Share of every bucket in the prioritised part of P; zeros when the total mass is zero."""
        total = self.total(clock)
        return self._mass / total if total > 0 else np.zeros_like(self._mass)

    def least_probability(self, clock: int) -> float:
        """Smallest P > 0 over all live rows, from one minimum per bucket; inf when there is none."""
        share, extrema = self.bucket_shares(clock), self.table.extrema()
        live = share > 0
        least = share[live] * (extrema.least_positive_mass[live] / self.table.masses.total[live])
        smallest = float(least[least > 0].min(initial=np.inf))
        if self.mix == 0:
            return smallest
        order = self.table.order
        by_uniform_only = bool(np.any((share[order] == 0) | (extrema.least_mass[order] == 0)))
        return (0.0 if by_uniform_only or self.mix == 1 else (1 - self.mix) * smallest) + self.mix / self.table.rows

    def effective_sample_size(self, clock: int) -> float:
        """1 / sum P^2: how many equally likely rows would be as spread out. 0 when nothing can be drawn."""
        squares = float(np.square(self.bucket_shares(clock)) @ self.table.extrema().concentration)
        if self.mix > 0 and self.table.rows:
            mix = self.mix
            squares = (1 - mix) ** 2 * squares + (2 * (1 - mix) * mix + mix**2) / self.table.rows
        return 1 / squares if squares > 0 else 0.0

    def log_age_factor(self, buckets: IntArray, clock: int) -> FloatArray:
        """Logarithm of the age factor of the sampling weight of ``buckets`` at ``clock``."""
        return log_sampling_decay(self.config, self.alpha, clock - self.table.clock.take(buckets))

    def _make_room(self, buckets: int) -> None:
        size = -(-buckets // BLOCK) * BLOCK
        # ``running_sums`` wants whole blocks: what lies behind the last bucket has no mass.
        self._padded_mass, self._reach = np.zeros(size), np.zeros(size + 1)
        self._mass = self._padded_mass[:buckets]
        # Running sums of the bucket masses: where each bucket starts and ends.
        self._starts, self._ends = self._reach[:-1], self._reach[1:]

    def _synchronise(self, clock: int) -> None:
        self.table.require_clock(clock)
        changed = self.table.masses.refresh()
        all_of_them = not self._invariant and clock != self._clock or len(self._mass) != len(self.table.masses.total)
        if changed is None and not all_of_them:
            return
        self._clock = clock
        if changed is None or all_of_them:
            changed = np.arange(len(self.table.masses.total))
            self._make_room(len(changed))
            if not self._invariant:
                self.reference = (clock, self.reference[1])
        self._mass[changed] = self._relative_mass(changed)
        running_sums(self._padded_mass, self._ends)
        if self.table.rows and not _TOTAL_RANGE[0] <= self._reach[-1] <= _TOTAL_RANGE[1]:
            self._move_reference()

    def _relative_mass(self, buckets: IntArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.exp(np.minimum(self._log_mass(buckets) - self.reference[1], _LARGEST_LOG_MASS))

    def _log_mass(self, buckets: IntArray) -> FloatArray:
        return np.log(self.table.masses.total.take(buckets)) + self.log_age_factor(buckets, self.reference[0])

    def _move_reference(self) -> None:
        order = self.table.order
        with np.errstate(divide="ignore"):
            if self._invariant:
                # Twice: the first pass finds the heaviest bucket, the second measures ages from it. Ages of a thousand
                # billion ticks would otherwise swallow the digits that tell buckets apart.
                self.reference = (int(self.table.clock[order[-1]]), 0.0)
                heaviest = order[int(np.argmax(self._log_mass(order)))]
                self.reference = (int(self.table.clock[heaviest]), 0.0)
            largest = float(self._log_mass(order).max())
        # -inf means that nothing has mass, which no reference changes.
        self.reference = (self.reference[0], largest if np.isfinite(largest) else 0.0)
        self._mass[:] = 0
        self._mass[order] = self._relative_mass(order)
        running_sums(self._padded_mass, self._ends)

    def _locate(self, positions: FloatArray) -> IntArray:
        if self.mix == 0:
            return self._by_priority(positions)
        uniform = positions >= 1 - self.mix
        slots = np.empty(len(positions), dtype=np.int64)
        slots[~uniform] = self._by_priority(positions[~uniform] / (1 - self.mix)) if self.mix < 1 else 0
        slots[uniform] = self._uniformly((positions[uniform] - (1 - self.mix)) / self.mix)
        return slots

    def _by_priority(self, positions: FloatArray) -> IntArray:
        # A position rounded up to 1 must stay below the total.
        target = np.minimum(positions, BELOW_ONE)
        target *= self._reach[-1]
        buckets = self._ends.searchsorted(target, side="right")
        start = self._starts.take(buckets)
        target -= start
        target /= self._ends.take(buckets) - start
        return self.table.masses.search(buckets, target)

    def _uniformly(self, positions: FloatArray) -> IntArray:
        table = self.table
        rank = np.minimum((positions * table.rows).astype(np.int64), table.rows - 1)
        reach = table.count.cumsum()
        buckets = reach.searchsorted(rank, side="right")
        rank -= reach[buckets] - table.count[buckets]
        offset = np.argmax(np.cumsum(table.base[buckets] >= 0, axis=1) > rank[:, None], axis=1)
        return buckets * table.width + offset
