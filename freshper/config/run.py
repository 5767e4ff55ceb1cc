"""The whole config of one run, and what of it makes up the run's identity."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from freshper.config.algorithm import AlgorithmConfig
from freshper.config.env import EnvConfig
from freshper.config.envs.frozen_lake import FrozenLakeConfig
from freshper.config.model import ModelConfig
from freshper.config.replay import ReplayConfig
from freshper.config.rollout import RolloutConfig
from freshper.config.section import Float, FloatOrInf, Int, Section
from freshper.config.trainer import COMMAND_NOT_IDENTITY, TrainerConfig


class EvaluationConfig(Section):
    """Held-out evaluation, always on environment seeds disjoint from training."""

    every: Int = Field(10, ge=1)
    """Iterations between evaluations; the base model (iteration 0) and the last iteration are always evaluated."""
    episodes: Int = Field(128, ge=1)
    """Episodes per evaluation."""
    greedy: bool = True
    """Also evaluate greedy decoding (`eval/success_greedy`)."""


class DiagnosticsConfig(Section):
    """When a run is stopped because it can teach nothing any more."""

    dead_after: Int = Field(50, ge=0)
    """Consecutive iterations without any learning signal before the run ends as `dead`; 0 never. A run in which all
    training rewards were equal ends as `dead`, too."""
    max_log_ratio: FloatOrInf = Field(5.0, gt=0)
    """A fresh batch whose largest |log ratio| exceeds this ends the run as `diverged`."""


class CheckpointConfig(Section):
    """How often a run can be resumed from."""

    every: Int = Field(10, ge=1)
    """Iterations between checkpoints."""
    keep: Int = Field(2, ge=1)
    """Checkpoints kept; older ones are removed after a newer one is complete."""


class OutputConfig(Section):
    """Where a run writes."""

    root: str = "outputs"
    """Folder under which run folders are made."""
    name: str | None = None
    """Name of the run folder; null makes `<env>-<model>-<algorithm>-<variant>-seed<seed>-<identity>`."""
    samples: Int = Field(2, ge=0)
    """Transcripts written to samples.jsonl at each evaluation."""
    figures: bool = True
    """Draw curve.png at the end of a run."""


class TrackingConfig(Section):
    """Optional experiment trackers; the run folder is always the record of truth."""

    wandb: Literal["off", "offline", "online"] = "off"
    """Weights & Biases (extra `wandb`)."""
    project: str = "freshper"
    """wandb project."""
    group: str | None = None
    """wandb group of the run; null: the experiment's name, or environment and model."""
    tensorboard: bool = False
    """Write TensorBoard event files into the run folder (extra `tensorboard`)."""


class VariantConfig(Section):
    """Name of the arm; what it means is in the sections that its YAML sets."""

    name: str = "freshper"
    """Arm name used for run folders, tables and figures."""
    replay_ratio: Int = Field(2, ge=0)
    """K of the arm unless `replay.batches_per_iteration` is given; `on_policy_epochs` takes 1 + K passes instead."""


class ScaleConfig(Section):
    """Name of the scale; what it means is in the sections that its YAML sets."""

    name: Literal["cpu", "paper"] = "cpu"
    """`cpu`: a laptop, minutes; `paper`: the paper's models and batch sizes on GPUs."""
    tau: FloatOrInf = Field(500.0, gt=0)
    """Decay time constant that variants use unless `replay.decay.tau` is given: it has to fit the length of a run."""
    data: Literal["embedded", "hub"] = "embedded"
    """Where question-answering environments take their questions from unless `env.source` is given: generated ones, or
    the data set that the paper used."""
    critic_learning_rate: Float = Field(1e-3, gt=0)
    """Learning rate that `algorithm=ppo` gives its critic unless `algorithm.critic.learning_rate` is set."""
    tau_grid: str = "10,30,90,inf"
    """Values over which named experiments sweep `replay.decay.tau`, in Hydra's grammar; inf is no decay."""
    seeds: str = "0,1,2"
    """Values over which named experiments sweep `seed`, in Hydra's grammar."""
    envs: str = "frozenlake"
    """Environments (options of `env`) of `+experiment=main_table`, in Hydra's grammar."""


class ExperimentConfig(Section):
    """Name of the named experiment that a run belongs to."""

    name: str | None = None
    """Groups runs in trackers; null outside `conf/experiment`."""


class RunConfig(Section):
    """Everything that defines one training run."""

    seed: Int = Field(0, ge=0)
    """Run seed: model noise, sampling, environments and buffer all derive from it."""
    iterations: Int = Field(150, ge=1)
    """Iterations: each collects one rollout batch, updates on it, then on K replay batches."""
    dry_run: bool = False
    """Validate, print the resolved config and the run folder, write nothing."""
    resume: Literal["auto", "never", "must"] = "auto"
    """`auto` goes on where a stopped run left off; `never` refuses a used folder; `must` refuses an unused one."""
    env: EnvConfig = FrozenLakeConfig()
    """Environment."""
    model: ModelConfig = ModelConfig()
    """Policy model."""
    variant: VariantConfig = VariantConfig()
    """Arm."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    """Policy gradient and optimiser."""
    rollout: RolloutConfig = RolloutConfig()
    """Episode collection."""
    replay: ReplayConfig = ReplayConfig()
    """Replay."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Evaluation."""
    diagnostics: DiagnosticsConfig = DiagnosticsConfig()
    """Stopping rules."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """Checkpoints."""
    output: OutputConfig = OutputConfig()
    """Run folder."""
    trainer: TrainerConfig = TrainerConfig()
    """Who runs the learner."""
    tracking: TrackingConfig = TrackingConfig()
    """Experiment trackers."""
    scale: ScaleConfig = ScaleConfig()
    """Scale."""
    experiment: ExperimentConfig = ExperimentConfig()
    """Named experiment."""


NOT_IDENTITY = COMMAND_NOT_IDENTITY | {
    "dry_run", "resume", "checkpoint", "output", "tracking", "model.device", "trainer.threads", "trainer.progress",
    # Read by other keys only: what a run does is in those.
    "experiment", "scale", "variant.replay_ratio",
}  # fmt: skip
"""Keys that do not change what is learned, hence are not part of a run's identity. See also `identity.effective`."""
