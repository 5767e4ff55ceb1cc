"""sweep.json: the runs that a sweep planned, and the command that it was started with.

A sweep writes it into `<output root>/sweeps/<id>/` when it starts and again when it ends. Only the plan is read here:
how a run stands is in the run's own folder.
"""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.findings import Finding

SWEEP = "sweep.json"
EXPECTED = "expected argv, cwd, searched, options, and runs with name, label, identity, settings and folder"


@dataclass(frozen=True)
class PlannedRun:
    """One cell of a sweep."""

    label: str
    """Its swept settings, `variant=freshper seed=0`."""
    identity: str
    """`analysis.load.facts.Facts.identity` of the run."""
    folder: Path
    """Where the sweep puts it; absolute, on the machine that ran the sweep."""


@dataclass(frozen=True)
class PlannedSweep:
    """What a sweep.json says."""

    file: Path
    argv: tuple[str, ...]
    """Command line, script first."""
    cwd: str
    """Folder in which it was given."""
    runs: tuple[PlannedRun, ...]
    """The grid; of a search, what has been suggested so far."""
    unmade: int
    """Runs that a search has still to suggest, for the cells of its grid of which some run is known."""

    def place(self, run: PlannedRun) -> Path | None:
        """Folder of a run, also where the whole output root was moved; None if it has none yet."""
        moved = self.file.parent.parent.parent / run.folder.name
        return next((folder for folder in (run.folder, moved) if folder.is_dir()), None)

    def command(self) -> str:
        """What starts everything that is left."""
        return in_folder(shlex.join(["python", *self.argv]), self.cwd)


def in_folder(line: str, folder: str) -> str:
    """A command as it is typed here, if it has to run in `folder`."""
    return line if folder == os.getcwd() else f"cd {shlex.quote(folder)} && {line}"


def read_sweeps(files: Sequence[Path]) -> tuple[list[PlannedSweep], list[Finding]]:
    """The plans in some sweep.json files, and a finding for each file that is none."""
    sweeps, findings = [], []
    for file in files:
        try:
            sweeps.append(_read(file))
        except ValueError as error:
            findings.append(Finding("warning", "unreadable", (), f"{file} is no record of a sweep: {error}"))
    return sweeps, findings


def _read(file: Path) -> PlannedSweep:
    """
    Raises:
        ValueError: the file is not one that a sweep writes.
    """
    data: Any = json.loads(file.read_text(encoding="utf-8"))
    try:
        runs = tuple(PlannedRun(str(r["label"]), str(r["identity"]), Path(r["folder"])) for r in data["runs"])
        argv, searched = tuple(map(str, data["argv"])), set(data["searched"])
        trials = data["options"]["n_trials"] if searched else None
        cells = Counter(
            tuple((key, value) for key, value in run["settings"].items() if key not in searched) for run in data["runs"]
        )
        unmade = 0 if trials is None else sum(max(0, int(trials) - count) for count in cells.values())
        return PlannedSweep(file, argv, str(data["cwd"]), runs, unmade)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__} {error}; {EXPECTED}") from error
