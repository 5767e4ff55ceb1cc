"""What a search can end in besides hits."""

from __future__ import annotations


class RetrievalError(Exception):
    """A search failed for a reason that has nothing to do with the policy: the episode must not be trained on."""
