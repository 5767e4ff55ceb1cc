"""Detect runs that can teach nothing any more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from freshper.config.run import DiagnosticsConfig
from freshper.replay.trajectory import Trajectory


class DeadRunError(RuntimeError):
    """No learning signal for a long time, or for a whole run."""


class DeadRunDetector:
    """Counts consecutive iterations without signal: no success, and the same training reward in every episode.

    Returns-to-go still differ between the turns of such episodes, but only by position, which teaches nothing. A batch
    in which every episode succeeds is a solved task, not a dead run; a whole run of equal rewards is dead either way.
    """

    def __init__(self, config: DiagnosticsConfig) -> None:
        self.limit = config.dead_after
        self.silent = 0
        """Consecutive iterations without signal up to now."""
        self.lowest, self.highest = math.inf, -math.inf
        """Range of the training rewards of all episodes of the run."""

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Look at one fresh batch.

        Raises:
            DeadRunError: `diagnostics.dead_after` iterations in a row had no signal.
        """
        rewards = {round(float((t.turn_rewards + t.turn_penalties).sum()), 6) for t in trajectories}
        self.lowest, self.highest = min(self.lowest, *rewards), max(self.highest, *rewards)
        signal = len(rewards) > 1 or any(t.info["success"] for t in trajectories)
        self.silent = 0 if signal else self.silent + 1
        if self.limit and self.silent >= self.limit:
            raise DeadRunError(
                f"no learning signal in {self.silent} consecutive iterations: no episode succeeded and all had the "
                f"same training reward ({rewards.pop():g}); raise rollout.episodes, use an easier "
                "environment or a stronger base model (diagnostics.dead_after=0 turns this check off)"
            )

    def finish(self) -> None:
        """Look back at a whole run.

        Raises:
            DeadRunError: every episode had the same training reward, so nothing can have been learned.
        """
        if self.limit and self.lowest == self.highest:
            raise DeadRunError(
                f"no learning signal in the whole run: every episode had the training reward {self.lowest:g} "
                "(diagnostics.dead_after=0 turns this check off)"
            )

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run has to know."""
        return {"silent": self.silent, "lowest": self.lowest, "highest": self.highest}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.silent, self.lowest, self.highest = int(state["silent"]), float(state["lowest"]), float(state["highest"])
