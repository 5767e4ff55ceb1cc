"""`python -m analysis paper`: the paper's tables and figures from the data in `analysis/paper` alone."""

from __future__ import annotations

import argparse

from analysis.commands.common import say_where
from analysis.figures.drawing import write_drawing
from analysis.figures.paper import full_length_drawings, paper_drawings
from analysis.paper.reported import NOTES
from analysis.tables.paper import paper_tables
from analysis.tables.render import markdown, write_table
from freshper.records.atomic import write_text


def run(options: argparse.Namespace) -> int:
    """Write every table in every format, every figure, all public runs at full length, and the notes on the data."""
    folder = options.out
    tables = paper_tables()
    paths = [path for table in tables for path in write_table(table, folder / "tables")]
    for drawing in paper_drawings(options.as_printed):
        paths += write_drawing(drawing, folder / "figures")
    for drawing in full_length_drawings():
        paths += write_drawing(drawing, folder / "all_runs")
    notes = folder / "notes.md"
    write_text(notes, NOTES.read_text(encoding="utf-8"))
    print("\n".join(markdown(table) for table in tables[:1]))
    say_where([*paths, notes], folder)
    return 0
