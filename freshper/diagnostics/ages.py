"""How stale replayed data is: effective sample size, KL and clip fraction by age (paper section 3.3)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def effective_sample_size(log_weights: NDArray[np.floating]) -> float:
    """Kong's effective sample size as a share of n: (sum w)^2 / (n sum w^2), in (0, 1].

    Args:
        log_weights: [n] log importance weights; only their differences matter.
    """
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))


def age_edges(largest: int) -> NDArray[np.int64]:
    """Bin edges 0, 1, 2, 4, 8, ... up to beyond `largest`: ages spread over orders of magnitude."""
    octaves = int(np.ceil(np.log2(largest + 1))) if largest > 0 else 0
    return np.concatenate([[0], 2 ** np.arange(octaves + 1)]).astype(np.int64)


def age_profile(
    ages: NDArray[np.integer],
    log_ratio_sum: NDArray[np.floating],
    log_ratio_mean: NDArray[np.floating],
    clip_fraction: NDArray[np.floating],
) -> dict[str, Any]:
    """Statistics of replayed trajectories by age.

    Args:
        ages: [n] age of each replayed trajectory in units of `replay.age_unit`.
        log_ratio_sum: [n] log pi - log mu of the whole trajectory.
        log_ratio_mean: [n] the same per response token.
        clip_fraction: [n] share of clipped tokens.

    Returns:
        JSON-like lists, one entry per non-empty age bin [from, to): `from`, `to`, `count`, `ess` (share of n, from
        trajectory ratios), `kl` (mean of log mu - log pi per token, the k1 estimate of KL(mu || pi)), `clip_fraction`.
        Under priorities the rows are not a plain sample of mu: with reward priority they are successes, whose
        likelihood training raises, so `kl` comes out low and may be negative. The uniform arm gives an unbiased one.
    """
    edges = age_edges(int(ages.max()))
    place = np.searchsorted(edges, ages, side="right") - 1
    profile: dict[str, Any] = {name: [] for name in ("from", "to", "count", "ess", "kl", "clip_fraction")}
    for bin_index in np.unique(place):
        inside = place == bin_index
        profile["from"].append(int(edges[bin_index]))
        profile["to"].append(int(edges[bin_index + 1]) if bin_index + 1 < len(edges) else int(ages.max()) + 1)
        profile["count"].append(int(inside.sum()))
        profile["ess"].append(effective_sample_size(log_ratio_sum[inside]))
        profile["kl"].append(float(-log_ratio_mean[inside].mean()))
        profile["clip_fraction"].append(float(clip_fraction[inside].mean()))
    return profile
