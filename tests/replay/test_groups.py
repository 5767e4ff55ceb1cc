"""Whole groups as rows of the buffer."""

import dataclasses

import numpy as np
import pytest

from freshper.replay.buffer import ReplayBuffer
from tests.replay.helpers import assert_same, brute_probabilities, make_config, make_trajectory


def member(mark, group, episode_return):
    return dataclasses.replace(make_trajectory(mark, episode_return), group_id=group)


def filled(groups=9, size=3, capacity=18, **changes):
    """Two groups per clock tick; marks and group ids count up."""
    buffer = ReplayBuffer(make_config(capacity, unit="group", **changes), np.random.default_rng(0), size)
    returns = np.random.default_rng(1).random((groups, size)) + 0.1
    keys = []
    for group in range(groups):
        rows = [member(group * size + k, group, float(returns[group, k])) for k in range(size)]
        keys += buffer.add(rows, None, group // 2).tolist()
    return buffer, returns, keys


def test_groups_come_back_whole_side_by_side_and_unchanged():
    buffer, returns, _ = filled()
    draw = buffer.draw(12, 5, 0.4)
    for start in range(0, 12, 3):
        members = draw.trajectories[start : start + 3]
        group = members[0].group_id
        for k, found in enumerate(members):
            assert_same(member(group * 3 + k, group, float(returns[group, k])), found)
        for name in ("keys", "probabilities", "weights", "ages"):
            assert len(set(getattr(draw, name)[start : start + 3].tolist())) == 1
    assert draw.duplicates == 12 - 3 * len(set(draw.keys.tolist()))


def test_a_group_is_drawn_by_the_mean_priority_of_its_members():
    buffer, returns, keys = filled()
    alive = returns[3:]  # 18 trajectories are six groups of three
    bases = (alive + buffer.config.priority.epsilon).mean(1)
    p = brute_probabilities(make_config(6), bases, np.arange(3, 9) // 2, 5)
    draw = buffer.draw(6, 5, 0.4)
    np.testing.assert_allclose(draw.probabilities[::3], [p[keys.index(key) - 3] for key in draw.keys[::3]], rtol=1e-9)


def test_capacity_size_and_eviction_count_trajectories_and_never_split_a_group():
    buffer, _, _ = filled()
    assert len(buffer) == 18
    metrics = buffer.metrics(5)
    assert metrics["size"] == 18 and metrics["fill"] == 1 and metrics["evicted"] == 9
    assert metrics["age_mean"] == pytest.approx(np.mean([5 - g // 2 for g in range(3, 9)]))
    seen = {t.group_id for _ in range(60) for t in buffer.draw(3, 5, 0.4).trajectories}
    assert seen == set(range(3, 9))


def test_new_priorities_are_averaged_over_the_group():
    buffer, _, _ = filled()
    draw = buffer.draw(6, 5, 0.4)
    new = np.arange(6, dtype=float)
    buffer.update(draw.keys, new)
    slots = buffer.index.table.find(draw.keys[::3])
    stored = buffer.index.table.base.reshape(-1)[slots]
    expected = {key: mean for key, mean in zip(draw.keys[::3].tolist(), new.reshape(-1, 3).mean(1), strict=True)}
    assert stored.tolist() == [expected[key] for key in draw.keys[::3].tolist()]


def test_torn_groups_and_odd_batches_are_refused():
    buffer, _, _ = filled()
    with pytest.raises(ValueError, match=r"whole groups of 3 side by side, got group ids \[7, 8, 7\]"):
        buffer.add([member(0, 7, 1), member(1, 8, 1), member(2, 7, 1)], None, 9)
    with pytest.raises(ValueError, match="whole groups of 3"):
        buffer.add([member(0, 7, 1), member(1, 7, 1)], None, 9)
    with pytest.raises(ValueError, match="at least 3 and a multiple"):
        buffer.draw(4, 5, 0.4)
    assert len(buffer) == 18


def test_a_saved_buffer_of_groups_goes_on_with_the_same_draws():
    buffer, _, _ = filled()
    again = ReplayBuffer(buffer.config, np.random.default_rng(9), 3)
    again.load_state_dict(buffer.state_dict())
    first, second = buffer.draw(9, 5, 0.4), again.draw(9, 5, 0.4)
    assert first.keys.tolist() == second.keys.tolist() and len(again) == 18
    single = ReplayBuffer(make_config(6), np.random.default_rng(0))
    with pytest.raises(ValueError, match="unit: saved group, now trajectory"):
        single.load_state_dict(buffer.state_dict())
