"""Settings of Sokoban as pictures."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from freshper.config.envs.sokoban import RoomSection
from freshper.config.section import Int


class SokobanImageConfig(RoomSection):
    """The rooms of text Sokoban in pictures, one a turn, for vision-language models. Not a task of the paper."""

    images: ClassVar[bool] = True

    family: Literal["sokoban_image"] = "sokoban_image"
    """Which environment class this section configures."""
    name: str = "sokoban_vlm"
    """Task name used for run folders, tables and figures."""
    cell_pixels: Int = Field(8, ge=8, le=64)
    """Height and width of a cell in the picture; 8 give 48x48 pixels for a 6x6 room, 9 visual tokens for the small
    model."""

    def image_pixels(self) -> int:
        """Pixels of the picture of the room."""
        return (self.size * self.cell_pixels) ** 2
