"""The buffer as the learner uses it: trajectories in, weighted batches out, saved and restored."""

from __future__ import annotations

import io

import numpy as np
import pytest

from freshper.replay.buffer import ReplayBuffer
from tests.replay.helpers import assert_same, brute_probabilities, make_config, make_trajectory


def filled(config, seed=0, clocks=9, rows=7):
    buffer, rng = ReplayBuffer(config, np.random.default_rng(seed)), np.random.default_rng(seed + 1)
    for clock in range(clocks):
        marks = range(clock * rows, (clock + 1) * rows)
        buffer.add([make_trajectory(mark, float(0.2 + rng.random())) for mark in marks], None, clock)
    return buffer, clocks


def test_a_marked_rollout_comes_back_unchanged():
    buffer, clock = filled(make_config(30))
    seen = set()
    for _ in range(40):
        draw = buffer.draw(10, clock, 0.4)
        for key, trajectory, age in zip(draw.keys, draw.trajectories, draw.ages, strict=True):
            assert trajectory.info == {"mark": key} and age == clock - key // 7
            assert_same(make_trajectory(int(key), trajectory.episode_return), trajectory)
            seen.add(int(key))
        assert draw.duplicates == 10 - len(set(draw.keys.tolist()))
    assert seen == set(range(33, 63))


def test_changing_a_drawn_trajectory_does_not_change_the_buffer():
    buffer = ReplayBuffer(make_config(4), np.random.default_rng(0))
    original = make_trajectory(3)
    buffer.add([original], None, 0)
    original.token_ids[:] = 0
    buffer.draw(1, 0, 0.4).trajectories[0].token_ids[:] = 7
    assert_same(make_trajectory(3), buffer.draw(1, 0, 0.4).trajectories[0])


