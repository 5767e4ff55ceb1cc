"""What can go wrong with an environment for no fault of the policy."""

from __future__ import annotations


class EnvError(ValueError):
    """The environment cannot be built as configured: data missing or unreadable, a package absent, no retriever."""


class EnvironmentFailedError(RuntimeError):
    """Episodes keep ending in environment errors (`info["error"]`), such as a search engine that does not answer."""
