"""What every game says about the turn."""

from __future__ import annotations

from freshper.config.envs.base import EnvSection


def turn_line(replies: int, config: EnvSection) -> str:
    """Number of the turn after so many replies, and how many actions are left."""
    return f"Turn {min(replies + 1, config.max_turns)}, {config.max_turns - replies} left"
