"""An external program's progress as rows of metrics.jsonl: rows that it writes, or its log searched for numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from freshper.records.atomic import write_bytes
from freshper.records.metrics import MetricsWriter, Row

RATES = frozenset({"eval/success", "eval/success_greedy", "fresh/success", "replay/success"})
"""Metrics between 0 and 1."""


class MetricsError(Exception):
    """What a program reported cannot be a metric; names file, line and what was expected."""


def parse_row(raw: bytes, where: str) -> Row:
    """One line of a metrics.jsonl as a checked row.

    Raises:
        MetricsError: it is not JSON, not an object, has no iteration, or a rate out of bounds.
    """
    shown = raw[:200].decode(errors="replace")
    try:
        row = json.loads(raw)
    except ValueError as error:
        raise MetricsError(f"{where} is not JSON ({error}): {shown}") from error
    if not isinstance(row, dict):
        raise MetricsError(f"{where} is not a row; expected an object: {shown}")
    iteration = row.get("iteration")
    if type(iteration) is not int or iteration < 0:
        raise MetricsError(f"{where} has no iteration; expected a whole number of at least 0: {shown}")
    for name, value in row.items():
        check_rate(name, value, where)
    return row


def check_rate(name: str, value: Any, where: str) -> None:
    """Raise MetricsError for a rate that is none (a percentage, a text)."""
    if name in RATES and not (value == "nan" or (type(value) in (int, float) and not (value < 0 or value > 1))):
        raise MetricsError(f"{where}: {name} = {value}; expected a rate between 0 and 1")


def settle(path: Path) -> list[Row]:
    """Make a metrics.jsonl that a program writes itself into one row per iteration, and return the rows.

    A resumed program repeats iterations: the later row counts, and what came after the earlier one goes. The file is
    cut at the first line that is not a row (torn by a kill, or the reason for which the attempt failed). Written only
    if changed.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    kept: list[tuple[Row, bytes]] = []
    for raw in data.split(b"\n")[:-1]:
        try:
            row = parse_row(raw, path.name)
        except MetricsError:
            break
        while kept and kept[-1][0]["iteration"] >= row["iteration"]:
            kept.pop()
        kept.append((row, raw))
    settled = b"".join(raw + b"\n" for _, raw in kept)
    if settled != data:
        write_bytes(path, settled)
    return [row for row, _ in kept]


class Recorder:
    """Takes the rows of one attempt in order, writes them where the program does not, and hands them on.

    The first row of an attempt may go back to an iteration that was recorded before: the program resumed from an older
    checkpoint, and the rows since are dropped.
    """

    def __init__(self, path: Path, writes: bool, observers: Sequence[Callable[[Row], None]]) -> None:
        """
        Args:
            path: our metrics.jsonl, settled.
            writes: whether rows are written here (False: the program writes this very file).
            observers: get each row of a new iteration (progress, trackers).
        """
        rows = settle(path)
        self.last = self._shown = rows[-1]["iteration"] if rows else -1
        self._writer = MetricsWriter(path) if writes else None
        self._observers = observers
        self._may_go_back = True

    def restart(self) -> None:
        """The source begins anew: its next row may go back."""
        self._may_go_back = True

    def take(self, row: Row, where: str) -> None:
        """Record one row.

        Raises:
            MetricsError: its iteration is not later than the row before.
        """
        iteration = row["iteration"]
        if iteration <= self.last:
            if not self._may_go_back:
                raise MetricsError(f"{where}: iteration {iteration} comes after iteration {self.last}")
            if self._writer is not None:
                self._writer.truncate_after(iteration - 1)
        self._may_go_back = False
        if self._writer is not None:
            self._writer.write(row)
        self.last = iteration
        if iteration > self._shown:
            self._shown = iteration
            for observer in self._observers:
                observer(row)

    def close(self) -> None:
        """Make rows durable."""
        if self._writer is not None:
            self._writer.close()


class Tail:
    """Complete lines appended to a file since the start, or since the last look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = self._number = 0
        self._before = b""
        if path.exists():
            data = path.read_bytes()
            self._advance(data[: data.rfind(b"\n") + 1])

    def _advance(self, data: bytes) -> None:
        self._offset += len(data)
        self._number += data.count(b"\n")
        self._before = (self._before + data)[-64:]

    def lines(self) -> tuple[bool, list[tuple[str, bytes]]]:
        """(whether the file was replaced or cut and is read from its beginning, [(where, line without its end)]).

        A last line without an end is left for later.
        """
        data = self._read()
        replaced = data is None
        if data is None:
            self._offset, self._number, self._before = 0, 0, b""
            data = self._read() or b""
        complete = data[: data.rfind(b"\n") + 1]
        first = self._number + 1
        self._advance(complete)
        rows = complete.split(b"\n")[:-1]
        return replaced, [(f"{self.path.name}, line {first + i}", raw) for i, raw in enumerate(rows)]

    def rest(self) -> tuple[str, bytes]:
        """(where, the unfinished last line)."""
        return f"{self.path.name}, line {self._number + 1}", self._read() or b""

    def _read(self) -> bytes | None:
        """What follows the lines already read; None if those are not there any more."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset - len(self._before))
                return file.read() if file.read(len(self._before)) == self._before else None
        except FileNotFoundError:
            return b"" if self._offset == 0 else None


class LogReader:
    """Rows from lines of text.

    A line that matches `step` begins that iteration's row (or goes on with it); values found until the next one belong
    to it. Values before the first step are row 0, the model before training.
    """

    def __init__(self, step: str, patterns: Mapping[str, str], percent: Sequence[str]) -> None:
        self._step = re.compile(step)
        self._patterns = {name: re.compile(pattern) for name, pattern in patterns.items()}
        self._percent = frozenset(percent)
        self._row: Row | None = None
        self._where = ""

    def feed(self, line: str, where: str) -> Iterator[tuple[Row, str]]:
        """Rows that this line completes, with where they began.

        Raises:
            MetricsError: what was found is no number.
        """
        found = self._step.search(line)
        if found is not None:
            iteration = _number(found, "the step", where)
            if iteration < 0 or iteration != int(iteration):
                raise MetricsError(f"{where}: step {found[1]}; expected a whole number of at least 0")
            if self._row is None or self._row["iteration"] != iteration:
                yield from self.finish()
                self._row, self._where = {"iteration": int(iteration)}, where
        for name, pattern in self._patterns.items():
            match = pattern.search(line)
            if match is None:
                continue
            if self._row is None:
                self._row, self._where = {"iteration": 0}, where
            value = _number(match, name, where) / (100 if name in self._percent else 1)
            check_rate(name, value, where)
            self._row[name] = value

    def finish(self) -> Iterator[tuple[Row, str]]:
        """The row that has not been followed by another."""
        if self._row is not None:
            yield self._row, self._where
        self._row = None


def _number(match: re.Match[str], name: str, where: str) -> float:
    text = match[1]
    try:
        value = float(text)
    except (TypeError, ValueError) as error:
        raise MetricsError(f"{where}: {name} is {text!r}; expected a number") from error
    if not math.isfinite(value) and name == "the step":
        raise MetricsError(f"{where}: {name} is {text!r}; expected a whole number")
    return value
