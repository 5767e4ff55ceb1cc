"""Sensitivity to tau with error bars, and tau x alpha as a heat map, of runs that differ in nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.curves import Statistic, statistic
from analysis.figures.bands import BAND_FROM
from analysis.figures.drawing import Drawing, canvas, figure_of, heading, legend_below
from analysis.figures.options import BANDS, FigureOptions, blocks_of, file_name
from analysis.figures.style import ROLES, metric_label
from analysis.findings import AnalysisError
from analysis.load.study import Study
from analysis.statistics import Interval, interval
from analysis.tables.factors import FACTORS, Factor, Level, levels
from analysis.tables.scores import REFERENCE, Block, counted, values_of

TAU = next(factor for factor in FACTORS if factor.name == "tau")
EXAMPLE = "python run.py -m +experiment=alpha_tau"


def _tau_and_alpha(config: Mapping[str, Any]) -> tuple[float, str] | None:
    found = TAU.value(config)
    return None if found is None else (found[0], f"{found[1]} {config['replay.priority.alpha']}")


TAU_ALPHA = Factor(
    "tau_alpha", "tau_alpha", "tau and alpha", (*TAU.keys, "replay.priority.alpha"), _tau_and_alpha, EXAMPLE
)


def tau(study: Study, options: FigureOptions) -> list[Drawing]:
    """One figure per set of runs that differ in tau alone: each run, mean and interval, on-policy for reference.

    Raises:
        AnalysisError: there are no such runs.
    """
    chosen = [options.statistic] if options.statistic else [statistic("final"), statistic("peak")]
    drawings = []
    for block in blocks_of(study, options):
        for position, (label, members) in enumerate(_sets(block, TAU)):
            title = f"Sensitivity to tau: {label}"
            with canvas(len(chosen), share_y=len(chosen) > 1) as axes:
                for axis, one in zip(axes, chosen, strict=True):
                    _tau_panel(axis, block, members, one, options)
                axes[0].set_ylabel(metric_label(block.metric))
                heading(axes, title, f"dots: runs; bars: {BANDS[options.interval]}, from {BAND_FROM} runs on")
                _legend(axes, block, members, chosen[0])
            text = (
                f"{block.metric} of each run, {' and '.join(one.text for one in chosen)}: dots are runs, circles means "
                f"over done runs, bars their {BANDS[options.interval]} (none below {BAND_FROM} runs). Runs differ in "
                f"tau alone; ∞ is without decay. Blue: on-policy training, mean and interval. {_unit(members)} "
                f"n: {', '.join(f'tau {level.text}: {_n(level, block, chosen[0])}' for level in members)}."
            )
            name = file_name("tau", block.label, *([f"set {position + 1}"] if position else []))
            drawings.append(Drawing(name, title, text, figure_of(axes)))
    if not drawings:
        raise AnalysisError(
            f"{TAU.title}: no two runs differ in {TAU.keys[0]} alone; such runs come from {TAU.example}"
        )
    return drawings


def _sets(block: Block, factor: Factor) -> list[tuple[str, list[Level]]]:
    found = levels(block, factor)
    return [
        (block.label + (f", set {index + 1}" if len(found) > 1 else ""), members) for index, members in enumerate(found)
    ]


def _legend(axes: Sequence[Axes], block: Block, members: Sequence[Level], chosen: Statistic) -> None:
    counts = {_n(level, block, chosen) for level in members}
    told = f"n {counts.pop()} each" if len(counts) == 1 else "n as in the caption"
    handles, labels = [ROLES["freshper"].handle()], [f"mean ({told})"]
    if block.arms.get(REFERENCE):
        handles.append(Line2D([], [], color=ROLES[REFERENCE].colour, linestyle=ROLES[REFERENCE].dashes))
        labels.append(f"on-policy (n {_n(Level(0, '', block.arms[REFERENCE]), block, chosen)})")
    legend_below(axes, handles, labels)


def _unit(members: Sequence[Level]) -> str:
    unit = members[0].records[0].facts.age_unit
    return f"tau is in {'iterations' if unit == 'iterations' else 'optimiser steps'}."


def _finite(level: Level, block: Block, chosen: Statistic) -> list[float]:
    return [v for v in values_of(counted(level.records), block.metric, chosen) if math.isfinite(v)]


def _n(level: Level, block: Block, chosen: Statistic) -> str:
    there, all_of_them = len(_finite(level, block, chosen)), len(level.records)
    return str(there) if there == all_of_them else f"{there} of {all_of_them}"


def _estimate(values: Sequence[float], options: FigureOptions) -> Interval | None:
    if not values:
        return None
    found = interval(values, options.interval)
    return found if found.n >= BAND_FROM else Interval(found.value, None, None, found.n)


def _tau_panel(axis: Axes, block: Block, members: Sequence[Level], chosen: Statistic, options: FigureOptions) -> None:
    fresh, base = ROLES["freshper"], ROLES[REFERENCE]
    finite = [level.order for level in members if math.isfinite(level.order)]
    step = (max(finite) / min(finite)) ** (1 / max(1, len(finite) - 1)) if len(finite) > 1 else 3.0
    endless = max(finite, default=1.0) * max(step, 2.0)
    places = [level.order if math.isfinite(level.order) else endless for level in members]
    reference = _estimate(
        _finite(Level(0, "", block.arms.get(REFERENCE, ())), block, chosen),
        options,
    )
    if reference is not None:
        axis.axhline(reference.value, color=base.colour, linestyle=base.dashes, linewidth=1.5, zorder=1)
        if reference.low is not None and reference.high is not None:
            axis.axhspan(reference.low, reference.high, color=base.colour, alpha=0.13, linewidth=0, zorder=0)
    joined: list[tuple[float, float]] = []
    for place, level in zip(places, members, strict=True):
        values = _finite(level, block, chosen)
        found = _estimate(values, options)
        if found is None:
            axis.annotate(
                "none done", (place, 0.02), xycoords=("data", "axes fraction"), rotation=90, ha="center", fontsize=8
            )
            continue
        axis.plot([place] * len(values), values, ".", color=fresh.colour, alpha=0.4, markersize=5, zorder=2)
        errors = (
            None if found.low is None or found.high is None else [[found.value - found.low], [found.high - found.value]]
        )
        axis.errorbar(
            [place], [found.value], yerr=errors, color=fresh.colour, marker="o", markersize=6, capsize=4,
            markeredgecolor="white", elinewidth=1.4, zorder=4,
        )  # fmt: skip
        joined += [(place, found.value)] if math.isfinite(level.order) else []
    axis.plot(*zip(*joined, strict=True), color=fresh.colour, linewidth=1.2, zorder=3) if joined else None
    axis.set_xscale("log")
    axis.set_xlim(min(places) / step**0.35, max(places) * step**0.35)
    if len(members) <= 8:
        axis.set_xticks(places, [level.text.partition(" ")[0] for level in members])
        axis.set_xticks([], minor=True)
    elif endless in places:
        axis.annotate("∞", (endless, -0.02), xycoords=("data", "axes fraction"), ha="center", va="top", fontsize=8)
    axis.set_xlabel("tau")
    axis.set_title(chosen.text)


def tau_alpha(study: Study, options: FigureOptions) -> list[Drawing]:
    """One heat map per set of runs that differ in tau and alpha alone.

    Raises:
        AnalysisError: there are no runs with two values of each.
    """
    chosen = options.statistic or statistic("final")
    drawings = []
    for block in blocks_of(study, options):
        for label, members in _sets(block, TAU_ALPHA):
            cells = {(level.order, level.records[0].facts.alpha or 0.0): level for level in members}
            taus, alphas = sorted({key[0] for key in cells}), sorted({key[1] for key in cells})
            if len(taus) < 2 or len(alphas) < 2:
                continue
            title = f"tau x alpha: {label}"
            size = (max(4.2, 1.9 + 0.85 * len(taus)), max(3.4, 1.9 + 0.6 * len(alphas)))
            with canvas(1, size=size) as axes:
                _heat_map(axes[0], block, cells, taus, alphas, chosen)
                heading(axes, title, f"{chosen.text}; mean and n of done runs")
            text = (
                f"{block.metric}, {chosen.text}: mean over done runs, n below it. Runs differ in tau and alpha alone. "
                f"{_unit(members)} ∞ is without decay."
            )
            drawings.append(Drawing(file_name("tau alpha", label), title, text, figure_of(axes)))
    if not drawings:
        raise AnalysisError(
            "tau x alpha: no runs with two values of replay.decay.tau and of replay.priority.alpha that differ in "
            f"nothing else; such runs come from {EXAMPLE}"
        )
    return drawings


def _heat_map(
    axis: Axes, block: Block, cells: Mapping[tuple[float, float], Level], taus: Sequence[float],
    alphas: Sequence[float], chosen: Statistic,
) -> None:  # fmt: skip
    means = np.full((len(alphas), len(taus)), math.nan)
    texts: dict[tuple[int, int], str] = {}
    for row, alpha in enumerate(alphas):
        for column, one in enumerate(taus):
            level = cells.get((one, alpha))
            values = _finite(level, block, chosen) if level is not None else []
            if values:
                means[row, column] = np.mean(values)
                texts[row, column] = f"{np.mean(values):.3g}\nn {len(values)}"
            else:
                texts[row, column] = "no\nruns" if level is None else "none\ndone"
    axis.set_facecolor("#E8EAED")
    picture = axis.imshow(means, cmap="cividis", aspect="auto", origin="lower")
    for (row, column), text in texts.items():
        red, green, blue, _ = picture.cmap(picture.norm(means[row, column]))
        dark = np.isfinite(means[row, column]) and 0.3 * red + 0.59 * green + 0.11 * blue < 0.5
        axis.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")
    axis.set_xticks(range(len(taus)), ["∞" if math.isinf(one) else f"{one:g}" for one in taus])
    axis.set_yticks(range(len(alphas)), [f"{alpha:g}" for alpha in alphas])
    axis.set_xlabel("tau")
    axis.set_ylabel("alpha")
    axis.grid(False)
    figure_of([axis]).colorbar(picture, ax=axis, label=metric_label(block.metric))
