"""One number from one run's curve: peak, final value, mean of the last k, area under the curve, steps to a threshold.

A recorded NaN is a value that a diverged run had: it makes every statistic NaN that looks at it, except the peak, which
is the largest value that there was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from analysis.findings import AnalysisError

FloatArray = NDArray[np.float64]


def peak(values: FloatArray) -> float:
    """Largest value; recorded NaNs aside, NaN if there is nothing else. Grows with the number of evaluations."""
    real = values[~np.isnan(values)]
    return float(real.max()) if len(real) else math.nan


def peak_at(x: FloatArray, values: FloatArray) -> float:
    """Where the peak was reached first."""
    best = peak(values)
    return math.nan if math.isnan(best) else float(x[np.flatnonzero(values == best)[0]])


def final(values: FloatArray) -> float:
    """Last value."""
    return float(values[-1]) if len(values) else math.nan


def last_mean(values: FloatArray, k: int) -> float:
    """Mean of the last k values; NaN if there are fewer than k."""
    return float(values[-k:].mean()) if len(values) >= k else math.nan


def area(x: FloatArray, values: FloatArray) -> float:
    """Area under the curve (trapezoids) divided by the range of x: the mean height. NaN for fewer than two points."""
    if len(x) < 2 or x[-1] == x[0]:
        return math.nan
    return float(np.sum((values[1:] + values[:-1]) / 2 * np.diff(x)) / (x[-1] - x[0]))


def steps_to(x: FloatArray, values: FloatArray, threshold: float) -> float:
    """First x at which the curve is at least `threshold`; infinity if it never is, NaN without values."""
    if not len(values):
        return math.nan
    reached = np.flatnonzero(values >= threshold)
    return float(x[reached[0]]) if len(reached) else math.inf


def value_at(x: FloatArray, values: FloatArray, limit: float) -> float:
    """Last value that used at most `limit` of x; NaN if there is none."""
    within = np.flatnonzero(x <= limit)
    return float(values[within[-1]]) if len(within) else math.nan


@dataclass(frozen=True)
class Statistic:
    """A statistic of a curve, chosen by name."""

    name: str
    """As typed: `peak`, `final`, `last:5`, `auc`, `steps:0.5`."""
    text: str
    """As captions say it."""
    of: Callable[[FloatArray, FloatArray], float] = field(repr=False)
    """(x, values) -> value."""


CHOICES = "peak, final, last:<k> (mean of the last k evaluations), auc, steps:<threshold>"


def statistic(name: str) -> Statistic:
    """The statistic of a name.

    Raises:
        AnalysisError: for any other name, saying which there are.
    """
    if name == "peak":
        return Statistic(name, "peak over the run", lambda x, values: peak(values))
    if name == "final":
        return Statistic(name, "last evaluation", lambda x, values: final(values))
    if name == "auc":
        return Statistic(name, "mean height of the curve (area under it / range)", area)
    found = re.fullmatch(r"last:([1-9]\d*)", name)
    if found:
        k = int(found[1])
        return Statistic(name, f"mean of the last {k} evaluations", lambda x, values: last_mean(values, k))
    found = re.fullmatch(r"steps:(-?\d+(?:\.\d*)?(?:e-?\d+)?)", name)
    if found:
        threshold = float(found[1])
        return Statistic(name, f"steps to {threshold:g}", lambda x, values: steps_to(x, values, threshold))
    raise AnalysisError(f"unknown statistic {name!r}; expected {CHOICES}")