@pytest.mark.parametrize("normalise", ["batch", "buffer"])
@pytest.mark.parametrize("mix", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("beta", [0.4, 1.0])
def test_weights_match_the_formula(normalise, mix, beta):
    config = make_config(
        40,
        decay__tau=4.0,
        uniform_mix=mix,
        is_correction__enabled=True,
        is_correction__normalise=normalise,
        priority__epsilon=0.0,
    )
    buffer = ReplayBuffer(config, np.random.default_rng(0))
    bases = np.random.default_rng(1).random(30)
    bases[[3, 17]] = 0
    for clock in range(6):
        part = slice(5 * clock, 5 * clock + 5)
        buffer.add([make_trajectory(m) for m in range(30)[part]], bases[part], clock)
    buffer.update(np.array([4]), np.array([0.01]))
    bases[4] = 0.01
    p = brute_probabilities(config, bases, np.arange(30) // 5, 7)
    draw = buffer.draw(8, 7, beta)
    np.testing.assert_allclose(draw.probabilities, p[draw.keys], rtol=1e-12)
    raw = (30 * p[p > 0]) ** -beta
    largest = raw.max() if normalise == "buffer" else ((30 * p[draw.keys]) ** -beta).max()
    np.testing.assert_allclose(draw.weights, (30 * p[draw.keys]) ** -beta / largest, rtol=1e-12)
    assert draw.weights.max() <= 1


def test_weights_are_one_without_correction_and_do_not_touch_priorities():
    buffer, clock = filled(make_config(30))
    before = buffer.index.table.base.copy()
    assert buffer.draw(8, clock, 1.0).weights.tolist() == [1.0] * 8
    assert np.array_equal(buffer.index.table.base, before)


def test_drawing_too_early_is_an_error_not_a_short_batch():
    buffer = ReplayBuffer(make_config(30, warmup=6), np.random.default_rng(0))
    buffer.add([make_trajectory(m) for m in range(5)], None, 0)
    assert not buffer.ready(3, 0)
    with pytest.raises(RuntimeError, match="holds 5 trajectories, fewer than the 6"):
        buffer.draw(3, 0, 0.4)
    buffer.add([make_trajectory(5)], None, 0)
    assert buffer.ready(3, 0) and not buffer.ready(7, 0)
    assert len(buffer.draw(3, 0, 0.4).trajectories) == 3
    with pytest.raises(RuntimeError, match="fewer than the 7"):
        buffer.draw(7, 0, 0.4)
    with pytest.raises(ValueError, match="at least 1"):
        buffer.draw(0, 0, 0.4)


@pytest.mark.parametrize("mix", [0.0, 0.5])
def test_a_window_that_has_closed_on_everything_is_an_error(mix):
    config = make_config(30, decay__law="window", decay__tau=3.0, uniform_mix=mix)
    buffer = ReplayBuffer(config, np.random.default_rng(0))
    buffer.add([make_trajectory(m) for m in range(4)], None, 0)
    assert buffer.ready(4, 3) and not buffer.ready(4, 4)
    with pytest.raises(RuntimeError, match="total sampling mass 0"):
        buffer.draw(4, 4, 0.4)


def test_an_empty_buffer_is_not_ready_and_has_metrics():
    buffer = ReplayBuffer(make_config(30, uniform_mix=1.0), np.random.default_rng(0))
    assert not buffer.ready(1, 0)
    assert buffer.metrics(0)["size"] == 0 and buffer.metrics(0)["effective_size"] == 0


def test_td_error_needs_bases_unless_rows_enter_at_the_maximum():
    buffer = ReplayBuffer(make_config(8, priority__base="td_error"), np.random.default_rng(0))
    with pytest.raises(ValueError, match="TD errors"):
        buffer.add([make_trajectory()], None, 0)
    buffer.add([make_trajectory()], np.array([2.0]), 0)
    buffer = ReplayBuffer(make_config(8, priority__base="td_error", priority__initial="max"), np.random.default_rng(0))
    buffer.add([make_trajectory()], None, 0)
    with pytest.raises(ValueError, match="1 trajectories but 2 base"):
        buffer.add([make_trajectory()], np.ones(2), 0)


def test_a_refused_batch_leaves_the_buffer_as_it_was():
    buffer, clock = filled(make_config(20))
    before = buffer.metrics(clock)
    bad = [make_trajectory(), make_trajectory(episode_return=np.nan)]
    with pytest.raises(ValueError, match="entry 1"):
        buffer.add(bad, None, clock)
    with pytest.raises(ValueError, match="must not go back"):
        buffer.add([make_trajectory()], None, 2)
    assert buffer.metrics(clock) == before


@pytest.mark.parametrize("mix", [0.0, 0.25])
def test_metrics_match_their_definitions(mix):
    config = make_config(40, decay__tau=4.0, uniform_mix=mix)
    buffer, clock = filled(config)
    buffer.update(np.array([0, 60]), np.array([1.0, 1.0]))
    table = buffer.index.table
    slots = table.live_slots()
    clocks = table.keys_at(slots) // 7
    p = brute_probabilities(config, table.base.reshape(-1)[slots], clocks, clock)
    metrics = buffer.metrics(clock)
    assert (metrics["size"], metrics["fill"], metrics["evicted"], metrics["stale_updates"]) == (40, 1, 23, 1)
    assert metrics["age_mean"] == pytest.approx((clock - clocks).mean())
    assert metrics["age_max"] == (clock - clocks).max()
    assert metrics["age_drawn_mean"] == pytest.approx(p @ (clock - clocks))
    assert metrics["newest_share"] == pytest.approx(p[clocks == clocks.max()].sum())
    assert metrics["effective_size"] == pytest.approx(1 / np.square(p).sum())
    assert metrics["record_bytes"] == buffer.nbytes


def through_a_file(state):
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        return dict(loaded)


def advance(buffer, clock, steps):
    """A hundred draws with everything that goes on between them."""
    seen = []
    for step in range(steps):
        draw = buffer.draw(8, clock, 0.4)
        seen += [draw.keys, draw.probabilities, draw.weights, draw.ages, draw.trajectories[0].token_ids]
        buffer.update(draw.keys, draw.probabilities + 0.01 * step)
        clock += step % 2
        if step % 3 == 0:
            buffer.add([make_trajectory(1000 + step), make_trajectory(2000 + step)], None, clock)
    return np.concatenate(seen)


@pytest.mark.parametrize("law", ["exponential", "polynomial"])
@pytest.mark.parametrize("eviction", ["fifo", "lowest_priority"])
@pytest.mark.parametrize("bit_generator", [np.random.PCG64, np.random.MT19937])
def test_a_restored_buffer_draws_the_same(eviction, bit_generator, law):
    config = make_config(
        50, eviction=eviction, decay__law=law, decay__tau=0.5, uniform_mix=0.1, is_correction__enabled=True
    )
    buffer, clock = filled(config)
    buffer.rng = np.random.Generator(bit_generator(5))
    advance(buffer, clock, 200)
    clock += 100
    state = through_a_file(buffer.state_dict())
    twin = ReplayBuffer(config, np.random.Generator(bit_generator(6)))
    twin.load_state_dict(state)
    assert twin.index.sampler.reference == buffer.index.sampler.reference
    assert twin.metrics(clock) | {"index_bytes": 0} == buffer.metrics(clock) | {"index_bytes": 0}
    assert np.array_equal(advance(buffer, clock, 100), advance(twin, clock, 100))


def test_an_empty_buffer_can_be_saved():
    buffer = ReplayBuffer(make_config(4), np.random.default_rng(0))
    twin = ReplayBuffer(make_config(4), np.random.default_rng(1))
    twin.load_state_dict(through_a_file(buffer.state_dict()))
    assert len(twin) == 0 and twin.rng.random() == buffer.rng.random()


def damage(name, change):
    def apply(state):
        state[name] = change(state[name].copy() if isinstance(state[name], np.ndarray) else state[name])

    return apply


def with_first_repeated(array):
    array[0] = array[1]
    return array


def with_first(value):
    def change(array):
        array[0] = value
        return array

    return change


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda state: state.pop("bases"), "lacks bases"),
        (damage("meta", lambda text: text[:-5]), "not JSON"),
        (damage("meta", lambda text: text.replace('"version": 3', '"version": 9')), "version 3"),
        (damage("meta", lambda text: text.replace('"tau": 500.0', '"tau": 7.0')), "another config .*decay"),
        (damage("meta", lambda text: text.replace('"bit_generator": "PCG64"', '"bit_generator": "SFC64"')), "SFC64"),
        (damage("bases", lambda array: array.astype(np.float32)), "bases in the replay state is float32"),
        (damage("bases", lambda array: array[1:]), "19 bases, expected 20"),
        (damage("bases", with_first(np.nan)), "entry 0 is nan"),
        (damage("bases", with_first(3.0)), "power alpha"),
        (damage("slots", with_first_repeated), "slots are not distinct"),
        (damage("order", with_first_repeated), "do not add up to all buckets"),
        (damage("clocks", with_first(99)), "not in order of age"),
        (damage("counters", with_first(3)), "next key 3"),
        (damage("counters", lambda array: np.array([*array[:2], 77, array[3]])), "open bucket 77"),
        (damage("offsets", with_first(3)), "offsets"),
        (damage("records", lambda array: array[:-1]), "offsets"),
        (damage("records", with_first(77)), "record 0 of the replay state is damaged"),
    ],
)
def test_a_bad_state_says_what_is_wrong_and_changes_nothing(apply, message):
    config = make_config(20)
    state = filled(config)[0].state_dict()
    apply(state)
    buffer, clock = filled(config, seed=3)
    before, rng_state = buffer.metrics(clock), buffer.rng.bit_generator.state
    with pytest.raises(ValueError, match=message):
        buffer.load_state_dict(state)
    assert buffer.metrics(clock) == before and buffer.rng.bit_generator.state == rng_state


def test_memory_bound_grows_with_capacity_and_covers_what_is_stored():
    buffer, _ = filled(make_config(60))
    assert buffer.nbytes <= ReplayBuffer.memory_bound(60, 6) + 4096
    assert ReplayBuffer.memory_bound(100, 400) == 100 * ReplayBuffer.memory_bound(1, 400)
