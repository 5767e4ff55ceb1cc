"""metrics.jsonl: one row per iteration, also after a resume.

Row 0 is the base model's evaluation, row i the i-th iteration. Names: `iteration`; `eval/success`, `eval/return`,
`eval/success_greedy` (in rows with an evaluation); `fresh/*`, `replay/*`; `counts/env_steps`, `counts/episodes`,
`counts/optimizer_steps`, `counts/tokens` totals since the start; `time/*` seconds spent in this iteration:
`time/iteration` on the clock, `time/cpu` of CPU time (all threads and child processes), the others parts of
`time/iteration`. A metric that was not measured is absent, never zero or null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from freshper.records.jsonl import LineWriter, read_lines

Row = dict[str, Any]


class MetricsWriter(LineWriter):
    """Writes metrics.jsonl and refuses a row out of turn."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._last: int | None = None

    def write(self, row: Mapping[str, Any]) -> None:
        """Append the row of one iteration.

        Raises:
            ValueError: if `iteration` is missing or not later than the row before.
        """
        if "iteration" not in row:
            raise ValueError("a metrics row needs the key `iteration`")
        if self._last is None:
            rows = read_metrics(self.path)
            self._last = rows[-1]["iteration"] if rows else -1
        if row["iteration"] <= self._last:
            raise ValueError(f"{self.path} has a row of iteration {self._last}; got {row['iteration']} after it")
        super().write(row)
        self._last = row["iteration"]

    def truncate_after(self, iteration: int) -> None:
        """Drop rows past a checkpoint and a torn last line; see `LineWriter.truncate_after`."""
        super().truncate_after(iteration)
        self._last = None


def read_metrics(path: Path) -> list[Row]:
    """Rows of a metrics.jsonl (or of the one in a run folder), a torn last line left out."""
    return read_lines(path / "metrics.jsonl" if path.is_dir() else path)


def series(rows: Sequence[Row], name: str, x: str = "iteration") -> tuple[list[float], list[float]]:
    """(x, values) over the rows that have both; nothing is filled in."""
    pairs = [(row[x], row[name]) for row in rows if name in row and x in row]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
