"""Settings of replay: priorities, freshness, sampling correction (paper sections 3.2 to 3.4)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from freshper.config.section import Float, FloatOrInf, Int, Section


class PriorityConfig(Section):
    """Base priority of a trajectory, before freshness."""

    base: Literal["uniform", "reward", "advantage", "td_error", "success", "low_entropy"] = "reward"
    """`reward` |R|; `advantage`, `td_error` mean |A|, |delta| over response tokens; `success` 1 or 0 (RLEP);
    `low_entropy` exp(-entropy) of successes, 0 otherwise (ExGRPO); `uniform` 1."""
    alpha: Float = Field(0.6, ge=0)
    """Exponent of the priority; 0 ignores it."""
    epsilon: Float = Field(1e-6, ge=0)
    """Added to |signal|, so that no trajectory has priority zero unless this is zero."""
    initial: Literal["base", "max"] = "base"
    """Priority on insertion: its own base priority, or the largest one alive until it is first updated."""


class DecayConfig(Section):
    """Freshness: how the weight of a trajectory falls with its age."""

    law: Literal["none", "exponential", "polynomial", "window"] = "exponential"
    """`exponential` exp(-age/tau); `polynomial` (1 + age/tau)^-power; `window` 1 up to age tau, then 0; `none` 1."""
    tau: FloatOrInf = Field(500.0, gt=0)
    """Time constant in units of `replay.age_unit`; inf never fades."""
    power: Float = Field(1.0, gt=0)
    """Exponent of the polynomial law."""
    placement: Literal["inside_alpha", "outside_alpha"] = "inside_alpha"
    """`inside_alpha`: P ~ (base * w)^alpha (paper); `outside_alpha`: P ~ base^alpha * w, tau and alpha orthogonal."""


class CorrectionConfig(Section):
    """Importance-sampling correction of the prioritised draw: w = (N * P)^-beta."""

    enabled: bool = False
    """Weight the loss of replayed trajectories."""
    beta: Float = Field(0.4, ge=0, le=1)
    """Exponent at the start of the run."""
    beta_final: Float = Field(1.0, ge=0, le=1)
    """Exponent at the end of the run; annealed linearly over iterations, clamped."""
    normalise: Literal["batch", "buffer"] = "batch"
    """Divide by the largest weight of the drawn batch, or of the whole buffer (released code)."""


class ReplayConfig(Section):
    """The replay buffer and how it is used. `batches_per_iteration: 0` and `enabled: false` is on-policy."""

    enabled: bool = True
    """Keep a buffer at all."""
    unit: Literal["trajectory", "group"] = "trajectory"
    """What is stored and drawn as one: single trajectories, or whole groups of `rollout.group_size`."""
    batches_per_iteration: Int = Field(2, ge=0)
    """K: replay batches, each one off-policy update, per iteration (paper: 2)."""
    batch_size: Int | None = Field(None, ge=1)
    """Trajectories per replay batch; null means `rollout.episodes`."""
    capacity: Int = Field(50_000, ge=1)
    """Most trajectories kept (paper: 50,000)."""
    warmup: Int = Field(0, ge=0)
    """Replay starts once the buffer holds this many trajectories (and at least one batch)."""
    age_unit: Literal["optimizer_steps", "iterations"] = "optimizer_steps"
    """Clock of a trajectory's age (paper text: gradient steps; released code: iterations)."""
    priority: PriorityConfig = PriorityConfig()
    """Base priority."""
    decay: DecayConfig = DecayConfig()
    """Freshness."""
    is_correction: CorrectionConfig = CorrectionConfig()
    """Importance-sampling correction."""
    uniform_mix: Float = Field(0.0, ge=0, le=1)
    """Share of uniform sampling mixed in: P = (1 - mix) * P_priority + mix / N."""
    eviction: Literal["fifo", "lowest_priority"] = "fifo"
    """Which trajectory a full buffer drops: the oldest, or the one of lowest effective priority."""
    placebo: bool = False
    """Control arm: replay steps run, with zero advantage, so only their side effects on the optimiser remain."""
    advantages: Literal["frozen", "recomputed"] = "frozen"
    """Advantages of replayed rows: as at collection, or estimated anew with the present critic (`ppo` only)."""
    renormalise_advantages: bool = False
    """Whiten advantages again on each replay batch (released code); default keeps those frozen at collection."""
