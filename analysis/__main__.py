"""Tables, figures and checks of runs: `python -m analysis --help`.

Only the parser is here, so that help answers at once; each command imports what it needs when it runs.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
from pathlib import Path

from analysis.findings import EXIT_NOTHING, AnalysisError

EPILOG = """\
examples:
  python -m analysis table all outputs/ --out outputs/analysis     every table that the runs allow
  python -m analysis table main outputs/ --statistic final         one table, printed as Markdown
  python -m analysis report outputs/ --out outputs/report.html     one page: findings, tables, figures, provenance
  python -m analysis figure all outputs/ --out outputs/figures     every figure that the runs allow
  python -m analysis doctor outputs/                               what is wrong, and what to type
  python -m analysis paper --out outputs/paper                     the paper's tables and figures, from its own numbers

Paths may be run folders, folders that hold some at any depth, CSV files exported from the wandb page, wandb offline run
folders, and folders of TensorBoard event files.
Exit status: 0 done, 1 `doctor` found an error, 2 nothing could be done.
"""
TABLE_NAMES = ("all", "main", "improvement", "clocks", "gain", "paper", "tau", "base", "is", "ratio", "runs")
PANEL_NAMES = ("3a", "3b", "3c", "3d", "3e", "4a", "4b", "5a", "5b", "6a", "6b", "7")
FIGURE_NAMES = (
    "all",
    "learning",
    "clocks",
    "tau",
    "tau_alpha",
    "staleness",
    "ages",
    "clip",
    "wall_clock",
    *PANEL_NAMES,
)
COMMANDS = {
    "report": "analysis.commands.report",
    "table": "analysis.commands.tables",
    "figure": "analysis.commands.figures",
    "doctor": "analysis.commands.doctor",
    "paper": "analysis.commands.paper",
}
"""Command -> module with `run(options)`, which returns the exit status."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    root = argparse.ArgumentParser(
        prog="python -m analysis",
        description="Turn run records into the paper's tables and figures, the reported numbers beside ours.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = root.add_subparsers(dest="command", required=True, metavar="command")

    report = commands.add_parser("report", help="one HTML page: findings, tables, figures, provenance")
    _runs(report)
    report.add_argument(
        "--out",
        type=Path,
        default=Path("outputs/report.html"),
        metavar="FILE",
        help="page to write (default: %(default)s)",
    )
    _choice(report)

    table = commands.add_parser("table", help="tables as Markdown, LaTeX, CSV and HTML")
    table.add_argument("name", choices=TABLE_NAMES, help=f"which: {', '.join(TABLE_NAMES)}", metavar="name")
    _runs(table)
    _out(table, "folder for <name>.md, .tex, .csv and .html; without it the Markdown is only printed")
    table.add_argument("--statistic", help="of each run: peak, final, last:<k>, auc or steps:<threshold>")
    table.add_argument("--arms", nargs="+", default=[], help="arms or variants to show, in this order (default: all)")
    table.add_argument("--metric", help="metric to compare by (default: the paper's for the task, else eval/success)")
    table.add_argument(
        "--interval", choices=("t", "bootstrap"), default="t", help="interval of a mean in the main table"
    )
    table.add_argument(
        "--centre", choices=("mean", "median", "iqm"), default="mean", help="over runs, in the main table"
    )

    figure = commands.add_parser("figure", help="figures as PNG and PDF, each with its caption")
    figure.add_argument(
        "name",
        choices=FIGURE_NAMES,
        metavar="name",
        help=f"which: {', '.join(FIGURE_NAMES)}; those with numbers are the paper's, beside ours",
    )
    _runs(figure)
    _out(figure, "folder for <figure>.png, .pdf and .txt, the caption", "outputs/figures")
    figure.add_argument("--statistic", help="of each run, in tau and tau_alpha: peak, final, last:<k>, auc, ...")
    figure.add_argument(
        "--smooth",
        type=float,
        metavar="W",
        help="moving average, weight W on the newest value (default: none)",
    )
    _choice(figure)

    doctor = commands.add_parser("doctor", help="what is wrong with some runs, and the commands that mend it")
    _runs(doctor)
    _out(doctor, "folder for doctor.md")

    paper = commands.add_parser("paper", help="the paper's tables and figures from its reported numbers alone")
    _out(paper, "folder to write to", "outputs/paper")
    paper.add_argument("--as-printed", action="store_true", help="smooth and rescale 4a, 5b and 7 as the paper does")
    return root


def _choice(command: argparse.ArgumentParser) -> None:
    command.add_argument("--metric", help="metric of curves (default: the paper's for the task, else eval/success)")
    command.add_argument("--arms", nargs="+", default=[], help="arms or variants to show, in this order (default: all)")
    command.add_argument("--interval", choices=("t", "bootstrap"), default="t", help="bands and error bars")


def _runs(command: argparse.ArgumentParser) -> None:
    command.add_argument("runs", nargs="+", type=Path, help="run folders, folders of them, or exports")
    command.add_argument(
        "--exclude", nargs="+", default=[], metavar="GLOB", help="names of folders or files to leave out"
    )
    command.add_argument(
        "--labels",
        type=Path,
        metavar="CSV",
        help="what imported runs are: columns run and any of task, arm, seed, algorithm, tau",
    )
    command.add_argument(
        "--allow-sampled", action="store_true", help="take wandb exports whose values are means over several steps"
    )
    command.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        help="folder for the cache (default: $FRESHPER_CACHE/analysis, else ~/.cache/freshper/analysis)",
    )
    command.add_argument("--no-cache", action="store_true", help="read everything anew and keep nothing")


def _out(command: argparse.ArgumentParser, text: str, default: str | None = None) -> None:
    shown = f"{text} (default: {default})" if default else text
    command.add_argument("--out", type=Path, default=default and Path(default), metavar="DIR", help=shown)


def main(arguments: list[str] | None = None) -> int:
    """Run a command.

    Returns:
        Exit status: 0, or one of `analysis.findings`.
    """
    options = parser().parse_args(arguments)
    try:
        return int(importlib.import_module(COMMANDS[options.command]).run(options))
    except AnalysisError as error:
        print(error, file=sys.stderr)
        return EXIT_NOTHING
    except OSError as error:
        if error.filename is None:
            raise
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_NOTHING


if __name__ == "__main__":
    gc.set_threshold(50_000, 20, 50)  # thousands of runs are loaded and stay: searching them for garbage is in vain
    sys.exit(main())
