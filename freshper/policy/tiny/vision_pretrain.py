"""Pretrain a small vision model on noisy play, as `python -m freshper.policy.pretrain_vision` does.

It clones a player, first on single turns and with a second task that makes it look: at every image token the model
names what is in that part of the image. Whole episodes follow, since a clone of single turns is lost under a history of
a few turns, and at last a player that mostly moves at random, which leaves reinforcement learning work to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from freshper.config.envs.frozen_lake_image import FrozenLakeImageConfig
from freshper.policy.load import Policy
from freshper.policy.tiny.demonstrations import Player
from freshper.policy.tiny.pretrain import Phase, Recipe, phase_steps
from freshper.policy.tiny.vision_demonstrations import Shown

_SLICE_TOKENS = 8192


class Stream(Protocol):
    """Demonstrations of a task."""

    def draw(self, count: int, player: Player, max_turns: int) -> list[Shown]:
        """The next `count` conversations, longest first."""
        ...


@dataclass(frozen=True)
class VisionRecipe(Recipe):
    """Everything that decides the base weights, besides the environment."""

    steps: int = 620
    """Optimiser steps."""
    cell_weight: float = 1.0
    """Weight of naming the parts of the image, per label, beside the reply, per token."""
    phases: tuple[Phase, ...] = field(
        default=(
            Phase("first turns, expert", 0.55, 96, 1, 1.0),
            Phase("first turns", 0.15, 96, 1, 0.5),
            Phase("episodes", 0.20, 24, 10, 0.5),
            Phase("mostly random", 0.10, 24, 10, 0.25),
        )
    )
    """Played one after the other."""


RECIPES: dict[str, tuple[VisionRecipe, FrozenLakeImageConfig]] = {
    "frozen_lake_image": (VisionRecipe(), FrozenLakeImageConfig())
}
"""Family -> how its base is made, and on which task."""


def vision_losses(policy: Policy, batch: list[Shown]) -> tuple[Tensor, Tensor]:
    """Summed cross-entropies (nats): of the player's tokens, and of the labels of image tokens."""
    # Nothing reads the last token; conversations end in one of the player's.
    ids = pad_sequence([shown.ids for shown in batch], batch_first=True)
    mask = pad_sequence([shown.mask for shown in batch], batch_first=True)[:, 1:]
    inputs = ids[:, :-1]
    vision = policy.look(inputs, [shown.images for shown in batch])
    hidden = policy.hidden(inputs, vision, use_cache=False)
    replies = cross_entropy(policy.logits(hidden[mask]), ids[:, 1:][mask], reduction="sum")
    labels = torch.cat([shown.labels for shown in batch])
    if vision is None or not (labels >= 0).any():
        return replies, replies.new_zeros(())
    return replies, cross_entropy(policy.logits(hidden[vision.placeholders]), labels, reduction="sum")


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
    model = policy.model
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.99), weight_decay=recipe.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.learning_rate, total_steps=recipe.steps)
    losses: list[float] = []
    for phase, steps in zip(recipe.phases, phase_steps(recipe), strict=True):
        player = Player(phase.expert_probability, recipe.malformed_probability)
        for _ in range(steps):
            batch = stream.draw(phase.episodes, player, phase.max_turns)
            tokens = sum(int(shown.mask.sum()) for shown in batch)
            labels = max(1, sum(int((shown.labels >= 0).sum()) for shown in batch))
            total = named = 0.0
            for part in _slices(batch):
                replies, cells = vision_losses(policy, part)
                (replies / tokens + recipe.cell_weight * cells / labels).backward()
                total += replies.item() / tokens
                named += cells.item() / labels
            torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
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
