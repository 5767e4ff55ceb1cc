"""Shortest-path play on a FrozenLake map, for pretraining the small base model and for tests."""

from __future__ import annotations

from freshper.envs.lake_map import ACTIONS, goal_distances


def optimal_actions(desc: list[str]) -> list[tuple[int, ...]]:
    """Return, for every tile (row-major), the ids of all actions that shorten the way to the goal.

    Empty on the goal, on holes and where the goal cannot be reached. On slippery ice these are the moves that one
    would intend
    if nothing slipped, not the solution of the stochastic problem.
    """
    size = len(desc)
    distances = goal_distances(desc)
    best = []
    for tile, distance in enumerate(distances):
        row, column = divmod(tile, size)
        landings = (
            tile - 1 if column > 0 else tile,
            tile + size if row < size - 1 else tile,
            tile + 1 if column < size - 1 else tile,
            tile - size if row > 0 else tile,
        )
        best.append(tuple(a for a in range(len(ACTIONS)) if distance > 0 and distances[landings[a]] == distance - 1))
    return best
