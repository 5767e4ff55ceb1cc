"""Train in this process: open the run folder, load the policy, run the loop, leave a complete record."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from freshper.config.report import report
from freshper.config.run import RunConfig
from freshper.records import curve, provenance
from freshper.records.metrics import read_metrics
from freshper.records.progress import Progress
from freshper.records.run_dir import RunDirectory, RunDirError, RunInUse
from freshper.records.status import State
from freshper.records.summary import summary
from freshper.records.trackers import log_all, make_trackers
from freshper.threads import available_cores, before_torch, choose_threads
from freshper.trainers.interrupt import Interrupt

EXIT = {"finished": 0, "failed": 1, "crashed": 1, "diverged": 3, "dead": 4}
"""Exit status by final state; 2 is a config that cannot be used."""

INTERRUPTED = "interrupted by the user; the same command goes on from the last checkpoint"
"""Cause of a run that was told to stop."""


def train(config: RunConfig, argv: Sequence[str]) -> int:
    """Train one run, or go on with it, or say that it is finished.

    Args:
        config: validated config.
        argv: command line for the record.

    Returns:
        Exit status, see `EXIT`.
    """
    try:
        run = RunDirectory.open(config)
    except (RunDirError, RunInUse) as error:
        print(error, file=sys.stderr)
        return 2
    with run:
        if run.state == "finished":
            assert run.status is not None
            print(f"{run.path} is {run.status.state} already; nothing to do (resume=never or another seed starts anew)")
            print(summary(read_metrics(run.metrics), config.evaluation.episodes, run.path, _existing_curve(run)))
            return EXIT[run.status.state]
        return _train(config, run, argv)


def _train(config: RunConfig, run: RunDirectory, argv: Sequence[str]) -> int:
    before_torch()
    import torch

    from freshper.diagnostics.detectors import DeadRunError
    from freshper.envs.errors import EnvError
    from freshper.learner.checkpoint import CheckpointError
    from freshper.learner.learner import DivergedError
    from freshper.learner.loop import train_loop
    from freshper.policy.chat import ChatTemplateError
    from freshper.policy.load import ModelError

    try:  # nothing is written before the model and the checkpoint are known to be usable
        learner = _prepare(config, run)
    except (ModelError, ChatTemplateError, CheckpointError, EnvError) as error:
        print(error, file=sys.stderr)
        return 2
    policy = learner.policy
    torch.set_num_threads(choose_threads(config.trainer.threads, policy.parameters, available_cores()))
    accelerator = torch.cuda.get_device_name(policy.device) if policy.device.type == "cuda" else None
    facts = provenance.collect(config, argv, accelerator)
    facts["threads"] = torch.get_num_threads()
    facts["model_parameters"] = policy.parameters
    critic = learner.models.critic
    if critic is not None:
        facts["critic_parameters"] = sum(p.numel() for p in critic.parameters())
    run.start(facts)
    resumed = learner.counters.iteration
    also = "" if critic is None else f", critic {facts['critic_parameters']:,} more ({config.algorithm.critic.kind})"
    print(f"{report(config)}\nmodel {config.model.name}: {policy.parameters:,} parameters on {policy.device}{also}")
    print(f"run folder {run.path}" + (f", resumed after iteration {resumed}" if resumed else ""), flush=True)

    trackers = make_trackers(config, run.path)
    progress = Progress(config.iterations, config.trainer.progress, done=resumed)
    state: State = "failed"
    cause: str | None = None
    error_text: str | None = None
    try:
        with Interrupt() as interrupt:
            observers = [progress.update, lambda row: log_all(trackers, row)]
            train_loop(config, learner, run, observers, lambda: interrupt.requested)
        state = "finished"
    except DivergedError as error:
        state, cause = "diverged", str(error)
    except DeadRunError as error:
        state, cause = "dead", str(error)
    except KeyboardInterrupt:
        cause = INTERRUPTED
    except Exception as error:  # the one place that records a failed run
        cause, error_text = f"{type(error).__name__}: {error}", traceback.format_exc()
    finally:
        progress.close()
        run.end(state, cause, learner.counters.iteration, error_text)
        for tracker in trackers:
            tracker.finish(failed=state != "finished")
    rows = read_metrics(run.metrics)
    if config.output.figures and rows:
        curve.draw(rows, run.curve, run.path.name, config.variant.name, config.evaluation.episodes)
    if error_text:
        print(error_text, file=sys.stderr)
    if cause:
        print(f"{state}: {cause}", file=sys.stderr)
    print(summary(rows, config.evaluation.episodes, run.path, _existing_curve(run)))
    return EXIT[state]


def _prepare(config: RunConfig, run: RunDirectory):  # type: ignore[no-untyped-def]  # torch types stay out of --help
    """Load the policy (from the newest checkpoint if there is one) and build the learner around it."""
    from transformers.utils import logging as transformers_logging

    from freshper.learner import checkpoint
    from freshper.learner.learner import Learner
    from freshper.policy.critic import load_critic
    from freshper.policy.load import load_policy
    from freshper.rollout.preflight import preflight

    transformers_logging.disable_progress_bar()
    newest = checkpoint.latest(run.checkpoints) if run.state == "resume" else None
    saved = None if newest is None else checkpoint.load(newest)
    policy = load_policy(config.model if saved is None else config.model.model_copy(update={"path": saved.policy}))
    preflight(config, policy)
    reference = None
    if config.algorithm.kl.coefficient > 0:
        reference = load_policy(config.model)
        reference.model.requires_grad_(False)
    critic = None
    if config.algorithm.name == "ppo":
        critic = load_critic(config.algorithm.critic, config.model, policy)
    learner = Learner(config, policy, reference, critic)
    if saved is not None:
        learner.load_state_dict(saved.training, saved.buffer)
    return learner


def _existing_curve(run: RunDirectory):  # type: ignore[no-untyped-def]
    return run.curve if run.curve.is_file() else None
