"""One iteration of training: the paper's Algorithm 1."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from freshper.algorithms.advantages import reinforce_pp
from freshper.algorithms.gae import Estimate, estimate, ppo
from freshper.algorithms.group import grpo
from freshper.config.report import steps_per_iteration
from freshper.config.run import RunConfig
from freshper.diagnostics.detectors import DeadRunDetector
from freshper.envs.make import make_env
from freshper.envs.seeds import train_seed
from freshper.learner.collection import Collected, collect_batch
from freshper.learner.evaluation import episode_metrics
from freshper.learner.optimizer import DivergedError, Optimizer
from freshper.learner.replay import replay_updates, store
from freshper.learner.seeds import numpy_rng, torch_rng
from freshper.learner.update import Batch, Models, critic_values, update
from freshper.learner.update_stats import UpdateResult
from freshper.policy.critic import Critic
from freshper.policy.load import Policy
from freshper.replay.buffer import ReplayBuffer
from freshper.replay.trajectory import Trajectory
from freshper.rollout.collect import EnvPool, Limits, collect
from freshper.rollout.engine import Sampling
from freshper.rollout.hf_engine import HFEngine


@dataclass
class Counters:
    """Totals since the start of the run."""

    iteration: int = 0
    """Iterations complete."""
    env_steps: int = 0
    """Environment steps: sampled turns of training episodes."""
    episodes: int = 0
    """Training episodes."""
    tokens: int = 0
    """Tokens sampled by the policy in training."""
    trained_tokens: int = 0
    """Response tokens that went through an update, replay included."""


@dataclass
class Report:
    """What one iteration measured."""

    metrics: dict[str, float]
    """Scalars by name."""
    ages: list[dict[str, Any]]
    """One age profile per replay batch."""
    fresh: list[Trajectory]
    """The episodes trained on, with their advantages."""


class Learner:
    """Owns networks, optimiser, buffer and counters; :meth:`iterate` advances all of them by one iteration."""

    def __init__(
        self, config: RunConfig, policy: Policy, reference: Policy | None = None, critic: Critic | None = None
    ) -> None:
        """
        Args:
            config: the run.
            policy: model to train.
            reference: policy of the KL penalty; required if `algorithm.kl.coefficient` > 0.
            critic: value function; required by `algorithm.name: ppo`, and by it alone.
        """
        if (critic is not None) != (config.algorithm.name == "ppo"):
            raise ValueError(f"algorithm.name={config.algorithm.name} with{'out' if critic is None else ''} a critic")
        self.config, self.policy = config, policy
        self.models = Models(policy, reference, critic)
        self.counters = Counters()
        self.envs = EnvPool(lambda: make_env(config.env))
        self.optimizer = Optimizer(policy, config.algorithm, config.iterations * steps_per_iteration(config), critic)
        self.detector = DeadRunDetector(config.diagnostics)
        self.buffer: ReplayBuffer | None = None
        if config.replay.enabled:
            self.buffer = ReplayBuffer(config.replay, numpy_rng(config.seed, "replay"), config.rollout.group_size)
        self._seconds: dict[str, float] = {}

    @property
    def clock(self) -> int:
        """Now, in units of `replay.age_unit`."""
        steps = self.config.replay.age_unit == "optimizer_steps"
        return self.optimizer.steps if steps else self.counters.iteration

    def iterate(self) -> Report:
        """Collect, update on the fresh batch, store it, update on K replay batches.

        Raises:
            DivergedError: loss, gradient or policy ratio out of bounds.
            DeadRunError: no learning signal for too long.
        """
        started = time.perf_counter()
        self._seconds = dict.fromkeys(("rollout", "update", "replay_update", "replay_bookkeeping"), 0.0)
        collected_at = self.clock
        with self.timed("rollout"):
            collected = self._collect()
        played = collected.played
        self.detector.observe(played)
        metrics = {f"fresh/{k}": v for k, v in {**episode_metrics(played), **collected.metrics}.items()}
        metrics["fresh/training_reward"] = float(np.mean([(t.turn_rewards + t.turn_penalties).sum() for t in played]))
        metrics["learning_rate"] = self.optimizer.learning_rate
        fresh: list[Trajectory] = []
        if collected.kept:
            fresh, trained = self._train_fresh(collected.kept, collected_at)
            metrics |= trained
        ages: list[dict[str, Any]] = []
        if self.buffer is not None:
            replayed, ages = replay_updates(self, self.buffer)
            metrics |= replayed
        self._count(played)
        metrics |= self.counts()
        whole = time.perf_counter() - started
        metrics |= {f"time/{name}": seconds for name, seconds in self._seconds.items()}
        metrics["time/rest"] = whole - sum(self._seconds.values())
        metrics["time/iteration"] = whole
        return Report(metrics, ages, fresh)

    def _collect(self) -> Collected:
        config, counters = self.config, self.counters
        size = config.rollout.group_size
        generator = torch_rng(config.seed, "rollout", counters.iteration, self.policy.device)
        sampling = Sampling.of(config.rollout)

        def play(before: int, count: int) -> list[Trajectory]:
            first = counters.episodes // size + before
            seeds = [train_seed(config.env, config.seed, first + k // size) for k in range(count * size)]
            return collect(
                self.policy,
                lambda: HFEngine(self.policy, sampling, generator, config.model.max_length),
                self.envs,
                seeds,
                Limits(config.model.max_length, config.env.format_penalty),
                policy_version=self.optimizer.steps,
                iteration=counters.iteration,
                lock_step=config.rollout.lock_step,
                first_group=first,
                group_size=size,
            )

        return collect_batch(play, config)

    def _train_fresh(self, fresh: list[Trajectory], collected_at: int) -> tuple[list[Trajectory], dict[str, float]]:
        """Update on fresh trajectories, then store them; returns them with advantages, and `fresh/*` metrics."""
        algorithm = self.config.algorithm
        with self.timed("update"):
            # Frozen now: a replayed trajectory keeps the advantage it had among its own batch.
            fresh, estimates = self._with_advantages(fresh)
            batch = Batch(fresh, np.ones(len(fresh)), estimates)
            result = self.update(batch, "fresh", algorithm.epochs, algorithm.minibatches)
        limit = self.config.diagnostics.max_log_ratio
        if algorithm.epochs * algorithm.minibatches == 1 and result.metrics["log_ratio_max"] > limit:
            raise DivergedError(
                f"|log ratio| of a fresh batch reached {result.metrics['log_ratio_max']:.1f} (limit {limit})"
            )
        if self.buffer is not None:
            with self.timed("replay_bookkeeping"):
                store(self.buffer, fresh, estimates, result, collected_at)
        return fresh, {f"fresh/{k}": v for k, v in result.metrics.items()}

    def _with_advantages(self, fresh: list[Trajectory]) -> tuple[list[Trajectory], list[Estimate] | None]:
        algorithm = self.config.algorithm
        if algorithm.name == "ppo":
            return ppo(fresh, critic_values(self.models, fresh, algorithm), algorithm)
        return (grpo if algorithm.name == "grpo" else reinforce_pp)(fresh, algorithm), None

    def estimates(self, trajectories: Sequence[Trajectory]) -> list[Estimate] | None:
        """What the present critic makes of trajectories; None without a critic."""
        algorithm = self.config.algorithm
        if self.models.critic is None:
            return None
        values = critic_values(self.models, trajectories, algorithm)
        return [estimate(t, v, algorithm) for t, v in zip(trajectories, values, strict=True)]

    def update(self, batch: Batch, name: str, passes: int, parts: int) -> UpdateResult:
        """Optimiser steps on a batch; `name` seeds the order of its parts."""
        config = self.config
        rng = numpy_rng(config.seed, name, self.optimizer.steps)
        result = update(
            self.models, self.optimizer, batch, config.algorithm, config.rollout.temperature, rng, passes, parts
        )
        self.counters.trained_tokens += passes * sum(int(t.response_mask.sum()) for t in batch.trajectories)
        return result

    def _count(self, fresh: Sequence[Trajectory]) -> None:
        self.counters.iteration += 1
        self.counters.env_steps += sum(t.n_turns for t in fresh)
        self.counters.episodes += len(fresh)
        self.counters.tokens += sum(int(t.response_mask.sum()) for t in fresh)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time of a block to `time/<name>` of this iteration."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] += time.perf_counter() - started

    def counts(self) -> dict[str, int]:
        """Totals since the start of the run as metrics."""
        totals = {f"counts/{name}": value for name, value in asdict(self.counters).items() if name != "iteration"}
        return {**totals, "counts/optimizer_steps": self.optimizer.steps}

    def state_dict(self) -> dict[str, Any]:
        """Everything but weights and buffer, as tensors, numbers and containers of them."""
        return {
            "optimizer": self.optimizer.state_dict(),
            "counters": asdict(self.counters),
            "detector": self.detector.state_dict(),
            "critic": None if self.models.critic is None else self.models.critic.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], buffer: dict[str, Any] | None) -> None:
        """Restore :meth:`state_dict` and the buffer's; the policy is loaded by the caller."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.counters = Counters(**state["counters"])
        self.detector.load_state_dict(state["detector"])
        if self.models.critic is not None:
            self.models.critic.load_state_dict(state["critic"])
        if self.buffer is not None and buffer is not None:
            self.buffer.load_state_dict(buffer)
