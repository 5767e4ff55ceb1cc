"""Task by arm; improvement over on-policy training; every run by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from analysis.curves import Statistic, final, peak, peak_at, statistic
from analysis.load.record import CUT_SHORT
from analysis.load.study import Study
from analysis.statistics import (
    AGGREGATES,
    REPLICATES,
    bootstrap_interval,
    difference,
    probability_of_improvement,
)
from analysis.tables.scores import REFERENCE, Block, arm_name, blocks, by_seed, cell_of, counted, study_arms
from analysis.tables.table import NO_RUNS, Cell, Table, of_interval, plain, table

Kind = Literal["t", "bootstrap"]
INTERVALS: dict[Kind, str] = {
    "t": "Student t 95 % interval",
    "bootstrap": f"95 % interval of a bootstrap over runs ({REPLICATES:,} resamples, fixed seed)",
}


def main_table(
    study: Study,
    chosen: Statistic | None = None,
    metric: str | None = None,
    kind: Kind = "t",
    centre: str = "mean",
    arms: Sequence[str] = (),
) -> Table:
    """Task x arm.

    Args:
        study: the runs.
        chosen: statistic of each run; default the paper's, the peak.
        metric: metric to compare by; None as in `analysis.tables.scores.blocks`.
        kind: interval of a mean; other centres always get a bootstrap.
        centre: `mean`, `median` or `iqm` over runs.
        arms: arms to show, see `analysis.tables.scores.blocks`.
    """
    chosen = chosen or statistic("peak")
    found = blocks(study, metric, arms)
    shown = study_arms(found)
    rows: list[list[Cell | str]] = []
    for block in found:
        cells = [cell_of(block.arms.get(arm, ()), block.metric, chosen, "all", kind, centre) for arm in shown]
        rows.append([block.label, block.metric, "all", *cells])
        if any(record.state in CUT_SHORT for runs in block.arms.values() for record in runs):
            cells = [cell_of(block.arms.get(arm, ()), block.metric, chosen, "finished", kind, centre) for arm in shown]
            rows.append([block.label, block.metric, "finished only", *cells])
    rows += _over_tasks(found, shown, chosen)
    notes = []
    if chosen.name == "peak":
        notes.append("The peak of a noisy curve is biased upwards, the more so the more often a run is evaluated.")
    cut = _cut_short(found)
    if cut:
        notes.append(
            f"Stopped by a detector: {cut}. Their rows up to the stop are in `all` and not in `finished only`."
        )
    how = INTERVALS["t" if centre == "mean" and kind == "t" else "bootstrap"]
    return table(
        "main_table",
        f"Main table: {chosen.text}",
        f"{chosen.text[0].upper()}{chosen.text[1:]} of each run; {centre} over n runs ± {how}; - for the interval of "
        "a single run. Runs that are running, failed or crashed are counted beside the cell and not in it.",
        ["task", "metric", "runs", *(arm_name(arm) for arm in shown)],
        rows,
        notes,
    )


def _over_tasks(found: Sequence[Block], arms: Sequence[str], chosen: Statistic) -> list[list[Cell | str]]:
    """Mean, median and IQM over tasks that share a metric, for arms with runs in all of them."""
    by_metric: dict[str, list[Block]] = {}
    for block in found:
        by_metric.setdefault(block.metric, []).append(block)
    rows: list[list[Cell | str]] = []
    for metric, members in by_metric.items():
        if len(members) < 2:
            continue
        for name, aggregate in AGGREGATES.items():
            row: list[Cell | str] = [f"{len(members)} tasks, {name}", metric, "all"]
            for arm in arms:
                groups = [
                    np.array(list(by_seed(block.arms.get(arm, ()), metric, chosen).values())) for block in members
                ]
                whole = all(len(group) for group in groups)
                row.append(of_interval(bootstrap_interval(groups, aggregate)) if whole else Cell("not on all tasks"))
            rows.append(row)
    return rows


def _cut_short(found: Sequence[Block]) -> str:
    parts = []
    for block in found:
        for arm, runs in block.arms.items():
            for state in sorted(CUT_SHORT):
                count = sum(record.state == state for record in runs)
                if count:
                    parts.append(f"{block.label}, {arm_name(arm)}: {count} of {len(runs)} {state}")
    return "; ".join(parts)


def improvement_table(
    study: Study, chosen: Statistic | None = None, metric: str | None = None, arms: Sequence[str] = ()
) -> Table:
    """What each arm has over on-policy training, per task."""
    chosen = chosen or statistic("peak")
    rows: list[list[Cell | str]] = []
    notes = []
    for block in blocks(study, metric, arms):
        reference = by_seed(block.arms.get(REFERENCE, ()), block.metric, chosen)
        if not reference:
            notes.append(f"{block.label}: no {arm_name(REFERENCE)} run counts, so nothing can be compared.")
        for arm, runs in block.arms.items():
            if arm == REFERENCE:
                continue
            mine = by_seed(runs, block.metric, chosen)
            rows.append([block.label, arm_name(arm), *_improvement(mine, reference)])
    return table(
        "improvement",
        f"Improvement over on-policy training: {chosen.text}",
        f"{chosen.text[0].upper()}{chosen.text[1:]}. Difference of means with 95 % interval: Student t of the "
        "differences seed by seed where both arms have the same seeds, else Welch's. P(better): chance that a run of "
        "the arm beats an on-policy run (ties count half), bootstrap 95 % interval. All done runs, stopped ones "
        "included; n counts pairs, or runs of both arms.",
        ["task", "arm", "arm's mean", "on-policy mean", "difference", "relative, %", "compared", "P(better)"],
        rows,
        notes,
    )  # fmt: skip


def _improvement(mine: dict[int, float], reference: dict[int, float]) -> list[Cell | str]:
    ours = float(np.mean(list(mine.values()))) if mine else None
    base = float(np.mean(list(reference.values()))) if reference else None
    means: list[Cell | str] = [plain(ours, missing=NO_RUNS), plain(base, missing=NO_RUNS)]
    if ours is None or base is None:
        return [*means, "", "", "", ""]
    gap, paired = difference(mine, reference)
    chance = probability_of_improvement([np.array(list(mine.values()))], [np.array(list(reference.values()))])
    relative = plain(100 * gap.value / abs(base), 1) if base else Cell("base is 0")
    return [*means, of_interval(gap), relative, "seed by seed" if paired else "unpaired", of_interval(chance, 2)]


def runs_table(study: Study, metric: str | None = None, arms: Sequence[str] = ()) -> Table:
    """Every run by itself."""
    rows: list[list[Cell | str]] = []
    for block in blocks(study, metric, arms):
        for arm, runs in block.arms.items():
            for record in runs:
                x, values = record.columns.series(block.metric)
                steps = record.columns.series("counts/env_steps")[1]
                first = values[0] if len(values) else math.nan
                numbers = [_or_missing(first, 3), _or_missing(peak(values), 3), _or_missing(peak_at(x, values), 0)]
                numbers.append(_or_missing(final(values), 3))
                rows.append(
                    [
                        block.label,
                        arm_name(arm),
                        plain(record.facts.seed, 0, "not known"),
                        record.state,
                        plain(len(record.columns), 0),
                        plain(float(record.columns.iterations[-1]) if len(record.columns) else None, 0, "-"),
                        plain(float(steps[-1]) if len(steps) else None, 0, "not recorded"),
                        *(numbers if len(values) else [Cell("not measured")] * 4),
                        record.run,
                    ]
                )  # fmt: skip
    counts = f"{len(study.records)} runs, {len(counted(study.records))} of them done."
    return table(
        "runs",
        "Every run",
        f"One run per row: first, largest and last evaluation. {counts}",
        [
            "task",
            "arm",
            "seed",
            "state",
            "rows",
            "iterations",
            "environment steps",
            "first",
            "peak",
            "at",
            "last",
            "run",
        ],
        rows,
    )


def _or_missing(value: float, digits: int) -> Cell:
    return Cell("nan") if math.isnan(value) else plain(value, digits)
