"""Generated diagrams: what is drawn is what is asked, checked on the pixels."""

import numpy as np
import pytest

from freshper.config.envs.geoqa import DiagramTask, GeoQAConfig
from freshper.envs.errors import EnvError
from freshper.envs.geo.diagrams import Diagram, draw_diagram
from freshper.envs.geo.draw import GRID
from freshper.envs.geo.items import EVALUATION_SHARE, GeneratedItems

ALL: tuple[DiagramTask, ...] = ("angle", "length", "area", "perimeter", "longest", "triangle")
FIRST_EVAL = GeoQAConfig().eval_seed


def dark(diagram: Diagram, size: int) -> np.ndarray:
    """Where the ink is: bool [size, size]."""
    return diagram.pixels(size, "pad").astype(int).max(axis=2) < 180


@pytest.mark.parametrize("task", ALL)
@pytest.mark.parametrize("size", [48, 64, 256])
def test_every_kind_is_drawn_at_every_size(task: DiagramTask, size: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        diagram = draw_diagram(task, rng)
        image = diagram.pixels(size, "pad")
        assert image.shape == (size, size, 3) and image.dtype == np.uint8
        assert (image == diagram.pixels(size, "stretch")).all()
        assert 0.003 < dark(diagram, size).mean() < 0.5
        assert (image[0] > 190).all() and (image[-1] > 190).all()  # nothing is cut off at the margin


def test_the_line_is_as_long_as_the_answer() -> None:
    rng = np.random.default_rng(1)
    square = 256 * 0.92 / GRID
    for _ in range(60):
        diagram = draw_diagram("length", rng)
        rows, columns = np.nonzero(dark(diagram, 256))
        spans = sorted((np.ptp(rows) / square, np.ptp(columns) / square))
        assert spans[1] - spans[0] == pytest.approx(int(diagram.answer), abs=0.1)


@pytest.mark.parametrize("task", ["area", "perimeter"])
def test_the_rectangle_has_the_area_and_perimeter_of_the_answer(task: DiagramTask) -> None:
    rng = np.random.default_rng(2)
    square = 256 * 0.92 / GRID
    for _ in range(60):
        diagram = draw_diagram(task, rng)
        rows, columns = np.nonzero(dark(diagram, 256))
        height, width = round(np.ptp(rows) / square), round(np.ptp(columns) / square)
        assert int(diagram.answer) == (height * width if task == "area" else 2 * (height + width))


def test_the_angle_has_the_degrees_of_the_answer() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        diagram = draw_diagram("angle", rng)
        rows, columns = np.nonzero(dark(diagram, 256))
        y, x = 128 - rows, columns - 128
        distance = np.hypot(x, y)
        arms = np.degrees(np.arctan2(y, x))[(distance > 60) & (distance < 90)]
        # Two bundles of directions: split them at the largest gap, then compare their means.
        ordered = np.sort(arms % 360)
        gaps = np.diff(np.append(ordered, ordered[0] + 360))
        cut = int(gaps.argmax()) + 1
        turned = np.sort((ordered - ordered[cut % len(ordered)]) % 360)
        middle = int(np.diff(turned).argmax()) + 1
        opening = turned[middle:].mean() - turned[:middle].mean()
        assert min(opening, 360 - opening) == pytest.approx(int(diagram.answer), abs=2)


def test_the_longest_line_is_the_answer() -> None:
    rng = np.random.default_rng(4)
    for _ in range(60):
        diagram = draw_diagram("longest", rng)
        ink = dark(diagram, 256)
        lengths = [ink[round(256 * (3 + 5 * k) / 16), 45:].sum() for k in range(3)]
        assert "ABC"[int(np.argmax(lengths))] == diagram.answer


def test_triangles_have_three_angles_of_180_degrees_and_fit_the_sheet() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        diagram = draw_diagram("triangle", rng)
        assert int(diagram.answer) + sum(diagram.shape) == 180 and int(diagram.answer) >= 25
        image = diagram.pixels(64, "pad")
        assert (image[:, 0] > 190).all() and (image[:, -1] > 190).all()


@pytest.mark.parametrize("tasks", [ALL, ("angle",), ("longest",)])
def test_sides_are_disjoint_and_a_seed_fixes_everything(tasks: tuple[DiagramTask, ...]) -> None:
    items = GeneratedItems(GeoQAConfig(tasks=tasks))

    def cores(first: int) -> set[str]:
        found = [items.at(seed).picture for seed in range(first, first + 600)]
        return {picture.core for picture in found if isinstance(picture, Diagram)}

    train, evaluation = cores(0), cores(FIRST_EVAL)
    assert len(train) > 60 and evaluation and not train & evaluation
    assert items.at(7) == items.at(7) == GeneratedItems(GeoQAConfig(tasks=tasks)).at(7)
    assert EVALUATION_SHARE == 1 / 8


def test_tasks_and_answers_are_spread() -> None:
    items = GeneratedItems(GeoQAConfig())
    seen = [items.at(seed) for seed in range(900)]
    counts = {q: sum(item.question == q for item in seen) for q in {item.question for item in seen}}
    assert len(counts) == 3 and min(counts.values()) > 230
    angles = [item.answer for item in seen if "degrees" in item.question]
    assert {angles.count(a) > 30 for a in ("30", "60", "90", "120", "150")} == {True}
    most = max(sum(item.answer == a for item in seen) for a in {item.answer for item in seen})
    assert most < 0.15 * len(seen)


def test_colours_do_not_separate_the_sides() -> None:
    diagram = Diagram("area", (2, 3, 1, 1), ink=0)
    assert diagram.core == Diagram("area", (2, 3, 1, 1), ink=3).core == Diagram("perimeter", (2, 3, 1, 1)).core
    assert (diagram.pixels(64, "pad") != Diagram("area", (2, 3, 1, 1), ink=3).pixels(64, "pad")).any()


def test_too_few_diagrams_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("freshper.envs.geo.items.held_out", lambda core, share: False)
    with pytest.raises(EnvError, match="env.tasks=angle"):
        GeneratedItems(GeoQAConfig(tasks=("angle",))).at(FIRST_EVAL)
