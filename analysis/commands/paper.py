"""`python -m analysis paper`: the paper's tables from the data in `analysis/paper` alone."""

from __future__ import annotations

import argparse

from analysis.commands.common import say_where
from analysis.paper.reported import NOTES
from analysis.tables.paper import paper_tables
from analysis.tables.render import markdown, write_table
from freshper.records.atomic import write_text


def run(options: argparse.Namespace) -> int:
    """Write every table in every format, and the notes on the data."""
    folder = options.out
    tables = paper_tables()
    paths = [path for table in tables for path in write_table(table, folder / "tables")]
    notes = folder / "notes.md"
    write_text(notes, NOTES.read_text(encoding="utf-8"))
    print("\n".join(markdown(table) for table in tables[:1]))
    say_where([*paths, notes], folder)
    return 0
