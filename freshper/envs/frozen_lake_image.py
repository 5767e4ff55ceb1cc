"""FrozenLake as pictures: the text game's maps, rules and rewards, seen as gymnasium draws them (paper section 3)."""

from __future__ import annotations

from typing import Any

import gymnasium

from freshper.config.envs.frozen_lake_image import FrozenLakeImageConfig
from freshper.envs.frozen_lake import REPLY, FrozenLakeText
from freshper.envs.lake_map import ACTIONS
from freshper.envs.lake_render import LakePicture
from freshper.envs.observation import image_space
from freshper.envs.text_space import AnyText
from freshper.envs.turns import turn_line

SYSTEM = "You play FrozenLake on a picture of the grid."
_MAX_TEXT = 4096


class FrozenLakeImage(gymnasium.Env[dict[str, Any], str]):
    """Walk from start to goal over ice with holes; the map is an image, one chat turn is one move.

    An observation is `{"text", "image"}`: turn, turns left and (first) the task and the reply format in words; where
    everything is only in the picture. Seeds give the maps of :class:`FrozenLakeText`, which also plays the game.
    """

    metadata = {"render_modes": []}
    actions = ACTIONS
    """Names of the actions; the position is the id."""

    def __init__(self, config: FrozenLakeImageConfig | None = None) -> None:
        self.config = config or FrozenLakeImageConfig()
        pixels = self.config.size * self.config.cell_pixels
        self.observation_space = image_space(pixels, pixels, _MAX_TEXT)
        self.action_space = AnyText(_MAX_TEXT)
        self._game = FrozenLakeText(self.config)

    @property
    def desc(self) -> list[str]:
        """Rows of the current map in gymnasium's letters (S start, F ice, H hole, G goal)."""
        return self._game.desc

    @property
    def state(self) -> int:
        """Tile of the player, row * size + column."""
        return self._game.state

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start on the map of `seed` (None: the next map of the running generator); info carries the system message."""
        super().reset(seed=seed)
        _, info = self._game.reset(seed=seed)
        self._picture = LakePicture(self._game.desc, self.config.cell_pixels)
        return self._observe(f"{instruction(self.config)}\n"), {**info, "system": SYSTEM}

    def step(self, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Play one reply; reward, end and info are those of the text game."""
        _, reward, terminated, truncated, info = self._game.step(action)
        invalid = "" if info["valid"] else "Invalid reply. "
        return self._observe(f"{invalid}Reward {reward:.0f}. "), reward, terminated, truncated, info

    def _observe(self, begin: str) -> dict[str, Any]:
        text = f"{begin}{turn_line(self._game.turn, self.config)}"
        return {"text": text, "image": self._picture.frame(self._game.state)}


def instruction(config: FrozenLakeImageConfig) -> str:
    """Return what the first user message says before the turn: task, what is in the picture, actions, reply format."""
    slip = " The ice is slippery: a move may go sideways." if config.slippery else ""
    return (
        f"Walk to the red flag, avoid every dark blue hole.{slip}\n"
        f"You are the grey figure. Actions: {', '.join(ACTIONS)}. Reply {REPLY.format('action')}."
    )
