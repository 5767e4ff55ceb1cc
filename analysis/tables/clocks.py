"""Arms at equal environment steps and at equal optimiser steps: the same data, or the same number of updates."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.curves import statistic
from analysis.load.study import Study
from analysis.statistics import difference, interval
from analysis.tables.scores import (
    REFERENCE,
    Block,
    arm_name,
    blocks,
    cell_of,
    clocked,
    common_limit,
    counted,
)
from analysis.tables.table import Cell, Table, of_interval, table

CLOCKS = (("counts/env_steps", "environment steps"), ("counts/optimizer_steps", "optimiser steps"))


def clock_table(study: Study, metric: str | None = None, arms: Sequence[str] = ()) -> Table:
    """Base model, value at equal environment steps and at equal optimiser steps, and the difference to on-policy."""
    rows: list[list[Cell | str]] = []
    notes = []
    for block in blocks(study, metric, arms):
        everyone = [record for runs in block.arms.values() for record in runs]
        limits = {clock: common_limit(everyone, block.metric, clock) for clock, _ in CLOCKS}
        told = [f"{limit:,.0f} {text}" for (clock, text) in CLOCKS if (limit := limits[clock]) is not None]
        if told:
            notes.append(f"{block.label}, {block.metric}: at {' and at '.join(told)}.")
        for arm in block.arms:
            row: list[Cell | str] = [block.label, arm_name(arm), _base(block, arm)]
            for clock, _ in CLOCKS:
                row += _at(block, arm, clock, limits[clock])
            rows.append(row)
    return table(
        "equal_clocks",
        "At equal environment steps and at equal optimiser steps",
        "Last evaluation within the stated number of steps: the largest at which all finished runs were evaluated, or "
        "what every run reached if that is far less. Mean over n done runs ± Student t 95 % interval, - for the "
        "interval of a single run; differences to on-policy training as in the improvement table.",
        [
            "task", "arm", "base model", "at equal environment steps", "minus on-policy at equal environment steps",
            "at equal optimiser steps", "minus on-policy at equal optimiser steps",
        ],
        rows,
        notes,
    )  # fmt: skip


def _base(block: Block, arm: str) -> Cell:
    """The evaluation before training, iteration 0."""
    values = []
    for record in counted(block.arms[arm]):
        x, y = record.columns.series(block.metric)
        if len(x) and x[0] == 0 and math.isfinite(y[0]):
            values.append(float(y[0]))
    if values:
        return of_interval(interval(values))
    done = cell_of(block.arms[arm], block.metric, statistic("final"))
    return Cell("not measured") if done.value is not None else done


def _at(block: Block, arm: str, clock: str, limit: float | None) -> list[Cell | str]:
    if limit is None:
        return [Cell("not recorded"), Cell("")]
    mine = _values(block, arm, clock, limit)
    done = cell_of(block.arms[arm], block.metric, statistic("final"))
    if not mine:
        return [Cell(done.text) if done.value is None else Cell("not recorded"), Cell("")]
    cell = of_interval(interval(list(mine.values())), suffix=done.suffix)
    if arm == REFERENCE or REFERENCE not in block.arms:
        return [cell, Cell("" if arm == REFERENCE else "no on-policy runs")]
    reference = _values(block, REFERENCE, clock, limit)
    return [cell, of_interval(difference(mine, reference)[0]) if reference else Cell("no on-policy runs")]


def _values(block: Block, arm: str, clock: str, limit: float) -> dict[int, float]:
    """Seed -> value, as in `analysis.tables.scores.by_seed`."""
    found = clocked(block.arms[arm], block.metric, clock, limit)
    values = {}
    for index, record in enumerate(block.arms[arm]):
        value = found.get(record.run, math.nan)
        if math.isfinite(value):
            values[record.facts.seed if record.facts.seed is not None else -1 - index] = value
    return values
