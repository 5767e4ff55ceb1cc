"""Settings of episode collection."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from freshper.config.section import Float, Int, Section


class RolloutConfig(Section):
    """How episodes are collected."""

    engine: Literal["hf"] = "hf"
    """Inference engine: `hf` generates with transformers in this process."""
    episodes: Int = Field(128, ge=1)
    """Episodes per iteration: the rollout batch (paper: 128)."""
    group_size: Int = Field(1, ge=1)
    """Episodes on the same environment instance (`grpo` needs at least 2; the batch must divide into groups)."""
    max_new_tokens: Int = Field(16, ge=1)
    """Most tokens that the policy may sample in one turn."""
    temperature: Float = Field(1.0, gt=0)
    """Sampling temperature. Behaviour log-probs are those of the tempered distribution."""
    top_p: Float = Field(1.0, gt=0, le=1)
    """Nucleus mass; 1 turns it off."""
    top_k: Int = Field(0, ge=0)
    """Number of most probable tokens kept; 0 turns it off."""
    lock_step: Int = Field(0, ge=0)
    """Episodes that run side by side; 0 means all of them."""
