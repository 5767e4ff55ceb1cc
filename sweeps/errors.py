"""What keeps a sweep from running although its config is valid."""

from __future__ import annotations


class SweepError(RuntimeError):
    """The sweep cannot run; the message says why. Runs that are done already are not touched."""
