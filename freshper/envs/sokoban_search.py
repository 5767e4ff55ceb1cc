"""Exact distances to the solution for every state of a Sokoban layout, by one backward search from all solved states.

A state is the player's cell and the boxes' cells. Cells are floor cells only, numbered row-major; a state's code is the
base-`cells` number of the player and then the boxes in ascending order (boxes are interchangeable).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ACTIONS = ("Up", "Down", "Left", "Right")
"""Action names, in the order of gym-sokoban's action ids."""
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""(rows down, columns right) of each action."""
_OPPOSITE = (1, 0, 3, 2)
UNSOLVABLE = 255
"""Distance of states from which the room cannot be solved."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Layout:
    """What does not move: the walls and the targets."""

    walls: tuple[str, ...]
    """Rows, `#` for a wall and `_` for floor; the border is all wall."""
    targets: tuple[tuple[int, int], ...]
    """(row, column) of each target, ascending."""


@dataclass(frozen=True)
class Distances:
    """Fewest moves to the solution from every state of a layout."""

    boxes: int
    """Number of boxes."""
    cells: tuple[tuple[int, int], ...]
    """(row, column) of each floor cell."""
    neighbours: Ints
    """[4, cells]: the cell that a step from a cell in each direction leads to, -1 for a wall."""
    table: NDArray[np.uint8]
    """Distance by state code; `UNSOLVABLE` if there is none (also for codes that are no state)."""

    def encode(self, player: Ints, boxes: Ints) -> Ints:
        """Codes [m] of players [m] and boxes [m, boxes] in any order."""
        code = player
        for column in (np.sort(boxes, axis=1) if self.boxes > 1 else boxes).T:
            code = code * len(self.cells) + column
        return code

    def decode(self, codes: Ints) -> tuple[Ints, Ints]:
        """Players [m] and ascending boxes [m, boxes] of codes [m]."""
        digits = []
        for _ in range(self.boxes):
            codes, digit = np.divmod(codes, len(self.cells))
            digits.append(digit)
        return codes, np.stack(digits[::-1], axis=1)

    def of(self, player: tuple[int, int], boxes: list[tuple[int, int]]) -> int:
        """Distance of one state, given by (row, column)."""
        index = {cell: number for number, cell in enumerate(self.cells)}
        code = self.encode(np.array([index[player]]), np.array([[index[box] for box in boxes]]))
        return int(self.table[code[0]])


def solve_all(layout: Layout, depth: int = UNSOLVABLE - 1) -> Distances:
    """Search backwards from every solved state: undo a step, or a push by pulling.

    States further than `depth` moves from the solution are left `UNSOLVABLE`.

    Raises:
        ValueError: states are further away than `depth`'s default, the most that the table holds.
    """
    cells = [(r, c) for r, row in enumerate(layout.walls) for c, symbol in enumerate(row) if symbol != "#"]
    index = {cell: number for number, cell in enumerate(cells)}
    neighbours = np.array([[index.get((r + down, c + right), -1) for r, c in cells] for down, right in MOVES])
    count, boxes = len(cells), len(layout.targets)
    table = np.full(count ** (boxes + 1), UNSOLVABLE, dtype=np.uint8)
    distances = Distances(boxes, tuple(cells), neighbours, table)

    solved = np.array([index[target] for target in layout.targets])
    player = np.setdiff1d(np.arange(count), solved)
    frontier = distances.encode(player, np.tile(solved, (len(player), 1)))
    table[frontier] = 0
    for distance in range(1, min(depth, UNSOLVABLE - 1) + 1):
        found = _predecessors(distances, frontier)
        frontier = np.unique(found[table[found] == UNSOLVABLE])
        if not len(frontier):
            break
        table[frontier] = distance
    else:
        if depth >= UNSOLVABLE - 1:
            raise ValueError(f"some states of {layout} may be more than {depth} moves from their solution")
    return distances


def _predecessors(distances: Distances, codes: Ints) -> Ints:
    """Codes of the states from which one move leads to one of `codes`."""
    player, boxes = distances.decode(codes)
    came = distances.neighbours[_OPPOSITE, :][:, player]  # [4, m]: where the player stood before each action
    free = (came >= 0) & (boxes != came[:, :, None]).all(axis=2)
    action, state = np.nonzero(free)
    here, stood, at = player[state], came[action, state], boxes[state]
    steps = distances.encode(stood, at)
    pushed = at == distances.neighbours[action, here][:, None]  # the box in front was on the player's cell
    pushing = np.flatnonzero(pushed.any(axis=1))
    before = np.where(pushed[pushing], here[pushing, None], at[pushing])
    return np.concatenate([steps, distances.encode(stood[pushing], before)])
