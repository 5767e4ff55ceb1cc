"""Settings of text CliffWalking."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from freshper.config.envs.base import EnvSection
from freshper.config.section import Int


class CliffWalkingConfig(EnvSection):
    """Text CliffWalking on gymnasium's environment: one fixed 4x12 map (paper section 3)."""

    family: Literal["cliff_walking"] = "cliff_walking"
    """Which environment class this section configures."""
    name: str = "cliffwalking"
    """Task name used for run folders, tables and figures."""
    max_turns: Int = Field(200, ge=1)
    """Turns (assistant messages) before the episode is cut."""
    invalid_turn: Literal["step", "free"] = "step"
    """What a turn without a legal action costs: `step` a step's -1 (nobody moves), `free` nothing, as in the public
    runs, where never moving scored best."""
    board: Literal["first_turn", "every_turn"] = "first_turn"
    """When the grid is drawn. The map never changes, so after `first_turn` only the player's place is told and three
    times as many turns fit into a context."""
    random_start: bool = False
    """Start on a random safe tile; evaluation's start tiles are then never those of training."""
