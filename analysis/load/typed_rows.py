"""JSON lines of numbers, several times as fast as a parser that makes a dictionary of each line.

Lines of one file have the same few hundred names, so msgspec is given a type with these names and fills in the numbers.
Whatever is not a number (a text such as "nan", a list, a damaged line) is refused here and left to the parser that
takes everything (`analysis.load.columns`).
"""

from __future__ import annotations

import functools
import itertools
import math
import struct
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

STEP = "iteration"
LARGEST = 2**53
"""No iteration is larger: whole numbers up to here are exact in double precision."""


@dataclass(frozen=True)
class NumberRows:
    """A file of which every line is an object of a whole `iteration` and numbers."""

    iterations: NDArray[np.int64]
    """[n] in the order of the lines."""
    names: tuple[str, ...]
    """m names of the numbers, sorted."""
    values: NDArray[np.float64]
    """[m, n]; NaN where a line has no such number, or null. JSON has no NaN of its own."""


def read_numbers(data: bytes) -> NumberRows | None:
    """The lines of a file.

    Returns:
        None if they are anything but objects of numbers, one a line, the last one ended.
    """
    if not data.endswith(b"\n"):
        return None
    try:
        names = _names(data)
        rows = _decoder(names).decode_lines(data)
    except msgspec.DecodeError:
        return None
    if len(rows) != np.count_nonzero(
        np.frombuffer(data, np.uint8) == ord("\n")
    ):  # one over two lines, or an empty line
        return None
    table = _table(rows, len(names) + 1)
    order = sorted(range(len(names)), key=names.__getitem__)
    columns = np.ascontiguousarray(table.T)
    return NumberRows(columns[0].astype(np.int64), tuple(sorted(names)), columns[1:][order])


def _table(rows: list[Any], width: int) -> NDArray[np.float64]:
    """[rows, width] numbers of all rows."""
    tuples = map(msgspec.structs.astuple, rows)
    try:
        packed = b"".join(itertools.starmap(struct.Struct(f"{width}d").pack, tuples))
    except struct.error:  # a null somewhere, which is NaN here
        flat = itertools.chain.from_iterable(map(msgspec.structs.astuple, rows))
        return np.fromiter(flat, np.float64, len(rows) * width).reshape(len(rows), width)
    return np.frombuffer(packed, np.float64).reshape(len(rows), width)


def _names(data: bytes) -> tuple[str, ...]:
    """Names in the first, second and last line, in the order in which most lines have them: that is fastest. What only
    other lines have makes `decode_lines` fail."""
    first = data.index(b"\n")
    second = data.find(b"\n", first + 1)
    last = data.rfind(b"\n", 0, -1)
    samples = [data[last + 1 :], data[first + 1 : second], data[:first]]
    found = dict.fromkeys(name for line in samples if line for name in msgspec.json.decode(line, type=dict[str, Any]))
    return tuple(name for name in found if name != STEP)


@functools.lru_cache(maxsize=64)
def _decoder(names: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    fields: list[Any] = [(f"x{index}", float | None, math.nan) for index in range(len(names))]
    spelled = {f"x{index}": name for index, name in enumerate(names)}
    iteration = Annotated[int, msgspec.Meta(le=LARGEST)]
    row = msgspec.defstruct(
        "Row", [(STEP, iteration), *fields], rename=spelled, forbid_unknown_fields=True, gc=False, frozen=True
    )
    return msgspec.json.Decoder(row)
