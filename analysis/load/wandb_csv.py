"""CSV files as the wandb page exports them from a chart.

    "Step","my run - eval/success","my run - eval/success__MIN","my run - eval/success__MAX"
    "0","0.25","0.25","0.25"
    "10","",...

The first column is the chart's x axis. A cell is empty where the run logged nothing at that step. Lines before the
header (a title, a note) are skipped. Several runs and several metrics may share a file, and the metrics of one run may
be spread over several files. Where a run logged more points than the page draws, or runs are grouped, a cell is a mean,
and __MIN and __MAX differ: such an export is not the run's history and is refused unless sampled values are allowed.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.findings import AnalysisError, DuplicateRunsError, Finding
from analysis.load.columns import from_rows
from analysis.load.names import facts_from_name
from analysis.load.record import RunRecord

SEPARATOR = " - "
BOUNDS = ("__MIN", "__MAX")
PAGE_LIMIT = 500
"""Points per line that the wandb page samples down to."""
STEPS = frozenset({"step", "_step", "global_step", "iteration", "trainer/global_step"})
"""Names of an x axis that counts iterations (in lower case)."""


@dataclass(frozen=True)
class _Series:
    run: str
    metric: str
    file: Path
    points: dict[int, float]
    bucketed: int
    """Points whose bounds differ."""


def read_wandb_csv(paths: Sequence[Path], allow_sampled: bool = False) -> list[RunRecord]:
    """Runs of one or more exports, metrics of a run put together.

    Raises:
        AnalysisError: naming each file that is no such export, has an x axis that is no step, or holds bucketed values.
        DuplicateRunsError: the same run and metric come twice (two wandb runs of one name, or one file given twice).
    """
    series: list[_Series] = []
    problems: list[str] = []
    for path in paths:
        try:
            series += _read_file(path)
        except DuplicateRunsError:
            raise
        except AnalysisError as error:
            problems.append(str(error))
    for one in series:
        if one.bucketed and not allow_sampled:
            problems.append(
                f"{one.file}: run {one.run}, {one.metric}: {one.bucketed} values are means over several steps or runs "
                "(__MIN and __MAX differ), not the run's history; export through the wandb API, or allow it with "
                "--allow-sampled"
            )
    if problems:
        raise AnalysisError("\n".join(problems))
    runs: dict[str, dict[str, _Series]] = {}
    for one in series:
        first = runs.setdefault(one.run, {}).setdefault(one.metric, one)
        if first is not one:
            raise DuplicateRunsError(
                f"run {one.run} has {one.metric} twice: in {first.file} and in {one.file}; expected one name per run "
                "and each export once"
            )
    return [_record(run, metrics) for run, metrics in runs.items()]


def _read_file(path: Path) -> list[_Series]:
    header, body, start = _table(path)
    axis = header[0]
    if axis.strip().lower() not in STEPS:
        raise AnalysisError(
            f"{path}: the x axis is {axis!r}; expected Step, so that rows can be matched with iterations"
        )
    place = {name: index for index, name in enumerate(header)}
    if len(place) < len(header):
        twice = sorted({name for name in header if header.count(name) > 1})
        raise DuplicateRunsError(
            f"{path}: columns {', '.join(twice)} come more than once: two runs have the same name; rename one in wandb"
        )
    steps: list[int] = []
    for number, cells in enumerate(body, start=start):
        if len(cells) != len(header):
            raise AnalysisError(f"{path}, line {number}: {len(cells)} cells; expected {len(header)} as in the header")
        steps.append(_step(cells[0], path, number))
    if len(set(steps)) < len(steps):
        again = next(step for step in steps if steps.count(step) > 1)
        raise AnalysisError(f"{path}: step {again} comes twice; expected one row per step")
    found = []
    for name, column in place.items():
        if name == axis or name.endswith(BOUNDS):
            continue
        run, _, metric = name.rpartition(SEPARATOR)
        if metric.startswith("_"):
            continue  # wandb's own clocks: _step, _runtime, _timestamp
        points = {step: _number(cells[column], path, name) for step, cells in zip(steps, body, strict=True)}
        bucketed = 0
        if all(f"{name}{bound}" in place for bound in BOUNDS):
            low, high = (place[f"{name}{bound}"] for bound in BOUNDS)
            bucketed = sum(cells[low] != cells[high] for cells in body)
        found.append(_Series(run, metric, path, {s: v for s, v in points.items() if v is not None}, bucketed))
    return found


def _table(path: Path) -> tuple[list[str], list[list[str]], int]:
    """Header, non-empty rows after it, and the line number of the first of them."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise AnalysisError(f"{path} is not UTF-8 text: {error}") from error
    rows = list(csv.reader(io.StringIO(text, newline="")))
    for index, cells in enumerate(rows):
        named = [cell for cell in cells[1:] if SEPARATOR in cell]
        if named and len(named) == len(cells) - 1:
            body = [row for row in rows[index + 1 :] if any(cell.strip() for cell in row)]
            return cells, body, index + 2
    first = next((",".join(row) for row in rows if row), "")
    raise AnalysisError(
        f'{path} is no wandb export: expected a header such as "Step","my run - eval/success"; '
        + (f"the first line is {first[:80]!r}" if first else "the file is empty")
    )


def _step(text: str, path: Path, number: int) -> int:
    try:
        value = float(text)
    except ValueError:
        raise AnalysisError(f"{path}, line {number}: step {text!r}; expected a whole number") from None
    if value != math.floor(value):
        raise AnalysisError(f"{path}, line {number}: step {text}; expected a whole number")
    return int(value)


def _number(text: str, path: Path, name: str) -> float | None:
    """None for an empty cell. NaN and Infinity are values."""
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise AnalysisError(f"{path}, column {name}: {text!r}; expected a number or nothing") from None


def _record(run: str, metrics: dict[str, _Series]) -> RunRecord:
    steps = sorted({step for one in metrics.values() for step in one.points})
    rows = [
        {"iteration": step, **{name: one.points[step] for name, one in metrics.items() if step in one.points}}
        for step in steps
    ]
    columns = from_rows(rows)[0]
    findings = []
    files = list(dict.fromkeys(one.file for one in metrics.values()))
    for one in metrics.values():
        if one.bucketed:
            findings.append(
                Finding(
                    "warning", "sampled", (run,), f"{one.file}: {one.bucketed} values of {one.metric} are bucket means"
                )
            )
        elif len(one.points) == PAGE_LIMIT:
            text = f"{one.file}: {one.metric} has exactly {PAGE_LIMIT} points, as many as the wandb page samples"
            findings.append(Finding("warning", "sampled", (run,), text))
    return RunRecord(
        run=run,
        source=files[0],
        kind="wandb_csv",
        facts=facts_from_name(run),
        columns=columns,
        findings=tuple(findings),
    )
