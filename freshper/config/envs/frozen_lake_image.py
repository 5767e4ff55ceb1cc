"""Settings of FrozenLake as pictures."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from freshper.config.envs.frozen_lake import LakeSection
from freshper.config.section import Int


class FrozenLakeImageConfig(LakeSection):
    """FrozenLake in gymnasium's own pictures, one image per turn, for vision-language models (paper section 3)."""

    images: ClassVar[bool] = True

    family: Literal["frozen_lake_image"] = "frozen_lake_image"
    """Which environment class this section configures."""
    name: str = "frozenlake_vlm"
    """Task name used for run folders, tables and figures."""
    cell_pixels: Int = Field(16, ge=8, le=64)
    """Height and width of a tile in the picture. 64 are gymnasium's own pixels, 256x256 for a 4x4 map, as in the public
    runs; fewer are averages of those."""

    def image_pixels(self) -> int:
        """Pixels of the picture of the map."""
        return (self.size * self.cell_pixels) ** 2
