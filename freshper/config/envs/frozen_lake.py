"""Settings of FrozenLake: of its maps, and of the text game."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from freshper.config.envs.base import EnvSection
from freshper.config.section import Float, Int


class LakeSection(EnvSection):
    """Keys shared by the text and the image game: gymnasium's FrozenLake on a new solvable map for every seed."""

    size: Int = Field(4, ge=2, le=16)
    """Rows and columns of the map."""
    hole_probability: Float = Field(0.2, ge=0, lt=1)
    """Probability that a tile is a hole (the public runs use safe tiles with p = 0.8)."""
    slippery: bool = False
    """Whether moves slip sideways with probability 2/3 (paper text says yes, every public config says no)."""
    random_start_and_goal: bool = True
    """Draw start and goal at random for each map; otherwise top left and bottom right."""


class FrozenLakeConfig(LakeSection):
    """Text FrozenLake (paper section 3)."""

    family: Literal["frozen_lake"] = "frozen_lake"
    """Which environment class this section configures."""
    name: str = "frozenlake"
    """Task name used for run folders, tables and figures."""
