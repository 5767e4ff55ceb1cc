"""What an imported run is: read from its name where freshper made it, else told by a labels file."""

from __future__ import annotations

import csv
import dataclasses
import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from analysis.findings import AnalysisError
from analysis.load.facts import UNLABELLED, Facts
from analysis.load.record import RunRecord

_OWN = re.compile(
    r"(?P<task>[^-]+)-(?P<model>[^-]+)-(?P<algorithm>reinforce_pp|grpo|ppo)-(?P<variant>\w+)-seed(?P<seed>\d+)"
    r"-(?P<identity>[0-9a-f]{10})"
)
"""Names that `freshper.config.identity.run_name` makes."""
LABELS = ("run", "task", "arm", "seed", "algorithm", "tau")


def facts_from_name(run: str) -> Facts:
    """Facts that a name of freshper's own tells; any other name is its own arm of an unlabelled task."""
    match = _OWN.fullmatch(run)
    if match is None:
        return Facts(arm=run)
    found = match.groupdict()
    return Facts(
        task=found["task"],
        model=found["model"],
        algorithm=found["algorithm"],
        variant=found["variant"],
        arm=found["variant"],
        seed=int(found["seed"]),
        identity=found["identity"],
    )


def unlabelled(record: RunRecord) -> bool:
    """Whether nothing is known about what a run is."""
    return record.facts.task == UNLABELLED


def apply_labels(records: Sequence[RunRecord], path: Path) -> list[RunRecord]:
    """Records with the facts that a labels file gives them.

    The file is a CSV with the column `run` and any of `task`, `arm`, `seed`, `algorithm`, `tau`; an empty cell changes
    nothing.

    Raises:
        AnalysisError: with everything that is wrong in the file, runs that were not loaded included.
    """
    if not path.is_file():
        raise AnalysisError(f"{path}: no such file; expected a CSV with the columns {', '.join(LABELS)}")
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        header = reader.fieldnames or []
        unknown = [name for name in header if name not in LABELS]
        if "run" not in header or unknown:
            raise AnalysisError(f"{path}: columns {', '.join(header)}; expected run and any of {', '.join(LABELS[1:])}")
        rows = list(reader)
    known = {record.run: index for index, record in enumerate(records)}
    labelled = list(records)
    problems = []
    for number, row in enumerate(rows, start=2):
        name = row["run"]
        if name not in known:
            near = difflib.get_close_matches(name, known, 2, 0.5)
            hint = f"; did you mean {' or '.join(near)}?" if near else f"; loaded: {', '.join(list(known)[:5])}"
            problems.append(f"{path}, line {number}: no run {name!r} was loaded{hint}")
            continue
        changes: dict[str, object] = {}
        for key in LABELS[1:]:
            text = row.get(key) or ""
            if not text:
                continue
            try:
                changes[key] = int(text) if key == "seed" else float(text) if key == "tau" else text
            except ValueError:
                problems.append(f"{path}, line {number}: {key} = {text}; expected a number")
        if "arm" in changes:
            changes["variant"] = changes["arm"]
        index = known[name]
        labelled[index] = dataclasses.replace(
            labelled[index],
            facts=dataclasses.replace(labelled[index].facts, **changes),  # type: ignore[arg-type]
        )
    if problems:
        raise AnalysisError("\n".join(problems))
    return labelled
