"""The replay part of an iteration: store fresh trajectories, take K updates on drawn ones, refresh their priorities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from freshper.algorithms.advantages import rewhiten, without_advantages
from freshper.algorithms.gae import Estimate, reestimated
from freshper.diagnostics.ages import age_profile, effective_sample_size
from freshper.learner.evaluation import episode_metrics
from freshper.learner.update import Batch
from freshper.learner.update_stats import UpdateResult
from freshper.replay.buffer import Draw, ReplayBuffer
from freshper.replay.correction import annealed_beta, correction_metrics
from freshper.replay.priority import Signals, base_priorities, changes_with_training
from freshper.replay.trajectory import Trajectory

if TYPE_CHECKING:
    from freshper.learner.learner import Learner


def store(
    buffer: ReplayBuffer,
    fresh: Sequence[Trajectory],
    estimates: Sequence[Estimate] | None,
    result: UpdateResult,
    clock: int,
) -> None:
    """Put fresh trajectories into the buffer, at their base priority from the first moment (`initial: base`)."""
    buffer.add(fresh, base_priorities(buffer.config.priority, fresh, _signals(estimates, result)), clock)


def replay_updates(learner: Learner, buffer: ReplayBuffer) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """K replay updates (paper Algorithm 1).

    Returns:
        Metrics `replay/*`, means over the updates, and one age profile per update.
    """
    config, run = learner.config.replay, learner.config
    size = config.batch_size or run.rollout.episodes
    beta = annealed_beta(config.is_correction, learner.counters.iteration, run.iterations - 1)
    rows: list[dict[str, float]] = []
    profiles = []
    for _ in range(config.batches_per_iteration):
        clock = learner.clock
        with learner.timed("replay_bookkeeping"):
            if not buffer.ready(size, clock):
                break
            draw = buffer.draw(size, clock, beta)
        with learner.timed("replay_update"):
            batch, estimates = _batch(learner, draw)
            result = learner.update(batch, "replay", 1, 1)
        with learner.timed("replay_bookkeeping"):
            _refresh(learner, buffer, draw, estimates, result)
            profiles.append(age_profile(draw.ages, result.log_ratio_sum, result.log_ratio_mean, result.clip_fraction))
            rows.append(_metrics(draw, estimates, result, learner.optimizer.steps - 1))
    with learner.timed("replay_bookkeeping"):
        metrics = {f"replay/{k}": float(np.mean([row[k] for row in rows])) for k in (rows[0] if rows else ())}
        metrics["replay/batches"] = float(len(rows))
        if config.is_correction.enabled:
            metrics["replay/beta"] = beta
        metrics |= {f"replay/buffer_{k}": v for k, v in buffer.metrics(learner.clock).items()}
    return metrics, profiles


def _batch(learner: Learner, draw: Draw) -> tuple[Batch, list[Estimate] | None]:
    """The drawn trajectories as an update sees them, and what the present critic makes of them."""
    config = learner.config.replay
    trajectories, estimates = draw.trajectories, learner.estimates(draw.trajectories)
    if config.placebo:  # nothing may be learned, by the critic neither
        return Batch(without_advantages(trajectories), draw.weights), estimates
    if config.advantages == "recomputed":
        assert estimates is not None
        trajectories = reestimated(trajectories, estimates, learner.config.algorithm)
    if config.renormalise_advantages:
        trajectories = rewhiten(trajectories)
    return Batch(trajectories, draw.weights, estimates), estimates


def _refresh(
    learner: Learner, buffer: ReplayBuffer, draw: Draw, estimates: list[Estimate] | None, result: UpdateResult
) -> None:
    """New base priorities of the drawn rows, from what the update saw before its step, as in PER (Schaul et al. 2016).

    Under `initial: max` the priority of a row becomes its own once it has been replayed.
    """
    priority = learner.config.replay.priority
    if priority.initial != "max" and not changes_with_training(priority.base, estimates is not None):
        return
    trajectories = draw.trajectories
    if priority.base == "advantage" and estimates is not None:
        trajectories = reestimated(trajectories, estimates, learner.config.algorithm)
    buffer.update(draw.keys, base_priorities(priority, trajectories, _signals(estimates, result)))


def _signals(estimates: Sequence[Estimate] | None, result: UpdateResult) -> Signals:
    return Signals(None if estimates is None else [e.td_errors for e in estimates], result.entropy)


def _metrics(draw: Draw, estimates: Sequence[Estimate] | None, result: UpdateResult, version: int) -> dict[str, float]:
    trajectories = draw.trajectories
    drift = {}
    if estimates is not None:  # how stale the critic's word of collection time is
        stored = [t.values[t.response_mask] for t in trajectories if t.values is not None]
        present = [e.values for e in estimates]
        drift["value_drift"] = float(np.abs(np.concatenate(present) - np.concatenate(stored)).mean())
    return {
        **drift,
        **result.metrics,
        **episode_metrics(trajectories),
        "age_mean": float(draw.ages.mean()),
        "age_max": float(draw.ages.max()),
        "ess": effective_sample_size(result.log_ratio_sum),
        "duplicates": float(draw.duplicates),
        **correction_metrics(draw.weights),
        "staleness": float(np.mean([version - t.policy_version for t in trajectories])),
    }
