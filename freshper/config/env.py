"""The environment section: one of the families, chosen by `family`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

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

EnvConfig = Annotated[
    FrozenLakeConfig
    | FrozenLakeImageConfig
    | SokobanConfig
    | SokobanImageConfig
    | CliffWalkingConfig
    | MathConfig
    | SearchConfig
    | GeoQAConfig
    | GymConfig
    | OpenEnvConfig,
    Field(discriminator="family"),
]
"""To add a family: a file in `freshper/config/envs/`, a member here, a line in `freshper/envs/make.py`, a YAML in
`conf/env/`."""
