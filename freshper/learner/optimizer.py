"""AdamW with gradient clipping and a learning rate that counts every optimiser step, fresh and replayed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from freshper.algorithms.schedule import learning_rate_factor
from freshper.config.algorithm import AlgorithmConfig
from freshper.policy.critic import Critic
from freshper.policy.load import Policy


class DivergedError(RuntimeError):
    """The loss or its gradient is not finite; nothing was applied."""


class Norms(NamedTuple):
    """Gradient norms of an optimiser step, before clipping."""

    policy: float
    """Of the policy's weights; with a shared trunk the value loss is part of them."""
    critic: float
    """Of the value head and a separate trunk; 0 without a critic."""


class Optimizer:
    """The only place that changes weights. Policy and critic have a learning rate and a gradient clip each."""

    def __init__(self, policy: Policy, config: AlgorithmConfig, total_steps: int, critic: Critic | None = None) -> None:
        """
        Args:
            policy: model in training.
            config: learning rates, schedule, betas, weight decay, clipping.
            total_steps: optimiser steps of the whole run, which the schedule spans.
            critic: value function in training, if there is one.
        """
        self.config, self.total_steps, self.steps = config, total_steps, 0
        self.weights = [p for p in policy.model.parameters() if p.requires_grad]
        self.critic_weights = [] if critic is None else list(critic.parameters())
        groups = [{"params": self.weights, "peak": config.learning_rate}]
        if self.critic_weights:
            groups.append({"params": self.critic_weights, "peak": config.critic.learning_rate})
        self.adam = torch.optim.AdamW(
            groups,
            lr=config.learning_rate,
            betas=config.betas,
            weight_decay=config.weight_decay,
            foreach=True,
        )

    @property
    def learning_rate(self) -> float:
        """Learning rate of the policy at the next step."""
        return self.config.learning_rate * self._factor

    @property
    def _factor(self) -> float:
        return learning_rate_factor(self.steps, self.total_steps, self.config)

    def step(self) -> Norms:
        """Apply the accumulated gradient; returns its norms before clipping.

        Raises:
            DivergedError: a norm is not finite; the weights are left as they were.
        """
        norms = Norms(self._clip(self.weights), self._clip(self.critic_weights))
        if not all(map(math.isfinite, norms)):
            self.discard()
            raise DivergedError(
                f"the gradient norm of optimiser step {self.steps + 1} is {norms.policy} (critic {norms.critic})"
            )
        for group in self.adam.param_groups:
            group["lr"] = group["peak"] * self._factor
        self.adam.step()
        self.steps += 1
        self.discard()
        return norms

    def _clip(self, weights: Sequence[nn.Parameter]) -> float:
        return float(torch.nn.utils.clip_grad_norm_(weights, self.config.max_grad_norm))

    def discard(self) -> None:
        """Forget the accumulated gradient."""
        self.adam.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """Adam's moments and the step count."""
        return {"adam": self.adam.state_dict(), "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what :meth:`state_dict` gave."""
        self.adam.load_state_dict(state["adam"])
        self.steps = int(state["steps"])
