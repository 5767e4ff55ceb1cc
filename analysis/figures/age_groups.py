"""Runs with replay on a common set of age bins, for the figures of staleness."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.figures.options import FigureOptions, blocks_of
from analysis.figures.style import Style, arm_styles, check_number
from analysis.findings import AnalysisError
from analysis.load.ages import FIELDS
from analysis.load.record import RunRecord
from analysis.load.study import Study
from analysis.tables.scores import Block, arm_name, counted

FloatArray = NDArray[np.float64]
COMMON = 0.01
"""Bins with a smaller share of an arm's replayed trajectories are not fitted."""
NO_AGES = "no done run has an ages.jsonl, which runs with replay write"


@dataclass(frozen=True)
class Group:
    """Runs of one arm on a common set of age bins."""

    name: str
    """Of the arm."""
    style: Style
    age: FloatArray
    """[bins] middle of each bin."""
    count: FloatArray
    """[runs, bins] replayed trajectories."""
    values: dict[str, FloatArray]
    """Field of ages.jsonl -> [runs, bins]; NaN where a run has nothing in a bin."""

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.count)

    @property
    def label(self) -> str:
        """As a legend calls it."""
        return f"{self.name} (n {self.runs})"

    def mean(self, field: str) -> FloatArray:
        """[bins] over the runs that have a value, weighted by their numbers of trajectories; NaN where none has."""
        weight = np.where(np.isfinite(self.values[field]), self.count, 0.0)
        total = weight.sum(axis=0)
        summed = np.nansum(self.values[field] * weight, axis=0)
        return np.divide(summed, total, out=np.full(len(total), math.nan), where=total > 0)

    @property
    def common(self) -> NDArray[np.bool_]:
        """[bins] that hold at least `COMMON` of the trajectories."""
        total = self.count.sum(axis=0)
        return np.asarray(total >= COMMON * total.sum())

    def without(self, run: int) -> Group:
        """The group without one of its runs."""
        kept = np.arange(self.runs) != run
        values = {field: array[kept] for field, array in self.values.items()}
        return dataclasses.replace(self, count=self.count[kept], values=values)


def age_groups(study: Study, options: FigureOptions) -> list[tuple[Block, str, str, list[Group]]]:
    """For each block and unit of age: block, unit, what to add to a file's name, and groups in the order of arms.

    Raises:
        AnalysisError: no done run has ages.
    """
    found = []
    for block in blocks_of(study, options):
        by_unit = _groups(block)
        found += [(block, unit, unit if len(by_unit) > 1 else "", groups) for unit, groups in by_unit.items()]
    if not found:
        raise AnalysisError(NO_AGES)
    return found


def _groups(block: Block) -> dict[str, list[Group]]:
    """Unit of age -> groups."""
    aged = {arm: [r for r in counted(runs) if r.ages is not None] for arm, runs in block.arms.items()}
    aged = {arm: records for arm, records in aged.items() if records}
    check_number(list(aged), block.label)
    styles = arm_styles(list(block.arms))
    found: dict[str, list[Group]] = {}
    for arm, records in aged.items():
        for unit in dict.fromkeys(r.ages.unit for r in records if r.ages is not None):
            members = [r for r in records if r.ages is not None and r.ages.unit == unit]
            found.setdefault(unit, []).append(_group(arm_name(arm), styles[arm], members))
    return found


def _group(name: str, style: Style, records: Sequence[RunRecord]) -> Group:
    tables = [record.ages.table for record in records if record.ages is not None]
    bins = sorted({(row[0], row[1]) for table in tables for row in table})
    place = {key: index for index, key in enumerate(bins)}
    count = np.zeros((len(tables), len(bins)))
    values = {field: np.full(count.shape, math.nan) for field in FIELDS[3:]}
    for run, table in enumerate(tables):
        columns = [place[row[0], row[1]] for row in table]
        count[run, columns] = table[:, 2]
        for index, field in enumerate(FIELDS[3:], start=3):
            values[field][run, columns] = table[:, index]
    # Ages are whole numbers: the bin [4, 8) holds 4 to 7.
    age = np.array([(low + high - 1) / 2 for low, high in bins])
    return Group(name, style, age, count, values)
