"""Sokoban as pictures: the rooms, rules and rewards of the text game, a drawing of the room per turn."""

from __future__ import annotations

from typing import Any

import gymnasium

from freshper.config.envs.sokoban_image import SokobanImageConfig
from freshper.envs.observation import image_space
from freshper.envs.sokoban import REPLY, SokobanText
from freshper.envs.sokoban_render import draw_room
from freshper.envs.sokoban_search import ACTIONS, Layout
from freshper.envs.text_space import AnyText
from freshper.envs.turns import turn_line

SYSTEM = "You play Sokoban on a picture of the room."
INSTRUCTION = (
    "Push every brown box onto a red ring; a box on a ring is green. You push, never pull: avoid walls and corners.\n"
    f"You are the blue figure. Actions: {', '.join(ACTIONS)}. Reply {REPLY.format('action')}."
)
"""What the first user message says before the turn: task, what is in the picture, actions, reply format."""
_MAX_TEXT = 4096


class SokobanImage(gymnasium.Env[dict[str, Any], str]):
    """Push every box onto a target; the room is an image, one chat turn is one move.

    An observation is `{"text", "image"}`: turn, turns left and (first) the task and the reply format in words; where
    everything is only in the picture. Seeds give the rooms of :class:`SokobanText`, which also plays the game.
    """

    metadata = {"render_modes": []}
    actions = ACTIONS
    """Names of the actions; the position is the id."""

    def __init__(self, config: SokobanImageConfig | None = None) -> None:
        self.config = config or SokobanImageConfig()
        pixels = self.config.size * self.config.cell_pixels
        self.observation_space = image_space(pixels, pixels, _MAX_TEXT)
        self.action_space = AnyText(_MAX_TEXT)
        self._game = SokobanText(self.config)

    @property
    def layout(self) -> Layout:
        """Walls and targets of the room."""
        return self._game.layout

    @property
    def player(self) -> tuple[int, int]:
        """(row, column) of the player."""
        return self._game.player

    @property
    def boxes(self) -> list[tuple[int, int]]:
        """(row, column) of each box, ascending."""
        return self._game.boxes

    def grid(self) -> list[str]:
        """Rows of the room as it stands, in the symbols of the text game."""
        return self._game.grid()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start in the room of `seed` (None: a training room of the running generator); info has the system message."""
        super().reset(seed=seed)
        _, info = self._game.reset(seed=seed)
        return self._first(info)

    def start(self, room: Layout, positions: list[list[int]]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start in a room of one's own, `config.size` squared: (row, column) of the player, then of each box."""
        _, info = self._game.start(room, positions)
        return self._first(info)

    def step(self, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Play one reply; reward, end and info are those of the text game."""
        _, reward, terminated, truncated, info = self._game.step(action)
        invalid = "" if info["valid"] else "Invalid reply. "
        return self._observe(f"{invalid}Reward {reward:.1f}. "), reward, terminated, truncated, info

    def _first(self, info: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._observe(f"{INSTRUCTION}\n"), {**info, "system": SYSTEM}

    def _observe(self, begin: str) -> dict[str, Any]:
        text = f"{begin}{turn_line(self._game.turn, self.config)}"
        return {"text": text, "image": draw_room(self._game.grid(), self.config.cell_pixels)}
