"""Collect a training batch: episodes of one iteration, in groups, with groups that teach nothing handled as asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from freshper.algorithms.group import groups, has_variance
from freshper.config.run import RunConfig
from freshper.replay.trajectory import Trajectory


@dataclass(frozen=True)
class Collected:
    """What an iteration collected."""

    played: list[Trajectory]
    """Every episode, an unbiased sample of the policy: what is reported and counted."""
    kept: list[Trajectory]
    """Episodes to train on and to store; may be empty where groups without variance are left out."""
    metrics: dict[str, float]
    """Counts of groups (`grpo` only)."""


def collect_batch(play: Callable[[int, int], list[Trajectory]], config: RunConfig) -> Collected:
    """Play the episodes of one iteration.

    Under `grpo`, `algorithm.group.zero_variance: drop` leaves out groups of equal returns, and `resample` plays further
    instances in their place (DAPO, arXiv 2503.14476, dynamic sampling) until the batch is full or
    `algorithm.group.resample_rounds` are over.

    Args:
        play: called with the number of groups played before and the number to play now.
        config: the run.
    """
    size = config.rollout.group_size
    wanted = config.rollout.episodes // size
    played = play(0, wanted)
    if config.algorithm.name != "grpo":
        return Collected(played, played, {})
    rule = config.algorithm.group
    kept = [members for members in groups(played) if rule.zero_variance == "keep" or has_variance(members)]
    rounds = 0
    while rule.zero_variance == "resample" and len(kept) < wanted and rounds < rule.resample_rounds:
        more = play(len(played) // size, wanted - len(kept))
        played = played + more
        kept += [members for members in groups(more) if has_variance(members)]
        rounds += 1
    silent = sum(not has_variance(members) for members in groups(played))
    metrics = {
        "groups": float(len(played) // size),
        "groups_zero_variance": float(silent),
        "groups_left_out": float(len(played) // size - len(kept)),
        "resample_rounds": float(rounds),
        "update_skipped": float(not kept),
    }
    return Collected(played, [t for members in kept for t in members], metrics)
