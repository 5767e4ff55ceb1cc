"""Scripted optimal players, for tests and for the demonstrations that small base models are pretrained on."""

from __future__ import annotations

import functools

import numpy as np

from freshper.envs import lake_map
from freshper.envs.cliff_walking import COLUMNS, GOAL, ROWS, CliffWalkingText
from freshper.envs.frozen_lake import FrozenLakeText
from freshper.envs.frozen_lake_image import FrozenLakeImage
from freshper.envs.geo.env import REPLY, GeoQA
from freshper.envs.lake_map import goal_distances
from freshper.envs.sokoban import SokobanText
from freshper.envs.sokoban_image import SokobanImage
from freshper.envs.sokoban_search import ACTIONS as SOKOBAN_ACTIONS
from freshper.envs.sokoban_search import UNSOLVABLE, Distances, Layout, solve_all

Game = FrozenLakeText | FrozenLakeImage | SokobanText | SokobanImage | CliffWalkingText
"""The games that there is a player for."""


def good_actions(env: Game) -> tuple[int, ...]:
    """Return the ids (positions in `env.actions`) of all actions that come one move closer to success from here.

    Empty if success is out of reach, as in Sokoban after a box is stuck.
    """
    if isinstance(env, FrozenLakeText | FrozenLakeImage):
        return optimal_actions(env.desc)[env.state]
    if isinstance(env, CliffWalkingText):
        return cliff_actions(env.state)
    return sokoban_actions(env)


def right_reply(env: GeoQA) -> str:
    """Return the reply that gives the right answer to the question about a picture."""
    return REPLY.format(env.item.answer)


def optimal_actions(desc: list[str]) -> list[tuple[int, ...]]:
    """Return, for every tile (row-major), the ids of all actions that shorten the way to the goal.

    Empty on the goal, on holes and where the goal cannot be reached. On slippery ice these are the moves
    that one would intend if nothing slipped, not the solution of the stochastic problem.
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
        ids = range(len(lake_map.ACTIONS))
        best.append(tuple(a for a in ids if distance > 0 and distances[landings[a]] == distance - 1))
    return best


def cliff_actions(tile: int) -> tuple[int, ...]:
    """Return the ids (Up, Right, Down, Left) of the actions on a shortest walk to CliffWalking's goal."""
    row, column = divmod(tile, COLUMNS)
    if tile == GOAL:
        return ()
    if row == ROWS - 1:  # the start: right of it is the cliff
        return (0,)
    if column == COLUMNS - 1:
        return (2,)
    down = (2,) if row < ROWS - 2 else ()
    return (1, *down)


def sokoban_actions(env: SokobanText | SokobanImage) -> tuple[int, ...]:
    """Return the ids of the actions on a shortest solution of the room as it stands."""
    table = distances_of(env.layout)
    here = table.of(env.player, env.boxes)
    if here in (0, UNSOLVABLE):
        return ()
    return tuple(
        action for action in range(len(SOKOBAN_ACTIONS)) if _after(table, env.player, env.boxes, action) == here - 1
    )


def winnable_actions(env: SokobanText) -> tuple[int, ...]:
    """Return the ids of the actions that change something and after which the room can still be solved."""
    table = distances_of(env.layout)
    return tuple(
        action for action in range(len(SOKOBAN_ACTIONS)) if _after(table, env.player, env.boxes, action) != UNSOLVABLE
    )


def _after(table: Distances, player: tuple[int, int], boxes: list[tuple[int, int]], action: int) -> int:
    """Distance after a legal move, `UNSOLVABLE` for one that changes nothing."""
    index = {cell: number for number, cell in enumerate(table.cells)}
    step = table.neighbours[action]
    ahead = int(step[index[player]])
    occupied = [index[box] for box in boxes]
    if ahead in occupied:
        behind = int(step[ahead])
        if behind < 0 or behind in occupied:
            return UNSOLVABLE
        occupied[occupied.index(ahead)] = behind
    elif ahead < 0:
        return UNSOLVABLE
    return int(table.table[table.encode(np.array([ahead]), np.array([occupied]))[0]])


@functools.lru_cache(maxsize=1024)
def distances_of(layout: Layout) -> Distances:
    """All distances of a layout, remembered: an episode asks at every turn (46 kB for 8x8 with two boxes)."""
    return solve_all(layout)
