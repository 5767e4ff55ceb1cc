"""Runs that a sweep planned and that never started."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.findings import Finding
from analysis.load.planned import PlannedSweep
from analysis.load.study import Study

SHOWN = 6
"""Most runs that a finding names."""


def check_plans(study: Study) -> Iterator[Finding]:
    """A finding for each sweep of which a planned run is neither among the loaded ones nor has a folder."""
    states = {record.facts.identity: record.state for record in study.records}
    for sweep in study.sweeps:
        missing = [run for run in sweep.runs if run.identity not in states and sweep.place(run) is None]
        if not missing and not sweep.unmade:
            continue
        going_on = any(states.get(run.identity) == "running" for run in sweep.runs)
        text = f"{sweep.file}: {_told(sweep, [run.label for run in missing])}"
        if going_on:
            yield Finding("note", "missing cell", (), f"{text}; other runs of the sweep are running")
        else:
            yield Finding(
                "warning", "missing cell", (), f"{text}; the sweep's command does what is left", (sweep.command(),)
            )


def _told(sweep: PlannedSweep, missing: list[str]) -> str:
    parts = []
    if missing:
        named = ", ".join([*missing[:SHOWN], *(["..."] if len(missing) > SHOWN else [])])
        parts.append(f"{len(missing)} of {len(sweep.runs)} planned runs never started ({named})")
    if sweep.unmade:
        parts.append(f"the search has {sweep.unmade} runs still to suggest")
    return " and ".join(parts)
