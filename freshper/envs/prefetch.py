"""Let environments that ask a server ask once for all episodes that run side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Prefetching(Protocol):
    """An environment that can look up what the steps of many like it will need."""

    def prefetch(self, replies: Sequence[str]) -> None:
        """Look up what `replies` need, each about to be stepped in an environment of the same config and turn."""
        ...


def prefetch(envs: Sequence[Any], replies: Sequence[str]) -> None:
    """Called before the replies of a turn are stepped, with the environments in which they will be."""
    if envs and isinstance(envs[0], Prefetching):
        envs[0].prefetch(replies)
