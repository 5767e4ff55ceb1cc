"""How stale replayed data is: effective sample size, KL and clip fraction by age, and the ages that are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from analysis.figures.age_groups import COMMON, Group, age_groups
from analysis.figures.bands import BAND_FROM, spread
from analysis.figures.curves import faint_lines
from analysis.figures.drawing import Drawing, canvas, figure_of, heading, legend_below
from analysis.figures.fits import Decay, Line, fit_decay, fit_line, jackknife
from analysis.figures.options import BANDS, FigureOptions, file_name
from analysis.load.ages import LIMIT
from analysis.load.study import Study

FloatArray = NDArray[np.float64]
UNITS = {"optimizer_steps": "optimiser steps", "iterations": "iterations"}
GOOD = 0.9
"""R² below which a fit is said not to describe the data."""


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
        "Means over n done runs, weighted by the number of trajectories; faint lines are single runs, bars the "
        f"{BANDS[options.interval]} where all of at least {BAND_FROM} runs have data. Bins of ages double in width and "
        f"are drawn at their middle; hollow marks are bins with less than {100 * COMMON:g} % of the "
        f"trajectories. Up to {LIMIT} replay batches of a run, evenly spread, are pooled."
    )


BIAS = (
    "Under priorities replayed trajectories are no plain sample of the policy that made them: with reward priority "
    "they are successes, which training makes more likely, so the KL estimate is low and may be negative; only the "
    "uniform arm has an unbiased one."
)


def staleness(study: Study, options: FigureOptions) -> list[Drawing]:
    """Effective sample size with the fitted exponential, and KL with the fitted line, by age."""
    drawings = []
    for block, unit, suffix, groups in age_groups(study, options):
        title = f"Staleness of replayed data: {block.label}"
        decays = [_decay(group) for group in groups]
        lines = [_line(group) for group in groups]
        decay_texts = [_decay_text(group, fit) for group, fit in zip(groups, decays, strict=True)]
        line_texts = [_line_text(fit) for fit in lines]
        with canvas(2) as axes:
            for axis, field, fits in ((axes[0], "ess", decays), (axes[1], "kl", lines)):
                _lines(axis, groups, field, options)
                for group, fit in zip(groups, fits, strict=True):
                    _draw_fit(axis, group, fit)
                _ages_axis(axis, groups, unit)
            axes[0].set_ylabel("effective sample size, share of n")
            axes[0].set_ylim(0, 1.04)
            axes[1].set_ylabel("KL estimate per token, nats")
            axes[1].axhline(0, color="black", linewidth=0.6)
            heading(axes, title, "marks: measured, hollow: few data; dotted: fit of a exp(-age / T) and of b + c age")
            labels = [
                f"{group.label}: {decay}; KL: {line}"
                for group, decay, line in zip(groups, decay_texts, line_texts, strict=True)
            ]
            legend_below(axes, [group.style.handle() for group in groups], labels)
        text = (
            "Left: effective sample size of replayed trajectories as a share of their number, 1 / (1 + v) with the "
            "variance v of the ratios of whole trajectories pooled over replay batches (Kong 1992), and the weighted "
            "least-squares fit of a exp(-age / T); [ ] is the 95 % jackknife interval over runs of T. Right: KL of the "
            "current policy from the one that made the trajectories, per token, with the fit of b + c age. Ages are "
            "pooled over the whole run, in which the policy need not move at one speed. "
            f"{_verdict(groups, decays, 'exponential')} {_verdict(groups, lines, 'line')} {_bars_text(options)} {BIAS}"
        )
        drawings.append(Drawing(file_name("staleness", block.label, suffix), title, text, figure_of(axes)))
    return drawings


def _decay(group: Group) -> Decay | None:
    usual = group.common
    return fit_decay(group.age[usual], group.mean("ess")[usual], group.count.sum(axis=0)[usual])


def _line(group: Group) -> Line | None:
    usual = group.common
    return fit_line(group.age[usual], group.mean("kl")[usual], group.count.sum(axis=0)[usual])


def _draw_fit(axis: Axes, group: Group, fit: Decay | Line | None) -> None:
    if fit is not None:
        usual = group.age[group.common]
        x = np.geomspace(max(usual.min(), 0.25), usual.max(), 200)
        axis.plot(x, fit.at(x), color=group.style.colour, linestyle=":", linewidth=1.4, zorder=2)


def _decay_text(group: Group, fit: Decay | None) -> str:
    """`a = 0.95, T = 41 [30, 55], R² = 0.92`."""
    if fit is None:
        return "too few ages"
    if math.isinf(fit.time):
        return "does not fall with age"
    fits = [_decay(group.without(run)) for run in range(group.runs)] if group.runs >= BAND_FROM else []
    without = [math.log(one.time) if one is not None else math.nan for one in fits]
    found = jackknife(math.log(fit.time), np.array(without))
    between = "" if found is None else f" [{math.exp(found[0]):.3g}, {math.exp(found[1]):.3g}]"
    return f"a = {fit.amplitude:.2f}, T = {fit.time:.3g}{between}, R² = {fit.r2:.2f}"


def _line_text(fit: Line | None) -> str:
    return "too few ages" if fit is None else f"c = {fit.slope:.1e}, R² = {fit.r2:.2f}"


def _verdict(groups: Sequence[Group], fits: Sequence[Decay | Line | None], shape: str) -> str:
    """Which arms a fit does not describe."""
    fitted = [(group.name, fit.r2) for group, fit in zip(groups, fits, strict=True) if fit is not None]
    poor = [name for name, r2 in fitted if not r2 >= GOOD]
    if not fitted:
        return f"No arm has ages enough to fit the {shape}."
    if not poor:
        return f"The {shape} describes the means of every arm (R² of at least {GOOD:g})."
    return f"The {shape} does not describe the means of {', '.join(poor)} (R² below {GOOD:g})."


def clip(study: Study, options: FigureOptions) -> list[Drawing]:
    """Share of clipped tokens by age."""
    drawings = []
    for block, unit, suffix, groups in age_groups(study, options):
        title = f"Clipped tokens by age: {block.label}"
        with canvas(1) as axes:
            _lines(axes[0], groups, "clip_fraction", options)
            axes[0].set_ylabel("share of clipped tokens")
            axes[0].set_ylim(bottom=0)
            _ages_axis(axes[0], groups, unit)
            heading(axes, title, "mean over runs, faint: each run")
            legend_below(axes, [g.style.handle() for g in groups], [g.label for g in groups])
        text = f"Share of tokens of replayed trajectories whose ratio was clipped, by age. {_bars_text(options)}"
        drawings.append(Drawing(file_name("clip", block.label, suffix), title, text, figure_of(axes)))
    return drawings


def ages(study: Study, options: FigureOptions) -> list[Drawing]:
    """Histogram of the ages of replayed trajectories."""
    drawings = []
    for block, unit, suffix, groups in age_groups(study, options):
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
            "Share of replayed trajectories in each bin of ages, mean over n done runs; faint lines are single runs. "
            "Bins double in width ([1, 2), [2, 4), ...), so equal shares mean a density that falls with 1 / age. "
            f"Up to {LIMIT} replay batches of a run, evenly spread, are pooled."
        )
        drawings.append(Drawing(file_name("ages", block.label, suffix), title, text, figure_of(axes)))
    return drawings
