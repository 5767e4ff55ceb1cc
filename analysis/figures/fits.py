"""The decay that the paper assumes, fitted: effective sample size = exp(-age / T)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
LEAST = 3
"""Fewest points for a fit."""


@dataclass(frozen=True)
class Decay:
    """exp(-age / time)."""

    time: float
    """T, in the unit of the ages; infinite where the values do not fall."""
    r2: float
    """Share of the weighted variance that the fit explains; negative if a constant is closer, NaN without variance."""

    def at(self, age: FloatArray) -> FloatArray:
        """Fitted values."""
        return np.exp(-age / self.time)


def fit_decay(age: FloatArray, value: FloatArray, weight: FloatArray) -> Decay | None:
    """Least squares of value = exp(-age / T) in T, the only parameter.

    Args:
        age, value, weight: [n]; points that are not finite are left out.

    Returns:
        None for fewer than `LEAST` points.
    """
    good = np.isfinite(age) & np.isfinite(value) & (weight > 0) & (age > 0)
    age, value, weight = age[good], value[good], weight[good]
    if len(age) < LEAST:
        return None

    def error(time: FloatArray) -> FloatArray:
        return np.asarray(((np.exp(-age / time[:, None]) - value) ** 2 * weight).sum(axis=1))

    low, high = math.log(age.min() / 50), math.log(age.max() * 1e4)
    edge = math.exp(high)
    for _ in range(4):  # every round narrows the bracket a hundredfold
        grid = np.exp(np.linspace(low, high, 201))
        best = int(error(grid).argmin())
        low, high = math.log(grid[max(best - 1, 0)]), math.log(grid[min(best + 1, 200)])
    time = float(grid[best])
    time = math.inf if time > edge / 2 else time
    mean = float(np.average(value, weights=weight))
    variance = float(((value - mean) ** 2 * weight).sum())
    residual = float(error(np.array([time]))[0])
    return Decay(time, 1 - residual / variance if variance > 1e-15 * weight.sum() else math.nan)
