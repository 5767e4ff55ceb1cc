"""Settings of third-party environments."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from freshper.config.envs.base import EnvSection
from freshper.config.section import Float, Int


class GymConfig(EnvSection):
    """Any gymnasium environment whose observations and actions are text, by its id (not from the paper)."""

    family: Literal["gym"] = "gym"
    """Which environment class this section configures."""
    name: str = "gym"
    """Task name used for run folders, tables and figures."""
    id: str | None = None
    """Registered id, with the module that registers it in front where needed: `my_package.my_game:MyGame-v0`."""
    kwargs: dict[str, Any] | None = None
    """Arguments of the environment's constructor."""
    max_turns: Int = Field(50, ge=1)
    """Turns (assistant messages) before the episode is cut, besides any limit of the environment's own."""
    format_penalty: Float = Field(0.0, le=0)
    """Added to the *training* reward of a turn for which the environment reports `info["valid"] = False`."""
    system: str = ""
    """System message of every episode; the environment's own `info["system"]` goes before it."""
    success_above: Float = 0.0
    """Where the environment reports neither `success` nor `is_success`, an episode that terminates with a return above
    this is a success."""
