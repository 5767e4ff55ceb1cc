"""Detect runs that can teach nothing any more."""

from __future__ import annotations

from collections.abc import Sequence

from freshper.config.run import DiagnosticsConfig
from freshper.replay.trajectory import Trajectory


class DeadRunError(RuntimeError):
    """No learning signal for a long time; going on would only burn compute."""


class DeadRunDetector:
    """Counts consecutive iterations without signal: no success, and the same training reward in every episode.

    Returns-to-go still differ between the turns of such episodes, but only by position, which teaches nothing. A batch
    in which every episode succeeds is a solved task, not a dead run.
    """

    def __init__(self, config: DiagnosticsConfig) -> None:
        self.limit = config.dead_after
        self.silent = 0

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Look at one fresh batch.

        Raises:
            DeadRunError: `diagnostics.dead_after` iterations in a row had no signal.
        """
        rewards = {round(float((t.turn_rewards + t.turn_penalties).sum()), 6) for t in trajectories}
        signal = len(rewards) > 1 or any(t.info["success"] for t in trajectories)
        self.silent = 0 if signal else self.silent + 1
        if self.limit and self.silent >= self.limit:
            raise DeadRunError(
                f"no learning signal in {self.silent} consecutive iterations: no episode succeeded and all had the "
                f"same training reward ({rewards.pop():g}); raise rollout.episodes, use an easier "
                "environment or a stronger base model (diagnostics.dead_after=0 turns this check off)"
            )
