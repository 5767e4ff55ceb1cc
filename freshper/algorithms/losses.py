"""Per-token policy losses and how they add up to the loss of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from freshper.config.algorithm import AlgorithmConfig


@dataclass(frozen=True)
class PolicyLoss:
    """Loss of each token and what it was made of; all [N]."""

    loss: Tensor
    """Clipped surrogate, to be minimised."""
    log_ratio: Tensor
    """log pi - log mu as it is, not clamped, no gradient."""
    clipped: Tensor
    """Bool: the clip removed this token's gradient."""


def policy_loss(
    logprobs: Tensor, behaviour: Tensor, anchor: Tensor, advantages: Tensor, config: AlgorithmConfig
) -> PolicyLoss:
    """PPO's clipped surrogate on the ratio to an anchor policy.

    With `ratio_anchor: behaviour` the anchor is the behaviour policy: the paper's replay loss (section 3.5),
    -min(r A, clip(r, 1 - low, 1 + high) A) with r = pi/mu. With `proximal` (decoupled PPO, arXiv 2110.00641)
    r = pi/pi_prox and the loss is weighted by pi_prox/mu, truncated from above. `dual_clip` c bounds the loss of
    negative advantages by c |A| (arXiv 1912.09729).

    Args:
        logprobs: log pi of sampled tokens, with gradient.
        behaviour: log mu, as sampled.
        anchor: log-probs of the anchor policy; equals `behaviour` for `ratio_anchor: behaviour`.
        advantages: advantage of each token.
        config: clip_low, clip_high, dual_clip, ratio_anchor, behaviour_weight_cap, log_ratio_clamp.
    """
    clamp = config.log_ratio_clamp
    ratio = (logprobs - anchor).clamp(-clamp, clamp).exp()
    bounded = ratio.clamp(1 - config.clip_low, 1 + config.clip_high)
    surrogate = torch.minimum(ratio * advantages, bounded * advantages)
    if config.dual_clip is not None:
        floor = config.dual_clip * advantages
        surrogate = torch.where(advantages < 0, torch.maximum(surrogate, floor), surrogate)
    loss = -surrogate
    if config.ratio_anchor == "proximal":
        weight = (anchor - behaviour).clamp(-clamp, clamp).exp().clamp(max=config.behaviour_weight_cap)
        loss = weight.detach() * loss
    with torch.no_grad():
        outside_up = (ratio > 1 + config.clip_high) & (advantages > 0)
        outside_down = (ratio < 1 - config.clip_low) & (advantages < 0)
        log_ratio = logprobs - behaviour
    return PolicyLoss(loss, log_ratio, outside_up | outside_down)


def value_loss(values: Tensor, before: Tensor, returns: Tensor, clip: float | None) -> tuple[Tensor, Tensor]:
    """Half the squared error of each value, and which ones the clip held back; both [N].

    With a clip, the larger of the losses of V and of V kept within +-clip of the value before the update, as in the
    reference implementation of PPO (arXiv 2005.12729, section 3): a value that has moved further than the clip in the
    right direction earns no more gradient.

    Args:
        values: V of the critic in training, with gradient.
        before: V before the update.
        returns: what V is trained towards.
        clip: `algorithm.critic.value_clip`.
    """
    loss = (values - returns).square() / 2
    if clip is None:
        return loss, torch.zeros_like(loss, dtype=torch.bool)
    bounded = (before + (values - before).clamp(-clip, clip) - returns).square() / 2
    held = ((values - before).abs() > clip) & (bounded > loss)
    return torch.maximum(loss, bounded), held.detach()


def kl_estimate(logprobs: Tensor, reference: Tensor, estimator: str) -> Tensor:
    """Per-token estimate of KL(pi || pi_ref) from tokens of pi (Schulman, "Approximating KL divergence").

    k1 = log pi - log ref (unbiased, signed), k2 = (log pi - log ref)^2 / 2, k3 = ref/pi - 1 - log(ref/pi) (>= 0).
    As a loss they differ: on fresh tokens the gradient of k1 is zero on average and that of k2 is the KL's own.
    """
    difference = reference - logprobs
    if estimator == "k1":
        return -difference
    if estimator == "k2":
        return difference.square() / 2
    return difference.exp() - 1 - difference


def token_coefficients(counts: Sequence[int], weights: NDArray[np.floating], aggregation: str) -> list[float]:
    """Factor of each trajectory's tokens such that the batch loss is the plain sum of factor times token loss.

    Computed over the whole optimiser step, so the loss does not depend on how it is split into micro-batches.

    Args:
        counts: response tokens of each trajectory.
        weights: importance-sampling weight of each trajectory (1 for fresh ones). They multiply the loss; the divisor
            stays the number of tokens or trajectories, as in PER (Schaul et al., 2016).
        aggregation: `token_mean`, `sequence_mean_token_mean` or `sequence_mean_token_sum`.
    """
    if aggregation == "token_mean":
        total = sum(counts)
        return [float(w) / total for w in weights]
    if aggregation == "sequence_mean_token_mean":
        return [float(w) / (len(counts) * count) for w, count in zip(weights, counts, strict=True)]
    return [float(w) / len(counts) for w in weights]
