"""Text CliffWalking: gymnasium's dynamics and rewards, a chat message per turn (paper section 3)."""

from __future__ import annotations

import string
from typing import Any

import gymnasium
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
from gymnasium.error import ResetNeeded

from freshper.config.envs.cliff_walking import CliffWalkingConfig
from freshper.envs.answer import parse_action
from freshper.envs.turns import turn_line

ACTIONS = ("Up", "Right", "Down", "Left")
"""Action names; the position is gymnasium's action id."""
SYSTEM = "You play CliffWalking on a grid."
LEGEND = "P player, _ ground, C cliff, S start, G goal"
REPLY = "<answer>{}</answer>"
"""The reply that the instruction asks for, around an action name."""
ROWS, COLUMNS = 4, 12
MAP = ("_" * COLUMNS, "_" * COLUMNS, "_" * COLUMNS, "S" + "C" * (COLUMNS - 2) + "G")
"""The only map, rows from top to bottom."""
START, GOAL = (ROWS - 1) * COLUMNS, ROWS * COLUMNS - 1
"""Tiles (row * 12 + column) of start and goal."""
SAFE_TILES = tuple(tile for tile in range(ROWS * COLUMNS) if MAP[tile // COLUMNS][tile % COLUMNS] in "_S")
"""Tiles on which an episode may start with `random_start`."""
EVAL_STARTS = SAFE_TILES[::4]
TRAIN_STARTS = tuple(tile for tile in SAFE_TILES if tile not in EVAL_STARTS)
"""With `random_start`, a quarter of the tiles is kept for evaluation. The map's own start belongs to evaluation."""

_CHARACTERS = string.printable
_MAX_TEXT = 4096


class CliffWalkingText(gymnasium.Env[str, str]):
    """Walk along a cliff to the goal; one chat turn is one move.

    An observation is the user message of the turn, an action the assistant's reply. Every move costs 1; stepping
    onto the cliff costs 100 and leads back to the map's start, at the bottom left. A reply without a legal action in
    its answer tag moves nobody and costs what `config.invalid_turn` says; it uses up a turn in any case. The shortest
    walk from the map's start takes 13 moves, so the best return is -13.

    There is one map. Unless `config.random_start` is set, every seed is the same episode, in training and evaluation.
    """

    metadata = {"render_modes": []}
    actions = ACTIONS
    """Names of the actions; the position is the id."""

    def __init__(self, config: CliffWalkingConfig | None = None) -> None:
        self.config = config or CliffWalkingConfig()
        self.observation_space = gymnasium.spaces.Text(_MAX_TEXT, charset=_CHARACTERS)
        self.action_space = gymnasium.spaces.Text(_MAX_TEXT, min_length=0, charset=_CHARACTERS)
        self._cliff = CliffWalkingEnv()
        self._turn = 0
        self._over = True

    @property
    def state(self) -> int:
        """Tile of the player, row * 12 + column."""
        return int(self._cliff.s)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; info carries the system message. With `random_start` the seed decides where."""
        super().reset(seed=seed)
        self._cliff.reset(seed=seed)
        if self.config.random_start:
            held_out = seed is not None and seed >= self.config.eval_seed
            tiles = EVAL_STARTS if held_out else TRAIN_STARTS
            self._cliff.s = tiles[int(self.np_random.integers(len(tiles)))]
        self._turn = 0
        self._over = False
        first = f"{instruction(self.config)}\n{self._board()}"
        return first, {"system": SYSTEM, "valid": True, "success": False, "turn": 0}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one reply. info: `valid` (an action was read), `success` (on the goal), `turn` (replies so far)."""
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before step()")
        self._turn += 1
        name = parse_action(action, ACTIONS)
        terminated = False
        if name is not None:
            _, reward, terminated, _, _ = self._cliff.step(ACTIONS.index(name))
            reward = float(reward)
        else:
            reward = -1.0 if self.config.invalid_turn == "step" else 0.0
        truncated = not terminated and self._turn >= self.config.max_turns
        self._over = terminated or truncated
        invalid = "" if name is not None else "Invalid reply. "
        observation = f"{invalid}Reward {reward:.0f}. {self._board()}"
        info = {"valid": name is not None, "success": bool(terminated), "turn": self._turn}
        return observation, reward, bool(terminated), truncated, info

    def _board(self) -> str:
        """Turn, actions left, row and column of the player, and the grid if it is due."""
        row, column = divmod(self.state, COLUMNS)
        text = f"{turn_line(self._turn, self.config)}\nP row{row} col{column}"
        if self._turn > 0 and self.config.board == "first_turn":
            return text
        rows = list(MAP)
        rows[row] = f"{rows[row][:column]}P{rows[row][column + 1 :]}"
        return "\n".join([text, *rows])


def instruction(config: CliffWalkingConfig) -> str:
    """Return what the first user message says before the turn: task, symbols, actions, reply format."""
    invalid = "an invalid reply too" if config.invalid_turn == "step" else "an invalid reply 0"
    goal_row, goal_column = divmod(GOAL, COLUMNS)
    return (
        f"Reach G at row{goal_row} col{goal_column}. A move costs 1, {invalid}; C costs 100 and leads back to S.\n"
        f"{LEGEND}.\nActions: {', '.join(ACTIONS)}. Reply {REPLY.format('action')}."
    )
