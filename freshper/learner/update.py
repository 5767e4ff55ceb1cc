"""Optimiser steps on a batch of trajectories, fresh or replayed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from freshper.algorithms.gae import Estimate
from freshper.algorithms.losses import kl_estimate, policy_loss, token_coefficients, value_loss
from freshper.config.algorithm import AlgorithmConfig
from freshper.learner.batching import MicroBatch, micro_batches, response_arrays
from freshper.learner.optimizer import DivergedError, Optimizer
from freshper.learner.update_stats import UpdateResult, UpdateStats
from freshper.policy.critic import Critic
from freshper.policy.load import Policy
from freshper.policy.logprobs import token_logprobs
from freshper.policy.vision_inputs import VisionInputs
from freshper.replay.trajectory import Trajectory


@dataclass(frozen=True)
class Models:
    """The networks of a run."""

    policy: Policy
    """Model in training."""
    reference: Policy | None = None
    """Policy of the KL penalty, if there is one."""
    critic: Critic | None = None
    """Value function, if the algorithm has one."""


@dataclass(frozen=True)
class Batch:
    """What an update trains on; n trajectories."""

    trajectories: Sequence[Trajectory]
    """[n] with advantages."""
    weights: NDArray[np.floating]
    """[n] importance-sampling weights in the loss."""
    estimates: Sequence[Estimate] | None = None
    """[n] targets of the critic; None leaves the critic alone."""


@dataclass(frozen=True)
class _Step:
    """One optimiser step's share of a batch."""

    rows: NDArray[np.intp]
    """Its trajectories."""
    policy_factors: list[float]
    """Factor of each trajectory's policy loss, per token."""
    value_factors: list[float]
    """Factor of each trajectory's value loss, per trained value; empty without a critic."""


def update(
    models: Models,
    optimizer: Optimizer,
    batch: Batch,
    config: AlgorithmConfig,
    temperature: float,
    rng: np.random.Generator,
    passes: int,
    parts: int,
) -> UpdateResult:
    """Take `passes` * `parts` optimiser steps on a batch.

    Args:
        models: policy in training, reference policy, critic in training.
        optimizer: steps and schedules.
        batch: trajectories with advantages, weights, targets of the critic.
        config: losses.
        temperature: of sampling.
        rng: splits the batch into parts (unused with one part).
        passes: passes over the batch.
        parts: optimiser steps per pass.

    Raises:
        DivergedError: a non-finite loss or gradient norm; the step is not taken.
    """
    trajectories = batch.trajectories
    stats = UpdateStats(len(trajectories), config.log_ratio_clamp)
    anchors = None
    if config.ratio_anchor == "proximal" and passes * parts > 1:
        anchors = _anchor(models.policy, trajectories, config, temperature)
    for _ in range(passes):
        order = rng.permutation(len(trajectories)) if parts > 1 else np.arange(len(trajectories))
        for rows in np.array_split(order, parts):
            step = _step(batch, rows, config)
            loss = 0.0
            for micro in micro_batches(
                [trajectories[row] for row in rows], config.micro_batch_tokens, models.policy.device
            ):
                loss += _accumulate(models, batch, step, micro, anchors, config, temperature, stats)
            if not math.isfinite(loss):
                optimizer.discard()
                raise DivergedError(f"the loss of optimiser step {optimizer.steps + 1} is {loss}")
            stats.loss += loss
            stats.step(optimizer.step())
    return stats.result()


def _step(batch: Batch, rows: NDArray[np.intp], config: AlgorithmConfig) -> _Step:
    weights = batch.weights[rows]
    counts = [int(batch.trajectories[row].response_mask.sum()) for row in rows]
    value_factors: list[float] = []
    if batch.estimates is not None:
        trained = [int(batch.estimates[row].trained.sum()) for row in rows]
        value_factors = token_coefficients(trained, weights, config.aggregation)
    return _Step(rows, token_coefficients(counts, weights, config.aggregation), value_factors)


