"""Learning curves of arms: mean and band over runs, every run faint behind."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

from analysis.figures.bands import Curve, band, smooth
from analysis.figures.drawing import Drawing, canvas, figure_of, heading, legend_below
from analysis.figures.options import FigureOptions, blocks_of, file_name
from analysis.figures.style import Style, arm_styles, check_number, metric_label
from analysis.findings import AnalysisError
from analysis.load.record import CUT_SHORT, RunRecord
from analysis.load.study import Study
from analysis.tables.scores import Block, arm_name

CLOCKS = {
    "iteration": "iteration",
    "counts/env_steps": "environment steps",
    "counts/optimizer_steps": "optimiser steps",
    "time": "training time, minutes",
}
"""Clock of `clock_series` -> axis label."""


def clock_series(record: RunRecord, metric: str, clock: str) -> Curve:
    """(readings of a clock, values) of a run; empty where either was not recorded.

    `time` is minutes of the sum of `time/iteration` without `time/evaluation`; rows without a time (but row 0) make it
    unknown.
    """
    columns = record.columns
    if clock != "time":
        return columns.series(metric, clock)
    if metric not in columns.names or "time/iteration" not in columns.names:
        return np.empty(0), np.empty(0)
    row = columns.names.index("time/iteration")
    known = columns.present[row] | (columns.iterations == 0)
    if not known.all():
        return np.empty(0), np.empty(0)
    spent = np.where(columns.present[row], columns.values[row], 0.0)
    if "time/evaluation" in columns.names:
        other = columns.names.index("time/evaluation")
        spent = spent - np.where(columns.present[other], columns.values[other], 0.0)
    there = columns.present[columns.names.index(metric)]
    return np.cumsum(spent)[there] / 60, columns.values[columns.names.index(metric), there]


def draw_arms(
    axis: Axes, arms: Sequence[tuple[str, Style, Sequence[RunRecord]]], metric: str, clock: str, options: FigureOptions
) -> tuple[list[Line2D], list[str]]:
    """Draw labelled groups of runs into a panel.

    Mean and band are over done runs that no detector stopped (over the stopped ones if there are no others). Every run
    is faint behind; the end of one that was stopped has a cross. Runs that do not count are faint only.

    Returns:
        Handles and labels of the legend, groups without runs or without values included.
    """
    handles, labels = [], []
    faint = 0.15 if len(arms) <= 4 else 0.07
    for label, style, records in arms:
        curves = {record.run: _curve(record, metric, clock, options.smoothing) for record in records}
        drawn = [record for record in records if len(curves[record.run][0])]
        whole = [r for r in drawn if r.counts and r.state not in CUT_SHORT]
        used = whole or [r for r in drawn if r.counts]
        faint_lines(axis, [curves[record.run] for record in drawn], style)
        for record in drawn:
            x, y = curves[record.run]
            if record.state in CUT_SHORT:
                axis.plot(x[-1:], y[-1:], "x", color=style.colour, markersize=6, markeredgewidth=1.5, zorder=4)
        found = band([curves[record.run] for record in used], options.interval)
        if found is not None:
            axis.plot(found.x, found.mean, **style.line(), markevery=_every(len(found.x)), zorder=3)
            if found.low is not None and found.high is not None:
                axis.fill_between(
                    found.x, found.low, found.high, color=style.colour, alpha=faint, linewidth=0, zorder=2
                )
        handles.append(style.handle())
        labels.append(f"{label} ({_told(records, drawn, used)})")
    axis.set_xlabel(CLOCKS.get(clock, clock))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axis.margins(x=0.02)
    return handles, labels


def _curve(record: RunRecord, metric: str, clock: str, smoothing: float | None) -> Curve:
    x, y = clock_series(record, metric, clock)
    return (x, y) if smoothing is None else (x, smooth(y, smoothing))


def faint_lines(axis: Axes, curves: Sequence[Curve], style: Style) -> None:
    """Single runs, behind everything else, the fainter the more there are."""
    lines = [np.column_stack(curve) for curve in curves]
    if lines:
        alpha = max(0.06, 0.35 / math.sqrt(max(1, len(lines) / 3)))
        axis.add_collection(LineCollection(lines, colors=style.colour, linewidths=0.8, alpha=alpha, zorder=1))
        axis.autoscale_view()


def _told(records: Sequence[RunRecord], drawn: Sequence[RunRecord], used: Sequence[RunRecord]) -> str:
    """`n 3`, `n 2 + 1 diverged, 1 running`, `no runs`, `not measured`."""
    if not records:
        return "no runs"
    apart = Counter(record.state for record in records if record not in used and record in drawn)
    silent = len(records) - len(drawn)
    parts = [f"{apart[state]} {state}" for state in sorted(apart)] + ([f"{silent} not measured"] if silent else [])
    start = [f"n {len(used)}"] if used else []
    return " + ".join([*start, *([", ".join(parts)] if parts else [])])


def _every(points: int) -> int:
    """Markers on about ten points."""
    return max(1, round(points / 10))


def learning(study: Study, options: FigureOptions) -> list[Drawing]:
    """One figure per task and algorithm: the metric against iterations."""
    return [
        _curves(block, ("iteration",), "learning", f"Learning curves: {block.label}", options)
        for block in blocks_of(study, options)
    ]


def clocks(study: Study, options: FigureOptions) -> list[Drawing]:
    """One figure per task and algorithm: the metric against environment steps and against optimiser steps."""
    return [
        _curves(
            block, ("counts/env_steps", "counts/optimizer_steps"), "clocks",
            f"Learning curves at equal data and at equal updates: {block.label}", options,
        )
        for block in blocks_of(study, options)
    ]  # fmt: skip


def _curves(block: Block, against: Sequence[str], name: str, title: str, options: FigureOptions) -> Drawing:
    check_number(list(block.arms), block.label)
    styles = arm_styles(list(block.arms))
    arms = [(arm_name(arm), styles[arm], records) for arm, records in block.arms.items()]
    check_measured(block, against)
    with canvas(len(against), share_y=True) as axes:
        for axis, clock in zip(axes, against, strict=True):
            handles, labels = draw_arms(axis, arms, block.metric, clock, options)
        axes[0].set_ylabel(metric_label(block.metric))
        heading(axes, title, options.subtitle())
        legend_below(axes, handles, labels)
    told = " and ".join(CLOCKS[clock] for clock in against)
    return Drawing(
        file_name(name, block.label), title, f"{block.metric} against {told}. {caption(options)}", figure_of(axes)
    )


def check_measured(block: Block, against: Sequence[str]) -> None:
    """Raise AnalysisError if no run of a block has the metric and the clocks."""
    records = [record for runs in block.arms.values() for record in runs]
    for clock in against:
        if not any(len(clock_series(record, block.metric, clock)[0]) for record in records):
            missing = "time/iteration in every row" if clock == "time" else clock
            raise AnalysisError(f"{block.label}: no run has {block.metric} together with {missing}")


def caption(options: FigureOptions) -> str:
    """What every figure of learning curves says."""
    return (
        f"Mean and {options.band_text()}, within the range that all of them reached; n is the number of done runs in "
        "it. Faint lines are single runs; a cross is the end of a run that was stopped as dead or diverged, which the "
        "mean leaves out unless there is no other. Runs that are not done are faint lines only. Between two "
        f"evaluations a run's curve is a straight line. {options.smoothing_text()}"
    )
