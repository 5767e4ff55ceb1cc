"""How stale replayed data is: effective sample size, KL and clip fraction by age, and the ages that are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from analysis.figures.bands import BAND_FROM, spread
from analysis.figures.curves import faint_lines
from analysis.figures.drawing import Drawing, canvas, figure_of, heading, legend_below
from analysis.figures.fits import Decay, fit_decay
from analysis.figures.options import BANDS, FigureOptions, blocks_of, check_number, file_name
from analysis.figures.style import Style, arm_styles
from analysis.findings import AnalysisError
from analysis.load.ages import FIELDS, LIMIT
from analysis.load.record import RunRecord
from analysis.load.study import Study
from analysis.tables.scores import Block, arm_name, counted

FloatArray = NDArray[np.float64]
UNITS = {"optimizer_steps": "optimiser steps", "iterations": "iterations"}
COMMON = 0.01
"""Bins with a smaller share of an arm's replayed trajectories are drawn hollow and not fitted."""
NO_AGES = "no done run has an ages.jsonl, which runs with replay write"


@dataclass(frozen=True)
class Group:
    """Runs of one arm on a common set of age bins."""

    label: str
    style: Style
    age: FloatArray
    """[bins] middle of each bin."""
    count: FloatArray
    """[runs, bins] replayed trajectories."""
    values: dict[str, FloatArray]
    """Field of ages.jsonl -> [runs, bins]; NaN where a run has nothing in a bin."""

    def mean(self, field: str) -> FloatArray:
        """[bins] over runs, weighted by the number of trajectories."""
        weighted = np.nansum(self.values[field] * self.count, axis=0)
        return np.asarray(weighted / self.count.sum(axis=0))

    @property
    def common(self) -> NDArray[np.bool_]:
        """[bins] that hold at least `COMMON` of the trajectories."""
        total = self.count.sum(axis=0)
        return np.asarray(total >= COMMON * total.sum())


def _groups(block: Block) -> dict[str, list[Group]]:
    """Unit of age -> groups, in the order of arms."""
    aged = {arm: [r for r in counted(runs) if r.ages is not None] for arm, runs in block.arms.items()}
    aged = {arm: records for arm, records in aged.items() if records}
    check_number(list(aged), block.label)
    styles = arm_styles(list(block.arms))
    found: dict[str, list[Group]] = {}
    for arm, records in aged.items():
        for unit in dict.fromkeys(r.ages.unit for r in records if r.ages is not None):
            members = [r for r in records if r.ages is not None and r.ages.unit == unit]
            found.setdefault(unit, []).append(_group(f"{arm_name(arm)} (n {len(members)})", styles[arm], members))
    return found


def _group(label: str, style: Style, records: Sequence[RunRecord]) -> Group:
    tables = [record.ages.table for record in records if record.ages is not None]
    bins = sorted({(row[0], row[1]) for table in tables for row in table})
    place = {key: index for index, key in enumerate(bins)}
    count = np.zeros((len(tables), len(bins)))
    values = {field: np.full(count.shape, math.nan) for field in FIELDS[3:]}
    for run, table in enumerate(tables):
        columns = [place[row[0], row[1]] for row in table]
        count[run, columns] = table[:, 2]
        for index, field in enumerate(FIELDS[3:], start=3):
            values[field][run, columns] = table[:, index]
    # Ages are whole numbers: the bin [4, 8) holds 4 to 7.
    age = np.array([(low + high - 1) / 2 for low, high in bins])
    return Group(label, style, age, count, values)


def _each(study: Study, options: FigureOptions) -> list[tuple[Block, str, list[Group]]]:
    found = [(block, unit, groups) for block in blocks_of(study, options) for unit, groups in _groups(block).items()]
    if not found:
        raise AnalysisError(NO_AGES)
    return found


def _name(kind: str, block: Block, unit: str, several: bool) -> str:
    return file_name(kind, block.label, *([unit] if several else []))


def _units_of(block: Block) -> bool:
    return len({r.ages.unit for runs in block.arms.values() for r in counted(runs) if r.ages is not None}) > 1


def _ages_axis(axis: Axes, groups: Sequence[Group], unit: str) -> None:
    if min(group.age.min() for group in groups) > 0:
        axis.set_xscale("log", base=2)
    else:
        axis.set_xscale("symlog", base=2, linthresh=1)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_xlabel(f"age, {UNITS.get(unit, unit)}")


def _lines(axis: Axes, groups: Sequence[Group], field: str, options: FigureOptions) -> None:
    """Every run faint, the mean over runs, error bars where enough runs are in a bin."""
    for index, group in enumerate(groups):
        values, style = group.values[field], group.style
        mean, common = group.mean(field), group.common
        faint_lines(axis, [(group.age[common], run[common]) for run in values], style)
        axis.plot(group.age[common], mean[common], **style.line(), zorder=3)
        hollow = {**style.line(), "linestyle": "none", "markerfacecolor": "white", "markeredgecolor": style.colour}
        axis.plot(group.age[~common], mean[~common], **{**hollow, "markeredgewidth": 1.0}, zorder=2)
        enough = np.isfinite(values).sum(axis=0) >= BAND_FROM
        whole = enough & np.isfinite(values).all(axis=0) & common
        if whole.any():
            low, high = spread(values[:, whole], options.interval)
            shift = 1 + 0.03 * (index - (len(groups) - 1) / 2)  # bars of several arms beside one another
            axis.vlines(group.age[whole] * shift, low, high, color=style.colour, linewidth=1.0, alpha=0.8, zorder=2)


