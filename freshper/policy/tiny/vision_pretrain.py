"""Pretrain a small vision model on noisy play, as `python -m freshper.policy.pretrain` does.

It clones a player, first an expert in episodes of a few turns and with a second task that makes it look: at every image
token the model names what is in that part of the image, and after it where player and goal are. Whole episodes of a
player that moves at random half the time follow: a clone of a few turns is lost under a longer history, and
reinforcement learning needs work to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from freshper.config.envs.frozen_lake_image import FrozenLakeImageConfig
from freshper.config.envs.sokoban_image import SokobanImageConfig
from freshper.policy.load import Policy
from freshper.policy.tiny.demonstrations import Player
from freshper.policy.tiny.optimiser import OneCycle
from freshper.policy.tiny.pretrain import Phase, Recipe, phase_steps
from freshper.policy.tiny.vision_demonstrations import PictureConfig, Shown

_SLICE_TOKENS = 3072


class Stream(Protocol):
    """Demonstrations of a task."""

    def draw(self, count: int, player: Player, max_turns: int) -> list[Shown]:
        """The next `count` conversations, longest first."""
        ...


@dataclass(frozen=True)
class VisionRecipe(Recipe):
    """Everything that decides the base weights, besides the environment."""

    steps: int = 520
    """Optimiser steps."""
    label_weight: float = 3.0
    """Weight of naming what is in the image, per label, beside the reply, per token."""
    phases: tuple[Phase, ...] = field(
        default=(
            Phase("short episodes", 0.65, 28, 3, 1.0),
            Phase("episodes", 0.35, 24, 10, 0.5),
        )
    )
    """Played one after the other."""


RECIPES: dict[str, tuple[VisionRecipe, PictureConfig]] = {
    "frozen_lake_image": (VisionRecipe(), FrozenLakeImageConfig()),
    "sokoban_image": (
        VisionRecipe(
            steps=1000,
            phases=(
                Phase("first turns, good moves", 0.36, 64, 1, 0.75, teaches_all=False),
                Phase("short episodes, good moves", 0.30, 32, 3, 0.7, teaches_all=False),
                Phase("episodes, good moves", 0.24, 16, 10, 0.8, teaches_all=False),
                Phase("episodes, mostly random", 0.10, 16, 10, 0.35),
            ),
        ),
        SokobanImageConfig(),
    ),
}
"""Family -> how its base is made, and on which task."""


def vision_losses(policy: Policy, batch: list[Shown]) -> tuple[Tensor, Tensor]:
    """Summed cross-entropies (nats): of the player's tokens, and of the labels."""
    # Nothing reads the last token; conversations end in one of the player's.
    ids = pad_sequence([shown.ids for shown in batch], batch_first=True)
    mask = pad_sequence([shown.mask for shown in batch], batch_first=True)[:, 1:]
    inputs = ids[:, :-1]
    vision = policy.look(inputs, [shown.images for shown in batch])
    hidden = policy.hidden(inputs, vision, use_cache=False)
    replies = cross_entropy(policy.logits(hidden[mask]), ids[:, 1:][mask], reduction="sum")
    labels = pad_sequence([shown.labels for shown in batch], batch_first=True, padding_value=-100)[:, :-1]
    named = labels >= 0
    if not named.any():
        return replies, replies.new_zeros(())
    return replies, cross_entropy(policy.logits(hidden[named]), labels[named], reduction="sum")


def pretrain_vision(
    recipe: VisionRecipe, stream: Stream, policy: Policy, report: Callable[[int, str, float, float], None]
) -> list[float]:
    """Train the policy's model in place.

    Args:
        recipe: settings.
        stream: demonstrations.
        policy: newly initialised.
        report: called with step, phase, loss (nats per token of the player) and loss per label.

    Returns:
        Each step's loss, nats per token of the player.
    """
    optimiser = OneCycle(policy.model, recipe)
    losses: list[float] = []
    for phase, steps in zip(recipe.phases, phase_steps(recipe), strict=True):
        player = Player(phase.expert_probability, recipe.malformed_probability, phase.teaches_all)
        for _ in range(steps):
            batch = stream.draw(phase.episodes, player, phase.max_turns)
            tokens = sum(int(shown.mask.sum()) for shown in batch)
            labels = max(1, sum(int((shown.labels >= 0).sum()) for shown in batch))
            total = named = 0.0
            for part in _slices(batch):
                replies, words = vision_losses(policy, part)
                (replies / tokens + recipe.label_weight * words / labels).backward()
                total += replies.item() / tokens
                named += words.item() / labels
            optimiser.step()
            losses.append(total)
            report(len(losses), phase.name, total, named)
    return losses


def _slices(batch: list[Shown]) -> list[list[Shown]]:
    """Parts of a few thousand tokens, of conversations of like length: little padding, caches stay warm."""
    parts: list[list[Shown]] = []
    for shown in batch:
        if parts and (len(parts[-1]) + 1) * len(parts[-1][0].ids) <= _SLICE_TOKENS:
            parts[-1].append(shown)
        else:
            parts.append([shown])
    return parts
