"""From runs to cells: which runs a cell is about, which metric, and what is said of runs that give no number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.curves import Statistic, value_at
from analysis.findings import AnalysisError
from analysis.load.record import CUT_SHORT, RunRecord
from analysis.load.study import Study
from analysis.paper import reported
from analysis.statistics import interval
from analysis.tables.table import NO_RUNS, NOT_MEASURED, Cell, of_interval

Which = Literal["all", "finished"]
"""`all` done runs, or those among them that no detector stopped."""

ARM_NAMES = {
    "on_policy": "on-policy",
    "on_policy_epochs": "on-policy, 1 + K epochs",
    "placebo": "placebo replay",
    "uniform": "uniform replay",
    "age_window": "age window",
    "standard_per": "standard PER",
    "per_no_decay": "FreshPER without decay",
    "freshper": "FreshPER",
    "freshper_is": "FreshPER + IS",
}
"""Variants as tables and figures call them, in the order in which they stand."""
ALGORITHM_NAMES = {"reinforce_pp": "REINFORCE++", "grpo": "GRPO", "ppo": "PPO"}
REFERENCE = "on_policy"
"""Arm against which improvements are taken."""
PAPER_METRICS = {"success": "eval/success", "score": "eval/return"}


def arm_name(arm: str) -> str:
    """`freshper tau=100` -> `FreshPER tau=100`."""
    variant, _, settings = arm.partition(" ")
    return f"{ARM_NAMES.get(variant, variant)} {settings}".strip()


def arm_order(arm: str) -> tuple[int, tuple[tuple[int, float, str], ...]]:
    """Sort key: known variants in their order, others after; settings by value."""
    variant, _, settings = arm.partition(" ")
    known = list(ARM_NAMES)
    return (known.index(variant) if variant in known else len(known)), tuple(
        map(_natural, (variant + " " + settings).split())
    )


def _natural(word: str) -> tuple[int, float, str]:
    name, _, value = word.partition("=")
    try:
        return 0, float(value), name
    except ValueError:
        return 1, 0.0, word


@dataclass(frozen=True)
class Block:
    """Runs that may be compared with one another: one task, one algorithm."""

    task: str
    algorithm: str | None
    label: str
    """As tables call it; names the algorithm where a study has several."""
    metric: str
    """Metric by which its runs are compared."""
    arms: Mapping[str, tuple[RunRecord, ...]]
    """Arm -> runs, in the order of tables."""


def blocks(study: Study, metric: str | None = None, arms: Sequence[str] = ()) -> list[Block]:
    """The blocks of a study.

    Args:
        study: the runs.
        metric: metric to compare by; None takes the one of the paper's main table, else `eval/success`, else
            `eval/return`.
        arms: arms or variants to show, in this order; those without runs are there too, empty. None shows all.

    Raises:
        AnalysisError: no run has the metric, or none of the arms has a run.
    """
    if metric is not None:
        study.check_metrics([metric])
    check_arms(study, arms)
    grouped: dict[tuple[str, str | None], dict[str, list[RunRecord]]] = {}
    for record in study.records:
        facts = record.facts
        grouped.setdefault((facts.task, facts.algorithm), {}).setdefault(facts.arm, []).append(record)
    several = len({algorithm for _, algorithm in grouped}) > 1
    known = list(reported.tasks())

    def order(key: tuple[str, str | None]) -> tuple[int, str, str]:
        task, algorithm = key
        return (known.index(task) if task in known else len(known)), task, algorithm or ""

    found = []
    for task, algorithm in sorted(grouped, key=order):
        members = grouped[task, algorithm]
        label = task
        if several:
            label += f" ({ALGORITHM_NAMES.get(algorithm, algorithm) if algorithm else 'algorithm not known'})"
        ordered = {arm: tuple(members[arm]) for arm in sorted(members, key=arm_order)}
        if arms:
            ordered = {found: runs for arm in arms for found, runs in _chosen(ordered, arm).items()}
        chosen = metric or _default_metric(task, [record for runs in members.values() for record in runs])
        found.append(Block(task, algorithm, label, chosen, ordered))
    return found


def _chosen(members: Mapping[str, tuple[RunRecord, ...]], name: str) -> dict[str, tuple[RunRecord, ...]]:
    """Arms of that label or variant; the name itself, empty, if there are none."""
    found = {arm: runs for arm, runs in members.items() if name in (arm, arm.partition(" ")[0])}
    return found or {name: ()}


def check_arms(study: Study, arms: Sequence[str]) -> list[str]:
    """Those of some arms (or variants) that have no run.

    Raises:
        AnalysisError: none of them has, although arms were named.
    """
    there = {record.facts.arm for record in study.records}
    absent = [name for name in arms if not any(name in (arm, arm.partition(" ")[0]) for arm in there)]
    if arms and len(absent) == len(arms):
        raise AnalysisError(
            f"no run of the arms {', '.join(arms)}; there are {', '.join(sorted(there, key=arm_order))}"
        )
    return absent


def _default_metric(task: str, records: Sequence[RunRecord]) -> str:
    wanted = [PAPER_METRICS[reported.metric(task)]] if task in reported.tasks() else []
    for name in [*wanted, "eval/success", "eval/return"]:
        if any(record.columns.has(name) for record in records):
            return name
    return "eval/success"


def study_arms(found: Sequence[Block]) -> list[str]:
    """All arms of some blocks, in the order of tables."""
    arms = list(dict.fromkeys(arm for block in found for arm in block.arms))
    return arms if len(found) == 1 else sorted(arms, key=arm_order)


def counted(records: Sequence[RunRecord], which: Which = "all") -> list[RunRecord]:
    """Runs whose numbers count. Running, failed and crashed ones do not: they have not got to the end."""
    return [r for r in records if r.counts and (which == "all" or r.state not in CUT_SHORT)]


def values_of(records: Sequence[RunRecord], metric: str, chosen: Statistic) -> list[float]:
    """Statistic of each run that recorded the metric; may be NaN or infinite."""
    return [chosen.of(*r.columns.series(metric)) for r in records if r.columns.has(metric)]


def by_seed(records: Sequence[RunRecord], metric: str, chosen: Statistic) -> dict[int, float]:
    """Seed -> finite statistic, over the runs that count; runs without a seed get negative keys of their own."""
    found = {}
    for index, record in enumerate(counted(records)):
        values = values_of([record], metric, chosen)
        if values and math.isfinite(values[0]):
            found[record.facts.seed if record.facts.seed is not None else -1 - index] = values[0]
    return found


def cell_of(
    records: Sequence[RunRecord],
    metric: str,
    chosen: Statistic,
    which: Which = "all",
    kind: Literal["t", "bootstrap"] = "t",
    centre: str = "mean",
    digits: int = 3,
) -> Cell:
    """Centre and interval of some runs, with n, and a word about each run that gives no number."""
    if not records:
        return Cell(NO_RUNS)
    done = counted(records, which)
    suffix = left_out([record for record in records if not record.counts])
    if not done:
        return Cell(suffix.removeprefix("; ") or f"none finished ({len(records)} cut short)")
    values = values_of(done, metric, chosen)
    if not values:
        return Cell(NOT_MEASURED)
    finite = [value for value in values if math.isfinite(value)]
    nans, never = sum(map(math.isnan, values)), sum(map(math.isinf, values))
    suffix += f"; {nans} nan" if nans else ""
    suffix += f"; {never} never" if never else ""
    suffix += f"; {len(done) - len(values)} {NOT_MEASURED}" if len(values) < len(done) else ""
    if not finite:
        return Cell(suffix.removeprefix("; "))
    return of_interval(interval(finite, kind, centre), digits, suffix)


def left_out(records: Sequence[RunRecord]) -> str:
    """`; 1 failed, 2 running`, or nothing."""
    counts = Counter(record.state for record in records)
    return "; " + ", ".join(f"{counts[state]} {state}" for state in sorted(counts)) if counts else ""


def common_limit(records: Sequence[RunRecord], metric: str, clock: str) -> float | None:
    """Reading of a clock at which runs are compared.

    The largest at which all were evaluated if that is at least half of what every run reached, else what every run
    reached. None if no run has the clock. Runs that a detector stopped do not shorten the others.
    """
    readings = [record.columns.series(metric, clock)[0] for record in counted(records, "finished") or counted(records)]
    readings = [values for values in readings if len(values)]
    if not readings:
        return None
    shared = set.intersection(*(set(values.tolist()) for values in readings))
    best, reached = max(shared, default=0.0), min(values[-1] for values in readings)
    return float(best if best >= reached / 2 > 0 else reached)


def clocked(records: Sequence[RunRecord], metric: str, clock: str, limit: float) -> dict[str, float]:
    """Run -> last value of the metric that used at most `limit` of a clock."""
    found = {}
    for record in counted(records):
        x, values = record.columns.series(metric, clock)
        if len(x):
            found[record.run] = value_at(x, values, limit)
    return found
