"""ages.jsonl: effective sample size, KL and clip fraction of replayed trajectories by age, pooled over a run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

FIELDS = ("from", "to", "count", "ess", "kl", "clip_fraction")
LIMIT = 200
"""Most replay batches of a run that are pooled; of more, evenly spread ones are taken."""


Number = float | Literal["nan", "inf", "-inf"] | None


class _Batch(msgspec.Struct, gc=False):
    """One line: a replay batch by age bin."""

    unit: str
    low: list[float] = msgspec.field(name="from")
    high: list[float] = msgspec.field(name="to")
    count: list[float]
    ess: list[Number]
    kl: list[Number]
    clip_fraction: list[Number]


_DECODER = msgspec.json.Decoder(_Batch)


@dataclass(frozen=True)
class Ages:
    """Staleness of replayed data by age bin [from, to), pooled over replay batches of a run."""

    unit: str
    """`optimizer_steps` or `iterations`."""
    table: NDArray[np.float64]
    """[bins, 6]: columns `FIELDS`, by age. `count` is the number of replayed trajectories, `ess` their effective sample
    size as a share of it (`_pooled_ess`; NaN where every batch had a single one), `kl` and `clip_fraction` are means
    over the batches' entries, weighted by their counts."""
    pooled: int
    """Replay batches in the table."""
    batches: int
    """Replay batches recorded; more than `pooled` if there were more than `LIMIT`."""


@dataclass(frozen=True)
class AgesFile:
    """What an ages.jsonl says."""

    ages: Ages | None = None
    """None if it has no complete row."""
    damaged: int = 0
    """Lines that cannot be read, among those looked at."""
    torn: bool = False
    """The last line breaks off."""


def read_ages(data: bytes, limit: int = LIMIT) -> AgesFile:
    """Pool an ages.jsonl.

    Args:
        data: contents.
        limit: most replay batches to look at, evenly spread over the run.
    """
    body, _, tail = data.rpartition(b"\n")
    lines = body.split(b"\n") if body else []
    chosen = lines
    if len(lines) > limit:
        chosen = [lines[index] for index in np.linspace(0, len(lines) - 1, limit).round().astype(int)]
    batches, damaged = _decode(chosen)
    torn = bool(tail.strip())
    if not batches:
        return AgesFile(None, damaged, torn)
    flat = [_flat(batches, attrgetter(name)) for name in _Batch.__struct_fields__[1:]]
    width = flat[1].max() + 1
    # One number per bin: whole numbers of this size are exact in double precision.
    bins, place = np.unique(flat[0] * width + flat[1], return_inverse=True)
    count = np.bincount(place, flat[2])
    means = [np.bincount(place, flat[2] * column) / count for column in flat[4:]]
    table = np.column_stack([bins // width, bins % width, count, _pooled_ess(place, flat[2], flat[3]), *means])
    return AgesFile(Ages(batches[0].unit, table, len(batches), len(lines)), damaged, torn)


def _decode(lines: Sequence[bytes]) -> tuple[list[_Batch], int]:
    """Batches, and the number of lines that are none."""
    try:
        return _DECODER.decode_lines(b"\n".join(lines)), 0
    except msgspec.DecodeError:
        pass
    batches, damaged = [], 0
    for line in lines:
        try:
            batches.append(_DECODER.decode(line))
        except msgspec.DecodeError:
            damaged += 1
    return batches, damaged


def _pooled_ess(place: NDArray[np.int64], count: NDArray[np.float64], ess: NDArray[np.float64]) -> NDArray[np.float64]:
    """[bins] effective sample size as a share of n, from entries of few trajectories each.

    A mean of the entries would be far too large: n trajectories have a share of at least 1 / n, a single one has 1. An
    entry's n (1 / ess - 1) is the sum of squares of its ratios about their mean, over the square of that; n - 1 are its
    degrees of freedom. Their sums give the pooled variance v of the ratios, and Kong's 1 / (1 + v).
    """
    squares, freedom = np.bincount(place, count * (1 / ess - 1)), np.bincount(place, count - 1)
    variance = np.divide(squares, freedom, out=np.full(len(freedom), np.nan), where=freedom > 0)
    return np.asarray(1 / (1 + variance))


def _flat(batches: Sequence[_Batch], field: Callable[[_Batch], list[Any]]) -> NDArray[np.float64]:
    return np.fromiter(itertools.chain.from_iterable(map(field, batches)), np.float64)
