"""Let environments that ask a server do so for all episodes that run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Prefetching(Protocol):
    """An environment that can look up what the steps of many like it will need."""

    def prefetch(self, replies: Sequence[str]) -> None:
        """Look up what `replies` need, each about to be stepped in an environment of the same config and turn."""
        ...


@runtime_checkable
class Sending(Protocol):
    """An environment whose step takes a while elsewhere."""

    def send(self, reply: str) -> None:
        """Begin the step of `reply`; `step` waits for what comes of it."""
        ...


def prefetch(envs: Sequence[Any], replies: Sequence[str]) -> None:
    """Called before the replies of a turn are stepped, with the environments in which they will be."""
    if envs and isinstance(envs[0], Prefetching):
        envs[0].prefetch(replies)
    for env, reply in zip(envs, replies, strict=True):
        if isinstance(env, Sending):
            env.send(reply)
