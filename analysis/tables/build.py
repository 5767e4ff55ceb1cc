"""Tables by their names on the command line."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from analysis.curves import Statistic
from analysis.findings import AnalysisError
from analysis.load.study import Study
from analysis.tables.clocks import clock_table
from analysis.tables.factors import FACTORS, factor_table
from analysis.tables.gain import gain_table
from analysis.tables.main import improvement_table, main_table, runs_table
from analysis.tables.paper import side_by_side
from analysis.tables.scores import check_arms
from analysis.tables.table import Table


@dataclass(frozen=True)
class TableOptions:
    """How tables are made."""

    statistic: Statistic | None = None
    """Statistic of each run; None takes each table's own."""
    metric: str | None = None
    """Metric to compare by; None takes the paper's for each task."""
    interval: Literal["t", "bootstrap"] = "t"
    """Interval of a mean in the main table."""
    centre: Literal["mean", "median", "iqm"] = "mean"
    """Centre over runs in the main table."""
    arms: tuple[str, ...] = ()
    """Arms or variants to show, in this order; none shows all."""


def _factor(index: int, study: Study, options: TableOptions) -> Table:
    chosen = [options.statistic] if options.statistic else []
    return factor_table(study, FACTORS[index], chosen, options.metric, options.arms)


TABLES: Mapping[str, Callable[[Study, TableOptions], Table]] = {
    "main": lambda study, o: main_table(study, o.statistic, o.metric, o.interval, o.centre, o.arms),
    "improvement": lambda study, o: improvement_table(study, o.statistic, o.metric, o.arms),
    "clocks": lambda study, o: clock_table(study, o.metric, o.arms),
    "gain": lambda study, o: gain_table(study, o.metric, o.arms),
    "paper": lambda study, o: side_by_side(study, o.metric, o.arms),
    **{factor.name: functools.partial(_factor, index) for index, factor in enumerate(FACTORS)},
    "runs": lambda study, o: runs_table(study, o.metric, o.arms),
}


def build_tables(study: Study, names: list[str], options: TableOptions) -> tuple[list[Table], list[str]]:
    """Tables of some names; `all` stands for every one that the runs allow.

    Returns:
        Tables, and for each table of `all` that the runs do not allow, why not.

    Raises:
        AnalysisError: a table that was named cannot be made.
    """
    if options.metric is not None:
        study.check_metrics([options.metric])
    check_arms(study, options.arms)
    everything = "all" in names
    tables, skipped = [], []
    for name in TABLES if everything else names:
        try:
            tables.append(TABLES[name](study, options))
        except AnalysisError as error:
            if not everything:
                raise
            skipped.append(str(error))
    return tables, skipped
