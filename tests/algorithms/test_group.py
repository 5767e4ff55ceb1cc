"""Group-relative advantages against plain arithmetic."""

import dataclasses
import statistics

import numpy as np
import pytest

from freshper.algorithms.group import groups, grpo, has_variance, relative
from freshper.config.algorithm import AlgorithmConfig, GroupConfig
from tests.learner.trajectories import random_trajectory


def batch(seed=0, count=5, size=4):
    rng = np.random.default_rng(seed)
    rows = [random_trajectory(rng) for _ in range(count * size)]
    return [dataclasses.replace(t, group_id=k // size) for k, t in enumerate(rows)]


@pytest.mark.parametrize("divide", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_every_token_gets_the_return_relative_to_its_group(divide, seed):
    rows = batch(seed)
    done = grpo(rows, AlgorithmConfig(name="grpo", whiten=False, group=GroupConfig(divide_by_std=divide)))
    for before, after in zip(rows, done, strict=True):
        members = [t for t in rows if t.group_id == before.group_id]
        totals = [sum(map(float, t.turn_rewards)) + sum(map(float, t.turn_penalties)) for t in members]
        mine = sum(map(float, before.turn_rewards)) + sum(map(float, before.turn_penalties))
        expected = mine - statistics.mean(totals)
        if divide:
            spread = statistics.stdev(totals)
            expected = expected / spread if spread > 1e-8 else 0.0
        np.testing.assert_allclose(after.advantages[after.response_mask], expected, rtol=1e-6, atol=1e-6)
        assert not after.advantages[~after.response_mask].any()
        assert after.info["group_mean"] == pytest.approx(statistics.mean(totals))
        assert after.info["group_std"] == pytest.approx(statistics.stdev(totals))


def test_a_group_of_equal_returns_has_no_signal():
    assert not relative(np.full(4, 0.1 + 0.2), True).any()
    rng = np.random.default_rng(0)
    won = [dataclasses.replace(random_trajectory(rng, turns=2, success=1), turn_penalties=np.zeros(2, "f4"))] * 3
    assert not has_variance(won)
    lost = dataclasses.replace(random_trajectory(rng, turns=2, success=0), turn_penalties=np.zeros(2, "f4"))
    assert has_variance([*won, lost])


def test_groups_are_neighbours_with_one_id():
    assert [[t.group_id for t in members] for members in groups(batch(size=3, count=2))] == [[0, 0, 0], [1, 1, 1]]


def test_whitening_and_clipping_come_after_the_group():
    rows = batch(3)
    plain = grpo(rows, AlgorithmConfig(name="grpo", whiten=False))
    done = grpo(rows, AlgorithmConfig(name="grpo", whiten=True, advantage_clip=0.5))
    raw = np.concatenate([t.advantages[t.response_mask] for t in plain]).astype(np.float64)
    expected = ((raw - raw.mean()) / raw.std()).clip(-0.5, 0.5)
    found = np.concatenate([t.advantages[t.response_mask] for t in done])
    np.testing.assert_allclose(found, expected, atol=1e-5)
