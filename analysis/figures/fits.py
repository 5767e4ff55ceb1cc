"""What the paper assumes of age, fitted: effective sample size = a exp(-age / T), and KL linear in age."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.statistics import LEVEL
from analysis.student import t_quantile

FloatArray = NDArray[np.float64]
LEAST = 4
"""Fewest points for a fit: two more than it has parameters."""


@dataclass(frozen=True)
class Decay:
    """amplitude * exp(-age / time)."""

    amplitude: float
    time: float
    """T, in the unit of the ages; infinite where the values do not fall."""
    r2: float
    """Share of the weighted variance that the fit explains, at least 0; NaN without variance."""

    def at(self, age: FloatArray) -> FloatArray:
        """Fitted values."""
        return np.asarray(self.amplitude * np.exp(-age / self.time))


@dataclass(frozen=True)
class Line:
    """intercept + slope * age."""

    intercept: float
    slope: float
    r2: float
    """As in `Decay`."""

    def at(self, age: FloatArray) -> FloatArray:
        """Fitted values."""
        return self.intercept + self.slope * age


def fit_decay(age: FloatArray, value: FloatArray, weight: FloatArray) -> Decay | None:
    """Weighted least squares of value = a exp(-age / T): the best a of each T is known, T is searched for.

    Args:
        age, value, weight: [n]; points that are not finite are left out.

    Returns:
        None for fewer than `LEAST` points.
    """
    points = _usable(age, value, weight, age > 0)
    if points is None:
        return None
    age, value, weight = points

    def amplitudes(time: FloatArray) -> FloatArray:
        shape = np.exp(-age / time[:, None])
        return np.asarray((shape @ (weight * value)) / (shape**2 @ weight))

    def error(time: FloatArray) -> FloatArray:
        fitted = amplitudes(time)[:, None] * np.exp(-age / time[:, None])
        return np.asarray((fitted - value) ** 2 @ weight)

    low, high = math.log(age.min() / 50), math.log(age.max() * 1e4)
    edge = math.exp(high)
    for _ in range(4):  # every round narrows the bracket a hundredfold
        grid = np.exp(np.linspace(low, high, 201))
        best = int(error(grid).argmin())
        low, high = math.log(grid[max(best - 1, 0)]), math.log(grid[min(best + 1, 200)])
    time = float(grid[best])
    if time > edge / 2:
        return Decay(float(np.average(value, weights=weight)), math.inf, _r2(value, weight, math.inf))
    found = np.array([time])
    return Decay(float(amplitudes(found)[0]), time, _r2(value, weight, float(error(found)[0])))


def fit_line(age: FloatArray, value: FloatArray, weight: FloatArray) -> Line | None:
    """Weighted least squares of value = b + c age; arguments and result as in `fit_decay`."""
    points = _usable(age, value, weight, np.ones(len(age), bool))
    if points is None:
        return None
    age, value, weight = points
    x, y = np.average(age, weights=weight), np.average(value, weights=weight)
    slope = float(((age - x) * (value - y)) @ weight / ((age - x) ** 2 @ weight))
    intercept = float(y - slope * x)
    return Line(intercept, slope, _r2(value, weight, float((intercept + slope * age - value) ** 2 @ weight)))


def _usable(
    age: FloatArray, value: FloatArray, weight: FloatArray, also: NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray, FloatArray] | None:
    good = np.isfinite(age) & np.isfinite(value) & (weight > 0) & also
    return (age[good], value[good], weight[good]) if good.sum() >= LEAST else None


def _r2(value: FloatArray, weight: FloatArray, residual: float) -> float:
    """Coefficient of determination; an infinite residual stands for that of the mean."""
    variance = float((value - np.average(value, weights=weight)) ** 2 @ weight)
    if variance <= 1e-15 * weight.sum():
        return math.nan
    return 0.0 if math.isinf(residual) else 1 - residual / variance


def jackknife(estimate: float, without: FloatArray) -> tuple[float, float] | None:
    """95 % interval of an estimate from all runs, by Tukey's jackknife.

    Args:
        estimate: from all n runs.
        without: [n] the same with one run left out each time.

    Returns:
        estimate ± t(n - 1) times the square root of (n - 1) / n times the sum of squares of `without` about its mean;
        None if one of them is not finite, or for a single run.
    """
    n = len(without)
    if n < 2 or not np.isfinite([estimate, *without]).all():
        return None
    error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    half = t_quantile(0.5 + LEVEL / 2, n - 1) * error
    return estimate - half, estimate + half
