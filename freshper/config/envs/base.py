"""What every environment family can be set to."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from freshper.config.section import Float, Int, Section


class EnvSection(Section):
    """Base of the family sections. A family narrows `family` to its own name and gives every key a default."""

    images: ClassVar[bool] = False
    """Whether observations hold an image, so that the policy must be a vision-language model."""

    def image_pixels(self) -> int:
        """Pixels of the largest image of a turn, for the estimate of memory; 0 without images."""
        return 0

    family: str
    """Which environment class this section configures."""
    name: str
    """Task name used for run folders, tables and figures."""
    max_turns: Int = Field(10, ge=1)
    """Turns (assistant messages) before the episode is cut."""
    format_penalty: Float = Field(-0.15, le=0)
    """Added to the *training* reward of a turn whose action cannot be parsed; never to the score or the priority."""
    train_seed: Int = Field(0, ge=0)
    """Lowest environment seed of training; episode k of a run hashes (run seed, k) into [train_seed, eval_seed)."""
    eval_seed: Int = Field(1_000_000_000, ge=0)
    """First environment seed of evaluation episodes: evaluation episode k always uses eval_seed + k."""
