"""Build an environment from its config section. Importing this module registers `freshper/FrozenLake-v0` with gymnasium."""

from __future__ import annotations

import gymnasium

from freshper.config.env import EnvConfig
from freshper.envs.frozen_lake import FrozenLakeText

gymnasium.register(id="freshper/FrozenLake-v0", entry_point=FrozenLakeText)


def make_env(config: EnvConfig) -> gymnasium.Env[str, str]:
    """Return a new environment without wrappers; `gymnasium.make("freshper/FrozenLake-v0", config=...)` adds gymnasium's."""
    return FrozenLakeText(config)
