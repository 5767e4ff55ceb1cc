"""Build an environment from its config section; importing this registers the `freshper/*` ids with gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium

from freshper.config.env import EnvConfig
from freshper.config.envs.cliff_walking import CliffWalkingConfig
from freshper.config.envs.frozen_lake import FrozenLakeConfig
from freshper.config.envs.frozen_lake_image import FrozenLakeImageConfig
from freshper.config.envs.geoqa import GeoQAConfig
from freshper.config.envs.gym import GymConfig
from freshper.config.envs.math import MathConfig
from freshper.config.envs.openenv import OpenEnvConfig
from freshper.config.envs.search import SearchConfig
from freshper.config.envs.sokoban import SokobanConfig
from freshper.config.envs.sokoban_image import SokobanImageConfig
from freshper.envs.cliff_walking import CliffWalkingText
from freshper.envs.frozen_lake import FrozenLakeText
from freshper.envs.frozen_lake_image import FrozenLakeImage
from freshper.envs.geo.env import GeoQA
from freshper.envs.gym import GymText
from freshper.envs.math.env import MathText
from freshper.envs.openenv.env import OpenEnvText
from freshper.envs.search.env import SearchText
from freshper.envs.sokoban import SokobanText
from freshper.envs.sokoban_image import SokobanImage

gymnasium.register(id="freshper/FrozenLake-v0", entry_point="freshper.envs.frozen_lake:FrozenLakeText")
gymnasium.register(id="freshper/FrozenLakeImage-v0", entry_point="freshper.envs.frozen_lake_image:FrozenLakeImage")
gymnasium.register(id="freshper/Sokoban-v0", entry_point="freshper.envs.sokoban:SokobanText")
gymnasium.register(id="freshper/SokobanImage-v0", entry_point="freshper.envs.sokoban_image:SokobanImage")
gymnasium.register(id="freshper/CliffWalking-v0", entry_point="freshper.envs.cliff_walking:CliffWalkingText")
gymnasium.register(id="freshper/Math-v0", entry_point="freshper.envs.math.env:MathText")
gymnasium.register(id="freshper/Search-v0", entry_point="freshper.envs.search.env:SearchText")
gymnasium.register(id="freshper/GeoQA-v0", entry_point="freshper.envs.geo.env:GeoQA")


def make_env(config: EnvConfig) -> gymnasium.Env[Any, str]:
    """Return a new environment, without the wrappers that `gymnasium.make("freshper/FrozenLake-v0")` adds."""
    match config:
        case FrozenLakeConfig():
            return FrozenLakeText(config)
        case FrozenLakeImageConfig():
            return FrozenLakeImage(config)
        case SokobanConfig():
            return SokobanText(config)
        case SokobanImageConfig():
            return SokobanImage(config)
        case CliffWalkingConfig():
            return CliffWalkingText(config)
        case MathConfig():
            return MathText(config)
        case SearchConfig():
            return SearchText(config)
        case GeoQAConfig():
            return GeoQA(config)
        case GymConfig():
            return GymText(config)
        case OpenEnvConfig():
            return OpenEnvText(config)
