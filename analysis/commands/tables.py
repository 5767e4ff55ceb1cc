"""`python -m analysis table <name> <runs>`."""

from __future__ import annotations

import argparse
import sys

from analysis.commands.common import load_runs, say_where, tell
from analysis.curves import statistic
from analysis.tables.build import TableOptions, build_tables
from analysis.tables.render import markdown, write_table
from analysis.tables.scores import check_arms


def run(options: argparse.Namespace) -> int:
    """Print tables as Markdown and, with `--out`, write them in every format."""
    chosen = statistic(options.statistic) if options.statistic else None  # a wrong name is told before loading
    study = load_runs(options)
    tell(study.findings)
    how = TableOptions(chosen, options.metric, options.interval, options.centre, tuple(options.arms))
    for name in check_arms(study, how.arms):
        print(f"warning: no run of the arm {name}", file=sys.stderr)
    tables, skipped = build_tables(study, [options.name], how)
    print("\n".join(markdown(table) for table in tables))
    for text in skipped:
        print(f"left out: {text}", file=sys.stderr)
    if options.out is not None:
        say_where([path for table in tables for path in write_table(table, options.out)], options.out)
    return 0
