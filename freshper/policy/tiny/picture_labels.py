"""What a small model learns to name in each part of a picture while it is pretrained, so that it looks: digits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_FAINT = 190
"""Brightness of the darkest colour of a pixel above which it is paper or a line of the grid."""
_COLOURS = np.array(
    [(255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 0, 0), (128, 128, 128), (0, 128, 128), (165, 42, 42), (255, 255, 0)]
)
"""Red, green, blue, black, gray, teal, brown and yellow, as easy-VQA draws them, nearly."""
_TRIANGLE, _CIRCLE, _RECTANGLE = 1, 2, 3
_FULL, _ROUND = 0.9, 0.65
"""Share of its upright frame that a shape fills: a rectangle all, a circle pi / 4, a triangle half."""
_SOME = 0.03
"""Share of a part that is drawn on, below which it counts as empty."""


def ink_in_parts(pixels: NDArray[np.uint8], side: int) -> list[int]:
    """How much of each part of a picture, `side` pixels square, row by row, is drawn on: 0 to 9, in tenths."""
    drawn = pixels.min(axis=2) < _FAINT
    rows, columns = (length // side for length in drawn.shape)
    share = drawn.reshape(rows, side, columns, side).mean(axis=(1, 3))
    return np.minimum(10 * share, 9).astype(int).reshape(-1).tolist()


def shape_in_parts(pixels: NDArray[np.uint8], side: int) -> list[int]:
    """What a picture's only shape is, named in each part of it, `side` pixels square, row by row.

    0 in parts without ink. The others take turns like the fields of a chess board: one names the colour of what is
    drawn in it, 1 to 8, the next the kind of the shape, 1 to 3.
    """
    drawn = pixels.min(axis=2) < _FAINT
    rows, columns = (length // side for length in drawn.shape)
    kind = _kind_of_shape(drawn)
    names = []
    for part in range(rows * columns):
        row, column = divmod(part, columns)
        window = np.s_[row * side : (row + 1) * side, column * side : (column + 1) * side]
        if drawn[window].mean() < _SOME:
            names.append(0)
        elif (row + column) % 2:
            names.append(kind)
        else:
            shade = np.median(pixels[window][drawn[window]], axis=0)
            names.append(1 + int(((_COLOURS - shade) ** 2).sum(axis=1).argmin()))
    return names


def _kind_of_shape(drawn: NDArray[np.bool_]) -> int:
    ys, xs = np.nonzero(drawn)
    if not len(ys):
        return 0
    filled = len(ys) / ((np.ptp(ys) + 1) * (np.ptp(xs) + 1))
    return _RECTANGLE if filled > _FULL else _CIRCLE if filled > _ROUND else _TRIANGLE
