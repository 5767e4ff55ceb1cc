"""Draw lines, arcs and letters in the unit square, smooth at any size."""

from __future__ import annotations

import functools
import math
from typing import Literal

import numpy as np
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from freshper.envs.observation import Image

GRID = 8
"""Squares in a row and in a column of the grid."""
Point = tuple[float, float]
"""(x to the right, y downwards), the picture's sides being 1."""
_FINE = 4
"""Pixels drawn per pixel shown, in each direction; their average is shown."""
_FINE_LARGE = 2
_PAPER, _GRID_LINES, _FILL = (255, 255, 255), (200, 205, 215), (245, 220, 150)
_THICK = 0.045
_LETTERS = 0.15


class Canvas:
    """A square sheet of white paper and a pen."""

    def __init__(self, size: int, ink: tuple[int, int, int]) -> None:
        """
        Args:
            size: height and width of the picture in pixels.
            ink: RGB of the pen.
        """
        self._size, self._ink = size, ink
        self._side = size * (_FINE if size <= 128 else _FINE_LARGE)
        self._sheet = Pillow.new("RGB", (self._side, self._side), _PAPER)
        self._pen = ImageDraw.Draw(self._sheet)

    def pixels(self) -> Image:
        """The picture: uint8 [size, size, 3]."""
        shown = self._sheet.resize((self._size, self._size), Pillow.Resampling.BOX)
        return np.asarray(shown, dtype=np.uint8)

    def line(self, start: Point, end: Point) -> None:
        """A thick line with round ends."""
        width = _THICK * self._side
        self._pen.line([self._at(start), self._at(end)], self._ink, round(width))
        for point in (start, end):
            x, y = self._at(point)
            self._pen.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), self._ink)

    def ray(self, start: Point, degrees: float, length: float) -> None:
        """A line in a direction, counted anticlockwise from the right."""
        turn = math.radians(degrees)
        self.line(start, (start[0] + length * math.cos(turn), start[1] - length * math.sin(turn)))

    def arc(self, centre: Point, start: float, end: float, radius: float) -> None:
        """A thin arc from one direction to another, anticlockwise, in degrees."""
        x, y = self._at(centre)
        reach = radius * self._side
        box = (x - reach, y - reach, x + reach, y + reach)
        self._pen.arc(box, -end, -start, self._ink, round(_THICK * self._side / 2))

    def text(self, point: Point, text: str, anchor: Literal["m", "l", "r"] = "m") -> None:
        """Letters around a point, or beginning there (`l`), or ending there (`r`)."""
        font = _font(round(_LETTERS * self._side))
        self._pen.text(self._at(point), text, self._ink, font, anchor=f"{anchor}m")

    def grid(self) -> None:
        """Thin lines around GRID times GRID squares."""
        width = max(1, self._side // 100)
        for step in range(GRID + 1):
            along = self._grid(step)
            first, last = self._grid(0), self._grid(GRID)
            self._pen.line([(along, first), (along, last)], _GRID_LINES, width)
            self._pen.line([(first, along), (last, along)], _GRID_LINES, width)

    def grid_line(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        """A line between two (column, row) crossings of the grid."""
        self.line(*((self._grid(x) / self._side, self._grid(y) / self._side) for x, y in (start, end)))

    def grid_box(self, corner: tuple[int, int], opposite: tuple[int, int]) -> None:
        """A filled rectangle between two (column, row) crossings of the grid; the grid shows through."""
        box = [self._grid(step) for step in (*corner, *opposite)]
        under = self._sheet.copy()
        self._pen.rectangle(box, _FILL)
        mask = Pillow.fromarray((np.asarray(under) == _GRID_LINES).all(axis=2))
        self._sheet.paste(Pillow.new("RGB", under.size, _GRID_LINES), mask=mask)
        self._pen.rectangle(box, outline=self._ink, width=round(_THICK * self._side / 2))

    def triangle(self, left: float, right: float) -> Point:
        """A triangle with the given angles (degrees) at the base, as large as fits; returns a point inside the top."""
        a, b = math.radians(left), math.radians(right)
        height = math.sin(a) * math.sin(b) / math.sin(a + b)  # over a base of 1
        apex = height / math.tan(a)
        low, high = min(0.0, apex), max(1.0, apex)
        scale = min(0.8 / (high - low), 0.7 / height)
        begin = 0.5 - scale * (low + high) / 2
        corners = [(begin, 0.82), (begin + scale, 0.82), (begin + scale * apex, 0.82 - scale * height)]
        for start, end in zip(corners, [*corners[1:], corners[0]], strict=True):
            self.line(start, end)
        middle = (sum(x for x, _ in corners) / 3, sum(y for _, y in corners) / 3)
        top = corners[2]
        return (0.6 * top[0] + 0.4 * middle[0], 0.6 * top[1] + 0.4 * middle[1])

    def _at(self, point: Point) -> Point:
        return point[0] * self._side, point[1] * self._side

    def _grid(self, step: int) -> float:
        margin = 0.04 * self._side
        return round(margin + step * (self._side - 2 * margin) / GRID)


@functools.cache
def _font(height: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(height)
