"""A text space for messages in any language."""

from __future__ import annotations

import string
from typing import Any

import gymnasium


class AnyText(gymnasium.spaces.Text):
    """Every string up to a length; `sample` draws printable ASCII. gymnasium's own Text needs each character listed."""

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string that is not too long."""
        return isinstance(x, str) and len(x) <= self.max_length
