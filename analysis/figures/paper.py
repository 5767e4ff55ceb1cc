"""The paper's panels: from its public runs alone, and beside ours; and all public runs at full length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.figures.bands import Curve, smooth
from analysis.figures.curves import caption, check_measured, draw_arms
from analysis.figures.drawing import Drawing, canvas, figure_of, heading, legend_below, legends_below
from analysis.figures.options import FigureOptions, blocks_of, file_name
from analysis.figures.style import (
    Style,
    arm_styles,
    check_number,
    level_styles,
    metric_label,
    role_label,
    role_style,
)
from analysis.findings import AnalysisError
from analysis.load.record import RunRecord
from analysis.load.study import Study
from analysis.paper import reported
from analysis.tables.factors import FACTORS, Factor, levels
from analysis.tables.scores import ALGORITHM_NAMES, REFERENCE, Block, arm_name

METRIC_NAMES = {"success": "validation success rate", "score": "validation score"}
TASKS = {"frozenlake_ablation": "frozenlake"}
"""Task of a panel -> task of our runs, where they differ (`notes.md`)."""
PANELS = tuple(panel.name for panel in reported.figures())
SOURCE = "arXiv 2604.16918"
ABLATIONS = {"5a": "tau", "5b": "tau", "7": "is"}
"""Panels that vary one setting of FreshPER; the others compare arms."""
PAPER_ARMS = (REFERENCE, "standard_per", "freshper")


def panel_drawing(panel: reported.PaperFigure, as_printed: bool = False) -> Drawing:
    """A panel of the paper from its public runs.

    Args:
        panel: which.
        as_printed: smooth and rescale as the paper does (4a, 5b, 7), and say so.
    """
    title = f"Figure {panel.name}: {panel.task}"
    with canvas(1) as axes:
        _panel(axes[0], panel, as_printed)
        axes[0].set_ylabel(METRIC_NAMES[panel.metric])
        heading(axes, title, _done_to(panel, as_printed, short=True))
        labels = [role_label(line.role) for line in panel.lines]
        legend_below(axes, [role_style(line.role).handle() for line in panel.lines], labels)
    text = (
        f"Figure {panel.name} of {SOURCE} from the public runs ({panel.metric}, one run with one seed per line, shown "
        f"to iteration {panel.x_to:g}). {_done_to(panel, as_printed)} Runs: "
        f"{'; '.join(f'{role_label(line.role)}: {line.run}' for line in panel.lines)}."
    )
    name = file_name(f"figure {panel.name}", panel.task, *(["as printed"] if as_printed and _treated(panel) else []))
    return Drawing(name, title, text, figure_of(axes))


def paper_drawings(as_printed: bool = False) -> list[Drawing]:
    """Every panel of the paper that shows data."""
    return [panel_drawing(panel, as_printed) for panel in reported.figures()]


def _treated(panel: reported.PaperFigure) -> bool:
    return panel.smoothing is not None or panel.x_scale != 1


def _done_to(panel: reported.PaperFigure, as_printed: bool, short: bool = False) -> str:
    """What was done to the lines, and what the paper does to them."""
    done = []
    if panel.smoothing is not None:
        done.append(f"smoothed (moving average, weight {panel.smoothing:g})")
    if panel.x_scale != 1:
        done.append(f"drawn over iterations x {panel.x_scale:.3g}")
    if not done:
        return "one run per line, raw values" if short else "Nothing is smoothed, padded or rescaled."
    told = " and ".join(done)
    if as_printed:
        return f"as printed: {told}" if short else f"As in the paper: {told}."
    return f"raw values; the paper's are {told}" if short else f"Raw values; in the paper they are {told}."


def _panel(axis: Axes, panel: reported.PaperFigure, as_printed: bool) -> None:
    for line in panel.lines:
        within = line.iterations <= panel.x_to
        x, y = line.iterations[within], line.values[within]
        if as_printed:
            x = x * panel.x_scale
            y = smooth(y, panel.smoothing) if panel.smoothing is not None else y
        axis.plot(x, y, **role_style(line.role).line(1.5), markevery=max(1, round(len(x) / 20)))
    axis.set_xlabel("iteration" + (f" x {panel.x_scale:.3g}" if as_printed and panel.x_scale != 1 else ""))


def beside(study: Study, name: str, options: FigureOptions) -> list[Drawing]:
    """A panel of the paper beside the same comparison of our runs, one figure per algorithm.

    Raises:
        AnalysisError: no run is of the panel's task, or (5a, 5b, 7) no two runs differ in the panel's setting alone.
    """
    panel = reported.figure(name)
    task = TASKS.get(panel.task, panel.task)
    chosen = [block for block in blocks_of(study, options) if block.task == task]
    if not chosen:
        there = ", ".join(sorted({record.facts.task for record in study.records}))
        raise AnalysisError(f"figure {name}: no run is of the task {task}; the runs are of {there}")
    factor = next((one for one in FACTORS if one.name == ABLATIONS.get(name)), None)
    drawings = []
    for block in chosen:
        for position, arms in enumerate(_ours(block, factor, options)):
            drawings.append(_beside(panel, block, arms, position, options))
    if not drawings and factor is not None:
        raise AnalysisError(
            f"figure {name}: no two runs of {task} differ in {factor.keys[0]} alone; such runs come from "
            f"{factor.example}"
        )
    return drawings


def _ours(
    block: Block, factor: Factor | None, options: FigureOptions
) -> list[list[tuple[str, Style, Sequence[RunRecord]]]]:
    """Labelled groups of our runs, one list per figure."""
    if factor is None:
        arms = list(block.arms)
        if not options.arms:  # the paper's, those without runs included
            found = {variant: [arm for arm in arms if arm.partition(" ")[0] == variant] for variant in PAPER_ARMS}
            arms = [arm for variant in PAPER_ARMS for arm in found[variant] or [variant]]
        check_number(arms, block.label)
        styles = arm_styles(arms)
        return [[(arm_name(arm), styles[arm], block.arms.get(arm, ())) for arm in arms]]
    ours: list[list[tuple[str, Style, Sequence[RunRecord]]]] = []
    for members in levels(block, factor):
        looks = level_styles(len(members))
        if factor.name == "is" and len(members) == 2:
            looks = [role_style("freshper"), role_style("freshper_is")]
        short = [level.text.partition(",")[0] for level in members]
        texts = short if len(set(short)) == len(short) else [level.text for level in members]
        name = "IS" if factor.name == "is" else factor.name
        groups = [
            (f"{name} {text}", look, level.records) for level, text, look in zip(members, texts, looks, strict=True)
        ]
        base = [(arm_name(REFERENCE), role_style(REFERENCE), block.arms[REFERENCE])] if REFERENCE in block.arms else []
        ours.append([*base, *groups])
    return ours


def _beside(
    panel: reported.PaperFigure, block: Block, arms: Sequence[tuple[str, Style, Sequence[RunRecord]]], position: int,
    options: FigureOptions,
) -> Drawing:  # fmt: skip
    check_measured(block, ("iteration",))
    title = f"Figure {panel.name}: {block.label}"
    with canvas(2, share_y=True) as axes:
        _panel(axes[0], panel, as_printed=False)
        axes[0].set_title("reported: one run per line")
        axes[0].set_ylabel(METRIC_NAMES[panel.metric])
        handles = [role_style(line.role).handle() for line in panel.lines]
        mine = draw_arms(axes[1], arms, block.metric, "iteration", options)
        axes[1].set_title(f"ours: {metric_label(block.metric)}")
        heading(axes, title, options.subtitle("ours: mean"))
        legends_below(axes, [(handles, [role_label(line.role) for line in panel.lines]), mine])
    models = {record.facts.model for _, _, records in arms for record in records} - {None}
    text = (
        f"Left: Figure {panel.name} of {SOURCE} from the public runs of {reported_model(panel)}, to iteration "
        f"{panel.x_to:g}. {_done_to(panel, as_printed=False)} Right: ours, {block.metric}, model "
        f"{', '.join(sorted(map(str, models))) or '(not known)'}. {caption(options)}"
    )
    name = file_name(f"figure {panel.name}", block.label, *([f"set {position + 1}"] if position else []))
    return Drawing(name, title, text, figure_of(axes))


def reported_model(panel: reported.PaperFigure) -> str:
    """Model of a panel as the main table names it; panels of other tasks name none."""
    task = TASKS.get(panel.task, panel.task)
    return reported.model(task) if task in reported.tasks() else "a model that the main table does not name"


def full_length_drawings() -> list[Drawing]:
    """All public runs of every task at full length, one figure per task and metric."""
    frame = reported.curves()
    drawings = []
    for (task, metric), rows in frame.groupby(["task", "metric"], sort=False):
        drawings.append(_full_length(str(task), str(metric), rows))
    return drawings


MARKERS = {"on_policy": "sDpH", "standard_per": "^v<>", "freshper": "oXP*dhs8", "freshper_is": "P"}
"""Arm -> markers of its runs."""
DASHES = ("-", (0, (5, 1.5)), (0, (2, 1)), (0, (5, 1, 1, 1)), (0, (1, 1)), (0, (7, 1, 2, 1)), (0, (3, 3)), (0, (1, 2)))


def _full_length(task: str, metric: str, rows: pd.DataFrame) -> Drawing:
    title = f"All public runs: {task}, {metric}"
    seen: dict[str, int] = {}
    lines: list[tuple[str, Style, Curve, bool]] = []
    for run in dict.fromkeys(rows["run"]):
        own = rows[rows["run"] == run]
        first = own.iloc[0]
        role = f"tau_{first['tau']:g}" if first["arm"] == "freshper" and task in ABLATED else str(first["arm"])
        base = role_style(role)
        index = seen[role] = seen.get(role, -1) + 1
        marker = (base.marker + MARKERS.get(role, "").replace(base.marker, ""))[index % 8 :][:1]
        style = Style(base.colour, marker, base.dashes if index == 0 else DASHES[index % len(DASHES)])
        curve = own["iteration"].to_numpy(np.float64), own["value"].to_numpy(np.float64)
        lines.append((_run_label(role, first), style, curve, bool(first["plotted"])))
    with canvas(1, size=(6.4, 4.2)) as axes:
        for _, style, (x, y), plotted in lines:
            axes[0].plot(
                x, y, **style.line(1.8 if plotted else 1.0), markevery=max(1, round(len(x) / 14)),
                zorder=3 if plotted else 2,
            )  # fmt: skip
        axes[0].set_xlabel("iteration")
        axes[0].set_ylabel(METRIC_NAMES[metric])
        heading(axes, title, "full length, raw values; bold: runs that a figure of the paper draws")
        legend_below(axes, [style.handle() for _, style, _, _ in lines], [label for label, *_ in lines])
    text = (
        f"Every public run of {task} at full length ({metric}, {len(lines)} runs, one seed each). Bold lines are runs "
        "that a figure of the paper draws, thin ones are not drawn there. Nothing is smoothed, padded, cut or rescaled."
    )
    return Drawing(file_name("all runs", task, metric), title, text, figure_of(axes))


ABLATED = ("sokoban_simple", "cliffwalking", "frozenlake_ablation")
"""Tasks with public runs at several tau, the same three values."""


def _run_label(role: str, row: pd.Series) -> str:
    """`FreshPER, tau 500 (2026-02-09)`: runs are told apart by date and time of their names."""
    stamp = str(row["run"])
    when = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]} {stamp[9:11]}:{stamp[11:13]}"
    algorithm = "" if row["algorithm"] == "reinforce_pp" else f", {ALGORITHM_NAMES[row['algorithm']]}"
    return f"{role_label(role)}{algorithm}, {when}"
