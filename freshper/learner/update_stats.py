"""What an update saw: sums over response tokens and statistics of each trajectory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from freshper.learner.batching import MicroBatch
from freshper.learner.optimizer import Norms


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
    entropy: NDArray[np.float64]
    """[n] per trajectory: mean entropy of the policy at its response tokens, nats."""
    steps: int
    """Optimiser steps taken."""


class UpdateStats:
    """Running sums over an update."""

    def __init__(self, trajectories: int, clamp: float) -> None:
        """
        Args:
            trajectories: n of the batch.
            clamp: `algorithm.log_ratio_clamp`, for the mean ratio.
        """
        self.clamp = clamp
        self.count = np.zeros(trajectories)
        self.log_ratio = np.zeros(trajectories)
        self.clipped = np.zeros(trajectories)
        self.entropy = np.zeros(trajectories)
        self.sums = {"ratio": 0.0, "entropy": 0.0, "kl_behaviour": 0.0}
        self.total = 0
        self.largest = 0.0
        self.loss = 0.0
        self.norms: list[Norms] = []
        self.critic = _CriticSums()

    def tokens(
        self,
        micro: MicroBatch,
        rows: NDArray[np.intp],
        log_ratio: Tensor,
        clipped: Tensor,
        entropy: Tensor,
        kl: Tensor | None,
    ) -> None:
        """Count the response tokens of a micro-batch; `rows` are the batch's trajectories in this optimiser step."""
        owner = micro.owner.cpu().numpy()
        index = np.asarray(rows)[np.asarray(micro.rows)]
        ratios = log_ratio.double().cpu().numpy()
        entropies = entropy.detach().double().cpu().numpy()
        width = len(micro.rows)
        self.count[index] = np.bincount(owner, minlength=width)
        self.log_ratio[index] = np.bincount(owner, weights=ratios, minlength=width)
        self.clipped[index] = np.bincount(owner, weights=clipped.double().cpu().numpy(), minlength=width)
        self.entropy[index] = np.bincount(owner, weights=entropies, minlength=width)
        self.total += len(owner)
        self.largest = max(self.largest, float(np.abs(ratios).max()))
        ratios = ratios.clip(-self.clamp, self.clamp)
        self.sums["ratio"] += float(np.exp(ratios).sum())
        # k3 with the behaviour policy's tokens estimates KL(mu || pi) without being negative.
        self.sums["kl_behaviour"] += float((np.expm1(ratios) - ratios).sum())
        self.sums["entropy"] += float(entropies.sum())
        if kl is not None:
            self.sums["kl_reference"] = self.sums.get("kl_reference", 0.0) + float(kl.detach().sum())

    def values(self, values: Tensor, returns: Tensor, loss: Tensor, held: Tensor) -> None:
        """Count the values that a micro-batch trained."""
        self.critic.add(values.detach(), returns, loss.detach(), held)

    def step(self, norms: Norms) -> None:
        """Count an optimiser step."""
        self.norms.append(norms)

    def result(self) -> UpdateResult:
        """The statistics."""
        steps = len(self.norms)
        metrics = {name: value / self.total for name, value in self.sums.items()}
        metrics["ratio_max"] = math.exp(min(self.largest, 700.0))
        metrics["log_ratio_max"] = self.largest
        metrics["clip_fraction"] = float(self.clipped.sum() / self.count.sum())
        metrics["loss"] = self.loss / steps
        metrics["grad_norm"] = float(np.mean([norms.policy for norms in self.norms]))
        if self.critic.count:
            metrics |= self.critic.metrics()
            metrics["critic_grad_norm"] = float(np.mean([norms.critic for norms in self.norms]))
        count = self.count
        return UpdateResult(
            metrics, self.log_ratio, self.log_ratio / count, self.clipped / count, self.entropy / count, steps
        )


class _CriticSums:
    """Sums for value loss, value mean and explained variance."""

    def __init__(self) -> None:
        self.count = 0
        self.loss = self.held = self.value = self.returns = self.squares = self.error = self.error_squares = 0.0

    def add(self, values: Tensor, returns: Tensor, loss: Tensor, held: Tensor) -> None:
        error = (returns - values).double()
        self.count += len(values)
        self.loss += float(loss.sum())
        self.held += float(held.sum())
        self.value += float(values.sum())
        self.returns += float(returns.double().sum())
        self.squares += float(returns.double().square().sum())
        self.error += float(error.sum())
        self.error_squares += float(error.square().sum())

    def metrics(self) -> dict[str, float]:
        """`explained_variance` is 1 - Var(returns - values) / Var(returns); 0 where the returns do not vary."""
        spread = self.squares / self.count - (self.returns / self.count) ** 2
        unexplained = self.error_squares / self.count - (self.error / self.count) ** 2
        return {
            "value": self.value / self.count,
            "value_loss": self.loss / self.count,
            "value_clip_fraction": self.held / self.count,
            "explained_variance": 1 - unexplained / spread if spread > 1e-12 else 0.0,
        }