def _accumulate(
    models: Models,
    batch: Batch,
    step: _Step,
    micro: MicroBatch,
    anchors: list[Tensor] | None,
    config: AlgorithmConfig,
    temperature: float,
    stats: UpdateStats,
) -> float:
    """Add the gradient of one micro-batch; returns its share of the loss."""
    members = [int(step.rows[row]) for row in micro.rows]
    vision = models.policy.look(micro.token_ids, micro.images)
    hidden = models.policy.hidden(micro.token_ids, vision, use_cache=False)
    logprobs, entropy = _logprobs(models.policy, hidden, micro, temperature)
    if config.ratio_anchor == "behaviour":
        anchor = micro.behaviour
    else:  # with a single step the proximal policy is the current one, which needs no pass of its own
        anchor = logprobs.detach() if anchors is None else torch.cat([anchors[row] for row in members])
    parts = policy_loss(logprobs, micro.behaviour, anchor, micro.advantages, config)
    per_token = parts.loss - config.entropy_coefficient * entropy
    kl = None
    if models.reference is not None:
        with torch.no_grad():
            reference_logprobs, _ = response_logprobs(models.reference, micro, temperature)
        kl = kl_estimate(logprobs, reference_logprobs, config.kl.estimator)
        per_token = per_token + config.kl.coefficient * kl
    loss = (_factors(step.policy_factors, micro, per_token.dtype) * per_token).sum()
    if batch.estimates is not None:
        assert models.critic is not None
        estimates = [batch.estimates[row] for row in members]
        loss = loss + _value_loss(models.critic, hidden, vision, micro, estimates, step, config, stats)
    loss.backward()
    stats.tokens(micro, step.rows, parts.log_ratio, parts.clipped, entropy, kl)
    return loss.item()


def _value_loss(
    critic: Critic,
    hidden: Tensor,
    vision: VisionInputs | None,
    micro: MicroBatch,
    estimates: Sequence[Estimate],
    step: _Step,
    config: AlgorithmConfig,
    stats: UpdateStats,
) -> Tensor:
    chosen = response_arrays([e.trained for e in estimates], micro, torch.bool)
    values = critic.values(hidden, micro.token_ids, micro.states[chosen], vision)
    before = response_arrays([e.values for e in estimates], micro, values.dtype)[chosen]
    returns = response_arrays([e.returns for e in estimates], micro, values.dtype)[chosen]
    loss, held = value_loss(values, before, returns, config.critic.value_clip)
    stats.values(values, returns, loss, held)
    return config.critic.coefficient * (_factors(step.value_factors, micro, loss.dtype)[chosen] * loss).sum()


def _factors(per_trajectory: list[float], micro: MicroBatch, dtype: torch.dtype) -> Tensor:
    """[N] the factor of each response token's trajectory."""
    chosen = torch.tensor([per_trajectory[row] for row in micro.rows], dtype=dtype, device=micro.owner.device)
    return chosen[micro.owner]


def response_logprobs(policy: Policy, micro: MicroBatch, temperature: float) -> tuple[Tensor, Tensor]:
    """log pi and entropy [N] of the response tokens of a micro-batch; logits exist only at those."""
    vision = policy.look(micro.token_ids, micro.images)
    return _logprobs(policy, policy.hidden(micro.token_ids, vision, use_cache=False), micro, temperature)


def _logprobs(policy: Policy, hidden: Tensor, micro: MicroBatch, temperature: float) -> tuple[Tensor, Tensor]:
    return token_logprobs(policy, hidden.flatten(0, 1)[micro.states], micro.targets, temperature)


@torch.no_grad()
def _anchor(
    policy: Policy, trajectories: Sequence[Trajectory], config: AlgorithmConfig, temperature: float
) -> list[Tensor]:
    """Log-probs of every trajectory's response tokens under the policy before the update."""
    found: list[Tensor] = [torch.empty(0)] * len(trajectories)
    for micro in micro_batches(trajectories, config.micro_batch_tokens, policy.device):
        logprobs, _ = response_logprobs(policy, micro, temperature)
        for place, row in enumerate(micro.rows):
            found[row] = logprobs[micro.owner == place]
    return found


@torch.no_grad()
def critic_values(
    models: Models, trajectories: Sequence[Trajectory], config: AlgorithmConfig
) -> list[NDArray[np.float64]]:
    """Per trajectory [R]: the critic's present value of the state before each response token."""
    assert models.critic is not None
    found: list[NDArray[np.float64]] = [np.zeros(0)] * len(trajectories)
    for micro in micro_batches(trajectories, config.micro_batch_tokens, models.policy.device):
        hidden, vision = None, models.policy.look(micro.token_ids, micro.images)
        if models.critic.trunk is None:
            hidden = models.policy.hidden(micro.token_ids, vision, use_cache=False)
        values = models.critic.values(hidden, micro.token_ids, micro.states, vision).double().cpu().numpy()
        owner = micro.owner.cpu().numpy()
        for place, row in enumerate(micro.rows):
            found[row] = values[owner == place]
    return found
