"""Generated geometry diagrams: what is drawn, what is asked, what is right. Drawing is in `draw.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from freshper.config.envs.geoqa import DiagramTask
from freshper.envs.geo.draw import GRID, Canvas
from freshper.envs.geo.pictures import Fit
from freshper.envs.observation import Image

_INKS = ((20, 20, 20), (25, 60, 170), (160, 30, 40), (15, 110, 50))


@dataclass(frozen=True)
class Diagram:
    """A diagram as numbers; it is drawn when it is shown."""

    task: DiagramTask
    """What kind it is."""
    shape: tuple[int, ...]
    """What decides the answer and where everything lies, in the units of the kind's functions below."""
    ink: int = 0
    """Colour of the lines: an index."""

    @property
    def question(self) -> str:
        """What is asked."""
        return _KINDS[self.task].question

    @property
    def answer(self) -> str:
        """What is right."""
        return _KINDS[self.task].answer(self.shape)

    @property
    def core(self) -> str:
        """The diagram without its colour: what training and evaluation do not share."""
        kind = "rectangle" if self.task in ("area", "perimeter") else self.task
        return f"{kind} {' '.join(map(str, self.shape))}"

    def pixels(self, size: int, fit: Fit) -> Image:
        """Draw it: uint8 [size, size, 3]. It is square, so nothing has to be fitted."""
        canvas = Canvas(size, _INKS[self.ink])
        _KINDS[self.task].draw(canvas, self.shape)
        return canvas.pixels()


def draw_diagram(task: DiagramTask, rng: np.random.Generator) -> Diagram:
    """A random diagram of a kind: answers evenly where that is possible, then the place."""
    return Diagram(task, _KINDS[task].sample(rng), int(rng.integers(len(_INKS))))


@dataclass(frozen=True)
class _Kind:
    question: str
    sample: Callable[[np.random.Generator], tuple[int, ...]]
    answer: Callable[[tuple[int, ...]], str]
    draw: Callable[[Canvas, tuple[int, ...]], None]


def _sample_angle(rng: np.random.Generator) -> tuple[int, ...]:
    """Opening and direction of its first arm, in degrees."""
    return 30 * int(rng.integers(1, 6)), 5 * int(rng.integers(72))


def _draw_angle(canvas: Canvas, shape: tuple[int, ...]) -> None:
    opening, first = shape
    centre, reach = (0.5, 0.5), 0.42
    canvas.ray(centre, first, reach)
    canvas.ray(centre, first + opening, reach)
    canvas.arc(centre, first, first + opening, 0.14)


def _sample_length(rng: np.random.Generator) -> tuple[int, ...]:
    """Length in squares, 1 if upright, column and row of its upper left end."""
    length, upright = int(rng.integers(1, GRID)), int(rng.integers(2))
    along, across = int(rng.integers(GRID - length + 1)), int(rng.integers(1, GRID))
    return (length, upright, across, along) if upright else (length, upright, along, across)


def _draw_length(canvas: Canvas, shape: tuple[int, ...]) -> None:
    length, upright, column, row = shape
    canvas.grid()
    end = (column, row + length) if upright else (column + length, row)
    canvas.grid_line((column, row), end)


def _sample_rectangle(rng: np.random.Generator) -> tuple[int, ...]:
    """Width and height in squares, column and row of its upper left corner."""
    width, height = (int(side) for side in rng.integers(1, 6, 2))
    return width, height, int(rng.integers(GRID - width + 1)), int(rng.integers(GRID - height + 1))


def _draw_rectangle(canvas: Canvas, shape: tuple[int, ...]) -> None:
    width, height, column, row = shape
    canvas.grid()
    canvas.grid_box((column, row), (column + width, row + height))


def _sample_longest(rng: np.random.Generator) -> tuple[int, ...]:
    """Lengths of the lines A, B, C in 16ths of the picture, all different, and how far each is moved to the right."""
    lengths = rng.choice(np.arange(3, 11), size=3, replace=False)
    return (*map(int, lengths), *(int(rng.integers(12 - length)) for length in lengths))


def _draw_longest(canvas: Canvas, shape: tuple[int, ...]) -> None:
    for number, (length, shift) in enumerate(zip(shape[:3], shape[3:], strict=True)):
        height = (3 + 5 * number) / 16
        canvas.text((0.09, height), "ABC"[number])
        canvas.line(((3 + shift) / 16, height), ((3 + shift + length) / 16, height))


def _sample_triangle(rng: np.random.Generator) -> tuple[int, ...]:
    """The angles on the left and on the right of the base, in degrees."""
    left = 5 * int(rng.integers(6, 23))
    return left, 5 * int(rng.integers(6, (155 - left) // 5 + 1))


def _draw_triangle(canvas: Canvas, shape: tuple[int, ...]) -> None:
    left, right = shape
    top = canvas.triangle(left, right)
    canvas.text(top, "x")
    canvas.text((0.02, 0.915), f"{left}°", "l")
    canvas.text((0.98, 0.915), f"{right}°", "r")


_KINDS: dict[DiagramTask, _Kind] = {
    "angle": _Kind("How many degrees is the angle?", _sample_angle, lambda shape: str(shape[0]), _draw_angle),
    "length": _Kind(
        "How long is the line? One square is 1.", _sample_length, lambda shape: str(shape[0]), _draw_length
    ),
    "area": _Kind(
        "What is the area? One square is 1.", _sample_rectangle, lambda shape: str(shape[0] * shape[1]), _draw_rectangle
    ),
    "perimeter": _Kind(
        "What is the perimeter? One square is 1.",
        _sample_rectangle,
        lambda shape: str(2 * (shape[0] + shape[1])),
        _draw_rectangle,
    ),
    "longest": _Kind(
        "Which line is longest, A, B or C?",
        _sample_longest,
        lambda shape: "ABC"[int(np.argmax(shape[:3]))],
        _draw_longest,
    ),
    "triangle": _Kind(
        "How many degrees is the angle x?",
        _sample_triangle,
        lambda shape: str(180 - shape[0] - shape[1]),
        _draw_triangle,
    ),
}
