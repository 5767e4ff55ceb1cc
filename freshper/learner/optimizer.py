"""AdamW with gradient clipping and a learning rate that counts every optimiser step, fresh and replayed."""

from __future__ import annotations

import math
from typing import Any

import torch

from freshper.algorithms.schedule import learning_rate_factor
from freshper.config.algorithm import AlgorithmConfig
from freshper.policy.load import Policy


class DivergedError(RuntimeError):
    """The loss or its gradient is not finite; nothing was applied."""


class Optimizer:
    """The only place that changes weights."""

    def __init__(self, policy: Policy, config: AlgorithmConfig, total_steps: int) -> None:
        """
        Args:
            policy: model in training.
            config: learning rate, schedule, betas, weight decay, clipping.
            total_steps: optimiser steps of the whole run, which the schedule spans.
        """
        self.config, self.total_steps, self.steps = config, total_steps, 0
        self.weights = [p for p in policy.model.parameters() if p.requires_grad]
        self.adam = torch.optim.AdamW(
            self.weights,
            lr=config.learning_rate,
            betas=config.betas,
            weight_decay=config.weight_decay,
            foreach=True,
        )

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next step."""
        return self.config.learning_rate * learning_rate_factor(self.steps, self.total_steps, self.config)

    def step(self) -> float:
        """Apply the accumulated gradient; returns its norm before clipping.

        Raises:
            DivergedError: the norm is not finite; the weights are left as they were.
        """
        norm = float(torch.nn.utils.clip_grad_norm_(self.weights, self.config.max_grad_norm))
        if not math.isfinite(norm):
            self.discard()
            raise DivergedError(f"the gradient norm of optimiser step {self.steps + 1} is {norm}")
        for group in self.adam.param_groups:
            group["lr"] = self.learning_rate
        self.adam.step()
        self.steps += 1
        self.discard()
        return norm

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
