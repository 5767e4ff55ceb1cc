"""What episode collection asks of an inference engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from freshper.config.rollout import RolloutConfig
from freshper.replay.images import PackedImage

Images = Sequence[Sequence[PackedImage]]
"""Per prompt, the images that its image tokens stand for."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn."""

    max_new_tokens: int
    """Most tokens per turn."""
    temperature: float = 1.0
    """Logits are divided by it."""
    top_p: float = 1.0
    """Nucleus mass."""
    top_k: int = 0
    """Most probable tokens kept; 0 for all."""
    greedy: bool = False
    """Take the most probable token."""

    @classmethod
    def of(cls, config: RolloutConfig, greedy: bool = False) -> Sampling:
        """Settings of a run."""
        return cls(config.max_new_tokens, config.temperature, config.top_p, config.top_k, greedy)


@dataclass(frozen=True)
class Turn:
    """One sampled assistant turn."""

    token_ids: list[int]
    """Sampled ids; the last one is an end-of-turn token if `ended`."""
    logprobs: list[float]
    """log pi_mu of each id under the tempered, untruncated distribution (nats)."""
    ended: bool
    """The policy ended the turn itself, rather than running out of tokens."""
    dropped_mass: float
    """Mean probability that top-p/top-k cut off per token; bounds how far `logprobs` are from the sampler's own."""


class Engine(Protocol):
    """Generates turns for a set of conversations ("lanes") that run side by side."""

    def start(self, prompts: Sequence[Sequence[int]], images: Images = ()) -> list[Turn]:
        """Open one lane per prompt and sample its first turn; `images` is empty where no prompt has one."""
        ...

    def extend(self, lanes: Sequence[int], token_ids: Sequence[Sequence[int]], images: Images = ()) -> list[Turn]:
        """Append tokens to the given lanes and sample their next turn; lanes not named are closed for good."""
        ...
