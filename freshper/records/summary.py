"""The text at the end of a run: what it learned, what it cost, where to look."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from freshper.records.metrics import Row, series

CPU = "time/cpu"
"""Metric of the CPU seconds of an iteration."""


@dataclass(frozen=True)
class Success:
    """Success rate at three moments of a run."""

    base: float
    """Of the base model (row 0)."""
    final: float
    """At the last evaluation."""
    best: float
    """Largest of all evaluations, hence biased upwards."""
    best_iteration: int
    """When that was."""


def success(rows: Sequence[Row], name: str = "eval/success") -> Success | None:
    """Base, final and best value of an evaluation metric; None if it was never measured."""
    iterations, values = series(rows, name)
    if not values:
        return None
    best = max(range(len(values)), key=lambda index: (values[index], -index))
    return Success(values[0], values[-1], values[best], int(iterations[best]))


def standard_error(rate: float, episodes: int) -> float:
    """Binomial standard error of a success rate over independent episodes."""
    return math.sqrt(rate * (1 - rate) / episodes)


def summary(rows: Sequence[Row], episodes: int, folder: Path, curve: Path | None = None) -> str:
    """A few lines about a run.

    Args:
        rows: its metrics.
        episodes: episodes per evaluation (for the standard error).
        folder: run folder.
        curve: the picture, if one was drawn.
    """
    lines = []
    for label, name in (("sampled", "eval/success"), ("greedy", "eval/success_greedy")):
        found = success(rows, name)
        if found is not None:
            lines.append(
                f"success, {label:<8} base {_rate(found.base, episodes)}   final {_rate(found.final, episodes)}   "
                f"best {100 * found.best:.1f} % (iteration {found.best_iteration})"
            )
    if lines:
        lines.append(f"                  {episodes} held-out episodes each, plus or minus one standard error")
    if rows:
        last = rows[-1]
        counts = [
            f"{int(last[key]):,} {text}"
            for key, text in (
                ("counts/env_steps", "environment steps"),
                ("counts/episodes", "episodes"),
                ("counts/optimizer_steps", "optimiser steps"),
                ("counts/tokens", "tokens"),
            )
            if key in last
        ]
        if counts:
            lines.append(f"cost              {', '.join(counts)}")
    lines += _time_line(rows)
    lines.append(f"run folder        {folder}")
    if curve is not None:
        lines.append(f"picture           {curve}")
    return "\n".join(lines)


def _rate(rate: float, episodes: int) -> str:
    return f"{100 * rate:.1f} ± {100 * standard_error(rate, episodes):.1f} %"


def time_split(rows: Sequence[Row]) -> dict[str, float]:
    """Seconds on the clock spent on each part (`time/<part>`) over the run.

    `rest` is what `time/iteration` has beyond the parts; `time/cpu` is another clock and none of them.
    """
    parts: dict[str, float] = {}
    for row in rows:
        inside = {key.removeprefix("time/"): value for key, value in row.items() if key.startswith("time/")}
        inside.pop(CPU.removeprefix("time/"), None)
        whole = inside.pop("iteration", 0.0)
        if "rest" not in inside:
            inside["rest"] = max(0.0, whole - sum(inside.values()))
        for part, seconds in inside.items():
            parts[part] = parts.get(part, 0.0) + seconds
    return parts


def cpu_seconds(rows: Sequence[Row]) -> float | None:
    """CPU seconds of all iterations; None if a row that has a time on the clock has none (it was not recorded yet)."""
    timed = [row for row in rows if "time/iteration" in row]
    if not timed or any(CPU not in row for row in timed):
        return None
    return float(sum(row[CPU] for row in timed))


def _time_line(rows: Sequence[Row]) -> list[str]:
    split = time_split(rows)
    total = sum(split.values())
    if total <= 0:
        return []
    shares = ", ".join(f"{part.replace('_', ' ')} {_share(seconds / total)}" for part, seconds in split.items())
    cpu = cpu_seconds(rows)
    beside = "" if cpu is None else f" ({duration(cpu)} of CPU time)"
    return [f"time              {duration(total)}{beside}: {shares}"]


def _share(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else "below 1 %"


def duration(seconds: float) -> str:
    """`8.3 s`, `4 min 05 s` or `2 h 10 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
