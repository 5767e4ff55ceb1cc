"""Advantages against brute force."""

import numpy as np
import pytest

from freshper.algorithms.advantages import reinforce_pp, rewhiten, turn_returns, whiten, without_advantages
from freshper.config.algorithm import AlgorithmConfig
from tests.learner.trajectories import random_trajectory


@pytest.mark.parametrize("gamma", [0.0, 0.9, 1.0])
def test_returns_to_go_by_definition(gamma):
    rewards = np.random.default_rng(0).normal(size=7)
    expected = [sum(gamma ** (j - k) * rewards[j] for j in range(k, 7)) for k in range(7)]
    np.testing.assert_allclose(turn_returns(rewards, gamma), expected)


def test_reinforce_pp_whitens_over_all_response_tokens():
    rng = np.random.default_rng(1)
    batch = [random_trajectory(rng) for _ in range(9)]
    done = reinforce_pp(batch, AlgorithmConfig(gamma=0.9))
    raw = []
    for t in batch:
        for turn, (start, stop) in enumerate(t.turn_spans):
            reward = t.turn_rewards + t.turn_penalties
            raw += [sum(0.9 ** (j - turn) * reward[j] for j in range(turn, t.n_turns))] * (stop - start)
    raw = np.array(raw)
    found = np.concatenate([t.advantages[t.response_mask] for t in done])
    np.testing.assert_allclose(found, (raw - raw.mean()) / raw.std(), rtol=1e-5, atol=1e-6)
    for before, after in zip(batch, done, strict=True):
        assert not after.advantages[~after.response_mask].any()
        np.testing.assert_array_equal(before.token_ids, after.token_ids)


def test_equal_rewards_give_no_signal_rather_than_noise():
    assert not whiten(np.full(5, 0.1 + 0.2)).any()


def test_advantages_are_clipped_after_whitening():
    rng = np.random.default_rng(2)
    done = reinforce_pp([random_trajectory(rng) for _ in range(9)], AlgorithmConfig(advantage_clip=0.2))
    values = np.concatenate([t.advantages for t in done])
    assert values.max() == pytest.approx(0.2) and values.min() == pytest.approx(-0.2)


def test_rewhitening_and_placebo_change_only_advantages():
    rng = np.random.default_rng(3)
    batch = [random_trajectory(rng) for _ in range(5)]
    flat = np.concatenate([t.advantages[t.response_mask] for t in rewhiten(batch)])
    assert flat.mean() == pytest.approx(0, abs=1e-6) and flat.std() == pytest.approx(1, rel=1e-5)
    assert not any(t.advantages.any() for t in without_advantages(batch))
    assert all(t.advantages.any() for t in batch)
