"""Where numbers come from: what each run was started with, on what, and what made the page."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Sequence
from typing import Any

from analysis.load.record import RunRecord
from analysis.load.study import Study
from analysis.tables.table import Table, table

UNKNOWN = "not recorded"
TOOLS = ("freshper", "numpy", "pandas", "matplotlib")
SHOWN = ("torch", "transformers", "numpy", "freshper")
"""Packages of a run that the page names; provenance.json has all."""


def provenance_tables(study: Study) -> list[Table]:
    """Code, machine and command of every run; and the versions behind them, each combination once."""
    return [_runs(study.records), _environments(study.records)]


def _runs(records: Sequence[RunRecord]) -> Table:
    rows = [
        [
            record.run, record.state, _part(record, "time"), _commit(record), _part(record, "hardware", "host"),
            _command(record), str(record.source),
        ]
        for record in records
    ]  # fmt: skip
    return table(
        "provenance",
        "Provenance",
        f"What each run's provenance.json says; '{UNKNOWN}' where it says nothing, as for imported runs.",
        ["run", "state", "started", "commit", "host", "command", "read from"],
        rows,
    )


def _environments(records: Sequence[RunRecord]) -> Table:
    counts: dict[tuple[str, ...], int] = {}
    for record in records:
        packages = [f"{name} {_part(record, 'packages', name)}" for name in SHOWN]
        parts = ("cpu", "cores", "accelerator", "platform")
        key = (
            _part(record, "python"), ", ".join(packages), *(_part(record, "hardware", name) for name in parts),
            _part(record, "threads"),
        )  # fmt: skip
        if record.provenance is not None:
            counts[key] = counts.get(key, 0) + 1
    versions = ", ".join(f"{name} {_version(name)}" for name in TOOLS)
    return table(
        "environments",
        "Software and machines",
        f"Each combination once. This page: Python {platform.python_version()}, {versions}.",
        ["runs", "python", "packages", "processor", "cores", "accelerator", "platform", "threads"],
        [[str(count), *key] for key, count in counts.items()],
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _part(record: RunRecord, *keys: str) -> str:
    node: Any = record.provenance
    for key in keys:
        if not isinstance(node, dict) or key not in node:
            return UNKNOWN
        node = node[key]
    return "none" if node is None else str(node)


def _commit(record: RunRecord) -> str:
    commit = _part(record, "commit")
    changed = record.provenance is not None and record.provenance.get("dirty")
    return f"{commit[:10]}, with uncommitted changes" if changed else (UNKNOWN if commit == "none" else commit[:10])


def _command(record: RunRecord) -> str:
    overrides = record.provenance.get("overrides") if record.provenance is not None else None
    return " ".join(["python run.py", *map(str, overrides)]) if isinstance(overrides, list) else UNKNOWN
