"""Losses and their gradients against a plain per-token loop in float64."""

import math

import numpy as np
import pytest
import torch

from freshper.algorithms.losses import kl_estimate, policy_loss, token_coefficients, value_loss
from freshper.config.algorithm import AlgorithmConfig


def loop_loss(logp, behaviour, anchor, advantage, config):
    """The same loss, one token and one branch at a time."""
    ratio = math.exp(logp - anchor)
    bounded = min(max(ratio, 1 - config.clip_low), 1 + config.clip_high)
    value = min(ratio * advantage, bounded * advantage)
    if config.dual_clip is not None and advantage < 0:
        value = max(value, config.dual_clip * advantage)
    if config.ratio_anchor == "proximal":
        value *= min(math.exp(anchor - behaviour), config.behaviour_weight_cap)
    return -value


def tokens(seed, n=200, spread=0.5):
    rng = np.random.default_rng(seed)
    behaviour = torch.tensor(-rng.exponential(1.0, n))
    logp = behaviour + torch.tensor(rng.normal(0, spread, n))
    anchor = behaviour + torch.tensor(rng.normal(0, spread, n))
    return logp.requires_grad_(), behaviour, anchor, torch.tensor(rng.normal(0, 1, n))


@pytest.mark.parametrize("dual_clip", [None, 3.0])
@pytest.mark.parametrize("anchor_name", ["behaviour", "proximal"])
@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradient_equal_a_loop(dual_clip, anchor_name, seed):
    config = AlgorithmConfig(
        dual_clip=dual_clip, ratio_anchor=anchor_name, clip_low=0.1, clip_high=0.3, behaviour_weight_cap=1.5
    )
    logp, behaviour, anchor, advantages = tokens(seed)
    if anchor_name == "behaviour":
        anchor = behaviour
    result = policy_loss(logp, behaviour, anchor, advantages, config)
    rows = list(zip(logp.tolist(), behaviour.tolist(), anchor.tolist(), advantages.tolist(), strict=True))
    expected = [loop_loss(*row, config) for row in rows]
    np.testing.assert_allclose(result.loss.detach(), expected, rtol=1e-12)

    result.loss.sum().backward()
    step = 1e-6
    slopes = [
        (loop_loss(lp + step, *rest, config) - loop_loss(lp - step, *rest, config)) / (2 * step) for lp, *rest in rows
    ]
    np.testing.assert_allclose(logp.grad, slopes, rtol=1e-5, atol=1e-7)


def test_clipped_tokens_are_those_without_gradient():
    logp, behaviour, _, advantages = tokens(7)
    result = policy_loss(logp, behaviour, behaviour, advantages, AlgorithmConfig())
    result.loss.sum().backward()
    assert torch.equal(result.clipped, logp.grad == 0)
    assert result.clipped.any() and not result.clipped.all()


def test_huge_ratios_stay_finite():
    behaviour = torch.tensor([-300.0, -1.0], dtype=torch.float64)
    logp = torch.tensor([-1.0, -300.0], dtype=torch.float64, requires_grad=True)
    result = policy_loss(logp, behaviour, behaviour, torch.tensor([-1.0, 1.0], dtype=torch.float64), AlgorithmConfig())
    assert torch.isfinite(result.loss).all()
    assert result.log_ratio.tolist() == [299.0, -299.0]  # what is reported is not clamped


def test_kl_estimators_agree_with_the_closed_form_in_expectation():
    generator = torch.Generator().manual_seed(0)
    policy, reference = torch.randn(2, 6, generator=generator, dtype=torch.float64).log_softmax(-1)
    exact = (policy.exp() * (policy - reference)).sum()
    estimates = {e: kl_estimate(policy, reference, e) for e in ("k1", "k2", "k3")}
    for name in ("k1", "k3"):  # both are unbiased: their expectation over the policy is the KL itself
        torch.testing.assert_close((policy.exp() * estimates[name]).sum(), exact)
    assert (estimates["k3"] >= 0).all()
    torch.testing.assert_close(estimates["k2"], (policy - reference) ** 2 / 2)


def test_coefficients_average_as_named():
    counts, weights = [1, 3, 4], np.array([1.0, 0.5, 2.0])
    losses = [[2.0], [1.0, 2.0, 3.0], [4.0, 0.0, 0.0, 4.0]]
    totals = {
        name: sum(c * sum(row) for c, row in zip(token_coefficients(counts, weights, name), losses, strict=True))
        for name in ("token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum")
    }
    assert totals["token_mean"] == pytest.approx((2 + 0.5 * 6 + 2 * 8) / 8)
    assert totals["sequence_mean_token_mean"] == pytest.approx((2 + 0.5 * 2 + 2 * 2) / 3)
    assert totals["sequence_mean_token_sum"] == pytest.approx((2 + 0.5 * 6 + 2 * 8) / 3)


@pytest.mark.parametrize("clip", [None, 0.2])
def test_value_loss_and_its_gradient_equal_a_plain_loop(clip):
    generator = torch.Generator().manual_seed(3)
    values, before, returns = torch.randn(3, 200, generator=generator, dtype=torch.float64)
    values = (before + 0.4 * values).requires_grad_()
    loss, held = value_loss(values, before, returns, clip)
    loss.sum().backward()
    for v, old, target, found, slope, was_held in zip(
        values.tolist(), before.tolist(), returns.tolist(), loss.tolist(), values.grad.tolist(), held.tolist(),
        strict=True,
    ):  # fmt: skip
        expected, gradient, stopped = 0.5 * (v - target) ** 2, v - target, False
        if clip is not None and abs(v - old) > clip:
            bounded = old + (clip if v > old else -clip)
            if 0.5 * (bounded - target) ** 2 > expected:
                expected, gradient, stopped = 0.5 * (bounded - target) ** 2, 0.0, True
        assert found == pytest.approx(expected, rel=1e-12)
        assert slope == pytest.approx(gradient, rel=1e-12, abs=1e-12)
        assert was_held is stopped
    assert held.any() == (clip is not None)
