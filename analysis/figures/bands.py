"""Mean and interval of several runs' curves, on the range that all of them reached."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from analysis.statistics import LEVEL, REPLICATES, SEED
from analysis.student import t_quantile

FloatArray = NDArray[np.float64]
Curve = tuple[FloatArray, FloatArray]
"""x, increasing, and values."""
BAND_FROM = 3
"""Fewest runs for which an interval is drawn."""


@dataclass(frozen=True)
class Band:
    """Mean of some curves with its pointwise interval."""

    x: FloatArray
    mean: FloatArray
    """NaN where a run recorded a NaN."""
    low: FloatArray | None
    """None below `BAND_FROM` curves."""
    high: FloatArray | None
    n: int


def band(curves: Sequence[Curve], kind: Literal["t", "bootstrap"] = "t") -> Band | None:
    """Mean over curves at every x at which one of them has a point, within the range that all of them reached.

    Between its own points a curve is a straight line, as it is drawn; nothing is continued beyond its ends. Curves with
    points at equal x are not interpolated at all.

    Returns:
        None if there is no curve, or no range that all have.
    """
    curves = [curve for curve in curves if len(curve[0])]
    if not curves:
        return None
    first, last = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    x = np.unique(np.concatenate([each for each, _ in curves]))
    x = x[(x >= first) & (x <= last)]
    if not len(x):
        return None
    values = np.array([np.interp(x, each, y) for each, y in curves])
    mean, n = values.mean(axis=0), len(values)
    if n < BAND_FROM:
        return Band(x, mean, None, None, n)
    low, high = spread(values, kind)
    return Band(x, mean, low, high, n)


def spread(values: FloatArray, kind: Literal["t", "bootstrap"] = "t") -> tuple[FloatArray, FloatArray]:
    """Pointwise 95 % interval of the mean of [runs, points]: Student t, or percentiles of a bootstrap over runs."""
    n = len(values)
    if kind == "t":
        half = t_quantile(0.5 + LEVEL / 2, n - 1) * values.std(axis=0, ddof=1) / math.sqrt(n)
        centre = values.mean(axis=0)
        return centre - half, centre + half
    shares = np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), REPLICATES) / n
    low, high = np.quantile(shares @ values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


def smooth(values: FloatArray, weight: float) -> FloatArray:
    """Exponential moving average; `weight` in (0, 1] is that of the newest value. Starts at the first value."""
    out = np.array(values, np.float64)
    for index in range(1, len(out)):
        out[index] = weight * out[index] + (1 - weight) * out[index - 1]
    return out
