"""Evaluate a policy on held-out environment seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from freshper.config.run import RunConfig
from freshper.envs.seeds import eval_seed
from freshper.learner.seeds import torch_rng
from freshper.policy.load import Policy
from freshper.replay.trajectory import Trajectory
from freshper.rollout.collect import EnvPool, Limits, collect
from freshper.rollout.engine import Sampling
from freshper.rollout.hf_engine import HFEngine


def evaluate(
    policy: Policy, config: RunConfig, iteration: int, envs: EnvPool
) -> tuple[dict[str, float], list[Trajectory]]:
    """Play the evaluation episodes by sampling and, if asked for, greedily.

    The same maps and the same sampling noise for every run and iteration of a run seed: differences are the policy's.

    Returns:
        `eval/success`, `eval/return`, `eval/valid_rate`, `eval/turns` (sampled as in training), `eval/success_greedy`,
        `eval/return_greedy`, `eval/episodes`; and the sampled episodes.
    """
    sampled = play(policy, config, iteration, False, envs)
    metrics = {f"eval/{name}": value for name, value in episode_metrics(sampled).items()}
    metrics["eval/episodes"] = float(len(sampled))
    if config.evaluation.greedy:
        greedy = episode_metrics(play(policy, config, iteration, True, envs))
        metrics["eval/success_greedy"] = greedy["success"]
        metrics["eval/return_greedy"] = greedy["return"]
    return metrics, sampled


def play(policy: Policy, config: RunConfig, iteration: int, greedy: bool, envs: EnvPool) -> list[Trajectory]:
    """The evaluation episodes of one run seed."""
    generator = torch_rng(config.seed, "evaluation", 0, policy.device)
    sampling = Sampling.of(config.rollout, greedy)
    return collect(
        policy,
        lambda: HFEngine(policy, sampling, generator, config.model.max_length),
        envs,
        [eval_seed(config.env, k) for k in range(config.evaluation.episodes)],
        Limits(config.model.max_length, config.env.format_penalty),
        policy_version=0,
        iteration=iteration,
        lock_step=config.rollout.lock_step,
    )


def episode_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Means over episodes: success, return, valid_rate, turns, tokens, truncated; environment errors in all."""
    info: list[dict[str, Any]] = [t.info for t in trajectories]
    return {
        "success": float(np.mean([i["success"] for i in info])),
        "return": float(np.mean([t.episode_return for t in trajectories])),
        "valid_rate": float(np.mean([i["valid_rate"] for i in info])),
        "turns": float(np.mean([t.n_turns for t in trajectories])),
        "tokens": float(np.mean([t.n_tokens for t in trajectories])),
        "truncated": float(np.mean([bool(i["truncated"]) for i in info])),
        "dropped_mass": float(np.mean([i.get("dropped_mass", 0.0) for i in info])),
        "environment_errors": float(sum(i.get("environment_errors", 0) for i in info)),
    }
