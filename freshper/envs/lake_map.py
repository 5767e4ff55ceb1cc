"""Random solvable FrozenLake maps, in gymnasium's letters: S start, F ice, H hole, G goal."""

from __future__ import annotations

import numpy as np

from freshper.config.envs.frozen_lake import LakeSection

ACTIONS = ("Left", "Down", "Right", "Up")
"""Action names; the position is gymnasium's action id."""
_MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
_MAX_DRAWS = 10_000


def goal_distances(desc: list[str]) -> list[int]:
    """Return the fewest moves to the goal from every tile (row-major), -1 where the goal is out of reach (holes too).

    Counts intended moves: on slippery ice it is the distance without slips.
    """
    size = len(desc)
    tiles = "".join(desc)
    distances = [-1] * len(tiles)
    goal = tiles.index("G")
    distances[goal] = 0
    frontier = [goal]
    while frontier:
        reached = []
        for tile in frontier:
            row, column = divmod(tile, size)
            for down, right in _MOVES:
                if 0 <= row + down < size and 0 <= column + right < size:
                    neighbour = (row + down) * size + column + right
                    if distances[neighbour] < 0 and tiles[neighbour] != "H":
                        distances[neighbour] = distances[tile] + 1
                        reached.append(neighbour)
        frontier = reached
    return distances


def draw_map(config: LakeSection, rng: np.random.Generator) -> list[str]:
    """Draw maps until one can be solved: distinct start and goal, every other tile a hole with `hole_probability`.

    Rejecting unsolvable maps leaves a few fewer holes than `hole_probability` (0.18 instead of 0.2 on 4x4).
    """
    size, tiles = config.size, config.size**2
    for _ in range(_MAX_DRAWS):
        letters = ["H" if hole else "F" for hole in rng.random(tiles) < config.hole_probability]
        start, goal = 0, tiles - 1
        if config.random_start_and_goal:
            start = int(rng.integers(tiles))
            goal = (start + 1 + int(rng.integers(tiles - 1))) % tiles
        letters[start], letters[goal] = "S", "G"
        text = "".join(letters)
        desc = [text[i : i + size] for i in range(0, tiles, size)]
        if goal_distances(desc)[start] > 0:
            return desc
    raise ValueError(
        f"no solvable map in {_MAX_DRAWS} draws: size={size}, hole_probability={config.hole_probability}, "
        f"random_start_and_goal={config.random_start_and_goal}; lower env.hole_probability"
    )
