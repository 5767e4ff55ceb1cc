"""Checks that involve several settings, or a setting and this machine. Each returns what it found; none raises."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

from freshper.config.algorithm_checks import check_algorithm
from freshper.config.env_checks import check_env
from freshper.config.errors import Issue
from freshper.config.model_folder import check_model
from freshper.config.run import RunConfig
from freshper.config.trainer_checks import check_trainer
from freshper.config.vision_checks import check_vision


def check(config: RunConfig) -> list[Issue]:
    """All cross-field problems of a config whose single values are valid."""
    return [
        *_replay(config),
        *check_algorithm(config),
        *_collection(config),
        *_seeds(config),
        *check_env(config.env),
        *check_model(config.model),
        *check_vision(config),
        *_output(config),
        *_tracking(config),
        *check_trainer(config),
    ]


def replay_batch(config: RunConfig) -> int:
    """Trajectories in one replay batch (`replay.batch_size`, or the rollout batch)."""
    return config.replay.batch_size or config.rollout.episodes


def _replay(config: RunConfig) -> Iterator[Issue]:
    replay = config.replay
    if not replay.enabled:
        if replay.batches_per_iteration > 0:
            yield Issue(
                "replay.batches_per_iteration",
                "expected 0, since replay.enabled = false keeps no buffer to draw from (or set replay.enabled=true)",
                replay.batches_per_iteration,
                also=("replay.enabled",),
            )
        return
    batch, source = replay_batch(config), "replay.batch_size" if replay.batch_size else "rollout.episodes"
    if replay.capacity < batch:
        yield Issue(
            "replay.capacity",
            f"expected at least one replay batch, {source} = {batch}",
            replay.capacity,
            also=(source,),
        )
    if replay.capacity < config.rollout.episodes and replay.batch_size:
        yield Issue(
            "replay.capacity",
            f"expected room for one rollout batch, rollout.episodes = {config.rollout.episodes}",
            replay.capacity,
            also=("rollout.episodes",),
        )
    if replay.warmup > replay.capacity:
        yield Issue(
            "replay.warmup",
            f"expected at most replay.capacity = {replay.capacity}; replay would never start",
            replay.warmup,
            also=("replay.capacity",),
        )
    if replay.decay.law != "none" and replay.decay.tau < 1:
        yield Issue(
            "replay.decay.tau",
            f"expected at least 1 (in {replay.age_unit}): ages are whole numbers, below 1 nothing old is ever drawn",
            replay.decay.tau,
            also=("replay.decay.law", "replay.age_unit"),
        )
    fades = replay.decay.law in ("exponential", "polynomial")
    if fades and replay.decay.placement == "inside_alpha" and replay.priority.alpha == 0:
        yield Issue(
            "replay.decay.placement",
            "expected outside_alpha, since replay.priority.alpha = 0 cancels a decay inside alpha "
            "(or set replay.decay.law=none)",
            replay.decay.placement,
            also=("replay.priority.alpha", "replay.decay.law"),
        )
    correction = replay.is_correction
    if correction.enabled and correction.beta > correction.beta_final:
        yield Issue(
            "replay.is_correction.beta",
            f"expected at most replay.is_correction.beta_final = {correction.beta_final:g}: beta anneals upwards",
            correction.beta,
            also=("replay.is_correction.beta_final",),
        )
    if replay.placebo and replay.batches_per_iteration == 0:
        yield Issue(
            "replay.placebo",
            "needs replay steps to be a placebo of; expected replay.batches_per_iteration > 0",
            replay.placebo,
            also=("replay.batches_per_iteration",),
        )


def _collection(config: RunConfig) -> Iterator[Issue]:
    """Episodes per iteration, and the groups that they and the replay batches have to divide into."""
    rollout, replay = config.rollout, config.replay
    size = rollout.group_size
    if rollout.episodes % size:
        yield Issue(
            "rollout.episodes",
            f"expected a multiple of rollout.group_size = {size}, such as {nearest_multiple(rollout.episodes, size)}",
            rollout.episodes,
            also=("rollout.group_size",),
        )
    if replay.enabled and replay.unit == "group":
        if size == 1:
            yield Issue(
                "replay.unit",
                "draws whole groups, and rollout.group_size = 1 makes none; expected trajectory, or larger groups",
                replay.unit,
                also=("rollout.group_size",),
            )
        for key, value in (("replay.batch_size", replay.batch_size), ("replay.capacity", replay.capacity)):
            if value is not None and value % size:
                yield Issue(
                    key,
                    f"expected a multiple of rollout.group_size = {size}, such as {nearest_multiple(value, size)}, "
                    "since replay.unit = group stores and draws whole groups",
                    value,
                    also=("rollout.group_size", "replay.unit"),
                )
    if rollout.lock_step > rollout.episodes:
        yield Issue(
            "rollout.lock_step",
            f"expected at most rollout.episodes = {rollout.episodes} (0 means all of them)",
            rollout.lock_step,
            also=("rollout.episodes",),
        )
    if rollout.max_new_tokens >= config.model.max_length:
        yield Issue(
            "rollout.max_new_tokens",
            f"expected less than model.max_length = {config.model.max_length}: no room for a prompt",
            rollout.max_new_tokens,
            also=("model.max_length",),
        )


def nearest_multiple(value: int, step: int) -> int:
    """The multiple of `step` (at least `step` itself) that is closest to `value`."""
    return max(step, round(value / step) * step)


def _seeds(config: RunConfig) -> Iterator[Issue]:
    """Training draws its seeds from [train_seed, eval_seed), evaluation its own from eval_seed on (envs/seeds.py)."""
    env, train = config.env, config.iterations * config.rollout.episodes
    if env.eval_seed - env.train_seed < train:
        yield Issue(
            "env.eval_seed",
            f"expected at least env.train_seed + iterations * rollout.episodes = {env.train_seed + train}: training "
            "takes its seeds below eval_seed, so that no evaluation map is ever trained on",
            env.eval_seed,
            also=("env.train_seed", "iterations", "rollout.episodes"),
        )


def _output(config: RunConfig) -> Iterator[Issue]:
    name = config.output.name
    if name is not None and (not name or name in {".", ".."} or Path(name).name != name):
        yield Issue("output.name", "expected a plain folder name without a path separator", name)
    root = Path(config.output.root).expanduser().absolute()
    existing = next(path for path in (root, *root.parents) if os.path.lexists(path))
    if not existing.is_dir():
        yield Issue("output.root", f"expected a folder, but {existing} is not one", config.output.root)
    elif not os.access(existing, os.W_OK | os.X_OK):
        yield Issue(
            "output.root", f"expected a writable folder, but {existing} cannot be written to", config.output.root
        )


def _tracking(config: RunConfig) -> Iterator[Issue]:
    tracking = config.tracking
    if tracking.wandb != "off" and importlib.util.find_spec("wandb") is None:
        yield Issue(
            "tracking.wandb", "needs the wandb package: pip install 'freshper[wandb]' (or expected off)", tracking.wandb
        )
    if tracking.tensorboard and importlib.util.find_spec("tensorboard") is None:
        yield Issue(
            "tracking.tensorboard",
            "needs the tensorboard package: pip install 'freshper[tensorboard]' (or expected false)",
            tracking.tensorboard,
        )
