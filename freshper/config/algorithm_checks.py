"""Checks of what an algorithm needs, and of settings that would do nothing under it. None of them raises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from freshper.config.errors import Issue
from freshper.config.model_folder import check_critic
from freshper.config.run import RunConfig

_NEEDS = {
    "grpo": ("algorithm.group.divide_by_std", "algorithm.group.zero_variance", "algorithm.group.resample_rounds"),
    "ppo": (
        "algorithm.discount_per",
        "algorithm.gae_lambda",
        "algorithm.gae_over",
        "algorithm.critic.kind",
        "algorithm.critic.path",
        "algorithm.critic.learning_rate",
        "algorithm.critic.coefficient",
        "algorithm.critic.value_clip",
    ),
}
"""Settings that only one algorithm reads."""


def check_algorithm(config: RunConfig) -> Iterator[Issue]:
    """Problems of `algorithm.*`, and of what replay asks of the algorithm."""
    yield from _losses(config)
    yield from _idle_settings(config)
    yield from _replay_needs(config)
    if config.algorithm.name == "grpo":
        yield from _grpo(config)
    if config.algorithm.name == "ppo":
        yield from _ppo(config)


def _losses(config: RunConfig) -> Iterator[Issue]:
    algorithm, rollout = config.algorithm, config.rollout
    if algorithm.minibatches > rollout.episodes:
        yield Issue(
            "algorithm.minibatches",
            f"expected at most one per episode, rollout.episodes = {rollout.episodes}",
            algorithm.minibatches,
            also=("rollout.episodes",),
        )
    if algorithm.clip_low >= 1:
        yield Issue(
            "algorithm.clip_low", "expected less than 1: the ratio is clipped at 1 - clip_low", algorithm.clip_low
        )
    if algorithm.ratio_anchor == "behaviour" and _changed(config, "algorithm.behaviour_weight_cap"):
        yield Issue(
            "algorithm.behaviour_weight_cap",
            "has no effect unless algorithm.ratio_anchor = proximal; expected it unset",
            algorithm.behaviour_weight_cap,
            also=("algorithm.ratio_anchor",),
        )


def _idle_settings(config: RunConfig) -> Iterator[Issue]:
    """A setting of another algorithm would be ignored, and the run would not be what its config says."""
    for name, keys in _NEEDS.items():
        for key in keys:
            if config.algorithm.name != name and _changed(config, key):
                yield Issue(
                    key,
                    f"has no effect unless algorithm = {name}, and algorithm.name = {config.algorithm.name}; expected "
                    "it unset",
                    _value(config, key),
                    also=("algorithm.name",),
                )


def _replay_needs(config: RunConfig) -> Iterator[Issue]:
    algorithm, replay = config.algorithm, config.replay
    if not replay.enabled:
        return
    if replay.priority.base == "td_error" and algorithm.name != "ppo":
        yield Issue(
            "replay.priority.base",
            f"needs a critic, and algorithm.name = {algorithm.name} has none; expected algorithm=ppo, or another base "
            "such as reward or advantage",
            replay.priority.base,
            also=("algorithm.name",),
        )
    if replay.advantages == "recomputed" and algorithm.name != "ppo":
        yield Issue(
            "replay.advantages",
            f"needs a critic to estimate anew, and algorithm.name = {algorithm.name} has none; expected frozen, or "
            "algorithm=ppo",
            replay.advantages,
            also=("algorithm.name",),
        )
    if replay.renormalise_advantages and not algorithm.whiten:
        yield Issue(
            "replay.renormalise_advantages",
            "whitens again, so it expects algorithm.whiten = true",
            replay.renormalise_advantages,
            also=("algorithm.whiten",),
        )


def _grpo(config: RunConfig) -> Iterator[Issue]:
    algorithm, size = config.algorithm, config.rollout.group_size
    if size < 2:
        yield Issue(
            "rollout.group_size",
            "expected at least 2: algorithm.name = grpo compares episodes on the same environment instance",
            size,
            also=("algorithm.name",),
        )
    if algorithm.gamma != 1:
        yield Issue(
            "algorithm.gamma",
            "has no effect, since algorithm.name = grpo compares whole episodes; expected 1",
            algorithm.gamma,
            also=("algorithm.name",),
        )
    if algorithm.group.zero_variance != "resample" and _changed(config, "algorithm.group.resample_rounds"):
        yield Issue(
            "algorithm.group.resample_rounds",
            "has no effect unless algorithm.group.zero_variance = resample; expected it unset",
            algorithm.group.resample_rounds,
            also=("algorithm.group.zero_variance",),
        )


def _ppo(config: RunConfig) -> Iterator[Issue]:
    algorithm, critic = config.algorithm, config.algorithm.critic
    if algorithm.gae_over == "turns" and algorithm.discount_per == "token":
        yield Issue(
            "algorithm.discount_per",
            "expected turn, since algorithm.gae_over = turns has no steps inside a turn",
            algorithm.discount_per,
            also=("algorithm.gae_over",),
        )
    if critic.kind == "shared":
        if critic.path is not None:
            yield Issue(
                "algorithm.critic.path",
                "has no effect, since algorithm.critic.kind = shared uses the policy's trunk; expected null or "
                "algorithm.critic.kind=separate",
                critic.path,
                also=("algorithm.critic.kind",),
            )
    elif critic.path is not None:
        yield from check_critic(critic.path, config.model)


def _changed(config: RunConfig, key: str) -> bool:
    return bool(_value(config, key) != _value(RunConfig(), key))


def _value(config: RunConfig, key: str) -> Any:
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value
