"""Probabilities against the O(N) formula, and draws against probabilities."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from freshper.replay.index import PriorityIndex
from tests.replay.helpers import LAWS, PLACEMENTS, brute_probabilities, make_config


class Mirror:
    """A priority index beside the plain list of rows that it should hold (first in, first out)."""

    def __init__(self, config):
        self.config = config
        self.index = PriorityIndex(config)
        self.keys = np.zeros(0, dtype=np.int64)
        self.bases = np.zeros(0)
        self.clocks = np.zeros(0, dtype=np.int64)

    def add(self, bases, clock):
        keys = self.index.add(bases, clock).keys
        keep = self.config.capacity
        self.keys = np.concatenate((self.keys, keys))[-keep:]
        self.bases = np.concatenate((self.bases, bases))[-keep:]
        self.clocks = np.concatenate((self.clocks, np.full(len(bases), clock)))[-keep:]

    def update(self, rows, bases):
        self.index.update(self.keys[rows], bases)
        self.bases[rows] = bases

    def probabilities(self, clock):
        return self.index.probabilities(self.index.table.find(self.keys), clock)

    def check(self, clock):
        assert np.array_equal(self.index.table.keys_at(self.index.table.live_slots()), self.keys)
        expected, found = brute_probabilities(self.config, self.bases, self.clocks, clock), self.probabilities(clock)
        likely = expected > 1e-12
        np.testing.assert_allclose(found[likely], expected[likely], rtol=1e-9)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        assert found.sum() == pytest.approx(1, abs=1e-12)


def filled(config, rng, clock_steps=6, rows=8, zeros=True):
    mirror = Mirror(config)
    for clock in range(clock_steps):
        bases = rng.random(rows) + 0.1
        if zeros:
            bases[rng.integers(rows)] = 0
        mirror.add(bases, clock)
    return mirror, clock_steps


@pytest.mark.parametrize("mix", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("law", LAWS)
def test_draw_frequencies_follow_the_probabilities(law, placement, mix):
    config = make_config(48, decay__law=law, decay__placement=placement, decay__tau=3.0, uniform_mix=mix)
    mirror, clock = filled(config, np.random.default_rng(3))
    rng = np.random.default_rng(4)
    # One draw at a time: a stratum of a larger batch would make the counts too regular for the chi-squared law.
    slots = mirror.index.sampler.locate(rng.random(60_000), clock)
    counts = np.bincount(mirror.index.table.keys_at(slots), minlength=48)
    expected = brute_probabilities(config, mirror.bases, mirror.clocks, clock) * len(slots)
    assert counts[expected == 0].sum() == 0
    drawable = expected > 0
    assert stats.chisquare(counts[drawable], expected[drawable]).pvalue > 1e-4


def test_stratified_draws_have_the_same_expectation_and_less_spread():
    config = make_config(48, decay__tau=3.0)
    mirror, clock = filled(config, np.random.default_rng(3))
    rng = np.random.default_rng(5)
    draws = [mirror.index.draw(16, clock, rng).keys for _ in range(4000)]
    counts = np.stack([np.bincount(keys, minlength=48) for keys in draws])
    p = brute_probabilities(config, mirror.bases, mirror.clocks, clock)
    # No row's count strays from its share by two: it overlaps its strata in whole and at most two ends.
    assert np.all(np.abs(counts - 16 * p) < 2)
    error = np.sqrt(p * (1 - p) * 16 / 4000)
    assert np.all(np.abs(counts.mean(axis=0) - 16 * p) <= 5 * error)
    assert counts.var(axis=0).sum() < 0.9 * (16 * p * (1 - p)).sum()


@pytest.mark.parametrize("capacity", range(1, 34))
def test_every_capacity_reaches_every_row_evenly(capacity):
    config = make_config(capacity, priority__base="uniform", decay__law="none")
    index = PriorityIndex(config)
    for clock in range(2 * capacity + 3):
        index.add(np.ones(1 + clock % min(3, capacity)), clock)
    assert len(index) == capacity
    slots = index.sampler.locate((np.arange(capacity) + 0.5) / capacity, clock)
    newest = index.table.next_key
    assert sorted(index.table.keys_at(slots)) == list(range(newest - capacity, newest))
    counts = np.bincount(
        index.table.keys_at(index.sampler.locate(np.random.default_rng(0).random(200 * capacity), clock))
    )
    assert np.all(np.abs(counts[newest - capacity :] - 200) < 5 * np.sqrt(200))


def test_three_equal_rows_own_a_third_each():
    index = PriorityIndex(make_config(3, decay__law="none"))
    index.add(np.ones(3), 0)
    located = index.sampler.locate(np.array([0.5, 1.5, 2.5]) / 3, 0)
    assert index.table.keys_at(located).tolist() == [0, 1, 2]


@pytest.mark.parametrize("capacity", [16, 4096, 200_000, 600_000])
def test_a_position_on_a_border_belongs_to_the_right(capacity):
    """Dyadic masses, so that the borders are exact; other widths of bucket, other depths of search."""
    index = PriorityIndex(make_config(capacity, decay__law="none", priority__alpha=1.0))
    bases = np.array([1, 0, 2, 1, 0, 0, 4, 4, 0, 3, 1, 0], dtype=np.float64)
    index.add(bases, 0)
    borders = np.unique(np.concatenate(([0.0], np.cumsum(bases))))[:-1]
    expected = np.searchsorted(np.cumsum(bases), borders, side="right")
    assert index.table.keys_at(index.sampler.locate(borders / 16, 0)).tolist() == expected.tolist()
    below = borders[borders > 0] - 1e-12
    expected = np.searchsorted(np.cumsum(bases), below, side="right")
    assert index.table.keys_at(index.sampler.locate(below / 16, 0)).tolist() == expected.tolist()


def test_the_end_of_the_interval_is_the_last_row_with_mass():
    index = PriorityIndex(make_config(64, decay__law="none"))
    index.add(np.array([1.0, 0.3, 0.0]), 0)
    index.add(np.zeros(5), 1)
    ends = np.array([1.0, np.nextafter(1.0, 0)])
    assert index.table.keys_at(index.sampler.locate(ends, 1)).tolist() == [1, 1]


@settings(max_examples=150, deadline=None)
@given(
    bases=st.lists(st.sampled_from([0.0, 1e-6, 0.3, 1.0, 1 / 3, 1e6]), min_size=1, max_size=60).filter(any),
    capacity=st.sampled_from([60, 100_000, 600_000]),
    step=st.integers(1, 20),
    positions=st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_rows_of_priority_zero_are_never_drawn(bases, capacity, step, positions):
    index = PriorityIndex(make_config(capacity, decay__tau=2.0))
    bases = np.array(bases)
    for clock, start in enumerate(range(0, len(bases), step)):
        index.add(bases[start : start + step], clock)
    shares = index.probabilities(index.table.live_slots(), clock)
    borders = np.clip(np.concatenate((np.cumsum(shares), positions)), 0, 1)
    for near in (borders, np.nextafter(borders, 0), np.nextafter(borders, 1)):
        assert np.all(bases[index.table.keys_at(index.sampler.locate(near, clock))] > 0)


def test_alpha_zero_still_draws_nothing_of_priority_zero():
    index = PriorityIndex(make_config(8, priority__alpha=0.0))
    index.add(np.array([0.0, 5.0, 0.1]), 0)
    assert index.probabilities(index.table.live_slots(), 0).tolist() == [0, 0.5, 0.5]


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("tau", [1.0, 40.0, 1e4, 1e9])
def test_thousands_of_steps_keep_the_identity_with_the_plain_formula(law, placement, tau):
    config = make_config(200, decay__law=law, decay__placement=placement, decay__tau=tau, uniform_mix=0.0)
    mirror, rng, clock = Mirror(config), np.random.default_rng(7), 0
    for step in range(1500):
        clock += int(rng.integers(0, 3))
        mirror.add(10.0 ** rng.uniform(-6, 1, rng.integers(1, 9)), clock)
        rows = np.unique(rng.integers(0, len(mirror.keys), 5))
        mirror.update(rows, 10.0 ** rng.uniform(-6, 1, len(rows)))
        if step % 25 == 0:
            mirror.check(clock + int(rng.integers(0, 2)))
            clock += 1
    mirror.check(clock)


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_any_history_keeps_the_identity_with_the_plain_formula(data):
    config = make_config(
        data.draw(st.sampled_from([1, 5, 33, 300])),
        decay__law=data.draw(st.sampled_from(LAWS)),
        decay__placement=data.draw(st.sampled_from(PLACEMENTS)),
        decay__tau=10 ** data.draw(st.floats(0, 9)),
        priority__alpha=data.draw(st.sampled_from([0.0, 0.6, 1.0, 1.5])),
        uniform_mix=data.draw(st.sampled_from([0.0, 0.25])),
    )
    mirror, clock = Mirror(config), 0
    priorities = st.sampled_from([0.0, 1e-6, 0.5, 1.0, 1e3])
    for _ in range(data.draw(st.integers(1, 12))):
        clock += data.draw(st.sampled_from([0, 1, 7, 1000]))
        fits = min(config.capacity, 20)
        mirror.add(np.array(data.draw(st.lists(priorities, min_size=1, max_size=fits))), clock)
        row = data.draw(st.integers(0, len(mirror.keys) - 1))
        mirror.update([row], np.array([data.draw(priorities)]))
        now = clock + data.draw(st.sampled_from([0, 3]))
        if mirror.index.sampler.total(now) > 0:
            mirror.check(now)
        clock = now


def test_very_old_rows_keep_their_ratios():
    """All rows a thousand million time constants old, and the only younger ones without priority."""
    index = PriorityIndex(make_config(64, decay__tau=1.0, priority__alpha=1.0))
    index.add(np.ones(2), 0)
    index.add(np.ones(2), 1)
    index.add(np.zeros(3), 10**9)
    p = index.probabilities(index.table.live_slots(), 2 * 10**9)
    np.testing.assert_allclose(p[:4], np.array([1, 1, np.e, np.e]) / (2 + 2 * np.e), rtol=1e-12)


def test_a_long_run_of_short_time_constants_neither_overflows_nor_vanishes():
    mirror = Mirror(make_config(40, decay__tau=1.0, decay__placement="outside_alpha"))
    for clock in range(0, 30_000, 10):
        mirror.add(np.ones(2), clock)
        assert np.isfinite(mirror.index.sampler.total(clock)) and mirror.index.sampler.total(clock) > 0
    mirror.check(30_000)


@pytest.mark.parametrize("law", ["exponential", "polynomial"])
def test_a_leap_of_the_clock_in_a_large_table_overflows_nothing(law):
    """Many buckets, so that sums are taken in groups; the newest rows outweigh the rest by more than float64 spans."""
    mirror = Mirror(make_config(12_000, decay__tau=1.0, decay__law=law, priority__alpha=1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for clock in range(1100):
            mirror.add(np.ones(8), clock // 100)
        mirror.check(11)
        mirror.add(np.ones(8), 5000)
        mirror.check(5000)
        mirror.update(np.arange(10), np.full(10, 1e6))
        mirror.check(5001)


def test_sums_do_not_drift_over_a_million_updates():
    index, rng = PriorityIndex(make_config(4096, decay__law="none")), np.random.default_rng(0)
    keys = index.add(rng.random(4096), 0).keys
    for step in range(8000):
        index.update(rng.choice(keys, 128), 10.0 ** rng.uniform(-8, 3, 128))
        if step % 3 == 0:
            index.sampler.total(0)
    index.sampler.total(0)
    leaves = index.table.masses.rows.sum()
    assert index.table.masses.total.sum() == pytest.approx(leaves, rel=1e-12)
    assert np.array_equal(index.table.masses.rows, np.maximum(index.table.base, 0) ** 0.6)


def test_many_changes_between_two_draws_all_count():
    mirror, rng = Mirror(make_config(3000, decay__tau=300.0)), np.random.default_rng(0)
    mirror.add(np.ones(5), 0)
    mirror.check(0)
    for clock in range(1300):
        mirror.add(rng.random(1) + 0.1, clock)
        mirror.update([int(rng.integers(len(mirror.keys)))], rng.random(1) + 0.1)
    mirror.check(1300)
