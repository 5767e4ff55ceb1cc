"""Settings of Sokoban: of its rooms, and of the text game."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from freshper.config.envs.base import EnvSection
from freshper.config.section import Int


class RoomSection(EnvSection):
    """Keys shared by the text and the image game: generated, solvable rooms with gym-sokoban's rewards."""

    size: Int = Field(6, ge=5, le=10)
    """Rows and columns of the room, outer walls included."""
    boxes: Int = Field(1, ge=1, le=3)
    """Boxes, and as many targets."""
    min_moves: Int = Field(2, ge=1)
    """Fewest moves (steps and pushes) that the shortest solution of a room takes."""
    max_moves: Int = Field(8, ge=1, le=200)
    """Most moves that the shortest solution of a room takes; at most `max_turns`, so that every room can be solved."""
    layouts: Int = Field(1024, ge=1)
    """Layouts (walls and targets) that training draws from, each with up to 256 starts; evaluation has as many of its
    own."""


class SokobanConfig(RoomSection):
    """Text Sokoban (paper section 3)."""

    family: Literal["sokoban"] = "sokoban"
    """Which environment class this section configures."""
    name: str = "sokoban_simple"
    """Task name used for run folders, tables and figures."""
    board: Literal["every_turn", "first_turn"] = "every_turn"
    """When the grid is drawn. The walls never move: with `first_turn` a later message tells where player, boxes and
    targets are, as always, and what the two cells ahead of the player in each direction hold, in half of the tokens."""
