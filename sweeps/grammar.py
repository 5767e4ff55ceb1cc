"""Hydra's sweep grammar: what is swept, over which values.

`a,b`, `range()`, `choice()`, `glob()`, `shuffle()`, `sort()`, `tag()` and casts are finite; `interval()` is searched.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import IntervalSweep, Override, ValueType

from freshper.config.errors import ConfigError, Issue
from freshper.config.overrides import sort_overrides
from freshper.config.schema import group_options, schema_fields


@dataclass(frozen=True)
class Interval:
    """One `interval()` dimension."""

    key: str
    """Dotted config key."""
    low: float
    """Smallest value."""
    high: float
    """Largest value."""
    integer: bool = False
    """Whole numbers only, as the key wants or the tag `int` says."""
    log: bool = False
    """Sample the logarithm uniformly: `tag(log, interval(...))`."""


def merge(params: Mapping[str, str], overrides: Sequence[str], conf_dir: Path) -> list[Override]:
    """Parsed overrides of file and command line, each key once, the later one winning; Hydra's own left out."""
    texts = [*(f"{key}={value}" for key, value in params.items()), *overrides]
    parsed, issues = sort_overrides(texts, multirun=True, conf_dir=conf_dir)
    if issues:
        raise ConfigError(issues)
    merged: dict[str, Override] = {}
    for override in parsed:
        if not override.is_hydra_override():
            merged[f"{override.key_or_group}@{override.package}"] = override
    return list(merged.values())


def dimensions(
    parsed: Sequence[Override], conf_dir: Path
) -> tuple[dict[str, list[tuple[str, ...]]], tuple[Interval, ...]]:
    """Key -> its alternatives, each a tuple of overrides (empty for a searched key), and the searched dimensions."""
    grid: dict[str, list[tuple[str, ...]]] = {}
    intervals: list[Interval] = []
    issues: list[Issue] = []
    for override in parsed:
        key = override.key_or_group
        element = override.get_key_element()
        if override.is_delete():
            grid[key] = [(override.input_line or element,)]
        elif override.is_interval_sweep():
            try:
                intervals.append(_interval(override, group_options(conf_dir)))
            except ConfigError as error:
                issues += error.issues
        elif override.value_type == ValueType.GLOB_CHOICE_SWEEP:
            options = override.value().filter(group_options(conf_dir).get(key, []))  # type: ignore[union-attr]
            if not options:
                issues.append(Issue(key, "no option matches", (override.input_line or "").partition("=")[2]))
            grid[key] = [(f"{element}={option}",) for option in options]
        elif override.is_sweep_override():
            grid[key] = [(f"{element}={value}",) for value in override.sweep_string_iterator()]
        else:
            grid[key] = [(f"{element}={override.get_value_element_as_str()}",)]
    if issues:
        raise ConfigError(issues)
    return grid, tuple(intervals)


def _interval(override: Override, groups: Collection[str]) -> Interval:
    sweep = override.value()
    assert isinstance(sweep, IntervalSweep) and sweep.start is not None and sweep.end is not None
    key, text = override.key_or_group, (override.input_line or "").partition("=")[2]
    unknown = sorted(sweep.tags - {"log", "int"})
    problem = None
    if key in groups or key not in schema_fields():
        problem = "interval() needs a numeric key; a group has options"
    elif not sweep.start < sweep.end:
        problem = f"expected interval(low,high) with low < high, got {sweep.start:g} and {sweep.end:g}"
    elif "log" in sweep.tags and sweep.start <= 0:
        problem = "tag(log, ...) expects a lower end above 0"
    elif unknown:
        problem = f"unknown tag {', '.join(unknown)}; expected log or int"
    if problem:
        raise ConfigError([Issue(key, problem, text)])
    # Hydra makes floats of both ends, so the key has to say whether it wants whole numbers.
    integer = "int" in sweep.tags or isinstance(sweep.start, int) or _is_whole(schema_fields()[key].annotation)
    return Interval(key, sweep.start, sweep.end, integer, "log" in sweep.tags)


def _is_whole(annotation: Any) -> bool:
    """Whether a field takes whole numbers: `int`, annotated or optional."""
    return annotation is int or any(_is_whole(part) for part in typing.get_args(annotation))


def centre(interval: Interval) -> float:
    """Middle of an interval, on the scale that it is sampled on."""
    middle = (interval.low * interval.high) ** 0.5 if interval.log else (interval.low + interval.high) / 2
    return int(middle) if interval.integer else middle


def title(parsed: Sequence[Override]) -> str:
    """The one experiment of a sweep, or "sweep"."""
    for override in parsed:
        if override.key_or_group == "experiment" and not override.is_sweep_override() and not override.is_delete():
            return str(override.value()).replace("/", "-")
    return "sweep"
