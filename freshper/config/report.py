"""What a config amounts to, in a few readable lines."""

from __future__ import annotations

import math

from freshper.config.checks import replay_batch
from freshper.config.identity import identity, run_path
from freshper.config.run import RunConfig


def steps_per_iteration(config: RunConfig) -> int:
    """Optimiser steps of one iteration: epochs * minibatches on fresh data, then one per replay batch."""
    replay = config.replay.batches_per_iteration if config.replay.enabled else 0
    return config.algorithm.epochs * config.algorithm.minibatches + replay


def report(config: RunConfig) -> str:
    """Key settings, replay's time constant in both clocks, and where the run goes."""
    steps, iterations = steps_per_iteration(config), config.iterations
    algorithm, rollout = config.algorithm, config.rollout
    lines = [
        f"run       {config.env.name}, {config.model.name}, {config.variant.name}, seed {config.seed} "
        f"(identity {identity(config)})",
        f"folder    {run_path(config)}",
        f"length    {iterations} iterations x {rollout.episodes} episodes of up to {config.env.max_turns} turns; "
        f"{steps} optimiser steps each, {steps * iterations} in all",
        f"optimiser {algorithm.name}, lr {algorithm.learning_rate:g} {algorithm.schedule}, warm-up "
        f"{algorithm.warmup_steps}, clip {algorithm.clip_low:g}/{algorithm.clip_high:g}, "
        f"ratio to {algorithm.ratio_anchor}, KL {algorithm.kl.coefficient:g}",
        *_algorithm_lines(config),
        *_replay_lines(config, steps),
        f"eval      every {config.evaluation.every} iterations, {config.evaluation.episodes} held-out episodes"
        + (", sampled and greedy" if config.evaluation.greedy else ", sampled"),
    ]
    return "\n".join(lines)


def _algorithm_lines(config: RunConfig) -> list[str]:
    """What an algorithm has besides the optimiser."""
    algorithm, size = config.algorithm, config.rollout.group_size
    if algorithm.name == "grpo":
        divided = "divided by their deviation" if algorithm.group.divide_by_std else "not divided by their deviation"
        silent = {"keep": "kept", "drop": "left out", "resample": "resampled"}[algorithm.group.zero_variance]
        return [
            f"groups    {config.rollout.episodes // size} of {size} episodes, returns {divided}; groups of equal "
            f"returns {silent}"
        ]
    if algorithm.name == "ppo":
        critic = algorithm.critic
        trunk = "value head on the policy's trunk" if critic.kind == "shared" else f"separate model {critic.path or ''}"
        clip = "off" if critic.value_clip is None else f"{critic.value_clip:g}"
        return [
            f"critic    {trunk.strip()}, lr {critic.learning_rate:g}, value clip {clip}\n"
            f"          GAE over {algorithm.gae_over}, gamma {algorithm.gamma:g} per {algorithm.discount_per}, "
            f"lambda {algorithm.gae_lambda:g}"
        ]
    return []


def _replay_lines(config: RunConfig, steps: int) -> list[str]:
    replay = config.replay
    if not replay.enabled or replay.batches_per_iteration == 0:
        return ["replay    none (on-policy)"]
    correction = replay.is_correction
    weights = f"beta {correction.beta:g} -> {correction.beta_final:g}" if correction.enabled else "off"
    name = "placebo (zero advantage), " if replay.placebo else ""
    size, batch = config.rollout.group_size, replay_batch(config)
    batches = f"{batch}" if replay.unit == "trajectory" else f"{batch} ({batch // size} whole groups of {size})"
    lines = [
        f"replay    {name}K = {replay.batches_per_iteration} batches of {batches} from the last "
        f"{replay.capacity} trajectories ({replay.capacity / config.rollout.episodes:.3g} iterations), "
        f"{replay.eviction} eviction",
        f"priority  {replay.priority.base}, alpha {replay.priority.alpha:g}, epsilon {replay.priority.epsilon:g}, "
        f"initial {replay.priority.initial}; IS correction {weights}",
        f"memory    {_memory_line(config)}",
    ]
    if replay.decay.law == "none":
        return [*lines, "freshness none: age does not change the sampling weight"]
    # Here and not above: config is the bottom room, and only this line of text needs another.
    from freshper.replay.decay import sampling_half_life

    tau, half = replay.decay.tau, sampling_half_life(replay.decay, replay.priority.alpha)
    lines.append(
        f"freshness {replay.decay.law}, {replay.decay.placement}, tau {_both_clocks(config, tau, steps)}\n"
        f"          sampling weight {'cut at' if replay.decay.law == 'window' else 'halves at'} age "
        f"{_both_clocks(config, half, steps)}"
    )
    return lines


def _memory_line(config: RunConfig) -> str:
    """Most bytes that the stored trajectories of this run can take."""
    from freshper.replay.buffer import ReplayBuffer

    count = min(config.replay.capacity, config.iterations * config.rollout.episodes)
    values = config.algorithm.name == "ppo"
    turns = config.env.max_turns
    most = ReplayBuffer.memory_bound(count, config.model.max_length, turns, values=values)
    images = ""
    if config.env.images:
        pixels = config.env.image_pixels()
        with_images = ReplayBuffer.memory_bound(
            count, config.model.max_length, turns, values=values, image_pixels=pixels
        )
        images = f"; images at most {(with_images - most) / 2**20:.0f} MiB, if no two are equal and none compresses"
    return (
        f"replay takes at most {most:,} bytes ({most / 2**20:.0f} MiB): {count} trajectories of "
        f"{config.model.max_length} tokens, all sampled{images}"
    )


def _both_clocks(config: RunConfig, age: float, steps: int) -> str:
    """An age in optimiser steps, in iterations, and as a share of the run."""
    if math.isinf(age):
        return "never"
    per = steps if config.replay.age_unit == "optimizer_steps" else 1
    iterations = age / per
    return (
        f"{iterations * steps:.4g} optimiser steps = {iterations:.4g} iterations = "
        f"{100 * iterations / config.iterations:.3g} % of the run"
    )
