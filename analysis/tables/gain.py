"""What training gained over the base model, task by task: the value of each seed before and after, and its cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.curves import final
from analysis.load.record import RunRecord
from analysis.load.study import Study
from analysis.statistics import interval
from analysis.tables.scores import arm_name, blocks, counted, left_out
from analysis.tables.table import NO_RUNS, NOT_MEASURED, Cell, Table, number, of_interval, table

MOST_LISTED = 3
"""Seeds up to which each one's value is listed: an interval of two values covers everything."""


def gain_table(study: Study, metric: str | None = None, arms: Sequence[str] = ()) -> Table:
    """Base model and end of training by sampling, greedy success, optimiser steps and minutes of a run."""
    rows: list[list[Cell | str]] = []
    for block in blocks(study, metric, arms):
        for arm, runs in block.arms.items():
            done = sorted(counted(runs), key=lambda record: (record.facts.seed is None, record.facts.seed))
            missing = left_out([record for record in runs if not record.counts])
            row: list[Cell | str] = [block.label, _model(done), arm_name(arm), block.metric]
            if not done:
                rows.append([*row, Cell(missing.removeprefix("; ") or NO_RUNS), *[""] * 7])
                continue
            base, after = _ends(done, block.metric)
            greedy = _ends(done, f"{block.metric}_greedy")
            gains = [last - first for first, last in zip(base, after, strict=True) if math.isfinite(last - first)]
            row += [_values(base, suffix=missing), _values(after)]
            row.append(of_interval(interval(gains)) if gains else Cell(NOT_MEASURED))
            row += [_values(greedy[0]), _values(greedy[1])]
            row += [_values(_last(done, "counts/env_steps"), 0), _values(_minutes(done, "time/iteration"), 1)]
            row.append(_values(_minutes(done, "time/cpu"), 1))
            rows.append(row)
    return table(
        "gain",
        "What training gained over the base model",
        f"First evaluation (base model) and last one of each done run; sampled unless it says greedy. Up to "
        f"{MOST_LISTED} seeds: each seed's value, in the order of the seeds; more: mean ± Student t 95 % interval. "
        "Gain: mean of the differences run by run ± Student t 95 % interval. Minutes: wall time of all iterations, "
        "evaluations included; CPU minutes: of all threads and child processes in the same time.",
        [
            "task", "model", "arm", "metric", "base model", "after training", "gain", "greedy, base model",
            "greedy, after training", "environment steps", "minutes", "CPU minutes",
        ],
        rows,
    )  # fmt: skip


def _model(done: Sequence[RunRecord]) -> str:
    return ", ".join(sorted({record.facts.model or "not known" for record in done}))


def _ends(done: Sequence[RunRecord], metric: str) -> tuple[list[float], list[float]]:
    """Value before training and at the end, of each run; NaN where it was not measured."""
    first, last = [], []
    for record in done:
        x, values = record.columns.series(metric)
        first.append(float(values[0]) if len(x) and x[0] == 0 else math.nan)
        last.append(final(values) if len(x) and x[-1] > 0 else math.nan)
    return first, last


def _last(done: Sequence[RunRecord], metric: str) -> list[float]:
    return [final(record.columns.series(metric)[1]) for record in done]


def _minutes(done: Sequence[RunRecord], clock: str) -> list[float]:
    seconds = [record.columns.series(clock)[1] for record in done]
    return [float(values.sum()) / 60 if len(values) else math.nan for values in seconds]


def _values(values: Sequence[float], digits: int = 3, suffix: str = "") -> Cell:
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return Cell(NOT_MEASURED + suffix)
    if len(values) <= MOST_LISTED:
        return Cell(", ".join(number(v, digits) if math.isfinite(v) else NOT_MEASURED for v in values) + suffix)
    return of_interval(interval(known), digits, suffix)
