"""Importance-sampling correction of the prioritised draw (Schaul et al. 2016, section 3.4; paper section 3.4).

This undoes the *sampling* bias only. It is separate from the policy ratio that corrects for old behaviour policies.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from freshper.config.replay import CorrectionConfig

FloatArray = NDArray[np.float64]


def annealed_beta(config: CorrectionConfig, step: int, total_steps: int) -> float:
    """Exponent at ``step`` of ``total_steps``: linear from beta (step 0) to beta_final, and clamped to that range."""
    if total_steps <= 0:
        return config.beta_final
    progress = min(max(step / total_steps, 0.0), 1.0)
    # The endpoint is returned itself: beta + 1 * (beta_final - beta) may differ from it in the last bit.
    return config.beta_final if progress == 1.0 else config.beta + progress * (config.beta_final - config.beta)


def importance_weights(probabilities: FloatArray, beta: float, smallest: float | None = None) -> FloatArray:
    """w = (N P)^-beta divided by the largest such weight, [B], in (0, 1].

    The largest weight belongs to the smallest probability, and N cancels: w = (P_min / P)^beta. ``smallest`` is the
    least positive probability of the whole buffer (normalise `buffer`); None takes that of the batch (`batch`).
    Raises ValueError unless every P > 0 and beta is in [0, 1].
    """
    if not 0 <= beta <= 1:
        raise ValueError(f"beta must be in [0, 1], got {beta}")
    least = probabilities.min()
    if not least > 0:
        raise ValueError(f"entry {int(np.argmin(probabilities))} of the batch was drawn with probability {least}")
    if smallest is not None:
        least = smallest
    return (least / probabilities) ** beta


def correction_metrics(weights: FloatArray) -> dict[str, float]:
    """Least and mean weight of a batch. The mean multiplies the average gradient, so it acts on the learning rate."""
    mean = float(weights.mean())
    return {"is_weight_min": float(weights.min()), "is_weight_mean": mean, "is_lr_factor": mean}
