"""Between an environment's observations and replies, and a policy's tokens and images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from freshper.envs.observation import read_observation
from freshper.policy.load import Policy
from freshper.replay.images import Album, PackedImage


class Messages:
    """User messages of a collection. Equal images are packed once."""

    def __init__(self, policy: Policy) -> None:
        self.vision = policy.vision
        self.album = Album()

    def read(self, observation: str | Mapping[str, Any]) -> tuple[str, tuple[PackedImage, ...]]:
        """The user message of an observation, with a placeholder for its image, and the image.

        Raises:
            TypeError: no observation.
            ValueError: an image, and a policy that cannot see.
        """
        seen = read_observation(observation)
        if seen.image is None:
            return seen.text, ()
        if self.vision is None:
            raise ValueError("the environment shows images, and the policy is a model of text")
        image = self.album.pack(seen.image)
        return self.vision.message(seen.text, image), (image,)


class Decoder:
    """Text of sampled ids; grid games repeat a few replies thousands of times, so the latest ones are remembered."""

    _MOST = 4096

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.known: dict[tuple[int, ...], str] = {}

    def text(self, ids: Sequence[int]) -> str:
        """The reply that ids stand for."""
        key = tuple(ids)
        if key not in self.known:
            if len(self.known) >= self._MOST:
                self.known.clear()
            self.known[key] = self.policy.tokenizer.decode(ids, skip_special_tokens=True)
        return self.known[key]
