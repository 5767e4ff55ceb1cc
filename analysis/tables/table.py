"""A table as data: cells with value, interval and n, a caption, notes. Rendering is in `analysis.tables.render`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from analysis.statistics import Interval

NO_INTERVAL = "-"
"""Stands for the interval of a single run."""
NO_RUNS = "no runs"
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Cell:
    """One cell: text, or a number with what belongs to it."""

    text: str = ""
    """What is shown where there is no number: a name, or why there is none (`no runs`, `failed`)."""
    value: float | None = None
    """The number."""
    low: float | None = None
    """Lower end of its interval."""
    high: float | None = None
    """Upper end of its interval."""
    n: int | None = None
    """Runs behind it; shown where given."""
    digits: int = 3
    """Decimals."""
    suffix: str = ""
    """Shown after the number, as a unit or the states of runs left out."""

    def shown(self, plus_minus: str = "±", dash: str = NO_INTERVAL) -> str:
        """As text: `0.305 ± 0.021 (n 5)`, `0.305 [0.280, 0.331] (n 5)`, `0.305 ± - (n 1)`, or the text."""
        if self.value is None:
            return self.text
        parts = [number(self.value, self.digits)]
        if self.low is not None and self.high is not None:
            below, above = self.value - self.low, self.high - self.value
            if math.isclose(below, above, rel_tol=1e-6, abs_tol=1e-12):
                parts.append(f"{plus_minus} {number(above, self.digits)}")
            else:
                parts.append(f"[{number(self.low, self.digits)}, {number(self.high, self.digits)}]")
        elif self.n is not None:
            parts.append(f"{plus_minus} {dash}")
        if self.n is not None:
            parts.append(f"(n {self.n})")
        return " ".join(parts) + self.suffix


def number(value: float, digits: int) -> str:
    """Fixed decimals, whole numbers with thousands separators; `nan`, `inf` by name; no negative zero."""
    if math.isnan(value) or math.isinf(value):
        return str(value)
    text = f"{value:,.{digits}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.,") else text


def of_interval(found: Interval, digits: int = 3, suffix: str = "") -> Cell:
    """Cell of an estimate."""
    return Cell("", found.value, found.low, found.high, found.n, digits, suffix)


def plain(value: float | int | None, digits: int = 3, missing: str = "", suffix: str = "") -> Cell:
    """Cell of a number without interval, or of its absence."""
    return Cell(missing) if value is None else Cell("", float(value), digits=digits, suffix=suffix)


@dataclass(frozen=True)
class Table:
    """A table."""

    name: str
    """File name without ending."""
    title: str
    """Heading."""
    caption: str
    """Statistic, interval and n: what the numbers are."""
    header: tuple[str, ...]
    """Column names."""
    rows: tuple[tuple[Cell, ...], ...]
    """Cells, as many per row as the header has."""
    notes: tuple[str, ...] = field(default=())
    """What a reader has to know besides, one sentence each."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"table {self.name}: a row of {len(row)} cells under {len(self.header)} columns")


def table(
    name: str,
    title: str,
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[Cell | str]],
    notes: Sequence[str] = (),
) -> Table:
    """A table from rows in which names may be plain text."""
    cells = tuple(tuple(Cell(cell) if isinstance(cell, str) else cell for cell in row) for row in rows)
    return Table(name, title, caption, tuple(header), cells, tuple(notes))
