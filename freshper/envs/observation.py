"""What an environment shows per turn: a message, and in some tasks one image.

Text environments observe a plain string. Image environments observe `{"text": str, "image": uint8 [H, W, 3]}`; the
policy sees the image first, then the text, in one user message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from freshper.envs.text_space import AnyText

Image = NDArray[np.uint8]
"""RGB pixels [H, W, 3]."""


@dataclass(frozen=True)
class Observation:
    """An observation in its parts."""

    text: str
    """The user message of the turn, without any image placeholder."""
    image: Image | None = None
    """The turn's image; None in text environments."""


def read_observation(value: str | Mapping[str, Any]) -> Observation:
    """The parts of what `reset` or `step` returned.

    Raises:
        TypeError: neither a string nor text with an RGB image.
    """
    if isinstance(value, str):
        return Observation(value)
    if isinstance(value, Mapping) and set(value) == {"text", "image"} and isinstance(value["text"], str):
        image = value["image"]
        if isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3:
            return Observation(value["text"], image)
    raise TypeError(f"an observation is a string or {{text: str, image: uint8 [H, W, 3]}}, got {value!r:.200}")


def image_space(height: int, width: int, longest_text: int) -> gymnasium.spaces.Dict:
    """The observation space of an image environment."""
    pixels = gymnasium.spaces.Box(0, 255, (height, width, 3), np.uint8)
    return gymnasium.spaces.Dict({"text": AnyText(longest_text), "image": pixels})
