"""`python -m analysis figure <name> <runs>`."""

from __future__ import annotations

import argparse
import sys

from analysis.commands.common import cache_folder, load_runs, say_where, tell
from analysis.curves import statistic
from analysis.figures.options import FigureOptions
from analysis.figures.pictures import make_pictures, write_picture
from analysis.findings import AnalysisError
from analysis.tables.scores import check_arms


def run(options: argparse.Namespace) -> int:
    """Write figures as PNG and PDF, each with its caption."""
    chosen = statistic(options.statistic) if options.statistic else None  # a wrong name is told before loading
    if options.smooth is not None and not 0 < options.smooth <= 1:
        raise AnalysisError(f"--smooth {options.smooth:g}: expected the weight of the newest value, in (0, 1]")
    study = load_runs(options, ages=True)
    tell(study.findings)
    how = FigureOptions(options.metric, chosen, options.interval, tuple(options.arms), options.smooth)
    for name in check_arms(study, how.arms):
        print(f"warning: no run of the arm {name}", file=sys.stderr)
    skipped: list[str] = []
    paths = []
    for picture in make_pictures(study, [options.name], how, skipped, pdf=True, cache=cache_folder(options)):
        paths += write_picture(picture, options.out)
        print(f"{picture.name}.png  {picture.title}")
    for text in skipped:
        print(f"left out: {text}", file=sys.stderr)
    if not paths:
        raise AnalysisError("the runs allow no figure")
    say_where(paths, options.out)
    return 0
