"""Packed records: exact both ways, small, and refused rather than lossy."""

import dataclasses
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from freshper.replay.buffer import ReplayBuffer
from freshper.replay.packing import pack, pack_row, record_bound, unpack, unpack_row
from freshper.replay.trajectory import Trajectory
from tests.replay.helpers import assert_same, make_config, make_trajectory

FLOATS = st.floats(width=32, allow_nan=False)
INTS = st.integers(-(2**63), 2**63 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | INTS | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def trajectories(draw):
    tokens, turns = draw(st.integers(0, 40)), draw(st.integers(0, 4))
    largest = draw(st.sampled_from([10, 65_535, 65_536, 2**31 - 1]))
    mask = draw(hnp.arrays(np.bool_, tokens))
    shared = draw(st.booleans())
    advantages = np.full(tokens, draw(FLOATS)) if shared else draw(hnp.arrays(np.float32, tokens, elements=FLOATS))
    rewards = hnp.arrays(np.float32, turns, elements=FLOATS)
    return Trajectory(
        token_ids=draw(hnp.arrays(np.int32, tokens, elements=st.integers(-1, largest))),
        response_mask=mask,
        behaviour_logprobs=np.where(mask, draw(hnp.arrays(np.float32, tokens, elements=FLOATS)), 0).astype(np.float32),
        turn_spans=draw(hnp.arrays(np.int32, (turns, 2))),
        turn_rewards=draw(rewards),
        turn_penalties=draw(rewards),
        advantages=np.where(mask, advantages, 0).astype(np.float32),
        episode_return=draw(st.floats(allow_nan=False)),
        group_id=draw(INTS),
        seed=draw(INTS),
        policy_version=draw(INTS),
        iteration=draw(INTS),
        info=draw(st.dictionaries(st.text(max_size=5), JSON, max_size=4)),
        values=np.where(mask, advantages, 0).astype(np.float32) if draw(st.booleans()) else None,
    )


@settings(max_examples=150, deadline=None)
@given(trajectories())
def test_round_trip_is_exact(trajectory):
    record = pack(trajectory)
    assert_same(trajectory, unpack(record))
    responses = int(trajectory.response_mask.sum())
    bound = record_bound(trajectory.n_tokens, responses, trajectory.n_turns, len(str(trajectory.info).encode()) * 6 + 2)
    assert sys.getsizeof(record) <= bound


@pytest.mark.parametrize("response", [4, 12])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_a_text_episode_of_400_tokens_takes_at_most_4_kib(response, wide, constant):
    rng = np.random.default_rng(0)
    spans = np.array([[50 * i + 50 - response, 50 * i + 50] for i in range(8)], dtype=np.int32)
    mask = np.zeros(400, dtype=np.bool_)
    for start, end in spans:
        mask[start:end] = True
    advantages = np.full(400, 0.7) if constant else rng.normal(size=400)
    trajectory = Trajectory(
        token_ids=rng.integers(0, 150_000 if wide else 32_000, 400).astype(np.int32),
        response_mask=mask,
        behaviour_logprobs=np.where(mask, -rng.random(400), 0).astype(np.float32),
        turn_spans=spans,
        turn_rewards=rng.random(8).astype(np.float32),
        turn_penalties=rng.random(8).astype(np.float32),
        advantages=np.where(mask, advantages, 0).astype(np.float32),
        episode_return=1.0,
        group_id=1,
        seed=2,
        policy_version=3,
        iteration=4,
        info={"success": True, "valid_rate": 0.875, "truncated": False, "env": "frozen_lake", "steps": 8},
    )
    buffer = ReplayBuffer(make_config(capacity=500), rng)
    before = buffer.nbytes + buffer.index.table.nbytes
    buffer.add([trajectory] * 500, None, 0)
    assert (buffer.nbytes + buffer.index.table.nbytes - before) / 500 <= 4096
    assert buffer.nbytes <= ReplayBuffer.memory_bound(500, 400) + sys.getsizeof([])
    held = [record for record in buffer.records if record is not None]
    assert buffer.nbytes == sum(map(sys.getsizeof, held)) + sys.getsizeof(buffer.records)
    assert_same(trajectory, unpack_row(held[-1])[0])


def test_unpacked_arrays_are_writable_and_their_own():
    record = pack(make_trajectory(3))
    unpack(record).token_ids[0] = 99
    assert_same(make_trajectory(3), unpack(record))


@pytest.mark.parametrize("name", ["behaviour_logprobs", "advantages", "values"])
def test_values_at_unsampled_tokens_are_refused(name):
    trajectory = dataclasses.replace(make_trajectory(), values=np.zeros(6, np.float32))
    getattr(trajectory, name)[1] = 0.5
    with pytest.raises(ValueError, match=f"{name} is 0.5 at token 1"):
        pack(trajectory)


def test_other_dtypes_are_refused():
    with pytest.raises(ValueError, match="advantages has dtype float64, expected float32"):
        pack(dataclasses.replace(make_trajectory(), advantages=np.zeros(6)))


@pytest.mark.parametrize("info", [{1: 2}, {"a": (1, 2)}, {"a": [np.float32(1)]}, {"a": {"b": np.arange(2)}}])
def test_info_that_json_would_change_is_refused(info):
    with pytest.raises(TypeError, match="info"):
        pack(dataclasses.replace(make_trajectory(), info=info))


def test_an_integer_of_more_than_64_bits_is_refused():
    with pytest.raises(ValueError, match="at most 64 bits"):
        pack(dataclasses.replace(make_trajectory(), seed=2**64))


@pytest.mark.parametrize("length", [0, 10, 60, 80])
def test_a_record_cut_short_is_refused(length):
    with pytest.raises(ValueError, match="record"):
        unpack(pack(make_trajectory())[:length])


@settings(max_examples=50, deadline=None)
@given(st.lists(trajectories(), min_size=1, max_size=4))
def test_a_row_keeps_its_trajectories_in_order(members):
    found = unpack_row(pack_row(members))
    assert len(found) == len(members)
    for before, after in zip(members, found, strict=True):
        assert_same(before, after)


@pytest.mark.parametrize("length", [0, 3, 6, 40, 130])
def test_a_row_cut_short_is_refused(length):
    with pytest.raises(ValueError, match="row of"):
        unpack_row(pack_row([make_trajectory(), make_trajectory()])[:length])
