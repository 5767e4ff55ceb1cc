"""metrics.jsonl as columns: fast, past torn and damaged lines, and with what was not measured kept apart from NaN."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json  # a JSON parser that is there anyway, exact, four times as fast as the standard one

from analysis.load.typed_rows import LARGEST, read_numbers

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """Metrics of one run, one column per metric."""

    iterations: NDArray[np.int64]
    """[n] increasing."""
    names: tuple[str, ...]
    """m metric names, sorted."""
    values: FloatArray
    """[m, n]; NaN where a NaN was recorded and where nothing was."""
    present: NDArray[np.bool_]
    """[m, n] whether a value was recorded: tells a recorded NaN from a missing value."""

    @staticmethod
    def empty() -> Columns:
        """No rows, no metrics."""
        return Columns(np.empty(0, np.int64), (), np.empty((0, 0)), np.empty((0, 0), bool))

    def __len__(self) -> int:
        return len(self.iterations)

    def has(self, name: str) -> bool:
        """Whether the metric was recorded at least once."""
        return name in self.names and bool(self.present[self.names.index(name)].any())

    def series(self, name: str, x: str = "iteration") -> tuple[FloatArray, FloatArray]:
        """(x, values) over the rows that have both, recorded NaNs included; empty where a metric was never recorded."""
        if name not in self.names or (x != "iteration" and x not in self.names):
            return np.empty(0), np.empty(0)
        row = self.names.index(name)
        there = self.present[row]
        if x == "iteration":
            return self.iterations[there].astype(np.float64), self.values[row, there]
        other = self.names.index(x)
        there = there & self.present[other]
        return self.values[other, there], self.values[row, there]


@dataclass(frozen=True)
class Damage:
    """What a file lost."""

    torn: bool = False
    """The last line breaks off: a kill, or a run that is writing."""
    lines: tuple[int, ...] = ()
    """Numbers of earlier lines that are no JSON object with an `iteration`."""
    superseded: int = 0
    """Rows that a later attempt wrote anew; the later one counts."""
    ignored: tuple[str, ...] = ()
    """Names of entries that are no numbers."""


def parse_lines(data: bytes) -> tuple[list[dict[str, Any]], tuple[int, ...], bool]:
    """Rows of a JSON lines file; numbers of damaged lines; whether the last line is torn. Nothing else is lost."""
    body, _, tail = data.rpartition(b"\n")
    rows: list[dict[str, Any]] = []
    try:
        rows = from_json(b"[%b]" % body.replace(b"\n", b","))
    except ValueError:
        rows = []
    damaged: list[int] = []
    if len(rows) != (body.count(b"\n") + 1 if body else 0) or set(map(type, rows)) - {dict}:
        rows = []
        for number, line in enumerate(body.split(b"\n"), start=1):
            row = _object(line)
            if row is not None:
                rows.append(row)
            elif line.strip():
                damaged.append(number)
    torn = False
    if tail.strip():
        row = _object(tail)  # complete but for its line break: nothing of it is lost
        torn = row is None
        rows += [] if row is None else [row]
    return rows, tuple(damaged), torn


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        row = from_json(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def read_columns(data: bytes) -> tuple[Columns, Damage]:
    """Columns of a metrics.jsonl.

    Where iterations go back (an attempt that was resumed by something else than freshper, which cuts its files back),
    the earlier attempt's rows from there on are superseded.
    """
    quick = read_numbers(data)
    if quick is not None and (np.diff(quick.iterations) > 0).all():
        return Columns(quick.iterations, quick.names, quick.values, ~np.isnan(quick.values)), Damage()
    rows, damaged, torn = parse_lines(data)
    columns, superseded, ignored, nameless = from_rows(rows)
    if nameless:
        damaged = damaged + _nameless_lines(data)
    return columns, Damage(torn, tuple(sorted(set(damaged))), superseded, ignored)


def _nameless_lines(data: bytes) -> tuple[int, ...]:
    numbers = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        row = _object(line)
        if row is not None and not _is_iteration(row.get("iteration")):
            numbers.append(number)
    return tuple(numbers)


def _is_iteration(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= LARGEST and value == math.floor(value)


def from_rows(rows: Sequence[Mapping[str, Any]]) -> tuple[Columns, int, tuple[str, ...], int]:
    """Columns of rows with an `iteration` each.

    Args:
        rows: in the order of writing.
    Returns:
        Columns; number of superseded rows; names of entries that are no numbers; number of rows without an iteration.
    """
    kept: list[Mapping[str, Any]] = []
    superseded = nameless = 0
    last = -math.inf
    for row in rows:
        iteration: Any = row.get("iteration")
        if not _is_iteration(iteration):
            nameless += 1
            continue
        while kept and iteration <= last:
            kept.pop()
            superseded += 1
            last = kept[-1]["iteration"] if kept else -math.inf
        kept.append(row)
        last = iteration
    if not kept:
        return Columns.empty(), superseded, (), nameless

    # Rows of one kind (with an evaluation, without, ...) have the same keys: each kind is converted in one go.
    kinds: dict[tuple[str, ...], list[int]] = {}
    for index, row in enumerate(kept):
        kinds.setdefault(tuple(row), []).append(index)
    names = tuple(sorted(set(itertools.chain.from_iterable(kinds)) - {"iteration"}))
    place = {name: index for index, name in enumerate(names)}
    values = np.full((len(names), len(kept)), math.nan)
    present = np.zeros(values.shape, bool)
    ignored: dict[str, None] = {}
    for keys, indices in kinds.items():
        block = _block([kept[index] for index in indices], len(keys))
        if block is None:
            _slowly(kept, indices, place, values, present, ignored)
            continue
        target = [place[name] for name in keys if name != "iteration"]
        source = [column for column, name in enumerate(keys) if name != "iteration"]
        cells = np.ix_(target, indices)
        values[cells] = block[:, source].T
        present[cells] = True
    iterations = np.array([int(row["iteration"]) for row in kept], np.int64)
    used = [index for index, name in enumerate(names) if name not in ignored or present[index].any()]
    if len(used) < len(names):
        names, values, present = tuple(names[index] for index in used), values[used], present[used]
    return Columns(iterations, names, values, present), superseded, tuple(ignored), nameless


def _block(rows: Sequence[Mapping[str, Any]], width: int) -> FloatArray | None:
    """[rows, width] values; None where they have to be looked at one by one: lists, texts, or NaN, which NumPy makes
    of a null, too."""
    flat = itertools.chain.from_iterable(row.values() for row in rows)
    try:
        block = np.fromiter(flat, np.float64, len(rows) * width).reshape(len(rows), width)
    except (TypeError, ValueError):
        return None
    return None if np.isnan(block).any() else block


def _slowly(
    rows: Sequence[Mapping[str, Any]],
    indices: Sequence[int],
    place: Mapping[str, int],
    values: FloatArray,
    present: NDArray[np.bool_],
    ignored: dict[str, None],
) -> None:
    for index in indices:
        for name, value in rows[index].items():
            if name == "iteration" or value is None:
                continue  # null: not measured
            try:
                number = float(value)  # "nan", "inf" and "-inf" are how the records write what JSON has no number for
            except (TypeError, ValueError):
                ignored[name] = None
                continue
            values[place[name], index], present[place[name], index] = number, True