def _bars_text(options: FigureOptions) -> str:
    return (
        "Means over runs, weighted by the number of trajectories; faint lines are single runs, bars the "
        f"{BANDS[options.interval]} where all of at least {BAND_FROM} runs have data. Bins of ages double in width and "
        f"are drawn at their middle; hollow marks are bins with less than {100 * COMMON:g} % of the "
        f"trajectories. Up to {LIMIT} replay batches of a run, evenly spread, are pooled."
    )


BIAS = (
    "Under priorities replayed trajectories are not a plain sample of the policy that made them: with reward priority "
    "they are successes, so KL comes out low and may be negative; the uniform arm is unbiased. The effective sample "
    "size of a handful of trajectories is too large: of a single one it is 1."
)


def staleness(study: Study, options: FigureOptions) -> list[Drawing]:
    """Effective sample size with the fitted exponential, and KL, by age."""
    drawings = []
    for block, unit, groups in _each(study, options):
        title = f"Staleness of replayed data: {block.label}"
        handles, labels, told = [], [], []
        with canvas(2) as axes:
            _lines(axes[0], groups, "ess", options)
            _lines(axes[1], groups, "kl", options)
            for group in groups:
                usual = group.common
                fit = fit_decay(group.age[usual], group.mean("ess")[usual], group.count.sum(axis=0)[usual])
                text = _fit_text(fit)
                told.append(f"{group.label}: {text}")
                handles.append(group.style.handle())
                labels.append(f"{group.label}: {text}")
                if fit is not None:
                    x = np.geomspace(max(group.age.min(), 0.25), group.age[usual].max(), 200)
                    axes[0].plot(x, fit.at(x), color=group.style.colour, linestyle=":", linewidth=1.4, zorder=2)
            axes[0].set_ylabel("effective sample size, share of n")
            axes[0].set_ylim(0, 1.04)
            axes[1].set_ylabel("KL per token, nats")
            axes[1].axhline(0, color="black", linewidth=0.6)
            for axis in axes:
                _ages_axis(axis, groups, unit)
            heading(axes, title, "lines with marks: measured, hollow: few data; dotted: exp(-age / T) fitted")
            legend_below(axes, handles, labels)
        text = (
            f"Left: Kong's effective sample size of replayed trajectories as a share of their number, with the least-"
            f"squares fit of exp(-age / T) (dotted). Right: KL of the current policy from the one that made the "
            f"trajectories, per token. {_bars_text(options)} Fits: {'; '.join(told)}; a "
            f"negative R² means that a constant fits better. {BIAS}"
        )
        drawings.append(Drawing(_name("staleness", block, unit, _units_of(block)), title, text, figure_of(axes)))
    return drawings


def _fit_text(fit: Decay | None) -> str:
    if fit is None:
        return "too few ages for a fit"
    if math.isinf(fit.time):
        return "does not fall with age"
    return f"T = {fit.time:.3g}, R² = {fit.r2:.2f}"


def clip(study: Study, options: FigureOptions) -> list[Drawing]:
    """Share of clipped tokens by age."""
    drawings = []
    for block, unit, groups in _each(study, options):
        title = f"Clipped tokens by age: {block.label}"
        with canvas(1) as axes:
            _lines(axes[0], groups, "clip_fraction", options)
            axes[0].set_ylabel("share of clipped tokens")
            axes[0].set_ylim(bottom=0)
            _ages_axis(axes[0], groups, unit)
            heading(axes, title, "mean over runs, faint: each run")
            legend_below(axes, [g.style.handle() for g in groups], [g.label for g in groups])
        text = f"Share of tokens of replayed trajectories whose ratio was clipped, by age. {_bars_text(options)}"
        drawings.append(Drawing(_name("clip", block, unit, _units_of(block)), title, text, figure_of(axes)))
    return drawings


def ages(study: Study, options: FigureOptions) -> list[Drawing]:
    """Histogram of the ages of replayed trajectories."""
    drawings = []
    for block, unit, groups in _each(study, options):
        title = f"Ages of replayed trajectories: {block.label}"
        labels = []
        with canvas(1) as axes:
            for group in groups:
                share = group.count / group.count.sum(axis=1, keepdims=True)
                faint_lines(axes[0], [(group.age, run) for run in share], group.style)
                mean = share.mean(axis=0)
                axes[0].plot(group.age, mean, **group.style.line(), zorder=3)
                axes[0].fill_between(group.age, 0, mean, color=group.style.colour, alpha=0.08, linewidth=0)
                labels.append(group.label)
            axes[0].set_ylabel("share of replayed trajectories")
            axes[0].set_ylim(bottom=0)
            _ages_axis(axes[0], groups, unit)
            heading(axes, title, "share in each age bin, mean over runs; bins double in width")
            legend_below(axes, [g.style.handle() for g in groups], labels)
        text = (
            "Share of replayed trajectories in each bin of ages, mean over runs; faint lines are single runs. Bins "
            "double in width ([1, 2), [2, 4), [4, 8), ...), so equal shares mean a density that falls with 1 / age. Up "
            f"to {LIMIT} replay batches of a run, evenly spread, are pooled."
        )
        drawings.append(Drawing(_name("ages", block, unit, _units_of(block)), title, text, figure_of(axes)))
    return drawings
