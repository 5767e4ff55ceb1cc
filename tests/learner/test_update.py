"""Update steps: exact under any micro-batching, ratio one on fresh data, safe when something is not finite."""

import copy
import dataclasses

import numpy as np
import pytest
import torch

from freshper.config.algorithm import AlgorithmConfig, KLConfig
from freshper.learner.batching import micro_batches
from freshper.learner.optimizer import DivergedError, Norms, Optimizer
from freshper.learner.update import Batch, Models, response_logprobs, update
from tests.learner.trajectories import random_trajectory
from tests.models import random_policy


def batch(policy, count=10, seed=0, temperature=1.0):
    """Random trajectories whose behaviour log-probs are the policy's own."""
    rng = np.random.default_rng(seed)
    rows = [random_trajectory(rng, vocabulary=400) for _ in range(count)]
    for micro in micro_batches(rows, 4096, policy.device):
        with torch.no_grad():
            logprobs, _ = response_logprobs(policy, micro, temperature)
        for place, row in enumerate(micro.rows):
            values = np.zeros(rows[row].n_tokens, dtype=np.float32)
            values[rows[row].response_mask] = logprobs[micro.owner == place].numpy()
            rows[row] = dataclasses.replace(rows[row], behaviour_logprobs=values)
    return rows


def run(policy, rows, config, weights=None, passes=1, parts=1, reference=None, optimizer=None):
    weights = np.ones(len(rows)) if weights is None else weights
    optimizer = optimizer or Optimizer(policy, config, 100)
    rng = np.random.default_rng(0)
    return update(Models(policy, reference), optimizer, Batch(rows, weights), config, 1.0, rng, passes, parts)


def gradient_of(policy, rows, config, weights=None):
    """Gradient of one step, caught before the optimiser sees it."""
    caught = {}

    class Catch(Optimizer):
        def step(self):
            caught["gradient"] = torch.cat([p.grad.flatten() for p in self.weights if p.grad is not None])
            self.discard()
            self.steps += 1
            return Norms(1.0, 0.0)

    result = run(policy, rows, config, weights, optimizer=Catch(policy, config, 100))
    return caught["gradient"], result


@pytest.mark.parametrize("aggregation", ["token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum"])
def test_gradient_does_not_depend_on_micro_batches(aggregation):
    policy = random_policy()
    policy.model.double()
    rows = batch(policy)
    weights = np.random.default_rng(1).random(len(rows))
    whole, one = gradient_of(policy, rows, AlgorithmConfig(aggregation=aggregation, entropy_coefficient=0.1), weights)
    config = AlgorithmConfig(aggregation=aggregation, entropy_coefficient=0.1, micro_batch_tokens=1)
    split, many = gradient_of(policy, rows, config, weights)
    torch.testing.assert_close(whole, split, rtol=1e-8, atol=1e-10)
    assert one.metrics["loss"] == pytest.approx(many.metrics["loss"])


def test_gradient_equals_a_plain_loop_over_tokens():
    policy = random_policy()
    policy.model.double()
    rows = batch(policy, 4)
    found, _ = gradient_of(policy, rows, AlgorithmConfig())
    total = sum(int(t.response_mask.sum()) for t in rows)
    loss = torch.zeros((), dtype=torch.float64)
    for t in rows:
        logits = policy.model(torch.tensor(t.token_ids[None].astype(np.int64))).logits[0]
        logp = logits.log_softmax(-1)
        for k in np.flatnonzero(t.response_mask):
            # On data of the current policy the clipped surrogate has the gradient of -A * log pi.
            loss = loss - float(t.advantages[k]) * logp[k - 1, int(t.token_ids[k])] / total
    policy.model.zero_grad()
    loss.backward()
    expected = torch.cat([p.grad.flatten() for p in policy.model.parameters()])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)  # behaviour log-probs are stored in float32


def test_ratio_is_one_on_fresh_data_and_leaves_one_after_a_step():
    policy = random_policy()
    rows, config = batch(policy), AlgorithmConfig(learning_rate=3e-3, warmup_steps=0)
    first = run(policy, rows, config)
    assert first.metrics["ratio"] == pytest.approx(1, abs=1e-4)
    assert first.metrics["log_ratio_max"] < 1e-4 and first.metrics["clip_fraction"] == 0
    second = run(policy, rows, config)
    assert second.metrics["log_ratio_max"] > 1e-2
    assert second.metrics["kl_behaviour"] > 0


def test_sampling_weights_scale_the_loss():
    policy = random_policy()
    rows = batch(policy)
    full, _ = gradient_of(policy, rows, AlgorithmConfig())
    half, _ = gradient_of(policy, rows, AlgorithmConfig(), np.full(len(rows), 0.5))
    torch.testing.assert_close(full / 2, half)


def test_passes_and_parts_count_as_optimiser_steps():
    policy = random_policy()
    config = AlgorithmConfig()
    optimizer = Optimizer(policy, config, 100)
    result = run(policy, batch(policy), config, passes=3, parts=2, optimizer=optimizer)
    assert result.steps == optimizer.steps == 6


def test_decoupled_loss_weighs_by_the_truncated_behaviour_ratio():
    policy = random_policy()
    rows = batch(policy)
    lower = [np.where(t.response_mask, t.behaviour_logprobs - 1, 0).astype("f4") for t in rows]
    moved = [dataclasses.replace(t, behaviour_logprobs=values) for t, values in zip(rows, lower, strict=True)]
    plain, _ = gradient_of(policy, rows, AlgorithmConfig())
    decoupled, _ = gradient_of(policy, moved, AlgorithmConfig(ratio_anchor="proximal", behaviour_weight_cap=2.0))
    torch.testing.assert_close(decoupled, 2 * plain, rtol=1e-3, atol=1e-6)  # e truncated to 2, ratio to pi_prox is one
    stepped = run(policy, moved, AlgorithmConfig(ratio_anchor="proximal"), passes=2)
    assert stepped.steps == 2


def test_kl_pulls_towards_the_reference():
    policy, reference = random_policy(0), random_policy(1)
    rows = [dataclasses.replace(t, advantages=np.zeros_like(t.advantages)) for t in batch(policy)]
    config = AlgorithmConfig(kl=KLConfig(coefficient=1.0), learning_rate=3e-3, warmup_steps=0)
    first = run(policy, rows, config, reference=reference)
    for _ in range(10):
        last = run(policy, rows, config, reference=reference)
    assert 0 < last.metrics["kl_reference"] < first.metrics["kl_reference"]


def test_a_non_finite_loss_changes_nothing():
    policy = random_policy()
    rows = batch(policy)
    rows[0] = dataclasses.replace(rows[0], advantages=np.where(rows[0].response_mask, np.nan, 0).astype("f4"))
    before = copy.deepcopy(policy.model.state_dict())
    with pytest.raises(DivergedError, match="optimiser step 1 is nan"):
        run(policy, rows, AlgorithmConfig())
    for name, value in policy.model.state_dict().items():
        assert torch.equal(value, before[name])
    assert all(p.grad is None for p in policy.model.parameters())


def test_gradient_checkpointing_recomputes_and_changes_nothing():
    policy = random_policy()
    rows = batch(policy)
    plain, _ = gradient_of(policy, rows, AlgorithmConfig())
    policy.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    policy.checkpointing = True
    calls = []
    policy.model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    recomputed, _ = gradient_of(policy, rows, AlgorithmConfig(micro_batch_tokens=100_000))
    torch.testing.assert_close(plain, recomputed)
    assert len(calls) == 2  # once forward, once more in the backward pass
