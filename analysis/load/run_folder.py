"""Read a run folder at any stage: just made, running, killed, failed, resumed, finished."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from analysis.findings import Finding
from analysis.load.ages import AgesFile, read_ages
from analysis.load.columns import Columns, Damage, read_columns
from analysis.load.facts import Facts, facts_of, flat
from analysis.load.plain_yaml import load_yaml
from analysis.load.record import RunRecord
from freshper.records.status import RunStatus, read_status

FILES = ("config.yaml", "provenance.json", "metrics.jsonl")
"""What is parsed, hence cached; status.json and the lock are asked anew each time."""
AGES = "ages.jsonl"
"""Parsed and cached apart, since few want it."""


@dataclass(frozen=True)
class Parsed:
    """A run folder without its status: a function of the bytes of `FILES` alone."""

    config: dict[str, Any] | None
    provenance: dict[str, Any] | None
    columns: Columns
    damage: Damage
    unreadable: dict[str, str]
    """File -> what is wrong with it."""
    facts: Facts
    """Facts of the config."""
    absent: tuple[str, ...]
    """Dotted keys that the config lacks."""


def read_bytes(folder: Path) -> dict[str, bytes]:
    """Contents of those of `FILES` that there are."""
    found = {}
    for name in FILES:
        try:
            found[name] = (folder / name).read_bytes()
        except FileNotFoundError:
            continue
    return found


def parse(data: Mapping[str, bytes]) -> Parsed:
    """Parse a folder's files; what cannot be parsed is named in `unreadable`, never dropped without a word."""
    unreadable: dict[str, str] = {}
    config, provenance = None, None
    if "config.yaml" in data:
        try:
            config = load_yaml(data["config.yaml"])
        except (yaml.YAMLError, ValueError) as error:  # the latter: a date that there is not
            unreadable["config.yaml"] = f"not YAML: {' '.join(str(error).split())}"
        else:
            if not isinstance(config, dict):
                config, unreadable["config.yaml"] = None, "not a mapping"
    if "provenance.json" in data:
        try:
            provenance = json.loads(data["provenance.json"])
        except ValueError as error:
            unreadable["provenance.json"] = f"not JSON: {error}"
        else:
            if not isinstance(provenance, dict):
                provenance, unreadable["provenance.json"] = None, "not a JSON object"
    columns, damage = read_columns(data.get("metrics.jsonl", b""))
    facts, absent = (Facts(), ()) if config is None else facts_of(config)
    return Parsed(config, provenance, columns, damage, unreadable, facts, absent)


def record_of(folder: Path, parsed: Parsed, ages: AgesFile | None = None) -> RunRecord:
    """The record of a folder: what was parsed, and how the run stands now."""
    name = folder.name
    findings: list[Finding] = []

    def tell(severity: Any, kind: str, text: str) -> None:
        findings.append(Finding(severity, kind, (name,), text))

    status: RunStatus | None = None
    state, cause = "unknown", "no status.json"
    try:
        status = read_status(folder)
    except ValueError as error:
        cause = str(error)
        tell("error", "unreadable", str(error))
    if status is not None:
        state, cause = status.state, status.cause or ""
    for file, problem in parsed.unreadable.items():
        tell("error", "unreadable", f"{folder / file} is {problem}")
    if parsed.absent:
        tell("warning", "config keys", f"{folder / 'config.yaml'} lacks {', '.join(parsed.absent)}")
    _tell_damage(tell, folder, parsed.damage, state)
    if ages is not None and (ages.damaged or (ages.torn and state not in {"running", "crashed"})):
        text = f"{folder / AGES}: {ages.damaged + ages.torn} lines cannot be read and are left out"
        tell("error", "damaged", text)
    return RunRecord(
        run=name,
        source=folder,
        kind="folder",
        facts=parsed.facts,
        columns=parsed.columns,
        state=state,
        cause=cause or None,
        config=parsed.config,
        settings={} if parsed.config is None else flat(parsed.config),
        provenance=parsed.provenance,
        ages=None if ages is None else ages.ages,
        findings=tuple(findings),
    )


def _tell_damage(tell: Any, folder: Path, damage: Damage, state: str) -> None:
    metrics = folder / "metrics.jsonl"
    if damage.torn:
        severity = "note" if state in {"running", "crashed"} else "error"
        tell(severity, "truncated", f"{metrics}: the last line breaks off and is left out")
    if damage.lines:
        numbers = ", ".join(map(str, damage.lines[:5])) + (", ..." if len(damage.lines) > 5 else "")
        tell("error", "damaged", f"{metrics}: {_lines(damage.lines)} {numbers} cannot be read and are left out")
    if damage.superseded:
        tell(
            "note", "superseded",
            f"{metrics}: {damage.superseded} rows of iterations that a later attempt repeated; the later ones count",
        )  # fmt: skip
    if damage.ignored:
        tell("note", "no number", f"{metrics}: {', '.join(damage.ignored)} are no numbers and are left out")


def _lines(numbers: tuple[int, ...]) -> str:
    return "line" if len(numbers) == 1 else f"{len(numbers)} lines"


def read_run_folder(folder: Path) -> RunRecord:
    """Read one run folder, ages included, without a cache."""
    file = folder / AGES
    return record_of(folder, parse(read_bytes(folder)), read_ages(file.read_bytes()) if file.is_file() else None)
