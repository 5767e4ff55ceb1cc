"""How a run stands: status.json, written by the run, read by everyone at any moment."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Literal

from freshper.records.atomic import write_json
from freshper.records.lock import is_locked

STATUS_NAME = "status.json"

State = Literal["running", "finished", "failed", "crashed", "diverged", "dead"]
"""`running` · `finished` all iterations · `failed` an exception (cause, error.txt) · `crashed` the process is gone
without a word (killed, out of memory, power) · `diverged` / `dead` stopped by a detector."""

FINAL: frozenset[State] = frozenset({"finished", "diverged", "dead"})
"""States of a run that has said all it can: it is not trained again."""


def now() -> str:
    """UTC time, ISO 8601, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclasses.dataclass(frozen=True)
class RunStatus:
    """Contents of status.json."""

    state: State
    """Where the run stands."""
    cause: str | None = None
    """Why it is not `finished`, in a sentence."""
    started: str = dataclasses.field(default_factory=now)
    """UTC start of the first attempt."""
    updated: str = dataclasses.field(default_factory=now)
    """UTC time of the last change of state."""
    attempts: int = 1
    """Processes that have worked on the run: 1 + resumes."""
    iteration: int | None = None
    """Iterations complete when the state was written."""

    def next_attempt(self) -> RunStatus:
        """`running` again, one attempt more."""
        return dataclasses.replace(self, state="running", cause=None, updated=now(), attempts=self.attempts + 1)

    def ended(self, state: State, cause: str | None = None, iteration: int | None = None) -> RunStatus:
        """The same run in another state, now."""
        return dataclasses.replace(self, state=state, cause=cause, updated=now(), iteration=iteration)


def write_status(folder: Path, status: RunStatus) -> None:
    """Replace status.json atomically."""
    write_json(folder / STATUS_NAME, dataclasses.asdict(status))


def read_status(folder: Path) -> RunStatus | None:
    """Status of a run folder, None if it has none yet. A run that claims to be running while nobody holds its lock
    has crashed, and reads so.

    Raises:
        ValueError: naming the file, if it is not a status.
    """
    status = stored_status(folder)
    if status is not None and status.state == "running" and not is_locked(folder):
        # The run may have ended between the two looks.
        status = stored_status(folder)
        if status is not None and status.state == "running":
            return dataclasses.replace(status, state="crashed", cause="the process ended without a final record")
    return status


def stored_status(folder: Path) -> RunStatus | None:
    """What status.json says, taken at its word."""
    path = folder / STATUS_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return RunStatus(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is not a run status: {error}") from error
