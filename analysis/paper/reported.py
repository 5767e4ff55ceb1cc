"""Read the reported main table, the public runs' curves, and which run stands in which figure. Columns: notes.md."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

FOLDER = Path(__file__).parent
NOTES = FOLDER / "notes.md"
FloatArray = NDArray[np.float64]


NUMBERS = {"value": float, "iteration": int, "tau": float, "x_to": float, "x_scale": float, "smoothing": float}


def _read(name: str) -> pd.DataFrame:
    """A file of this folder; numbers exactly as written (pandas' own parser may differ in the last bit)."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {}
    for key in rows[0]:
        number = NUMBERS.get(key)
        columns[key] = [row[key] if number is None else number(row[key] or "nan") for row in rows]
    return pd.DataFrame(columns)


@functools.cache
def _main_table() -> pd.DataFrame:
    return _read("main_table.csv")


def main_table() -> pd.DataFrame:
    """The reported main table, long: task, modality, model, metric, arm, value (peak of one run)."""
    return _main_table().copy()


@functools.cache
def tasks() -> tuple[str, ...]:
    """Tasks of the main table, in its order."""
    return tuple(dict.fromkeys(_main_table()["task"]))


def metric(task: str) -> str:
    """`success` or `score`, by which the main table compares on a task."""
    frame = _main_table()
    return str(frame.loc[frame["task"] == task, "metric"].iloc[0])


def value(task: str, arm: str) -> float | None:
    """Reported value; None where the main table has none."""
    frame = _main_table()
    found = frame.loc[(frame["task"] == task) & (frame["arm"] == arm), "value"]
    return float(found.iloc[0]) if len(found) else None


def model(task: str) -> str:
    """Model that the main table names for a task."""
    frame = _main_table()
    return str(frame.loc[frame["task"] == task, "model"].iloc[0])


@functools.cache
def _runs() -> pd.DataFrame:
    frame = _read("runs.csv")
    return frame.assign(plotted=frame["plotted"] == "yes")


def all_runs() -> pd.DataFrame:
    """All public runs: run, task, arm, tau, algorithm, plotted."""
    return _runs().copy()


@functools.cache
def _curves() -> pd.DataFrame:
    return _read("curves.csv").merge(_runs(), on="run", validate="many_to_one")


def curves() -> pd.DataFrame:
    """All points of all public runs at full length: run, metric, iteration, value, and the columns of `all_runs`."""
    return _curves().copy()


def series(run: str, metric_name: str) -> tuple[FloatArray, FloatArray]:
    """(iterations, values) of a public run at full length; empty if it has no such metric."""
    frame = _curves()
    chosen = frame[(frame["run"] == run) & (frame["metric"] == metric_name)]
    return chosen["iteration"].to_numpy(np.float64), chosen["value"].to_numpy(np.float64)


@dataclass(frozen=True)
class Line:
    """One line of a figure."""

    role: str
    """`on_policy`, `standard_per`, `freshper`, `tau_500`, `tau_1000`, `tau_1500` or `tau_500_is`."""
    run: str
    """Public run that is drawn."""
    iterations: FloatArray
    """[n] at full length and as recorded."""
    values: FloatArray
    """[n]"""


@dataclass(frozen=True)
class PaperFigure:
    """One panel, as the paper shows it."""

    name: str
    """Number and letter: `3a`."""
    task: str
    metric: str
    """`success` or `score`."""
    x_to: float
    """Last iteration that is shown."""
    x_scale: float
    """Factor on the x axis: 200/220 for 4a, else 1."""
    smoothing: float | None
    """Weight of the newest value in an exponential moving average; None for raw lines."""
    lines: tuple[Line, ...]


@functools.cache
def figures() -> tuple[PaperFigure, ...]:
    """Panels with data, in the paper's order: 3a to 3e, 4a, 4b, 5a, 5b, 6a, 6b, 7."""
    found = []
    for name, rows in _read("figures.csv").groupby("figure", sort=False):
        first = rows.iloc[0]
        lines = tuple(Line(row.role, row.run, *series(row.run, row.metric)) for row in rows.itertuples())
        smoothing = None if np.isnan(first["smoothing"]) else float(first["smoothing"])
        found.append(
            PaperFigure(
                str(name),
                first["task"],
                first["metric"],
                float(first["x_to"]),
                float(first["x_scale"]),
                smoothing,
                lines,
            )
        )
    return tuple(found)


def figure(name: str) -> PaperFigure:
    """The panel of a name.

    Raises:
        KeyError: naming those that there are.
    """
    known = {panel.name: panel for panel in figures()}
    if name not in known:
        raise KeyError(f"no panel {name}; there are {', '.join(known)}")
    return known[name]
