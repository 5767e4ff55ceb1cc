"""Build an environment from its config section; importing this registers `freshper/FrozenLake-v0` with gymnasium."""

from __future__ import annotations

import gymnasium

from freshper.config.env import EnvConfig
from freshper.envs.frozen_lake import FrozenLakeText

gymnasium.register(id="freshper/FrozenLake-v0", entry_point="freshper.envs.frozen_lake:FrozenLakeText")


def make_env(config: EnvConfig) -> gymnasium.Env[str, str]:
    """Return a new environment, without the wrappers that `gymnasium.make("freshper/FrozenLake-v0")` adds."""
    return FrozenLakeText(config)
