"""Figures by their names on the command line."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from analysis.figures.curves import clocks, learning
from analysis.figures.drawing import Drawing
from analysis.figures.factors import tau, tau_alpha
from analysis.figures.options import FigureOptions
from analysis.figures.paper import PANELS, beside
from analysis.figures.staleness import ages, clip, staleness
from analysis.figures.wall_clock import wall_clock
from analysis.findings import AnalysisError
from analysis.load.study import Study
from analysis.tables.scores import check_arms

Maker = Callable[[Study, FigureOptions], list[Drawing]]


def _beside(name: str, study: Study, options: FigureOptions) -> list[Drawing]:
    return beside(study, name, options)


FIGURES: Mapping[str, Maker] = {
    "learning": learning,
    "clocks": clocks,
    "tau": tau,
    "tau_alpha": tau_alpha,
    "staleness": staleness,
    "ages": ages,
    "clip": clip,
    "wall_clock": wall_clock,
    **{name: functools.partial(_beside, name) for name in PANELS},
}


def build_figures(
    study: Study, names: Sequence[str], options: FigureOptions, skipped: list[str] | None = None
) -> Iterator[Drawing]:
    """Figures of some names, one at a time; `all` stands for every one that the runs allow.

    Args:
        study: the runs; loaded with ages for `staleness`, `ages` and `clip`.
        names: keys of `FIGURES`, or `all`.
        options: how.
        skipped: receives, for each figure of `all` that the runs do not allow, why not.

    Raises:
        AnalysisError: a figure that was named cannot be made.
    """
    if options.metric is not None:
        study.check_metrics([options.metric])
    check_arms(study, options.arms)
    everything = "all" in names
    for name in FIGURES if everything else names:
        try:
            yield from FIGURES[name](study, options)
        except AnalysisError as error:
            if not everything:
                raise
            if skipped is not None:
                skipped.append(str(error))
