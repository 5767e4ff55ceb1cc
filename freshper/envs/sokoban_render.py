"""Draw Sokoban rooms: seven cells, told apart by colour and by shape.

A cell is drawn at 64 pixels, then shrunk by averaging blocks of pixels, once per size; a room is a mosaic of those.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw

from freshper.envs.observation import Image

NATIVE_PIXELS = 64
"""Height and width of a cell as it is drawn."""
SYMBOLS = "#_OX√PS"
"""Those of the text game: wall, floor, target, box, box on target, player, player on target."""
_FLOOR, _LINE = (238, 230, 210), (214, 204, 180)
_BRICK, _MORTAR = (92, 84, 92), (60, 54, 62)
_RING = (214, 40, 40)
_BROWN, _DARK_BROWN = (186, 122, 52), (108, 64, 20)
_GREEN, _DARK_GREEN = (64, 168, 76), (22, 92, 36)
_BLUE, _SKIN = (36, 84, 200), (244, 196, 160)


def draw_room(rows: Sequence[str], pixels: int) -> Image:
    """A picture of a room: a new array, uint8 [rows * pixels, columns * pixels, 3].

    Args:
        rows: of the room, in `SYMBOLS`.
        pixels: height and width of a cell, at most `NATIVE_PIXELS`.

    Raises:
        ValueError: there is another symbol.
    """
    kinds = np.array([[SYMBOLS.index(symbol) for symbol in row] for row in rows])
    mosaic = _cells(pixels)[kinds]  # [rows, columns, pixels, pixels, 3]
    return mosaic.swapaxes(1, 2).reshape(len(rows) * pixels, len(rows[0]) * pixels, 3)


@functools.cache
def draw_cell(symbol: str, pixels: int) -> Image:
    """One cell, uint8 [pixels, pixels, 3]; do not write to it."""
    cell = Pillow.new("RGB", (NATIVE_PIXELS, NATIVE_PIXELS), _FLOOR)
    draw = ImageDraw.Draw(cell)
    draw.rectangle((0, 0, NATIVE_PIXELS - 1, NATIVE_PIXELS - 1), outline=_LINE, width=2)
    if symbol == "#":
        _wall(draw)
    elif symbol in "X√":
        _box(draw, *((_BROWN, _DARK_BROWN) if symbol == "X" else (_GREEN, _DARK_GREEN)))
    if symbol in "OS":
        draw.ellipse((6, 6, 57, 57), outline=_RING, width=8)
    if symbol in "PS":
        _figure(draw)
    shrunk = cell.resize((pixels, pixels), Pillow.Resampling.BOX)
    return np.asarray(shrunk, dtype=np.uint8)


@functools.cache
def _cells(pixels: int) -> Image:
    """Every cell, [symbols, pixels, pixels, 3]."""
    return np.stack([draw_cell(symbol, pixels) for symbol in SYMBOLS])


def _wall(draw: ImageDraw.ImageDraw) -> None:
    """Two courses of bricks."""
    draw.rectangle((0, 0, 63, 63), fill=_BRICK)
    for top, joint in ((0, 20), (32, 44)):
        draw.rectangle((0, top, 63, top + 3), fill=_MORTAR)
        draw.rectangle((joint, top, joint + 3, top + 31), fill=_MORTAR)


def _box(draw: ImageDraw.ImageDraw, wood: tuple[int, int, int], edge: tuple[int, int, int]) -> None:
    """A crate with a frame and two boards crosswise."""
    draw.rectangle((6, 6, 57, 57), fill=wood, outline=edge, width=6)
    draw.line((10, 10, 53, 53), fill=edge, width=6)
    draw.line((10, 53, 53, 10), fill=edge, width=6)


def _figure(draw: ImageDraw.ImageDraw) -> None:
    """A head on a body, small enough for a ring around it."""
    draw.ellipse((18, 26, 45, 57), fill=_BLUE)
    draw.ellipse((22, 10, 41, 29), fill=_SKIN, outline=_BLUE, width=3)
