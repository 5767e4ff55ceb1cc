"""Settings of the policy-gradient algorithm and the optimiser."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from freshper.config.section import Float, FloatOrInf, Int, Section


class KLConfig(Section):
    """KL penalty towards the reference model (the policy before training)."""

    coefficient: Float = Field(0.0, ge=0)
    """Weight of the KL term in the loss; 0 loads no reference model."""
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """Per-token estimator of KL(policy || reference) (Schulman's k1, k2, k3)."""


class GroupConfig(Section):
    """Group-relative advantages (`algorithm.name: grpo`); the group's size is `rollout.group_size`."""

    divide_by_std: bool = True
    """Divide by the sample standard deviation of the group's returns; false only subtracts their mean (Dr. GRPO)."""
    zero_variance: Literal["keep", "drop", "resample"] = "keep"
    """Groups of equal returns: `keep` them (zero advantage), `drop` them, or `resample` until the batch is full."""
    resample_rounds: Int = Field(3, ge=1)
    """Most further rounds of collection per iteration under `zero_variance: resample`."""


class CriticConfig(Section):
    """Value function (`algorithm.name: ppo`)."""

    kind: Literal["shared", "separate"] = "shared"
    """`shared`: a linear value head on the policy's trunk; `separate`: a model of its own."""
    path: str | None = None
    """Folder (or hub name) of the separate critic's trunk, of any size; null starts from the policy's own model."""
    learning_rate: Float = Field(1e-3, gt=0)
    """Peak learning rate of the value head and of a separate trunk; same schedule as the policy's."""
    coefficient: Float = Field(0.5, gt=0)
    """Weight of the value loss beside the policy loss."""
    value_clip: Float | None = Field(0.2, gt=0)
    """New values further than this from those before the update earn no further gradient; null turns it off."""


class AlgorithmConfig(Section):
    """Policy gradient and optimiser."""

    name: Literal["reinforce_pp", "grpo", "ppo"] = "reinforce_pp"
    """Advantages: `reinforce_pp` returns-to-go, `grpo` return relative to the group, `ppo` GAE from a critic."""
    learning_rate: Float = Field(5e-4, gt=0)
    """Peak learning rate of AdamW."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Shape of the learning rate over *all* optimiser steps of the run, replay steps included."""
    warmup_steps: Int = Field(10, ge=0)
    """Optimiser steps of linear warm-up."""
    weight_decay: Float = Field(0.0, ge=0)
    """AdamW weight decay."""
    betas: tuple[Annotated[Float, Field(ge=0, lt=1)], Annotated[Float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    """AdamW moment coefficients."""
    max_grad_norm: FloatOrInf = Field(1.0, gt=0)
    """Gradient norm is clipped to this."""
    epochs: Int = Field(1, ge=1)
    """Passes over the fresh batch per iteration (1 + K gives the on-policy arm replay's number of steps)."""
    minibatches: Int = Field(1, ge=1)
    """Optimiser steps per pass: the batch is split into this many equal parts."""
    clip_low: Float = Field(0.2, gt=0)
    """Policy ratio is clipped below at 1 - clip_low (paper: 0.2)."""
    clip_high: Float = Field(0.2, gt=0)
    """Policy ratio is clipped above at 1 + clip_high (paper: 0.2)."""
    dual_clip: Float | None = Field(None, gt=1)
    """If set, loss of negative advantages is bounded by this multiple (dual-clip PPO)."""
    ratio_anchor: Literal["behaviour", "proximal"] = "behaviour"
    """`behaviour`: clip pi/mu on stored behaviour log-probs (paper); `proximal`: clip pi/pi_prox, weight pi_prox/mu."""
    behaviour_weight_cap: FloatOrInf = Field(5.0, gt=0)
    """Truncation of the behaviour weight pi_prox/mu (`ratio_anchor: proximal` only)."""
    log_ratio_clamp: Float = Field(20.0, gt=0)
    """Log-ratios are clamped to +- this before the exponential."""
    gamma: Float = Field(1.0, ge=0, le=1)
    """Discount (paper: 1)."""
    discount_per: Literal["turn", "token"] = "turn"
    """Where gamma applies: from one turn to the next, or after every sampled token (`ppo` only)."""
    gae_lambda: Float = Field(0.95, ge=0, le=1)
    """Trace of generalised advantage estimation, per step of `gae_over` (`ppo` only)."""
    gae_over: Literal["tokens", "turns"] = "tokens"
    """Steps of advantage estimation: sampled tokens, or whole turns valued before their first token (`ppo` only)."""
    group: GroupConfig = GroupConfig()
    """Group-relative advantages."""
    critic: CriticConfig = CriticConfig()
    """Value function."""
    whiten: bool = True
    """Whiten advantages over the response tokens of the fresh batch, once, at collection."""
    advantage_clip: Float | None = Field(None, gt=0)
    """Advantages are clipped to +- this after whitening (paper: 20, or 0.2 in Config A)."""
    aggregation: Literal["token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum"] = "token_mean"
    """How token losses become the loss of a batch."""
    entropy_coefficient: Float = Field(0.0, ge=0)
    """Weight of the entropy bonus."""
    kl: KLConfig = KLConfig()
    """KL penalty towards the reference model."""
    micro_batch_tokens: Int = Field(4096, ge=1)
    """Most padded tokens in one forward/backward pass; gradients accumulate over the passes of a step."""
