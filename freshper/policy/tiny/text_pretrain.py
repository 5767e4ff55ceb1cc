"""Pretrain a small text model on sums or on the search world, as `python -m freshper.policy.pretrain` does.

It clones a player that is right, until the model can do the task, then for a short while a player that often guesses.
So the result knows the protocol and the way to the answer but is unsure, as an instruct model is, and leaves the rest
to reinforcement learning. Search is cloned for so short a while that it is unsure without guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase, Qwen2ForCausalLM

from freshper.config.envs.math import MathConfig
from freshper.config.envs.search import SearchConfig
from freshper.policy.tiny.architecture import new_model
from freshper.policy.tiny.optimiser import OneCycle
from freshper.policy.tiny.pretrain import assistant_loss
from freshper.policy.tiny.text_demonstrations import AIME_TASKS, TextConfig, TextDemonstrations


@dataclass(frozen=True)
class TextRecipe:
    """Everything that decides the base weights, besides the environment."""

    steps: int
    """Optimiser steps."""
    unsure_steps: int = 0
    """How many of them, at the end, show a player that is not always right: reinforcement learning has work to do."""
    unsure_skill: float = 1.0
    """Chance that a turn is the right one in those; before, every turn is."""
    episodes: int = 64
    """Conversations in a step."""
    learning_rate: float = 3e-3
    """Peak of the one-cycle schedule (AdamW)."""
    weight_decay: float = 0.01
    """AdamW's decoupled weight decay."""
    clip: float = 1.0
    """Largest gradient norm."""
    seed: int = 0
    """Fixes weights, demonstrations and their order."""


RECIPES: dict[str, tuple[TextRecipe, tuple[TextConfig, ...]]] = {
    "math": (TextRecipe(1600, 250, 0.5), (MathConfig(), MathConfig(name="aime", tasks=AIME_TASKS))),
    "search": (TextRecipe(steps=340, episodes=24), (SearchConfig(),)),
}
"""Family -> how its base is made, and on which tasks."""


def pretrain_text(
    recipe: TextRecipe,
    configs: Sequence[TextConfig],
    tokenizer: PreTrainedTokenizerBase,
    report: Callable[[int, float], None],
) -> tuple[Qwen2ForCausalLM, list[float]]:
    """Return the model and each step's loss (nats per token of the player); calls report(step, loss)."""
    model = new_model(tokenizer, recipe.seed)
    model.train()
    optimiser = OneCycle(model, recipe)
    demonstrations = TextDemonstrations(configs, tokenizer, recipe.seed)
    losses: list[float] = []
    for step in range(1, recipe.steps + 1):
        unsure = step > recipe.steps - recipe.unsure_steps
        batch = demonstrations.draw(recipe.episodes, recipe.unsure_skill if unsure else 1.0)
        tokens = sum(int(mask.sum()) for _, mask in batch)
        total = 0.0
        for begin in range(0, len(batch), 16):  # slices of like length: little padding, caches stay warm
            loss = assistant_loss(model, batch[begin : begin + 16]) / tokens
            loss.backward()
            total += loss.item()
        optimiser.step()
        losses.append(total)
        report(step, total)
    return model, losses
