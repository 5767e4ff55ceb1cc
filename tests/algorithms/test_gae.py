"""Advantage estimation against sums written out from the definition, on random ragged conversations."""

import numpy as np
import pytest

from freshper.algorithms.gae import estimate, ppo, reestimated
from freshper.config.algorithm import AlgorithmConfig
from tests.learner.trajectories import random_trajectory


def by_definition(rewards, values, discounts, trace):
    """A_t = sum over l of (prod of discounts and lambda up to l) * delta_(t+l), each sum started anew."""
    n = len(values)
    after = [*values[1:], 0.0]
    deltas = [rewards[t] + discounts[t] * after[t] - values[t] for t in range(n)]
    advantages = []
    for t in range(n):
        total, factor = 0.0, 1.0
        for step in range(t, n):
            total += factor * deltas[step]
            factor *= discounts[step] * trace
        advantages.append(total)
    return deltas, advantages


def case(seed):
    rng = np.random.default_rng(seed)
    trajectory = random_trajectory(rng, turns=1 + seed % 4)
    return trajectory, rng.normal(size=int(trajectory.response_mask.sum()))


@pytest.mark.parametrize("per", ["turn", "token"])
@pytest.mark.parametrize(("gamma", "trace"), [(1.0, 1.0), (1.0, 0.95), (0.9, 0.8), (0.0, 0.5), (0.7, 0.0)])
@pytest.mark.parametrize("seed", range(4))
def test_over_tokens(seed, gamma, trace, per):
    trajectory, values = case(seed)
    rewards, discounts = [], []
    for turn, (start, stop) in enumerate(trajectory.turn_spans.tolist()):
        width = stop - start
        reward = float(trajectory.turn_rewards[turn]) + float(trajectory.turn_penalties[turn])
        rewards += [0.0] * (width - 1) + [reward]
        discounts += [gamma if per == "token" else 1.0] * (width - 1) + [gamma]
    deltas, advantages = by_definition(rewards, values.tolist(), discounts, trace)
    config = AlgorithmConfig(name="ppo", gamma=gamma, gae_lambda=trace, discount_per=per)
    found = estimate(trajectory, values, config)
    np.testing.assert_allclose(found.td_errors, deltas, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.advantages, advantages, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.returns, np.add(advantages, values), rtol=1e-12, atol=1e-12)
    assert found.trained.all()


@pytest.mark.parametrize(("gamma", "trace"), [(1.0, 1.0), (0.9, 0.8), (0.0, 0.5)])
@pytest.mark.parametrize("seed", range(4))
def test_over_turns(seed, gamma, trace):
    trajectory, values = case(seed)
    widths = np.diff(trajectory.turn_spans)[:, 0]
    first = np.cumsum(widths) - widths
    rewards = (trajectory.turn_rewards.astype(float) + trajectory.turn_penalties).tolist()
    deltas, advantages = by_definition(rewards, values[first].tolist(), [gamma] * len(rewards), trace)
    config = AlgorithmConfig(name="ppo", gamma=gamma, gae_lambda=trace, gae_over="turns")
    found = estimate(trajectory, values, config)
    np.testing.assert_allclose(found.advantages, np.repeat(advantages, widths), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.td_errors, np.repeat(deltas, widths), rtol=1e-12, atol=1e-12)
    assert np.flatnonzero(found.trained).tolist() == first.tolist()
    np.testing.assert_allclose(found.returns[first], np.add(advantages, values[first]), rtol=1e-12, atol=1e-12)


def test_full_trace_is_the_return_minus_the_value():
    trajectory, values = case(3)
    found = estimate(trajectory, values, AlgorithmConfig(name="ppo", gae_lambda=1.0))
    rewards = trajectory.turn_rewards.astype(float) + trajectory.turn_penalties
    to_go = np.repeat(rewards[::-1].cumsum()[::-1], np.diff(trajectory.turn_spans)[:, 0])
    np.testing.assert_allclose(found.returns, to_go)


def test_a_fresh_batch_keeps_values_and_the_scale_of_its_whitening():
    rng = np.random.default_rng(0)
    rows = [random_trajectory(rng) for _ in range(6)]
    values = [rng.normal(size=int(t.response_mask.sum())) for t in rows]
    config = AlgorithmConfig(name="ppo", advantage_clip=1.5)
    done, estimates = ppo(rows, values, config)
    raw = np.concatenate([e.advantages for e in estimates])
    found = np.concatenate([t.advantages[t.response_mask] for t in done])
    np.testing.assert_allclose(found, ((raw - raw.mean()) / raw.std()).clip(-1.5, 1.5), atol=1e-5)
    for trajectory, value in zip(done, values, strict=True):
        assert trajectory.values is not None
        np.testing.assert_allclose(trajectory.values[trajectory.response_mask], value, rtol=1e-6)
        assert not trajectory.values[~trajectory.response_mask].any()
    # A critic that says the same as at collection gives the same advantages, whatever rows are replayed together.
    part = reestimated(done[1:4], estimates[1:4], config)
    for before, after in zip(done[1:4], part, strict=True):
        np.testing.assert_array_equal(before.advantages, after.advantages)
