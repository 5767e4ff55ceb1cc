"""Pretrain the small base model on noisy play, as `python -m freshper.policy.pretrain` does.

It clones a player that in the end mostly moves at random, so that the result knows the reply format and a little of the
game, as an instruct model does, and leaves the rest to reinforcement learning. Loss on the assistant's tokens only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase, Qwen2ForCausalLM

from freshper.config.envs.cliff_walking import CliffWalkingConfig
from freshper.config.envs.frozen_lake import FrozenLakeConfig
from freshper.config.envs.sokoban import SokobanConfig
from freshper.policy.tiny.architecture import new_model
from freshper.policy.tiny.demonstrations import Demonstrations, GameConfig, Player
from freshper.policy.tiny.optimiser import OneCycle


@dataclass(frozen=True)
class Phase:
    """A stretch of pretraining with one kind of demonstration."""

    name: str
    """Label in the progress lines."""
    share: float
    """Share of all steps."""
    episodes: int
    """Episodes in a step."""
    max_turns: int
    """Turns of each episode that are shown."""
    expert_probability: float
    """Chance that the demonstrated move is one towards success, else random."""
    teaches_all: bool = True
    """Whether every reply is learned from, or moves towards success only."""


@dataclass(frozen=True)
class CorrectedPhase(Phase):
    """A phase in which every reply is learned as a move towards success, whatever was played, and nothing is malformed
    (see `demonstrations.play_corrected`)."""

    corrected: Literal[True] = True
    """Tells this kind of phase in a written recipe."""
    moves: tuple[int, int] | None = None
    """Fewest and most moves of the rooms' shortest solutions; None: as in the task."""


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the base weights, besides the environment."""

    seed: int = 0
    """Fixes weights, demonstrations and their order."""
    steps: int = 440
    """Optimiser steps."""
    learning_rate: float = 3e-3
    """Peak of the one-cycle schedule (AdamW)."""
    weight_decay: float = 0.01
    """AdamW's decoupled weight decay."""
    clip: float = 1.0
    """Largest gradient norm."""
    malformed_probability: float = 0.02
    """Chance of a demonstrated reply that the environment cannot read."""
    phases: tuple[Phase, ...] = (
        Phase("first turns", 0.46, 60, 1, 0.5),
        Phase("episodes", 0.30, 40, 10, 0.5),
        Phase("mostly random", 0.24, 40, 10, 0.12),
    )
    """Played one after the other: cheap single turns teach the board, whole episodes teach it under a growing history,
    the last phase takes most of the skill out of the sampled play again, so that reinforcement learning has work to do
    (a clone of the half-expert alone solves 0.55)."""


RECIPES: dict[str, tuple[Recipe, GameConfig]] = {
    "frozen_lake": (Recipe(), FrozenLakeConfig()),
    "sokoban": (
        Recipe(
            steps=1250,
            phases=(
                Phase("short episodes, good moves", 0.56, 40, 3, 0.6, teaches_all=False),
                Phase("episodes, good moves", 0.336, 24, 10, 0.7, teaches_all=False),
                Phase("episodes, mostly random", 0.104, 24, 10, 0.35),
            ),
        ),
        SokobanConfig(),
    ),
    "sokoban_hard": (
        Recipe(
            steps=3500,
            learning_rate=2.5e-3,
            phases=(
                CorrectedPhase("easy rooms, corrected", 0.6, 6, 6, 0.6, moves=(2, 9)),
                CorrectedPhase("short episodes, corrected", 0.14, 6, 6, 0.6),
                CorrectedPhase("episodes, corrected", 0.22, 4, 20, 0.7),
                Phase("episodes, sometimes random", 0.04, 4, 20, 0.75),
            ),
        ),
        SokobanConfig(
            name="sokoban_hard", size=8, boxes=2, min_moves=4, max_moves=16, max_turns=20, board="first_turn"
        ),
    ),
    "cliff_walking": (
        Recipe(
            steps=180,
            phases=(Phase("short episodes", 0.5, 60, 4, 0.75), Phase("episodes", 0.5, 24, 24, 0.75)),
        ),
        CliffWalkingConfig(random_start=True),
    ),
}
"""Family -> how its base is made, and on which task."""


def assistant_loss(
    model: Qwen2ForCausalLM, conversations: list[tuple[Tensor, Tensor]], answers: list[Tensor] | None = None
) -> Tensor:
    """Return the summed cross-entropy (nats) of the assistant's tokens.

    Of (ids, mask) conversations, or of other ids in the place of their own (`answers`, of the same lengths).

    Right padding needs no attention mask: causal attention never looks at what comes later. Logits are computed where
    they count, one position in ten.
    """
    ids = pad_sequence([ids for ids, _ in conversations], batch_first=True)
    mask = pad_sequence([mask for _, mask in conversations], batch_first=True)[:, 1:]
    hidden = model.model(ids[:, :-1], use_cache=False).last_hidden_state
    learned = ids if answers is None else pad_sequence(answers, batch_first=True)
    return cross_entropy(model.lm_head(hidden[mask]), learned[:, 1:][mask], reduction="sum")


def pretrain(
    recipe: Recipe,
    config: GameConfig,
    tokenizer: PreTrainedTokenizerBase,
    report: Callable[[int, str, float], None],
) -> tuple[Qwen2ForCausalLM, list[float]]:
    """Return the model and each step's loss (nats per assistant token); calls report(step, phase, loss)."""
    model = new_model(tokenizer, recipe.seed)
    model.train()
    optimiser = OneCycle(model, recipe)
    demonstrations = Demonstrations(config, tokenizer, recipe.seed)
    losses: list[float] = []
    for phase, steps in zip(recipe.phases, phase_steps(recipe), strict=True):
        player = Player(phase.expert_probability, recipe.malformed_probability, phase.teaches_all)
        stream = demonstrations
        if isinstance(phase, CorrectedPhase) and phase.moves is not None:
            low, high = phase.moves
            rooms = config.model_copy(update={"min_moves": low, "max_moves": high})
            stream = Demonstrations(rooms, tokenizer, recipe.seed)
        for _ in range(steps):
            answers = None
            if isinstance(phase, CorrectedPhase):
                lessons = stream.draw_corrected(phase.episodes, phase.expert_probability, phase.max_turns)
                batch, answers = [(ids, mask) for ids, mask, _ in lessons], [learned for _, _, learned in lessons]
            else:
                batch = stream.draw(phase.episodes, player, phase.max_turns)
            tokens = sum(int(mask.sum()) for _, mask in batch)
            total = 0.0
            for begin in range(0, len(batch), 10):  # small slices of like length: little padding, caches stay warm
                part = slice(begin, begin + 10)
                loss = assistant_loss(model, batch[part], None if answers is None else answers[part]) / tokens
                loss.backward()
                total += loss.item()
            optimiser.step()
            losses.append(total)
            report(len(losses), phase.name, total)
    return model, losses


def phase_steps(recipe: Recipe) -> list[int]:
    """Split the steps by the phases' shares; rounding goes to the last phase."""
    steps = [int(recipe.steps * phase.share) for phase in recipe.phases]
    steps[-1] += recipe.steps - sum(steps)
    return steps
