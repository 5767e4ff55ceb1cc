"""Detect runs that can teach nothing any more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from freshper.config.run import DiagnosticsConfig
from freshper.replay.trajectory import Trajectory


class DeadRunError(RuntimeError):
    """No learning signal for a long time; going on would only burn compute."""


class DeadRunDetector:
    """Counts consecutive iterations without signal: all advantages of the fresh batch are zero."""

    def __init__(self, config: DiagnosticsConfig) -> None:
        self.limit = config.dead_after
        self.silent = 0

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Look at one fresh batch with its advantages.

        Raises:
            DeadRunError: `diagnostics.dead_after` iterations in a row had no signal.
        """
        signal = any(np.any(t.advantages) for t in trajectories)
        self.silent = 0 if signal else self.silent + 1
        if self.limit and self.silent >= self.limit:
            returns = {round(t.episode_return, 6) for t in trajectories}
            raise DeadRunError(
                f"no learning signal in {self.silent} consecutive iterations: all episodes had the same training "
                f"reward (returns of the last batch: {sorted(returns)[:3]}); raise rollout.episodes, use an easier "
                "environment or a stronger base model (diagnostics.dead_after=0 turns this check off)"
            )
