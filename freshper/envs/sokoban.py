"""Text Sokoban: generated, solvable rooms and gym-sokoban's rewards, a chat message per turn (paper section 3)."""

from __future__ import annotations

import string
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from freshper.config.envs.sokoban import RoomSection, SokobanConfig
from freshper.envs.answer import parse_action
from freshper.envs.sokoban_cache import load_layout
from freshper.envs.sokoban_search import ACTIONS, MOVES, Layout
from freshper.envs.turns import turn_line

SYSTEM = "You play Sokoban on a grid."
LEGEND = "# wall, _ empty, O target, X box, √ box on target, P player, S player on target"
REPLY = "<answer>{}</answer>"
"""The reply that the instruction asks for, around an action name."""
STEP_REWARD, ON_REWARD, OFF_REWARD, SOLVED_REWARD = -0.1, 1.0, -1.0, 10.0
"""gym-sokoban's rewards: every turn, a box pushed onto a target, pushed off one, and all boxes on targets."""

_CHARACTERS = string.printable + "√"
_MAX_TEXT = 4096
Cell = tuple[int, int]


class SokobanText(gymnasium.Env[str, str]):
    """Push every box onto a target; one chat turn is one move.

    An observation is the user message of the turn, an action the assistant's reply. Moving into a box pushes it if the
    cell behind is free. A reply without a legal action in its answer tag costs the step reward, as does a move into a
    wall. The episode ends when all boxes are on targets, or after `max_turns`. Seeds below `config.eval_seed` play the
    layouts of training, the others those of evaluation; the two share none.
    """

    metadata = {"render_modes": []}
    actions = ACTIONS
    """Names of the actions; the position is the id."""

    def __init__(self, config: RoomSection | None = None) -> None:
        self.config: RoomSection = config or SokobanConfig()
        self._drawn_once = isinstance(self.config, SokobanConfig) and self.config.board == "first_turn"
        self.observation_space = gymnasium.spaces.Text(_MAX_TEXT, charset=_CHARACTERS)
        self.action_space = gymnasium.spaces.Text(_MAX_TEXT, min_length=0, charset=_CHARACTERS)
        self._layout = Layout((), ())
        self._player: Cell = (0, 0)
        self._boxes: list[Cell] = []
        self._turn = 0
        self._over = True

    @property
    def layout(self) -> Layout:
        """Walls and targets of the room."""
        return self._layout

    @property
    def player(self) -> Cell:
        """(row, column) of the player."""
        return self._player

    @property
    def boxes(self) -> list[Cell]:
        """(row, column) of each box, ascending."""
        return sorted(self._boxes)

    @property
    def turn(self) -> int:
        """Replies so far in this episode."""
        return self._turn

    def grid(self) -> list[str]:
        """Rows of the room as it stands, in the symbols of `LEGEND`."""
        targets = self._layout.targets
        cells = [list(row) for row in self._layout.walls]
        for row, column in targets:
            cells[row][column] = "O"
        for row, column in self._boxes:
            cells[row][column] = "√" if (row, column) in targets else "X"
        row, column = self._player
        cells[row][column] = "S" if self._player in targets else "P"
        return ["".join(row) for row in cells]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start in the room of `seed` (None: a training room of the running generator)."""
        super().reset(seed=seed)
        held_out = seed is not None and seed >= self.config.eval_seed
        number = (
            (seed - self.config.eval_seed) % self.config.layouts
            if seed is not None and held_out
            else int(self.np_random.integers(self.config.layouts))
        )
        starts = load_layout(self.config, held_out, number)
        # First the length of the solution, then a start: long solutions are as frequent as short ones.
        lengths = np.unique(starts.moves)
        wanted = np.flatnonzero(starts.moves == lengths[int(self.np_random.integers(len(lengths)))])
        return self.start(starts.layout, starts.positions[wanted[int(self.np_random.integers(len(wanted)))]].tolist())

    def start(self, room: Layout, positions: list[list[int]]) -> tuple[str, dict[str, Any]]:
        """Start in a room of one's own: (row, column) of the player, then of each box."""
        self._layout = room
        self._player, *self._boxes = [(row, column) for row, column in positions]
        self._turn = 0
        self._over = False
        return f"{INSTRUCTION}\n{self._board()}", {"system": SYSTEM, "valid": True, "success": False, "turn": 0}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one reply. info: `valid` (an action was read), `success` (all boxes on targets), `turn` (replies)."""
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before step()")
        self._turn += 1
        name = parse_action(action, ACTIONS)
        reward = STEP_REWARD + (0.0 if name is None else self._move(*MOVES[ACTIONS.index(name)]))
        solved = all(box in self._layout.targets for box in self._boxes)
        if solved:
            reward += SOLVED_REWARD
        truncated = not solved and self._turn >= self.config.max_turns
        self._over = solved or truncated
        invalid = "" if name is not None else "Invalid reply. "
        observation = f"{invalid}Reward {reward:.1f}. {self._board()}"
        return (
            observation,
            reward,
            solved,
            truncated,
            {"valid": name is not None, "success": solved, "turn": self._turn},
        )

    def _move(self, down: int, right: int) -> float:
        """Step or push if possible; the reward for boxes that come onto or off targets."""
        row, column = self._player
        ahead, behind = (row + down, column + right), (row + 2 * down, column + 2 * right)
        if self._is_wall(ahead):
            return 0.0
        reward = 0.0
        if ahead in self._boxes:
            if self._is_wall(behind) or behind in self._boxes:
                return 0.0
            self._boxes[self._boxes.index(ahead)] = behind
            targets = self._layout.targets
            reward = ON_REWARD * (behind in targets) + OFF_REWARD * (ahead in targets)
        self._player = ahead
        return reward

    def _is_wall(self, cell: Cell) -> bool:
        return self._layout.walls[cell[0]][cell[1]] == "#"

    def _board(self) -> str:
        """Turn, actions left, rows and columns of player, boxes and open targets (small models need them), the grid.

        With `board: first_turn` the two cells ahead of the player in each direction stand in for the grid; the first
        message has both.
        """
        targets = self._layout.targets
        places = [("P", self._player)]
        places += [("√" if box in targets else "X", box) for box in self.boxes]
        places += [("O", target) for target in targets if target not in self._boxes]
        where = " ".join(f"{symbol} row{row} col{column}" for symbol, (row, column) in places)
        grid = self.grid()
        lines = [turn_line(self._turn, self.config), where]
        if not self._drawn_once:
            lines += grid
        else:
            lines += [*(grid if self._turn == 0 else ()), self._ahead(grid)]
        return "\n".join(lines)

    def _ahead(self, grid: list[str]) -> str:
        """The two cells ahead in each direction, the nearer one first; beyond the room there is wall."""
        row, column = self._player
        seen = []
        for name, (down, right) in zip(ACTIONS, MOVES, strict=True):
            far = (row + 2 * down, column + 2 * right)
            inside = all(0 <= place < len(grid) for place in far)
            seen.append(f"{name}:{grid[row + down][column + right]}{grid[far[0]][far[1]] if inside else '#'}")
        return " ".join(seen)


INSTRUCTION = (
    "Push every X on an O. You push, never pull: avoid walls and corners.\n"
    f"{LEGEND}.\nActions: {', '.join(ACTIONS)}. Reply {REPLY.format('action')}."
)
"""What the first user message says before the turn: task, symbols, actions, reply format."""
