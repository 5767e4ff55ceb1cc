"""The optimiser of all small bases: AdamW on a one-cycle schedule, with clipped gradients."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn


class Settings(Protocol):
    """The keys of a recipe that are read here."""

    @property
    def steps(self) -> int:
        """Optimiser steps."""
        ...

    @property
    def learning_rate(self) -> float:
        """Peak of the schedule."""
        ...

    @property
    def weight_decay(self) -> float:
        """AdamW's decoupled weight decay."""
        ...

    @property
    def clip(self) -> float:
        """Largest gradient norm."""
        ...


class OneCycle:
    """Steps a model from the gradients that it has."""

    def __init__(self, model: nn.Module, recipe: Settings) -> None:
        self._model, self._clip = model, recipe.clip
        self._optimizer = torch.optim.AdamW(
            model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.99), weight_decay=recipe.weight_decay
        )
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimizer, recipe.learning_rate, total_steps=recipe.steps
        )

    def step(self) -> None:
        """Clip, step, and forget the gradients."""
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._clip)
        self._optimizer.step()
        self._schedule.step()
        self._optimizer.zero_grad(set_to_none=True)
