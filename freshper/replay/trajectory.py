"""One episode, the unit of replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freshper.replay.images import PackedImage


@dataclass(frozen=True)
class Trajectory:
    """One multi-turn episode as it was sampled. T tokens, n turns; ragged, never padded; arrays are owned copies.

    Token ids are those that were sampled: text is never tokenised a second time.
    """

    token_ids: NDArray[np.int32]
    """[T] whole conversation: prompts, observations and sampled tokens."""
    response_mask: NDArray[np.bool_]
    """[T] true where the policy sampled the token."""
    behaviour_logprobs: NDArray[np.float32]
    """[T] log pi_mu of each sampled token at the sampling temperature (nats); 0 where response_mask is false."""
    turn_spans: NDArray[np.int32]
    """[n, 2] start and end (exclusive) of the sampled tokens of each turn; they tile response_mask."""
    turn_rewards: NDArray[np.float32]
    """[n] environment reward of each turn, without format penalty."""
    turn_penalties: NDArray[np.float32]
    """[n] format penalty of each turn (<= 0); part of the training reward, not of the score or the priority."""
    advantages: NDArray[np.float32]
    """[T] advantage of each sampled token, frozen at collection; 0 where response_mask is false."""
    episode_return: float
    """Sum of turn_rewards: the score."""
    group_id: int
    """Episodes on the same environment instance share it; unique within a run."""
    seed: int
    """Environment seed."""
    policy_version: int
    """Optimiser steps taken when the episode was sampled."""
    iteration: int
    """Iteration in which the episode was collected."""
    info: dict[str, Any] = field(default_factory=dict)
    """Small JSON-like facts: success, valid_rate, truncated, ...; statistics that normalised the advantages."""
    values: NDArray[np.float32] | None = None
    """[T] the critic's value of the state before each sampled token, at collection; 0 where response_mask is false.
    None without a critic."""
    images: tuple[PackedImage, ...] = ()
    """References to the images that were shown, one per prompt that had one, in the order of the conversation."""

    def __post_init__(self) -> None:
        tokens, turns = len(self.token_ids), len(self.turn_spans)
        for name in ("response_mask", "behaviour_logprobs", "advantages"):
            if getattr(self, name).shape != (tokens,):
                raise ValueError(f"{name} has shape {getattr(self, name).shape}, expected ({tokens},)")
        for name in ("turn_rewards", "turn_penalties"):
            if getattr(self, name).shape != (turns,):
                raise ValueError(f"{name} has shape {getattr(self, name).shape}, expected ({turns},)")
        if self.values is not None and self.values.shape != (tokens,):
            raise ValueError(f"values has shape {self.values.shape}, expected ({tokens},)")

    @property
    def n_tokens(self) -> int:
        """Tokens of the whole conversation."""
        return len(self.token_ids)

    @property
    def n_turns(self) -> int:
        """Assistant turns."""
        return len(self.turn_spans)
