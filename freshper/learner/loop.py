"""Train for all iterations of a run, evaluating, recording and checkpointing on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from freshper.config.run import RunConfig
from freshper.learner import checkpoint
from freshper.learner.evaluation import evaluate
from freshper.learner.learner import Learner
from freshper.policy.load import Policy
from freshper.records.cpu_time import CpuMeter
from freshper.records.jsonl import LineWriter
from freshper.records.metrics import MetricsWriter
from freshper.records.run_dir import RunDirectory
from freshper.records.samples import SamplesWriter
from freshper.replay.trajectory import Trajectory

Row = dict[str, Any]


def train_loop(
    config: RunConfig,
    learner: Learner,
    run: RunDirectory,
    observers: Sequence[Callable[[Row], None]],
    stop: Callable[[], bool] = lambda: False,
) -> None:
    """Run the remaining iterations.

    Args:
        config: the run.
        learner: at the iteration to go on from.
        run: open run folder; its records are first cut back to the learner's iteration.
        observers: called with every metrics row after it is written (progress, trackers).
        stop: asked after every iteration; if true, a checkpoint is saved and the loop left.

    Raises:
        KeyboardInterrupt: after `stop`.
        DivergedError, DeadRunError: the run is given up; all rows up to then are written.
    """
    resumed = learner.counters.iteration
    metrics, samples, ages = MetricsWriter(run.metrics), SamplesWriter(run.samples), LineWriter(run.path / "ages.jsonl")
    for writer in (metrics, samples, ages):
        # Without a checkpoint even the base model's row is made again, so that every row comes from one attempt's code.
        writer.truncate_after(resumed if resumed else -1)
    cpu = CpuMeter()
    try:
        if resumed == 0:
            start: Row = {"iteration": 0, **learner.counts()}
            _record(_evaluated(config, learner, samples, start), cpu, metrics, observers)
            if stop():
                raise KeyboardInterrupt
        saving = 0.0
        while learner.counters.iteration < config.iterations:
            report = learner.iterate()
            iteration = learner.counters.iteration
            row: Row = {"iteration": iteration, **report.metrics, "time/checkpoint": saving}
            last = iteration == config.iterations
            if last or iteration % config.evaluation.every == 0:
                row = _evaluated(config, learner, samples, row)
            row["time/iteration"] += saving
            for profile in report.ages:
                ages.write({"iteration": iteration, "unit": config.replay.age_unit, **profile})
            _record(row, cpu, metrics, observers)
            saving = 0.0
            stopping = stop() and not last
            if last or stopping or iteration % config.checkpoint.every == 0:
                started = time.perf_counter()
                save_checkpoint(config, learner, run)
                saving = time.perf_counter() - started
            if stopping:
                raise KeyboardInterrupt
        learner.detector.finish()
    finally:
        for writer in (metrics, samples, ages):
            writer.close()


def save_checkpoint(config: RunConfig, learner: Learner, run: RunDirectory) -> None:
    """Write a checkpoint of the learner's iteration and remove old ones."""
    buffer = None if learner.buffer is None else learner.buffer.state_dict()
    checkpoint.save(run.checkpoints, learner.counters.iteration, learner.policy, learner.state_dict(), buffer)
    checkpoint.prune(run.checkpoints, config.checkpoint.keep)


def _evaluated(config: RunConfig, learner: Learner, samples: SamplesWriter, row: Row) -> Row:
    started = time.perf_counter()
    metrics, episodes = evaluate(learner.policy, config, row["iteration"], learner.envs)
    for trajectory in episodes[: config.output.samples]:
        samples.write_episode(
            row["iteration"],
            "sampled",
            trajectory.seed,
            trajectory.info["success"],
            trajectory.episode_return,
            transcript(learner.policy, trajectory),
        )
    seconds = time.perf_counter() - started
    return {**row, **metrics, "time/evaluation": seconds, "time/iteration": row.get("time/iteration", 0.0) + seconds}


def transcript(policy: Policy, trajectory: Trajectory) -> list[dict[str, str]]:
    """The conversation as text, exactly as it was fed and sampled: prompts with their chat markup, replies.

    Of an image it says how many tokens it took.
    """
    parts, end = [], 0
    for start, stop in trajectory.turn_spans.tolist():
        prompt = policy.tokenizer.decode(trajectory.token_ids[end:start].tolist())
        parts.append(
            {"role": "prompt", "content": prompt if policy.vision is None else policy.vision.shortened(prompt)}
        )
        parts.append(
            {"role": "assistant", "content": policy.tokenizer.decode(trajectory.token_ids[start:stop].tolist())}
        )
        end = stop
    return parts


def _record(row: Row, cpu: CpuMeter, metrics: MetricsWriter, observers: Sequence[Callable[[Row], None]]) -> None:
    row = {**row, "time/cpu": cpu.since_last()}
    metrics.write(row)
    for observer in observers:
        observer(row)
