"""Draw FrozenLake as gymnasium draws it, without pygame and fast enough for training.

The sprites are gymnasium's (`lake_sprites`). A tile is put together at gymnasium's 64 pixels, then shrunk by averaging
blocks of pixels. Tiles do not overlap, so a few dozen small pictures, kept in memory, make every map.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw

from freshper.envs.observation import Image

NATIVE_PIXELS = 64
"""Height and width of a tile as gymnasium draws it."""
_SPRITES = Path(__file__).with_name("lake_sprites")
_BORDER = (180, 200, 230)
_CORNER = (4, 4)
_FLAG = (20, 24)
_PLAYER = (12, 14)
_CRACKS = ("", "tile_ice_crack_a", "tile_ice_crack_b")


class LakePicture:
    """A map as a picture, in which the player can stand on any tile."""

    def __init__(self, desc: list[str], pixels: int) -> None:
        """
        Args:
            desc: rows of the map in gymnasium's letters, S start, F ice, H hole, G goal.
            pixels: height and width of a tile, at most `NATIVE_PIXELS`.
        """
        self._tiles = "".join(desc)
        self._columns, self._pixels = len(desc[0]), pixels
        strips = []
        for row in range(len(desc)):
            cells = [self._cell(row, column, False) for column in range(self._columns)]
            strips.append(np.concatenate(cells, axis=1))
        self._empty = np.concatenate(strips)

    def frame(self, tile: int) -> Image:
        """The player on a tile (row * columns + column): a new array, uint8 [rows * pixels, columns * pixels, 3]."""
        row, column = divmod(tile, self._columns)
        top, left = row * self._pixels, column * self._pixels
        image = self._empty.copy()
        image[top : top + self._pixels, left : left + self._pixels] = self._cell(row, column, True)
        return image

    def _cell(self, row: int, column: int, player: bool) -> Image:
        letter = self._tiles[row * self._columns + column]
        scatter = (3 * column + 5 * row) % 7  # gymnasium's rule for which tiles have cracks
        crack = scatter + 1 if letter == "F" and scatter < 2 else 0
        return draw_tile(letter, crack, player, self._pixels)


@functools.cache
def draw_tile(letter: str, crack: int, player: bool, pixels: int) -> Image:
    """One tile, uint8 [pixels, pixels, 3].

    Args:
        letter: S, F, H or G.
        crack: which crack the ice has, 1 or 2; 0 for none.
        player: whether the player stands there. As in gymnasium, a hole swallows it.
        pixels: height and width.
    """
    tile = _sprite("tile_hole" if letter == "H" else "tile_ice").copy()
    if crack:
        tile.alpha_composite(_sprite(_CRACKS[crack]))
    if letter == "G":
        tile.alpha_composite(_sprite("goal_flag"), _FLAG)
    if letter in "SG":
        tile.alpha_composite(_sprite(f"letter_{letter.lower()}"), _CORNER)
    ImageDraw.Draw(tile).rectangle((0, 0, NATIVE_PIXELS - 1, NATIVE_PIXELS - 1), outline=_BORDER)
    if player and letter != "H":
        tile.alpha_composite(_sprite("agent"), _PLAYER)
    shrunk = tile.convert("RGB").resize((pixels, pixels), Pillow.Resampling.BOX)
    return np.asarray(shrunk, dtype=np.uint8)


@functools.cache
def _sprite(name: str) -> Pillow.Image:
    with Pillow.open(_SPRITES / f"{name}.png") as image:
        return image.convert("RGBA")
