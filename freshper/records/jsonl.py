"""JSON lines that survive a kill: flushed row by row, cut back to a checkpoint atomically, read past a torn last line.

JSON has no NaN and no infinity. They are written as the texts "nan", "inf" and "-inf" and read back as floats, so a
diverged value is neither lost nor mistaken for a missing one.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from freshper.records.atomic import write_bytes

_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode(row: Mapping[str, Any]) -> str:
    """One row as one line of strict JSON. Only plain types: text, numbers, truth values, None, lists, dicts.

    Raises:
        TypeError: naming nothing but the type, for anything else (a tensor, an OmegaConf node).
    """
    return json.dumps(_words(row), ensure_ascii=False, allow_nan=False)


def _words(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, Mapping):
        return {key: _words(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_words(item) for item in value]
    return value


def _floats(value: Any) -> Any:
    if isinstance(value, str):
        return _SPECIAL.get(value, value)
    if isinstance(value, dict):
        return {key: _floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_floats(item) for item in value]
    return value


def read_lines(path: Path, special: bool = True) -> list[dict[str, Any]]:
    """All complete rows; a last line torn by a kill is left out, a missing file has none.

    Args:
        path: the file.
        special: turn the texts "nan", "inf", "-inf" into floats.
    Raises:
        ValueError: naming file and line, if a line other than the last is not JSON.
    """
    return [_floats(row) if special else row for row, _ in _scan(path)]


def _scan(path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Complete rows with their raw lines."""
    if not path.exists():
        return
    lines = path.read_bytes().split(b"\n")
    # After a complete file comes one empty piece; anything else there is torn.
    for number, raw in enumerate(lines[:-1], start=1):
        try:
            row = json.loads(raw)
        except ValueError as error:
            if number == len(lines) - 1:
                return
            raise ValueError(f"{path}, line {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number} is not a row: expected an object")
        yield row, raw


class LineWriter:
    """Appends rows; each is with the operating system before `write` returns (survives a SIGKILL)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO | None = None

    def write(self, row: Mapping[str, Any]) -> None:
        """Append one row."""
        if self._file is None:
            self._file = self.path.open("a", encoding="utf-8", newline="\n")
        self._file.write(encode(row) + "\n")
        self._file.flush()

    def truncate_after(self, iteration: int) -> None:
        """Drop rows of later iterations than a checkpoint's, and a torn last line; atomic. -1 drops all.

        Call it before the first `write` of an attempt: rows appended to a torn line would be lost.
        """
        self.close()
        if not self.path.exists():
            return
        kept = b"".join(raw + b"\n" for row, raw in _scan(self.path) if row["iteration"] <= iteration)
        if kept != self.path.read_bytes():
            write_bytes(self.path, kept)

    def close(self) -> None:
        """Make everything durable and close; a later `write` opens again."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
