"""What is known about a sweep while it runs: the state of every run, how far it is, when all will be done."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweeps.cost import Estimate
from sweeps.plan import Cell
from sweeps.store import BROKEN, DONE, Standing, State

EARLY = 0.2
"""Share of its iterations before which a run's own pace tells little about what is left of it."""


@dataclass
class Line:
    """One run on the board."""

    cell: Cell
    """The run."""
    state: State | str
    """State of its folder, or `starting`, `stopping`, `retrying` while it is in our hands."""
    iteration: int = 0
    """Iterations complete."""
    cause: str | None = None
    """Why it is not finished."""
    success: float | None = None
    """`eval/success` at the last evaluation."""
    expected: float | None = None
    """Seconds that the whole run is expected to take, from peers."""
    began: float | None = None
    """Clock when it was started here."""
    began_at: int = 0
    """Iteration at which it was started here."""
    seconds: float | None = None
    """Seconds that it took here."""

    @property
    def ours(self) -> bool:
        """Whether it is at work in this process' hands."""
        return self.began is not None and self.seconds is None


class Board:
    """All runs of a sweep, in order."""

    def __init__(self, unmade: int = 0) -> None:
        """
        Args:
            unmade: runs that a search has still to suggest.
        """
        self.slots, self.unmade = 1, unmade
        self.lines: dict[str, Line] = {}
        self.began = time.monotonic()
        self.retries = 0

    def add(self, cell: Cell, standing: Standing, estimate: Estimate | None = None) -> None:
        """Put a run on the board, unless it is there."""
        if cell.name not in self.lines:
            expected = None if estimate is None else estimate.seconds
            self.lines[cell.name] = Line(cell, standing.state, standing.iteration, standing.cause, None, expected)

    def start(self, name: str) -> Line:
        """A run is being started."""
        line = self.lines[name]
        line.state, line.began, line.seconds, line.cause = "starting", time.monotonic(), None, None
        line.began_at = line.iteration
        return line

    def news(self, name: str, result: Mapping[str, Any]) -> Line:
        """A report from a run at work."""
        line = self.lines[name]
        state = result.get("state", line.state)
        if state == "retrying":
            self.retries += 1
            line.cause = str(result.get("cause"))
        line.state = "running" if state == "running" and "iteration" in result else line.state
        line.state = state if state in {"retrying", "stopping"} else line.state
        if "iteration" in result:
            line.iteration = int(result["iteration"])
        if "eval/success" in result:
            line.success = float(result["eval/success"])
        return line

    def end(self, name: str, standing: Standing) -> Line:
        """A run has ended, or turned out to be somebody else's."""
        line = self.lines[name]
        if line.began is not None and line.seconds is None:
            line.seconds = time.monotonic() - line.began
        line.state, line.cause = standing.state, standing.cause
        line.iteration = max(standing.iteration, line.iteration) if standing.state in DONE else standing.iteration
        return line

    def count(self) -> dict[str, int]:
        """Runs done, failed, at work here, at work elsewhere, and left."""
        lines = list(self.lines.values())
        done = sum(line.state in DONE for line in lines)
        failed = sum(line.state in BROKEN and not line.ours for line in lines)
        ours = sum(line.ours for line in lines)
        elsewhere = sum(line.state == "running" and not line.ours for line in lines)
        left = self.unmade + len(lines) - done - failed - ours - elsewhere
        return {"done": done, "failed": failed, "running": ours, "elsewhere": elsewhere, "left": left}

    def seconds_left(self, line: Line) -> float | None:
        """Seconds that one run still takes, None if nothing is known."""
        total = line.cell.config.iterations
        whole = line.expected if line.expected is not None else self._typical()
        made = line.iteration - line.began_at if line.ours and line.began is not None else 0
        # The first iterations bear the start of the process: others' pace says more, where it is known.
        if made and line.began is not None and (whole is None or made >= EARLY * total):
            return (time.monotonic() - line.began) / made * (total - line.iteration)
        return None if whole is None else whole * (1 - line.iteration / total)

    def _typical(self) -> float | None:
        """Median seconds per iteration of runs done here, times the usual number of iterations."""
        rates = [
            line.seconds / (line.iteration - line.began_at)
            for line in self.lines.values()
            if line.seconds is not None and line.state in DONE and line.iteration > line.began_at
        ]
        if not rates:
            return None
        return statistics.median(rates) * statistics.median(line.cell.config.iterations for line in self.lines.values())

    def eta(self) -> float | None:
        """Seconds until everything is done, None if nothing is known."""
        waiting = [line for line in self.lines.values() if line.ours or line.state in {"new", "interrupted"}]
        known = [self.seconds_left(line) for line in waiting]
        if not waiting or None in known:
            return None
        numbers = [seconds for seconds in known if seconds is not None]
        if self.unmade and self._typical() is None:
            return None
        numbers += [self._typical() or 0.0] * self.unmade
        return max(max(numbers), sum(numbers) / self.slots)
