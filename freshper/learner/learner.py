"""One iteration of training: the paper's Algorithm 1."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from freshper.algorithms.advantages import reinforce_pp, rewhiten, without_advantages
from freshper.config.report import steps_per_iteration
from freshper.config.run import RunConfig
from freshper.diagnostics.ages import age_profile, effective_sample_size
from freshper.diagnostics.detectors import DeadRunDetector
from freshper.envs.make import make_env
from freshper.envs.seeds import train_seed
from freshper.learner.evaluation import episode_metrics
from freshper.learner.optimizer import DivergedError, Optimizer
from freshper.learner.seeds import numpy_rng, torch_rng
from freshper.learner.update import UpdateResult, update
from freshper.policy.load import Policy
from freshper.replay.buffer import ReplayBuffer
from freshper.replay.correction import annealed_beta, correction_metrics
from freshper.replay.priority import base_priorities
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
    """The collected episodes."""


class Learner:
    """Owns policy, optimiser, buffer and counters; :meth:`iterate` advances all of them by one iteration."""

    def __init__(self, config: RunConfig, policy: Policy, reference: Policy | None) -> None:
        """
        Args:
            config: the run.
            policy: model to train.
            reference: policy of the KL penalty; required if `algorithm.kl.coefficient` > 0.
        """
        self.config, self.policy, self.reference = config, policy, reference
        self.counters = Counters()
        self.envs = EnvPool(lambda: make_env(config.env))
        self.optimizer = Optimizer(policy, config.algorithm, config.iterations * steps_per_iteration(config))
        self.detector = DeadRunDetector(config.diagnostics)
        replay = config.replay
        self.buffer = ReplayBuffer(replay, numpy_rng(config.seed, "replay")) if replay.enabled else None
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
        config, started = self.config, time.perf_counter()
        self._seconds = dict.fromkeys(("rollout", "update", "replay_update", "replay_bookkeeping"), 0.0)
        collected_at = self.clock
        with self._timed("rollout"):
            fresh = self._collect()
        # Frozen now: a replayed trajectory keeps the advantage it had among its own batch.
        fresh = reinforce_pp(fresh, config.algorithm)
        self.detector.observe(fresh)
        metrics: dict[str, float] = {f"fresh/{k}": v for k, v in episode_metrics(fresh).items()}
        metrics["fresh/training_reward"] = float(np.mean([(t.turn_rewards + t.turn_penalties).sum() for t in fresh]))
        metrics["learning_rate"] = self.optimizer.learning_rate
        with self._timed("update"):
            result = self._update(fresh, np.ones(len(fresh)), "fresh", config.algorithm.epochs)
        metrics |= {f"fresh/{k}": v for k, v in result.metrics.items()}
        limit = config.diagnostics.max_log_ratio
        if config.algorithm.epochs * config.algorithm.minibatches == 1 and result.metrics["log_ratio_max"] > limit:
            raise DivergedError(
                f"|log ratio| of a fresh batch reached {result.metrics['log_ratio_max']:.1f} (limit {limit})"
            )
        ages: list[dict[str, Any]] = []
        if self.buffer is not None:
            with self._timed("replay_bookkeeping"):
                self.buffer.add(fresh, None, collected_at)
            replayed, ages = self._replay(self.buffer)
            metrics |= replayed
        self._count(fresh)
        metrics |= self.counts()
        whole = time.perf_counter() - started
        metrics |= {f"time/{name}": seconds for name, seconds in self._seconds.items()}
        metrics["time/rest"] = whole - sum(self._seconds.values())
        metrics["time/iteration"] = whole
        return Report(metrics, ages, fresh)

    def _collect(self) -> list[Trajectory]:
        config, counters = self.config, self.counters
        generator = torch_rng(config.seed, "rollout", counters.iteration, self.policy.device)
        sampling = Sampling.of(config.rollout)
        return collect(
            self.policy,
            lambda: HFEngine(self.policy, sampling, generator, config.model.max_length),
            self.envs,
            [train_seed(config.env, config.seed, counters.episodes + k) for k in range(config.rollout.episodes)],
            Limits(config.model.max_length, config.env.format_penalty),
            policy_version=self.optimizer.steps,
            iteration=counters.iteration,
            lock_step=config.rollout.lock_step,
        )

    def _update(self, batch: Sequence[Trajectory], weights: np.ndarray, name: str, passes: int) -> UpdateResult:
        config = self.config
        result = update(
            self.policy,
            self.reference,
            self.optimizer,
            batch,
            weights,
            config.algorithm,
            config.rollout.temperature,
            numpy_rng(config.seed, name, self.optimizer.steps),
            passes,
            config.algorithm.minibatches if name == "fresh" else 1,
        )
        self.counters.trained_tokens += passes * sum(int(t.response_mask.sum()) for t in batch)
        return result

    def _replay(self, buffer: ReplayBuffer) -> tuple[dict[str, float], list[dict[str, Any]]]:
        """K replay updates; metrics are means over them, ages pooled."""
        config = self.config.replay
        size = config.batch_size or self.config.rollout.episodes
        beta = annealed_beta(config.is_correction, self.counters.iteration, self.config.iterations - 1)
        rows: list[dict[str, float]] = []
        profiles = []
        for _ in range(config.batches_per_iteration):
            clock = self.clock
            with self._timed("replay_bookkeeping"):
                if not buffer.ready(size, clock):
                    break
                draw = buffer.draw(size, clock, beta)
            batch = list(draw.trajectories)
            if config.renormalise_advantages:
                batch = rewhiten(batch)
            if config.placebo:
                batch = without_advantages(batch)
            with self._timed("replay_update"):
                result = self._update(batch, draw.weights, "replay", 1)
            with self._timed("replay_bookkeeping"):
                if config.priority.initial == "max":  # the priority of a row becomes its own once it has been replayed
                    buffer.update(draw.keys, base_priorities(config.priority, draw.trajectories))
                profile = age_profile(draw.ages, result.log_ratio_sum, result.log_ratio_mean, result.clip_fraction)
                profiles.append(profile)
                row = {**result.metrics, **episode_metrics(batch)}
                row |= {"age_mean": float(draw.ages.mean()), "age_max": float(draw.ages.max())}
                row["ess"] = effective_sample_size(result.log_ratio_sum)
                row["duplicates"] = float(draw.duplicates)
                row |= correction_metrics(draw.weights)
                row["staleness"] = float(np.mean([self.optimizer.steps - 1 - t.policy_version for t in batch]))
                rows.append(row)
        with self._timed("replay_bookkeeping"):
            metrics = {f"replay/{k}": float(np.mean([row[k] for row in rows])) for k in (rows[0] if rows else ())}
            metrics["replay/batches"] = float(len(rows))
            if config.is_correction.enabled:
                metrics["replay/beta"] = beta
            metrics |= {f"replay/buffer_{k}": v for k, v in buffer.metrics(self.clock).items()}
        return metrics, profiles

    def _count(self, fresh: Sequence[Trajectory]) -> None:
        self.counters.iteration += 1
        self.counters.env_steps += sum(t.n_turns for t in fresh)
        self.counters.episodes += len(fresh)
        self.counters.tokens += sum(int(t.response_mask.sum()) for t in fresh)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
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
            "silent": self.detector.silent,
        }

    def load_state_dict(self, state: dict[str, Any], buffer: dict[str, Any] | None) -> None:
        """Restore :meth:`state_dict` and the buffer's; the policy is loaded by the caller."""
        self.optimizer.load_state_dict(state["optimizer"])
        self.counters = Counters(**state["counters"])
        self.detector.silent = int(state["silent"])
        if self.buffer is not None and buffer is not None:
            self.buffer.load_state_dict(buffer)
