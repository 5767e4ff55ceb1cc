"""Checks of the environment section that involve several keys, or what is installed here."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from freshper.config.dataset_checks import check_geoqa, check_math, check_package, check_search
from freshper.config.env import EnvConfig
from freshper.config.envs.geoqa import GeoQAConfig
from freshper.config.envs.gym import GymConfig
from freshper.config.envs.math import MathConfig
from freshper.config.envs.openenv import OpenEnvConfig
from freshper.config.envs.search import SearchConfig
from freshper.config.envs.sokoban import RoomSection
from freshper.config.errors import Issue


def check_env(env: EnvConfig) -> Iterator[Issue]:
    """Problems of `env.*` beyond single values."""
    if isinstance(env, RoomSection):
        yield from _sokoban(env)
    elif isinstance(env, MathConfig):
        yield from check_math(env)
    elif isinstance(env, GeoQAConfig):
        yield from check_geoqa(env)
    elif isinstance(env, SearchConfig):
        yield from check_search(env)
    elif isinstance(env, GymConfig):
        yield from _gym(env)
    elif isinstance(env, OpenEnvConfig):
        yield from _openenv(env)


def _sokoban(env: RoomSection) -> Iterator[Issue]:
    if env.min_moves > env.max_moves:
        yield Issue(
            "env.min_moves", f"expected at most env.max_moves = {env.max_moves}", env.min_moves, ("env.max_moves",)
        )
    if env.max_moves > env.max_turns:
        yield Issue(
            "env.max_moves",
            f"expected at most env.max_turns = {env.max_turns}: longer rooms cannot be solved in time",
            env.max_moves,
            ("env.max_turns",),
        )


def _gym(env: GymConfig) -> Iterator[Issue]:
    if env.id is None:
        yield Issue("env.id", "expected a registered gymnasium id, such as my_package.my_game:MyGame-v0", env.id)
        return
    # Here and not above: only this family needs gymnasium, and the user's module, to be imported.
    from freshper.envs.errors import EnvError
    from freshper.envs.gym import GymText

    try:
        GymText(env).close()
    except EnvError as error:
        yield Issue("env.id", str(error), env.id, ("env.kwargs",))


def _openenv(env: OpenEnvConfig) -> Iterator[Issue]:
    yield from check_package("websockets", "openenv", "env.family", env.family)
    address = urlsplit(env.url)
    if address.scheme not in ("http", "https", "ws", "wss") or not address.hostname:
        yield Issue("env.url", "expected the address of an OpenEnv server, such as http://127.0.0.1:8000", env.url)
    if "seed" in (env.reset or {}):
        yield Issue("env.reset", "expected no seed: each episode sends its own (env.eval_seed)", env.reset)
