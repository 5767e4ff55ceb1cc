"""Student's t interval of a mean: the only statistic that a sweep prints. Standard library only."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def mean_and_half_width(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float | None]:
    """Mean, and half the width of its t interval; None for a single value, of which no spread can be known."""
    mean = statistics.fmean(values)
    n = len(values)
    if n < 2:
        return mean, None
    return mean, t_quantile(0.5 + confidence / 2, n - 1) * statistics.stdev(values) / math.sqrt(n)


def t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t with that many degrees of freedom, for `probability` in [0.5, 1), to about 1e-10."""
    low, high = 0.0, 1.0
    while t_probability(high, degrees) < probability:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


def t_probability(t: float, degrees: int) -> float:
    """P(T <= t) for t >= 0: the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine = math.cos(angle) ** 2
    term, total = 1.0, 0.0
    for k in range(1 + degrees % 2, degrees, 2):
        total += term
        term *= cosine * k / (k + 1)
    if degrees % 2 == 0:
        inside = math.sin(angle) * total
    else:
        inside = 2 / math.pi * (angle + math.sin(angle) * math.cos(angle) * total)
    return 0.5 + inside / 2
