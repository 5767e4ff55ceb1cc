"""Third-party environments: any gymnasium environment with text observations and text actions, by its id."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded

from freshper.config.envs.gym import GymConfig
from freshper.envs.errors import EnvError


class GymText(gymnasium.Env[str, str]):
    """Plays another environment and completes its `info` with what rollouts need.

    `system` (at reset), `valid` and `success` (at every step) are taken from the environment's own info where it
    has them. Otherwise every turn counts as valid, and `success` is the environment's `is_success`, or whether it
    terminated with a return above `config.success_above`.
    """

    metadata = {"render_modes": []}

    def __init__(self, config: GymConfig) -> None:
        """Make the environment.

        Raises:
            EnvError: the id is not registered, its module or constructor fails, or observations or actions
                are not text.
        """
        self.config = config
        self._env = _make(config)
        for name, space in (("observations", self._env.observation_space), ("actions", self._env.action_space)):
            if not isinstance(space, gymnasium.spaces.Text):
                self._env.close()
                raise EnvError(
                    f"the {name} are {space}, expected text (gymnasium.spaces.Text); wrap it in an "
                    "environment that writes and reads text"
                )
        self.observation_space = self._env.observation_space
        self.action_space = self._env.action_space
        self._turn = 0
        self._return = 0.0
        self._over = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the episode of `seed`."""
        observation, info = self._env.reset(seed=seed, options=options)
        self._turn, self._return, self._over = 0, 0.0, False
        system = "\n".join(filter(None, [str(info.get("system", "")), self.config.system]))
        return self._text(observation), {**info, "system": system, "valid": True, "success": False, "turn": 0}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Pass one reply on."""
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before step()")
        observation, reward, terminated, truncated, info = self._env.step(action)
        self._turn += 1
        self._return += float(reward)
        truncated = not terminated and (truncated or self._turn >= self.config.max_turns)
        self._over = bool(terminated or truncated)
        if "success" in info or "is_success" in info:
            success = bool(info["success"] if "success" in info else info["is_success"])
        else:
            success = bool(terminated) and self._return > self.config.success_above
        known = {"valid": bool(info.get("valid", True)), "success": success, "turn": self._turn}
        return self._text(observation), float(reward), bool(terminated), bool(truncated), {**info, **known}

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    def _text(self, observation: Any) -> str:
        if not isinstance(observation, str):
            raise EnvError(
                f"env.id={self.config.id} returned an observation of type {type(observation).__name__}, expected str"
            )
        return observation


def _make(config: GymConfig) -> gymnasium.Env[Any, Any]:
    """The environment, without gymnasium's checker: it would warn about every text beyond the declared length."""
    if config.id is None:
        raise EnvError("no env.id given; expected a registered gymnasium id")
    module, colon, _ = config.id.partition(":")
    if colon:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise EnvError(f"the module {module} cannot be imported: {error}") from error
    try:
        return gymnasium.make(config.id, disable_env_checker=True, **(config.kwargs or {}))
    except (gymnasium.error.Error, TypeError, ValueError) as error:
        raise EnvError(f"cannot be made: {error}") from error
