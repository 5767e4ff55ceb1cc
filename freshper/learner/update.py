"""One pass of policy updates over a batch of trajectories, fresh or replayed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from freshper.algorithms.losses import kl_estimate, policy_loss, token_coefficients
from freshper.config.algorithm import AlgorithmConfig
from freshper.learner.batching import MicroBatch, micro_batches
from freshper.learner.optimizer import DivergedError, Optimizer
from freshper.policy.load import Policy
from freshper.policy.logprobs import token_logprobs
from freshper.replay.trajectory import Trajectory


@dataclass(frozen=True)
class UpdateResult:
    """What an update saw, measured before each of its optimiser steps (the last pass over the batch counts)."""

    metrics: dict[str, float]
    """Means over response tokens unless named otherwise."""
    log_ratio_sum: NDArray[np.float64]
    """[n] per trajectory: sum of log pi - log mu over its response tokens."""
    log_ratio_mean: NDArray[np.float64]
    """[n] per trajectory: mean of log pi - log mu."""
    clip_fraction: NDArray[np.float64]
    """[n] per trajectory: share of response tokens whose gradient the clip removed."""
    steps: int
    """Optimiser steps taken."""


def update(
    policy: Policy,
    reference: Policy | None,
    optimizer: Optimizer,
    trajectories: Sequence[Trajectory],
    weights: NDArray[np.floating],
    config: AlgorithmConfig,
    temperature: float,
    rng: np.random.Generator,
    passes: int,
    parts: int,
) -> UpdateResult:
    """Take `passes` * `parts` optimiser steps on a batch.

    Args:
        policy: model in training.
        reference: policy of the KL penalty, if there is one.
        optimizer: steps and schedules.
        trajectories: batch with frozen advantages.
        weights: [n] importance-sampling weights in the loss.
        config: losses.
        temperature: of sampling.
        rng: splits the batch into parts (unused with one part).
        passes: passes over the batch.
        parts: optimiser steps per pass.

    Raises:
        DivergedError: a non-finite loss or gradient norm; the step is not taken.
    """
    seen = _Seen(len(trajectories), config.log_ratio_clamp)
    anchors = None
    if config.ratio_anchor == "proximal" and passes * parts > 1:
        anchors = _anchor(policy, trajectories, config, temperature)
    for _ in range(passes):
        order = rng.permutation(len(trajectories)) if parts > 1 else np.arange(len(trajectories))
        for rows in np.array_split(order, parts):
            batch = [trajectories[row] for row in rows]
            counts = [int(t.response_mask.sum()) for t in batch]
            coefficients = token_coefficients(counts, weights[rows], config.aggregation)
            loss = 0.0
            for micro in micro_batches(batch, config.micro_batch_tokens, policy.device):
                chosen = None if anchors is None else [anchors[rows[row]] for row in micro.rows]
                loss += _accumulate(policy, reference, micro, coefficients, chosen, config, temperature, seen, rows)
            if not math.isfinite(loss):
                optimizer.discard()
                raise DivergedError(f"the loss of optimiser step {optimizer.steps + 1} is {loss}")
            seen.loss += loss
            seen.step(optimizer.step())
    return seen.result(passes * parts)


def _accumulate(
    policy: Policy,
    reference: Policy | None,
    micro: MicroBatch,
    coefficients: list[float],
    anchors: list[Tensor] | None,
    config: AlgorithmConfig,
    temperature: float,
    seen: _Seen,
    rows: NDArray[np.intp],
) -> float:
    """Add the gradient of one micro-batch; returns its share of the loss."""
    logprobs, entropy = response_logprobs(policy, micro, temperature)
    if config.ratio_anchor == "behaviour":
        anchor = micro.behaviour
    else:  # with a single step the proximal policy is the current one, which needs no pass of its own
        anchor = logprobs.detach() if anchors is None else torch.cat(anchors)
    parts = policy_loss(logprobs, micro.behaviour, anchor, micro.advantages, config)
    per_token = parts.loss - config.entropy_coefficient * entropy
    kl = None
    if reference is not None:
        with torch.no_grad():
            reference_logprobs, _ = response_logprobs(reference, micro, temperature)
        kl = kl_estimate(logprobs, reference_logprobs, config.kl.estimator)
        per_token = per_token + config.kl.coefficient * kl
    factor = torch.tensor([coefficients[row] for row in micro.rows], device=policy.device)[micro.owner]
    loss = (factor * per_token).sum()
    loss.backward()
    seen.tokens(micro, rows, parts.log_ratio, parts.clipped, entropy, kl)
    return loss.item()


def response_logprobs(policy: Policy, micro: MicroBatch, temperature: float) -> tuple[Tensor, Tensor]:
    """log pi and entropy [N] of the response tokens of a micro-batch; logits exist only at those."""
    hidden = policy.hidden(micro.token_ids, use_cache=False)
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


class _Seen:
    """Running sums over an update."""

    def __init__(self, trajectories: int, clamp: float) -> None:
        self.clamp = clamp
        self.count = np.zeros(trajectories)
        self.log_ratio = np.zeros(trajectories)
        self.clipped = np.zeros(trajectories)
        self.sums = {"ratio": 0.0, "entropy": 0.0, "kl_behaviour": 0.0, "kl_reference": 0.0}
        self.total = 0
        self.largest = 0.0
        self.loss = 0.0
        self.norms: list[float] = []

    def tokens(
        self,
        micro: MicroBatch,
        rows: NDArray[np.intp],
        log_ratio: Tensor,
        clipped: Tensor,
        entropy: Tensor,
        kl: Tensor | None,
    ) -> None:
        owner = micro.owner.cpu().numpy()
        index = np.asarray(rows)[np.asarray(micro.rows)]
        ratios = log_ratio.double().cpu().numpy()
        width = len(micro.rows)
        self.count[index] = np.bincount(owner, minlength=width)
        self.log_ratio[index] = np.bincount(owner, weights=ratios, minlength=width)
        self.clipped[index] = np.bincount(owner, weights=clipped.double().cpu().numpy(), minlength=width)
        self.total += len(owner)
        self.largest = max(self.largest, float(np.abs(ratios).max()))
        ratios = ratios.clip(-self.clamp, self.clamp)
        self.sums["ratio"] += float(np.exp(ratios).sum())
        # k3 with the behaviour policy's tokens estimates KL(mu || pi) without being negative.
        self.sums["kl_behaviour"] += float((np.expm1(ratios) - ratios).sum())
        self.sums["entropy"] += float(entropy.detach().sum())
        if kl is not None:
            self.sums["kl_reference"] += float(kl.detach().sum())

    def step(self, norm: float) -> None:
        self.norms.append(norm)

    def result(self, steps: int) -> UpdateResult:
        metrics = {name: value / self.total for name, value in self.sums.items()}
        metrics["ratio_max"] = math.exp(min(self.largest, 700.0))
        metrics["log_ratio_max"] = self.largest
        metrics["clip_fraction"] = float(self.clipped.sum() / self.count.sum())
        metrics["loss"] = self.loss / steps
        metrics["grad_norm"] = float(np.mean(self.norms))
        return UpdateResult(metrics, self.log_ratio, self.log_ratio / self.count, self.clipped / self.count, steps)
