"""Freshness: how the weight of a trajectory falls with its age (paper section 3.3; design section 4, points 2 and 3).

Everything is computed as a *logarithm* of the weight. A sampler only needs ratios of weights, so it can subtract the
largest logarithm first, and an entry that is a thousand time constants old no longer drags all others into underflow.

Ages and tau share one unit, the one of ``replay.age_unit``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from freshper.config.replay import DecayConfig

FloatArray = NDArray[np.float64]


def log_decay(config: DecayConfig, ages: ArrayLike) -> FloatArray:
    """Natural logarithm of w(age), elementwise; any shape. -inf where the window has closed.

    none 0; exponential -age/tau; polynomial -power ln(1 + age/tau); window 0 up to and including age tau.
    """
    ages = np.asarray(ages, dtype=np.float64)
    if config.law == "exponential":
        return -ages / config.tau
    if config.law == "polynomial":
        return -config.power * np.log1p(ages / config.tau)
    if config.law == "window":
        return np.where(ages <= config.tau, 0.0, -np.inf)
    return np.zeros_like(ages)


def decay(config: DecayConfig, ages: ArrayLike) -> FloatArray:
    """w(age) itself, in [0, 1]: for reports and plots. Raises ValueError on a negative or NaN age."""
    ages = np.asarray(ages, dtype=np.float64)
    if not np.all(ages >= 0):
        raise ValueError(f"ages must be >= 0, got {ages[~(ages >= 0)][:3].tolist()}")
    return np.exp(log_decay(config, ages))


def log_sampling_decay(config: DecayConfig, alpha: float, ages: ArrayLike) -> FloatArray:
    """Logarithm of the age factor of the *sampling weight*: w^alpha inside alpha (paper), w outside.

    A weight of zero stays zero when alpha is 0 (0^0 is read as its limit), so a closed window stays closed.
    """
    log_w = log_decay(config, ages)
    if config.placement == "outside_alpha":
        return log_w
    if alpha > 0:
        return alpha * log_w
    return np.multiply(log_w, alpha, out=np.full_like(log_w, -np.inf), where=log_w > -np.inf)


def is_clock_invariant(config: DecayConfig) -> bool:
    """Whether ratios of weights between entries do not change as time passes, so that nothing needs recomputing.

    True of exp(-age/tau), whose common factor exp(-now/tau) cancels, and of no decay.
    """
    return config.law in ("none", "exponential")


def sampling_half_life(config: DecayConfig, alpha: float) -> float:
    """Age at which the sampling weight has fallen to half or less; inf if it never does. Same unit as tau.

    Exponential: tau ln 2, divided by alpha when the decay sits inside alpha. Window: tau, where it falls to zero.
    """
    exponent = alpha if config.placement == "inside_alpha" else 1.0
    if config.law == "window":
        return config.tau
    if config.law == "none" or exponent == 0:
        return math.inf
    if config.law == "exponential":
        return config.tau * math.log(2) / exponent
    rate = config.power * exponent
    # expm1 would overflow; a half-life of tau * e^700 is never reached.
    return config.tau * math.expm1(math.log(2) / rate) if rate > 1e-3 else math.inf
