"""What training time buys, and what it goes into."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from analysis.figures.curves import caption, check_measured, draw_arms
from analysis.figures.drawing import Drawing, canvas, figure_of, heading, legends_below
from analysis.figures.options import FigureOptions, blocks_of, file_name
from analysis.figures.style import arm_styles, check_number, metric_label
from analysis.load.record import RunRecord
from analysis.load.study import Study
from analysis.tables.scores import arm_name, counted

PARTS = {
    "rollout": ("rollouts", "#8AB4F8", ""),
    "update": ("update on fresh data", "#9AA0A6", "///"),
    "replay_update": ("updates on replayed data", "#F28B82", "..."),
    "replay_bookkeeping": ("buffer", "#FDD663", "xxx"),
    "checkpoint": ("checkpoints", "#202124", ""),
    "rest": ("rest", "#E8EAED", ""),
}
"""`time/<part>` -> label, colour, hatch."""
VISIBLE = 0.01
"""Parts that are less than this of the longest bar everywhere are shown with the rest."""


def wall_clock(study: Study, options: FigureOptions) -> list[Drawing]:
    """One figure per task and algorithm: the metric against training time, and seconds per iteration by part."""
    drawings = []
    for block in blocks_of(study, options):
        check_number(list(block.arms), block.label)
        check_measured(block, ("time",))
        styles = arm_styles(list(block.arms))
        arms = [(arm_name(arm), styles[arm], records) for arm, records in block.arms.items()]
        title = f"Training time: {block.label}"
        with canvas(2) as axes:
            left = draw_arms(axes[0], arms, block.metric, "time", options)
            axes[0].set_ylabel(metric_label(block.metric))
            _parts(axes[1], [(name, records) for name, _, records in arms])
            heading(axes, title, options.subtitle())
            legends_below(axes, [left, axes[1].get_legend_handles_labels()])
        text = (
            f"Left: {block.metric} against training time, evaluations left out. {caption(options)} Right: seconds per "
            "iteration by part, mean over the iterations of the done runs. Runs that share a machine with other work "
            "take longer; compare only runs made side by side."
        )
        drawings.append(Drawing(file_name("wall_clock", block.label), title, text, figure_of(axes)))
    return drawings


def _parts(axis: Axes, arms: Sequence[tuple[str, Sequence[RunRecord]]]) -> None:
    places = np.arange(len(arms))
    left = np.zeros(len(arms))
    spent = {part: np.array([_seconds(records, f"time/{part}") for _, records in arms]) for part in PARTS}
    whole = sum(spent.values(), np.zeros(len(arms)))
    for part, width in spent.items():
        if part != "rest" and (width < VISIBLE * whole.max()).all():
            spent["rest"] = spent["rest"] + width
            spent[part] = np.zeros(len(arms))
    for part, (label, colour, hatch) in PARTS.items():
        width = spent[part]
        if width.any():
            axis.barh(
                places, width, 0.6, left=left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.5, label=label
            )
        left += width
    if not whole.any():
        axis.text(0.5, 0.5, "time by part was not recorded", transform=axis.transAxes, ha="center", color="#5F6368")
    axis.set_ylim(-0.6, len(arms) - 0.4)
    names = [f"{name}{'' if counted(records) else ' (none done)'}" for name, records in arms]
    axis.set_yticks(places, ["\n".join(textwrap.wrap(name, 14)) for name in names])
    axis.invert_yaxis()
    axis.grid(False, axis="y")
    axis.set_xlabel("seconds per iteration")


def _seconds(records: Sequence[RunRecord], name: str) -> float:
    """Mean over done runs of the mean over iterations from 1 on; a part that was not recorded took no time."""
    means = []
    for record in counted(records):
        x, values = record.columns.series(name)
        rows = int((record.columns.iterations > 0).sum())
        means.append(float(values[x > 0].sum() / rows) if rows else 0.0)
    return float(np.mean(means)) if means else 0.0
