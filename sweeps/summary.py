"""What is left of a sweep: sweep.json, results.csv, and a table of mean and interval per arm."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from freshper.records.atomic import write_text
from freshper.records.metrics import read_metrics
from freshper.records.summary import cpu_seconds, duration, success, time_split
from sweeps.store import BROKEN, DONE, Standing
from sweeps.student import mean_and_half_width

FINALS = ("eval/success", "eval/success_greedy", "eval/return")
"""Metrics whose value at the last evaluation is a result."""
COUNTS = ("counts/env_steps", "counts/episodes", "counts/optimizer_steps", "counts/tokens")

Row = dict[str, Any]


def result_row(entry: Mapping[str, Any], standing: Standing) -> Row:
    """One run as a row of results.csv.

    Args:
        entry: run of sweep.json (name, folder, identity, arm, settings, seed).
        standing: where it stands.
    """
    rows = read_metrics(Path(entry["folder"])) if Path(entry["folder"]).is_dir() else []
    row: Row = {
        "run": entry["name"],
        "state": standing.state,
        "arm": entry["arm"],
        "variant": entry["variant"],
        "seed": entry["seed"],
        **entry["settings"],
        "iteration": rows[-1]["iteration"] if rows else None,
    }
    base, best = success(rows), None
    if base is not None:
        row["eval/success at start"], best = base.base, base.best
    for name in FINALS:
        found = success(rows, name)
        row[name] = None if found is None else found.final
    row["eval/success best"] = best
    for name in COUNTS:
        row[name] = rows[-1].get(name) if rows else None
    row["seconds"] = round(sum(time_split(rows).values()), 1) if rows else None
    cpu = cpu_seconds(rows)
    row["CPU seconds"] = None if cpu is None else round(cpu, 1)
    row |= {"identity": entry["identity"], "folder": entry["folder"], "cause": standing.cause}
    return row


def write_results(rows: Sequence[Row], path: Path) -> None:
    """Replace results.csv (atomically). An empty field is a value that there is not, never zero."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, buffer.getvalue())


def arm_table(rows: Sequence[Row]) -> str:
    """Mean and 95 % interval per arm over its finished runs, in %; a cell without a value is `-`."""
    arms: dict[str, list[Row]] = {}
    for row in rows:
        arms.setdefault(row["arm"], []).append(row)
    table = [["arm", "n", "success at start", "success", "greedy", "seconds per run", "not finished"]]
    for arm, members in arms.items():
        done = [row for row in members if row["state"] == "finished"]
        table.append(
            [
                arm,
                str(len(done)),
                _interval(done, "eval/success at start"),
                _interval(done, "eval/success"),
                _interval(done, "eval/success_greedy"),
                _mean(done, "seconds"),
                _others(members),
            ]
        )
    if all(row[-1] == "" for row in table[1:]):
        table = [row[:-1] for row in table]
    return columns(table)


def _others(members: Sequence[Row]) -> str:
    states = [in_words(row["state"]) for row in members if row["state"] != "finished"]
    return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))


def _interval(rows: Sequence[Row], name: str) -> str:
    values = [float(row[name]) for row in rows if row.get(name) is not None]
    if not values:
        return "-"
    mean, half = mean_and_half_width(values)
    return f"{100 * mean:.1f} ± {'-' if half is None else f'{100 * half:.1f}'}"


def _mean(rows: Sequence[Row], name: str) -> str:
    values = [float(row[name]) for row in rows if row.get(name) is not None]
    return f"{sum(values) / len(values):.0f}" if values else "-"


def best_table(rows: Sequence[Row], metric: str, mode: str, count: int = 10) -> str:
    """The best runs of a search by the metric's last value."""
    known = [row for row in rows if row.get(metric) not in (None, "")]
    known.sort(key=lambda row: float(row[metric]), reverse=mode == "max")
    shown = [[_settings(row), f"{float(row[metric]):.4g}", row["state"]] for row in known[:count]]
    return columns([["run", metric, "state"], *shown])


def _settings(row: Row) -> str:
    return f"{row['arm']} seed={row['seed']}"


def columns(table: Sequence[Sequence[str]]) -> str:
    """Text in aligned columns, the first row underlined."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def failures(entries: Sequence[Mapping[str, Any]], standings: Mapping[str, Standing], logs: Path) -> str:
    """Every failed run by name, with its cause and where to read more; empty if there is none."""
    lines = []
    for entry in entries:
        standing = standings[entry["name"]]
        if standing.state not in BROKEN:
            continue
        cause = (standing.cause or "no cause given").replace("\n", "\n    ")
        lines.append(f"  {entry['label']}: {standing.state}: {cause}")
        traceback = Path(entry["folder"]) / "error.txt"
        places = [path for path in (traceback, logs / entry["name"] / "output.log") if path.is_file()]
        lines += [f"    {path}" for path in places]
    return "\n".join(lines)


def in_words(state: str) -> str:
    """A state as seen after a sweep: nobody of ours is at work any more."""
    return {"new": "not started", "running": "at work elsewhere"}.get(state, state)


def totals(standings: Sequence[Standing], seconds: float | None = None) -> str:
    """`12 runs: 10 done, 1 failed, 1 not started`."""
    states = ["done" if standing.state in DONE else in_words(standing.state) for standing in standings]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states)))
    return f"{len(standings)} runs: {counted}" + (f"; {duration(seconds)}" if seconds is not None else "")
