"""One setting at a time: tau, base priority, importance-sampling correction, replay ratio.

A row stands beside another only if the configs behind them differ in that setting alone (and the seed). On-policy runs
of the same task and algorithm are shown for reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.curves import Statistic, statistic
from analysis.findings import AnalysisError
from analysis.load.arms import FOLLOWS
from analysis.load.facts import shown
from analysis.load.record import RunRecord
from analysis.load.study import Study
from analysis.tables.scores import REFERENCE, Block, arm_name, blocks, cell_of, counted
from analysis.tables.table import Cell, Table, plain, table


@dataclass(frozen=True)
class Factor:
    """A setting that a table varies."""

    name: str
    """Name of the table on the command line."""
    file: str
    """File name of the table."""
    title: str
    keys: tuple[str, ...]
    """Config keys that belong to it; all others have to be equal."""
    value: Callable[[Mapping[str, Any]], tuple[float, str] | None]
    """From a flattened config: sort key and text, None if the config has no such setting."""
    example: str
    """Command that makes runs for the table."""


def _tau(config: Mapping[str, Any]) -> tuple[float, str] | None:
    law = config.get("replay.decay.law")
    if law not in {"none", "exponential"}:
        return None
    tau = math.inf if law == "none" else float(config["replay.decay.tau"])
    return tau, "∞ (no decay)" if math.isinf(tau) else f"{tau:g}"


def _base(config: Mapping[str, Any]) -> tuple[float, str] | None:
    names = ("uniform", "reward", "advantage", "td_error", "success", "low_entropy")
    name = str(config["replay.priority.base"])
    return (float(names.index(name)) if name in names else math.inf), name


def _correction(config: Mapping[str, Any]) -> tuple[float, str] | None:
    if not config["replay.is_correction.enabled"]:
        return -1.0, "off"
    first, last = (float(config[f"replay.is_correction.{key}"]) for key in ("beta", "beta_final"))
    how = config["replay.is_correction.normalise"]
    return first, f"beta {first:g}" + (f" → {last:g}" if last != first else "") + f", largest of the {how} = 1"


def _ratio(config: Mapping[str, Any]) -> tuple[float, str] | None:
    batches = config["replay.batches_per_iteration"]
    return float(batches), str(batches)


FACTORS = (
    Factor(
        "tau", "tau_sensitivity", "Sensitivity to tau", ("replay.decay.tau", "replay.decay.law", "scale.tau"), _tau,
        "python run.py -m variant=freshper replay.decay.tau=10,30,100 seed=0,1,2",
    ),
    Factor(
        "base", "base_priority", "Base priority", ("replay.priority.base",), _base,
        "python run.py -m variant=freshper replay.priority.base=reward,advantage,success seed=0,1,2",
    ),
    Factor(
        "is", "is_correction", "Importance-sampling correction",
        tuple(f"replay.is_correction.{key}" for key in ("enabled", "beta", "beta_final", "normalise")), _correction,
        "python run.py -m variant=freshper replay.is_correction.enabled=false,true seed=0,1,2",
    ),
    Factor(
        "ratio", "replay_ratio", "Replay ratio K (replay batches per iteration)", ("replay.batches_per_iteration",),
        _ratio, "python run.py -m variant=freshper replay.batches_per_iteration=1,2,4 seed=0,1,2",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Level:
    """Runs at one value of a factor."""

    order: float
    text: str
    records: tuple[RunRecord, ...]


def levels(block: Block, factor: Factor) -> list[list[Level]]:
    """Sets of levels that differ in the factor alone, each with two levels or more, in the order of its values."""
    cells: dict[str | None, list[RunRecord]] = {}
    for records in block.arms.values():
        for record in records:
            if record.settings and record.facts.replay_ratio:
                cells.setdefault(record.facts.cell, []).append(record)
    sets: dict[frozenset[tuple[str, Any]], dict[tuple[float, str], list[RunRecord]]] = {}
    for repetitions in cells.values():
        settings = repetitions[0].settings
        found = factor.value(settings)
        if found is not None:
            sets.setdefault(_rest(settings, factor), {}).setdefault(found, []).extend(repetitions)
    return [
        [Level(order, text, tuple(members[order, text])) for order, text in sorted(members)]
        for members in sets.values()
        if len(members) > 1
    ]


def _rest(settings: Mapping[str, Any], factor: Factor) -> frozenset[tuple[str, Any]]:
    """What has to be equal: everything but the factor, the seed and names."""
    left_out = {*factor.keys, *FOLLOWS, "seed", "variant.name"}
    return frozenset(item for item in settings.items() if item[0] not in left_out)


def factor_table(
    study: Study, factor: Factor, chosen: Sequence[Statistic] = (), metric: str | None = None, arms: Sequence[str] = ()
) -> Table:
    """The table of a factor.

    Raises:
        AnalysisError: no two runs differ in the factor alone; says which values there are and how to make runs.
    """
    statistics = list(chosen) or [statistic("peak"), statistic("final")]
    rows: list[list[Cell | str]] = []
    notes: list[str] = []
    seen: set[str] = set()
    for block in blocks(study, metric, arms):
        for position, members in enumerate(found := levels(block, factor)):
            label = block.label + (f", set {position + 1}" if len(found) > 1 else "")
            if len(found) > 1:
                notes.append(f"{label}: {_what_differs(found, position)}.")
            for level in members:
                seen |= {record.run for record in level.records}
                cells = [cell_of(level.records, block.metric, one) for one in statistics]
                rows.append([label, level.text, *_half_life(factor, level), *cells])
            if REFERENCE in block.arms:
                cells = [cell_of(block.arms[REFERENCE], block.metric, one) for one in statistics]
                rows.append([label, arm_name(REFERENCE), *([""] * len(_half_life_header(factor))), *cells])
    if not rows:
        raise AnalysisError(
            f"{factor.title}: no two runs differ in {factor.keys[0]} alone"
            + (f" (found: {', '.join(_values(study, factor))})" if _values(study, factor) else "")
            + f"; such runs come from: {factor.example}"
        )
    aside = [record for record in counted(study.records) if record.facts.replay_ratio and record.run not in seen]
    if aside:
        notes.append(f"{len(aside)} other runs with replay differ in more than this setting and are not shown.")
    told = " and ".join(one.text for one in statistics)
    return table(
        factor.file,
        factor.title,
        f"{told[0].upper()}{told[1:]} of each run; mean over n done runs ± Student t 95 % "
        f"interval, - for the interval of a single run. Within a set only {factor.keys[0]} differs.",
        ["task", factor.name, *_half_life_header(factor), *(one.text for one in statistics)],
        rows,
        notes,
    )


def _half_life_header(factor: Factor) -> list[str]:
    return ["sampling weight halves at age", "share of the run, %"] if factor.name == "tau" else []


def _half_life(factor: Factor, level: Level) -> list[Cell | str]:
    """Age at which the sampling weight has halved (tau ln 2 / alpha inside alpha), and tau / length of the run."""
    if factor.name != "tau":
        return []
    facts, config = level.records[0].facts, level.records[0].settings
    if math.isinf(level.order):
        return [Cell("never"), Cell("")]
    inside = config.get("replay.decay.placement") == "inside_alpha"
    exponent = (facts.alpha or 0.0) if inside else 1.0
    half = plain(level.order * math.log(2) / exponent, 0) if exponent else Cell("never")
    return [half, _share(level)]


def _share(level: Level) -> Cell:
    lengths = []
    for record in counted(level.records, "finished"):
        if record.facts.age_unit == "iterations" and len(record.columns):
            lengths.append(float(record.columns.iterations[-1]))
        else:
            steps = record.columns.series("counts/optimizer_steps")[1]
            lengths += [float(steps[-1])] if len(steps) else []
    longest = max(lengths, default=0.0)
    return plain(100 * level.order / longest, 0) if longest else Cell("not known")


def _what_differs(found: Sequence[Sequence[Level]], position: int) -> str:
    """Settings of a set that differ from those of another set."""
    configs = [members[0].records[0].settings for members in found]
    mine = configs[position]
    keys = [
        key for key in mine
        if key not in {"seed", "variant.name", *FOLLOWS} and len({repr(config.get(key)) for config in configs}) > 1
    ]  # fmt: skip
    return ", ".join(f"{key} = {shown(mine[key])}" for key in keys[:6]) or mine["variant.name"]


def _values(study: Study, factor: Factor) -> list[str]:
    texts = {}
    for record in study.records:
        if record.settings and record.facts.replay_ratio:
            found = factor.value(record.settings)
            if found is not None:
                texts[found] = found[1]
    return [texts[key] for key in sorted(texts)]
