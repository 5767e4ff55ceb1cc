"""Learning-rate schedules over all optimiser steps of a run."""

from __future__ import annotations

import math

from freshper.config.algorithm import AlgorithmConfig


def learning_rate_factor(step: int, total: int, config: AlgorithmConfig) -> float:
    """Factor on the peak learning rate for optimiser step `step` (0-based) of `total`.

    Linear warm-up, then constant, linear to zero, or half a cosine to zero. Counting replay steps as well keeps the
    curve one descent over the run; counting only fresh ones would make a cosine reach zero early and rise again.
    """
    warmup = min(config.warmup_steps, total)
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if config.schedule == "constant":
        return 1.0
    progress = min(1.0, (step - warmup) / max(1, total - warmup))
    if config.schedule == "linear":
        return 1.0 - progress
    return 0.5 * (1.0 + math.cos(math.pi * progress))
