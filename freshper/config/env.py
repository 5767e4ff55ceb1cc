"""Settings of the environments (one class per family)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from freshper.config.section import Float, Int, Section


class FrozenLakeConfig(Section):
    """Text FrozenLake on gymnasium's environment: a new solvable map for every seed (paper section 3)."""

    family: Literal["frozen_lake"] = "frozen_lake"
    """Which environment class this section configures."""
    name: str = "frozenlake"
    """Task name used for run folders, tables and figures."""
    max_turns: Int = Field(10, ge=1)
    """Turns (assistant messages) before the episode is cut."""
    format_penalty: Float = Field(-0.15, le=0)
    """Added to the *training* reward of a turn whose action cannot be parsed; never to the score or the priority."""
    train_seed: Int = Field(0, ge=0)
    """Lowest environment seed of training; episode k of a run hashes (run seed, k) into [train_seed, eval_seed)."""
    eval_seed: Int = Field(1_000_000_000, ge=0)
    """First environment seed of evaluation episodes: evaluation episode k always uses eval_seed + k."""
    size: Int = Field(4, ge=2, le=16)
    """Rows and columns of the map."""
    hole_probability: Float = Field(0.2, ge=0, lt=1)
    """Probability that a tile is a hole (the public runs use safe tiles with p = 0.8)."""
    slippery: bool = False
    """Whether moves slip sideways with probability 2/3 (paper text says yes, every public config says no)."""
    random_start_and_goal: bool = True
    """Draw start and goal at random for each map; otherwise top left and bottom right."""


EnvConfig = FrozenLakeConfig
