"""Student's t interval of a mean: the only statistic that a sweep prints."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from analysis.student import t_quantile


def mean_and_half_width(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float | None]:
    """Mean, and half the width of its t interval; None for a single value, of which no spread can be known."""
    mean = statistics.fmean(values)
    n = len(values)
    if n < 2:
        return mean, None
    return mean, t_quantile(0.5 + confidence / 2, n - 1) * statistics.stdev(values) / math.sqrt(n)
