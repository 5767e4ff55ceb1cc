"""Random Sokoban layouts and starts whose shortest solution has a wanted length.

The walls come from a random walk that carves small shapes out of rock, as in Racaniere et al. 2017 (arXiv 1707.06203,
appendix); starts come from searching backwards from the solved room, so that every room can be solved.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from freshper.config.envs.sokoban import RoomSection
from freshper.envs.sokoban_search import Layout, solve_all

VERSION = 1
"""Raised whenever the same seed gives another room: rooms in the cache carry it."""
STARTS = 256
"""Most starts kept of a layout."""
_SHAPES = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, 0), (0, 1), (1, 0)),
    ((0, 0), (0, -1), (-1, 0)),
    ((0, 0), (0, 1), (1, 0), (1, 1)),
)
_STEPS_PER_SIDE = 1.7
_TURN = 0.35
_MAX_DRAWS = 2_000


@dataclass(frozen=True)
class Starts:
    """A layout with starts: no box stands on a target, and the shortest solution has a length in the asked range."""

    layout: Layout
    """Walls and targets."""
    positions: NDArray[np.uint8]
    """[starts, 1 + boxes, 2]: (row, column) of the player, then of each box."""
    moves: NDArray[np.uint8]
    """[starts]: moves of the shortest solution, ascending."""


def draw_starts(config: RoomSection, held_out: bool, index: int) -> Starts:
    """Return layout number `index` of training or (held out) of evaluation, a pure function of its arguments.

    Which of the two may use a layout is decided by a hash of the layout itself, so they never share one.

    Raises:
        ValueError: no room in 2,000 draws has a solution of the asked length.
    """
    key = [VERSION, config.size, config.boxes, config.min_moves, config.max_moves, int(held_out), index]
    rng = np.random.default_rng(key)
    for _ in range(_MAX_DRAWS):
        layout = _draw_layout(config.size, config.boxes, rng)
        if layout is not None and _is_held_out(layout) == held_out:
            starts = _starts(layout, config, rng)
            if starts is not None:
                return starts
    raise ValueError(
        f"no Sokoban room in {_MAX_DRAWS} draws has a shortest solution of {config.min_moves} to {config.max_moves} "
        f"moves at env.size={config.size}, env.boxes={config.boxes}; change env.min_moves, env.max_moves or env.size"
    )


def _is_held_out(layout: Layout) -> bool:
    return hashlib.sha256(repr(layout).encode()).digest()[0] < 128


def _draw_layout(size: int, boxes: int, rng: np.random.Generator) -> Layout | None:
    """Carve a room and choose targets; None if it has too little floor."""
    floor = np.zeros((size, size), dtype=bool)
    place = rng.integers(1, size - 1, 2)
    direction = int(rng.integers(4))
    for _ in range(int(_STEPS_PER_SIDE * 2 * size)):
        if rng.random() < _TURN:
            direction = int(rng.integers(4))
        step = ((-1, 0), (1, 0), (0, -1), (0, 1))[direction]
        place = np.clip(place + step, 1, size - 2)
        for down, right in _SHAPES[int(rng.integers(len(_SHAPES)))]:
            floor[place[0] + down, place[1] + right] = True
    floor[[0, -1], :] = floor[:, [0, -1]] = False
    cells = np.argwhere(floor)
    if len(cells) < 2 * boxes + 1:  # boxes beside their targets, and the player
        return None
    chosen = sorted((int(row), int(column)) for row, column in cells[rng.permutation(len(cells))[:boxes]])
    return Layout(tuple("".join("_" if cell else "#" for cell in row) for row in floor), tuple(chosen))


def _starts(layout: Layout, config: RoomSection, rng: np.random.Generator) -> Starts | None:
    """Up to `STARTS` starts, as evenly spread over the lengths of their solutions as the layout allows."""
    distances = solve_all(layout, config.max_moves)
    codes = np.flatnonzero((distances.table >= config.min_moves) & (distances.table <= config.max_moves))
    player, boxes = distances.decode(codes)
    cells = np.array(distances.cells)
    targets = [distances.cells.index(target) for target in layout.targets]
    off_target = ~np.isin(boxes, targets).any(axis=1)
    codes, player, boxes = codes[off_target], player[off_target], boxes[off_target]
    if not len(codes):
        return None
    moves = distances.table[codes]
    # The k-th state of each length, in random order, goes before every (k+1)-th.
    order = rng.permutation(len(codes))
    order = order[np.argsort(moves[order], kind="stable")]
    lengths, first = np.unique(moves[order], return_index=True)
    rank = np.arange(len(order)) - np.repeat(first, np.diff([*first, len(order)]))
    kept = np.sort(np.argsort(rank, kind="stable")[:STARTS])
    chosen = order[kept]
    positions = cells[np.concatenate([player[chosen, None], boxes[chosen]], axis=1)]
    return Starts(layout, positions.astype(np.uint8), moves[chosen])
