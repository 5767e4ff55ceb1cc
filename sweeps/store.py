"""Where each run stands, read from its own folder: the only thing that decides what a sweep still has to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from freshper.config.errors import Issue
from freshper.config.identity import differing_keys
from freshper.config.schema import resolved
from freshper.records.lock import LOCK_NAME, is_locked
from freshper.records.run_dir import CONFIG_NAME
from freshper.records.status import FINAL, RunStatus, read_status, stored_status
from freshper.trainers.local import INTERRUPTED
from sweeps.plan import Cell

State = Literal["new", "finished", "diverged", "dead", "failed", "crashed", "interrupted", "running", "stopped"]
"""`new` nothing there · `finished` `diverged` `dead` done, not run again · `failed` an exception · `crashed` ended
without a word · `interrupted` told to stop, checkpoint saved · `running` a living process holds it · `stopped` early by
the sweep."""

DONE: frozenset[State] = frozenset({"finished", "diverged", "dead", "stopped"})
"""Not run again by the same command."""
BROKEN: frozenset[State] = frozenset({"failed", "crashed"})
"""Make the sweep's exit status 1."""


@dataclass(frozen=True)
class Standing:
    """How one run stands."""

    state: State
    """Where it stands."""
    cause: str | None = None
    """Why it is not finished, in a sentence; of a running one, who holds it."""
    iteration: int = 0
    """Iterations complete at the last change of state."""
    attempts: int = 0
    """Processes that have worked on it."""

    @property
    def todo(self) -> bool:
        """Whether a sweep has to run it."""
        return self.state not in DONE and self.state != "running"


def look(folder: Path) -> Standing:
    """The state of a run folder, now. Changes nothing.

    Raises:
        ValueError: naming the file, if status.json is damaged.
    """
    if is_locked(folder):
        holder = (folder / LOCK_NAME).read_text(encoding="utf-8", errors="replace").strip()
        status = stored_status(folder)
        return _standing("running", f"held by {holder or 'a process that has just started'}", status)
    status = read_status(folder)
    if status is None:
        return Standing("new")
    if status.state == "running":  # its owner took the lock between the two looks
        return _standing("running", "held by a process that has just started", status)
    if status.state == "failed" and status.cause == INTERRUPTED:
        return _standing("interrupted", "told to stop; goes on from its checkpoint", status)
    return _standing(status.state, status.cause, status)


def _standing(state: State, cause: str | None, status: RunStatus | None) -> Standing:
    if status is None:
        return Standing(state, cause)
    return Standing(state, cause, status.iteration or 0, status.attempts)


@dataclass(frozen=True)
class Store:
    """Where the runs of one sweep stand: their folders, and what early stopping has decided."""

    stopped: dict[str, int]
    """Run -> iteration at which it was stopped early. Empty if early stopping is off: such runs then go on."""

    def look(self, cell: Cell) -> Standing:
        """The state of a run, now."""
        return self.look_at(cell.name, cell.path)

    def look_at(self, name: str, folder: Path) -> Standing:
        """The state of a run of that name in that folder, now."""
        standing = look(folder)
        if name in self.stopped and standing.todo:
            iteration = self.stopped[name]
            return Standing("stopped", f"stopped early after iteration {iteration}", iteration, standing.attempts)
        return standing


def check_folders(cells: Sequence[Cell]) -> list[Issue]:
    """Problems that a run would meet in its folder, found before anything starts."""
    issues = []
    for cell in cells:
        folder, resume = cell.path, cell.config.resume
        used = folder.is_dir() and any(not entry.name.startswith(".") for entry in folder.iterdir())
        if used and not (folder / CONFIG_NAME).is_file():
            issues.append(Issue("output.name", f"{folder} holds files but is not a run folder; expected another name"))
        elif used:
            if cell.config.output.name is not None:  # other names hold the identity
                issues += _check_config(cell)
            try:
                status = stored_status(folder)
            except ValueError as error:
                issues.append(Issue("output.name", str(error)))
                continue
            if resume == "never" and (status is None or status.state not in FINAL):
                issues.append(Issue("resume", f"{folder} holds a run already; expected auto, or another seed", resume))
        elif resume == "must":
            issues.append(Issue("resume", f"{folder} holds no run to go on from; expected auto", resume))
    return issues


def _check_config(cell: Cell) -> list[Issue]:
    """A problem if the folder holds a run of another identity."""
    file = cell.path / CONFIG_NAME
    try:
        stored = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError:
        stored = None
    if not isinstance(stored, dict):
        return [Issue("output.name", f"{file} is not a run config; expected another name", cell.name)]
    differing = differing_keys(resolved(cell.config), stored)
    if not differing:
        return []
    return [Issue("output.name", f"{cell.path} holds another run ({', '.join(differing)}); expected another name")]
