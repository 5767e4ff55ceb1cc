"""Text FrozenLake: gymnasium's dynamics, a new solvable map per seed, a chat message per turn (paper section 3)."""

from __future__ import annotations

import string
from typing import Any

import gymnasium
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.error import ResetNeeded

from freshper.config.envs.frozen_lake import FrozenLakeConfig, LakeSection
from freshper.envs.answer import parse_action
from freshper.envs.lake_map import ACTIONS, draw_map
from freshper.envs.turns import turn_line

SYSTEM = "You play FrozenLake on a grid."
LEGEND = "P player, _ ice, O hole, G goal, X player in hole, √ player on goal"
REPLY = "<answer>{}</answer>"
"""The reply that the instruction asks for, around an action name."""

_CHARACTERS = string.printable + "√"
_MAX_TEXT = 4096


class FrozenLakeText(gymnasium.Env[str, str]):
    """Walk from start to goal over ice with holes; one chat turn is one move.

    An observation is the user message of the turn, an action the assistant's reply. A reply without a legal action in
    its answer tag wastes the turn: nobody moves (nor slips) and the reward is 0. Reward is 1 on reaching the goal,
    else 0. The format penalty of training is not part of it. The seed fixes map and slips.
    """

    metadata = {"render_modes": []}
    actions = ACTIONS
    """Names of the actions; the position is the id."""

    def __init__(self, config: LakeSection | None = None) -> None:
        self.config: LakeSection = config or FrozenLakeConfig()
        self.observation_space = gymnasium.spaces.Text(_MAX_TEXT, charset=_CHARACTERS)
        self.action_space = gymnasium.spaces.Text(_MAX_TEXT, min_length=0, charset=_CHARACTERS)
        size = self.config.size
        # Building gymnasium's transition table costs up to 0.3 ms; one table of a lake without holes serves every map.
        open_ice = ["S" + "F" * (size - 1)] + ["F" * size] * (size - 1)
        self._lake = FrozenLakeEnv(desc=open_ice, is_slippery=self.config.slippery)
        self._open_transitions = self._lake.P
        self._desc: list[str] = []
        self._turn = 0
        self._over = True

    @property
    def desc(self) -> list[str]:
        """Rows of the current map in gymnasium's letters (S start, F ice, H hole, G goal)."""
        return self._desc

    @property
    def turn(self) -> int:
        """Replies so far in this episode."""
        return self._turn

    @property
    def state(self) -> int:
        """Tile of the player, row * size + column."""
        return int(self._lake.s)

    @property
    def transitions(self) -> dict[int, dict[int, list[tuple[float, int, int, bool]]]]:
        """gymnasium's `P` of the current map: state -> action -> (probability, next state, reward, terminated)."""
        return self._lake.P

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start on the map of `seed` (None: the next map of the running generator); info carries the system message."""
        super().reset(seed=seed)
        self._desc = draw_map(self.config, self.np_random)
        tiles = "".join(self._desc)
        self._lake.P = self._with_map(tiles)
        self._lake.s = tiles.index("S")
        self._lake.np_random = self.np_random
        self._ice = "\n".join(self._desc).translate(str.maketrans("SFH", "__O"))
        self._goal = tiles.index("G")
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
        reward, terminated = 0.0, False
        if name is not None:
            _, landed, terminated, _, _ = self._lake.step(ACTIONS.index(name))
            reward = float(landed)
        truncated = not terminated and self._turn >= self.config.max_turns
        self._over = terminated or truncated
        invalid = "" if name is not None else "Invalid reply. "
        observation = f"{invalid}Reward {reward:.0f}. {self._board()}"
        info = {"valid": name is not None, "success": reward > 0, "turn": self._turn}
        return observation, reward, terminated, truncated, info

    def _with_map(self, tiles: str) -> dict[int, dict[int, list[tuple[float, int, int, bool]]]]:
        """Relabel the open lake's moves by the tile they land on: reward and end are all that a map changes."""
        table = {}
        for state, by_action in self._open_transitions.items():
            if tiles[state] in "GH":
                table[state] = {action: [(1.0, state, 0, True)] for action in by_action}
            else:
                table[state] = {
                    action: [(p, to, int(tiles[to] == "G"), tiles[to] in "GH") for p, to, _, _ in moves]
                    for action, moves in by_action.items()
                }
        return table

    def _board(self) -> str:
        """Turn, actions left, the rows and columns of player and goal (small models need them), then the grid."""
        size, state = self.config.size, self.state
        row, column = divmod(state, size)
        goal_row, goal_column = divmod(self._goal, size)
        at = row * (size + 1) + column  # a newline ends each row of the text
        player = {"_": "P", "O": "X", "G": "√"}[self._ice[at]]
        return (
            f"{turn_line(self._turn, self.config)}\n"
            f"P row{row} col{column} G row{goal_row} col{goal_column}\n"
            f"{self._ice[:at]}{player}{self._ice[at + 1 :]}"
        )


def instruction(config: LakeSection) -> str:
    """Return what the first user message says before the turn: task, symbols, actions, reply format."""
    slip = " The ice is slippery: a move may go sideways." if config.slippery else ""
    example = REPLY.format("action")
    return f"Reach G, avoid every O.{slip}\n{LEGEND}.\nActions: {', '.join(ACTIONS)}. Reply {example}."
