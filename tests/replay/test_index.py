"""Membership: keys, updates, eviction, initial priorities, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshper.replay.decay import log_sampling_decay
from freshper.replay.index import PriorityIndex, UpdateReport
from tests.replay.helpers import LAWS, make_config


def keys_of(index):
    return index.table.keys_at(index.table.live_slots()).tolist()


def bases_of(index):
    return index.table.base.reshape(-1)[index.table.live_slots()].tolist()


def test_first_in_first_out_survives_many_wraps():
    index, expected, rng = PriorityIndex(make_config(37)), [], np.random.default_rng(0)
    for clock in range(0, 900, 3):
        n = int(rng.integers(1, 38))
        added = index.add(rng.random(n), clock // 9)
        assert len(added.evicted) == max(0, len(expected) + n - 37)
        assert added.keys.tolist() == list(range(added.keys[0], added.keys[0] + n))
        expected = (expected + added.keys.tolist())[-37:]
        assert keys_of(index) == expected
        assert np.array_equal(index.table.find(np.array(expected)), index.table.live_slots())


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_lowest_priority_evicts_what_a_full_search_would(data):
    config = make_config(
        data.draw(st.sampled_from([1, 4, 23, 60])),
        eviction="lowest_priority",
        decay__law=data.draw(st.sampled_from(LAWS)),
        decay__tau=data.draw(st.sampled_from([1.0, 8.0, 1e6])),
        decay__placement=data.draw(st.sampled_from(["inside_alpha", "outside_alpha"])),
    )
    index, rows, clock = PriorityIndex(config), [], 0
    for _ in range(data.draw(st.integers(1, 25))):
        clock += data.draw(st.integers(0, 4))
        size = data.draw(st.integers(1, min(config.capacity, 12)))
        # Few different values, so that ties are common.
        bases = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.5, 2.0]), min_size=size, max_size=size)))

        def weight(row, now=clock):
            key, base, born = row
            with np.errstate(divide="ignore"):
                decay = log_sampling_decay(config.decay, config.priority.alpha, now - born)
                return np.log(base**config.priority.alpha) + decay, key

        excess = len(rows) + size - config.capacity
        if excess > 0:
            rows = sorted(sorted(rows, key=weight)[excess:])
        rows += [(int(k), float(b), clock) for k, b in zip(index.add(bases, clock).keys, bases, strict=True)]
        assert keys_of(index) == [row[0] for row in rows]
        if rows and data.draw(st.booleans()):
            changed = data.draw(st.integers(0, len(rows) - 1))
            rows[changed] = (rows[changed][0], 0.7, rows[changed][2])
            index.update([rows[changed][0]], [0.7])
        assert bases_of(index) == [row[1] for row in rows]


def test_last_value_of_a_repeated_key_stays():
    index = PriorityIndex(make_config(8, priority__alpha=1.0))
    keys = index.add(np.ones(3), 0).keys
    assert index.update(keys[[1, 0, 1, 1]], [5.0, 2.0, 7.0, 3.0]) == UpdateReport(applied=4, stale=0)
    assert bases_of(index) == [2.0, 3.0, 1.0]
    assert index.probabilities(index.table.live_slots(), 0).tolist() == [2 / 6, 3 / 6, 1 / 6]


def test_updates_of_evicted_or_unknown_rows_are_ignored_and_counted():
    index = PriorityIndex(make_config(4))
    gone = index.add(np.ones(3), 0).keys
    kept = index.add(np.full(4, 2.0), 1).keys
    report = index.update([gone[0], kept[1], gone[2], 99, -5, 10**15], np.full(6, 9.0))
    assert report == UpdateReport(applied=1, stale=5)
    assert bases_of(index) == [2.0, 9.0, 2.0, 2.0]
    assert PriorityIndex(make_config(4)).update([0], [1.0]) == UpdateReport(applied=0, stale=1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_bad_priorities_change_nothing(bad):
    index = PriorityIndex(make_config(4))
    keys = index.add(np.ones(4), 0).keys
    with pytest.raises(ValueError, match="entry 1 is"):
        index.add([1.0, bad], 1)
    with pytest.raises(ValueError, match=r"entry 1 \(key 3\) is"):
        index.update(keys[[0, 3]], [5.0, bad])
    assert keys_of(index) == [0, 1, 2, 3] and bases_of(index) == [1.0] * 4


def test_a_priority_beyond_float64_is_refused_not_rounded_to_zero():
    index = PriorityIndex(make_config(4, priority__alpha=2.0))
    with pytest.raises(ValueError, match="entry 1, 1e-200, to the power 2.0"):
        index.add([1.0, 1e-200], 0)
    with pytest.raises(ValueError, match="entry 0, 1e"):
        index.add([1e200], 0)


def test_other_mistakes_are_refused():
    index = PriorityIndex(make_config(4))
    with pytest.raises(ValueError, match="clock -1 is before 0"):
        index.add(np.ones(2), -1)
    index.add(np.ones(2), 5)
    with pytest.raises(ValueError, match="5 trajectories at once do not fit a replay capacity of 4"):
        index.add(np.ones(5), 5)
    with pytest.raises(ValueError, match="clock 4 is before 5"):
        index.add(np.ones(3), 4)
    with pytest.raises(ValueError, match="clock 4 is before 5"):
        index.draw(2, 4, np.random.default_rng(0))
    with pytest.raises(ValueError, match="keys but"):
        index.update([0, 1], [1.0])
    assert keys_of(index) == [0, 1]
    index.add(np.ones(4), 6)
    assert index.add(np.zeros(0), 6).keys.tolist() == []
    index.add(np.ones(4), 7)
    with pytest.raises(ValueError, match="clock 6 is before 7"):
        index.add(np.ones(1), 6)


def test_initial_maximum_is_over_live_rows_after_the_eviction():
    index = PriorityIndex(make_config(3, priority__initial="max"))
    index.add([0.2], 0)
    assert bases_of(index) == [1.0]
    index.update([0], [50.0])
    index.add([0.2, 0.2], 1)
    assert bases_of(index) == [50.0] * 3
    index.update([1, 2], [3.0, 4.0])
    index.add([0.2], 2)
    assert bases_of(index) == [3.0, 4.0, 4.0]
    index.update([1, 2, 3], [0.0, 0.0, 0.0])
    index.add([0.2], 3)
    assert bases_of(index) == [0.0, 0.0, 1.0]


def test_slots_are_reused_so_memory_stays_bounded():
    index = PriorityIndex(make_config(1000))
    for clock in range(500):
        index.add(np.ones(64), clock)
    full = index.slots
    for clock in range(500, 3000):
        index.add(np.ones(64), clock)
    assert index.slots == full <= 4 * 1000
