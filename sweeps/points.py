"""The points that a search has tried, in trials.json: what makes a search resumable without asking Optuna."""

from __future__ import annotations

import json
from dataclasses import dataclass

from freshper.records.atomic import write_json
from sweeps.folder import SweepFolder
from sweeps.plan import Cell, Plan, composer

Point = dict[str, float]


@dataclass(frozen=True)
class GridCell:
    """One cell of the grid that a search is made for."""

    name: str
    """Its settings, as in `variant=freshper`; "all" if nothing but the search is swept."""
    overrides: tuple[str, ...]
    """Its overrides, without the searched keys."""
    swept: tuple[str, ...]
    """Its swept keys."""


def grid_cells(plan: Plan) -> list[GridCell]:
    """The cells of a plan without their searched keys."""
    searched = {interval.key for interval in plan.intervals}
    return [
        GridCell(
            name=" ".join(f"{key}={value}" for key, value in cell.settings if key not in searched) or "all",
            overrides=tuple(text for text in cell.overrides if text.partition("=")[0] not in searched),
            swept=tuple(key for key, _ in cell.settings if key not in searched),
        )
        for cell in plan.cells
    ]


def read_points(folder: SweepFolder) -> dict[str, list[Point]]:
    """Name of a grid cell -> its points, in the order in which they were suggested."""
    if not folder.trials.is_file():
        return {}
    return dict(json.loads(folder.trials.read_text(encoding="utf-8")))


def write_points(folder: SweepFolder, points: dict[str, list[Point]]) -> None:
    """Replace trials.json."""
    write_json(folder.trials, points)


def known_cells(plan: Plan, folder: SweepFolder) -> list[Cell]:
    """The runs of all points so far.

    Raises:
        ConfigError: if one is not valid any more.
    """
    points = read_points(folder)
    with composer() as make:
        return [
            make(cell.overrides, cell.swept, point) for cell in grid_cells(plan) for point in points.get(cell.name, [])
        ]


def unmade(plan: Plan, folder: SweepFolder, n_trials: int) -> int:
    """Points that the search has still to suggest."""
    points = read_points(folder)
    return sum(max(0, n_trials - len(points.get(cell.name, []))) for cell in grid_cells(plan))
