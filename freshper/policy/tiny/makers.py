"""The kinds of small base models: which recipe, which demonstrations and which measurements belong to a family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from transformers import PreTrainedTokenizerBase, Qwen2ForCausalLM

from freshper.config.model import ModelConfig
from freshper.envs.make import make_env
from freshper.policy.load import Policy
from freshper.policy.tiny import pretrain, text_pretrain, vision_pretrain, vision_questions
from freshper.policy.tiny.measuring import TaskKind, blank, measure_game, measure_tasks, of_other_maps, unchanged
from freshper.policy.tiny.text_tokenizer import build_text_tokenizer
from freshper.policy.tiny.tokenizer import build_tokenizer
from freshper.policy.tiny.vision_architecture import build_vision_tokenizer, new_vision_policy
from freshper.policy.tiny.vision_demonstrations import GamePictures, game_texts

Report = Callable[[int, str], None]
"""Takes the number of a step and what there is to say about it."""


@dataclass(frozen=True)
class Trained:
    """A pretrained model."""

    parts: tuple[Any, ...]
    """Everything with a `save_pretrained`: model, tokenizer, image processor."""
    parameters: int
    """Number of parameters."""
    losses: list[float]
    """Of each step, nats per token of the player."""


class Maker(Protocol):
    """How the base of one family is made."""

    episodes: int
    """Evaluation episodes by default."""

    @property
    def recipe(self) -> pretrain.Recipe | text_pretrain.TextRecipe:
        """Everything that decides the weights, besides the environment."""
        ...

    @property
    def tasks(self) -> dict[str, Any]:
        """The entry of the record that names the environment, or those."""
        ...

    def train(self, report: Report) -> Trained:
        """Pretrain a new model."""
        ...

    def measure(self, policy: Policy, model: ModelConfig, seed: int, episodes: int) -> dict[str, Any]:
        """Entries of the record with what the policy, loaded from the folder in `model`, reaches."""
        ...


class _Game:
    """A grid game in text."""

    episodes = 512

    def __init__(self, family: str, changes: dict[str, Any]) -> None:
        recipe, self._config = pretrain.RECIPES[family]
        self.recipe = replace(recipe, **changes)
        self.tasks = {"env": self._config.model_dump()}

    def train(self, report: Report) -> Trained:
        tokenizer = build_tokenizer()
        model, losses = pretrain.pretrain(
            self.recipe, self._config, tokenizer, lambda step, phase, loss: report(step, f"[{phase}] loss {loss:.4f}")
        )
        return _text_model(model, tokenizer, losses)

    def measure(self, policy: Policy, model: ModelConfig, seed: int, episodes: int) -> dict[str, Any]:
        shown = {"sampled": (False, unchanged), "greedy": (True, unchanged)}
        return measure_game(policy, self._config, episodes, seed, shown)


class _Text:
    """Sums, or the search world."""

    episodes = 384

    def __init__(self, family: str, changes: dict[str, Any]) -> None:
        recipe, self._configs = text_pretrain.RECIPES[family]
        self.recipe = replace(recipe, **changes)
        self.tasks = {"envs": [config.model_dump() for config in self._configs]}

    def train(self, report: Report) -> Trained:
        tokenizer = build_text_tokenizer()
        model, losses = text_pretrain.pretrain_text(
            self.recipe, self._configs, tokenizer, lambda step, loss: report(step, f"loss {loss:.4f}")
        )
        return _text_model(model, tokenizer, losses)

    def measure(self, policy: Policy, model: ModelConfig, seed: int, episodes: int) -> dict[str, Any]:
        kinds = {"sampled": (False, make_env), "greedy": (True, make_env)}
        return {"measured": measure_tasks(policy, model, self._configs, episodes, seed, kinds)}


class _PictureGame:
    """A grid game in pictures."""

    episodes = 256

    def __init__(self, family: str, changes: dict[str, Any]) -> None:
        recipe, self._config = vision_pretrain.RECIPES[family]
        self.recipe = replace(recipe, **changes)
        self.tasks = {"env": self._config.model_dump()}

    def train(self, report: Report) -> Trained:
        policy = new_vision_policy(build_vision_tokenizer(game_texts(self._config)), self.recipe.seed)
        return _train_vision(self.recipe, GamePictures(self._config, policy, self.recipe.seed), policy, report)

    def measure(self, policy: Policy, model: ModelConfig, seed: int, episodes: int) -> dict[str, Any]:
        shown = {
            "sampled": (False, unchanged),
            "greedy": (True, unchanged),
            "blank_image": (False, blank),
            "other_maps_image": (False, of_other_maps(self._config, seed)),
        }
        return measure_game(policy, self._config, episodes, seed, shown)


class _Questions:
    """Questions about pictures."""

    episodes = 512

    def __init__(self, family: str, changes: dict[str, Any]) -> None:
        self._base = vision_questions.BASES[family]
        self.recipe = replace(self._base.recipe, **changes)
        self.tasks = {"envs": [config.model_dump() for config in self._base.tasks]}

    def train(self, report: Report) -> Trained:
        texts = vision_questions.question_texts(self._base.tasks)
        tokenizer = build_vision_tokenizer(texts, vision_questions.VOCABULARY)
        policy = new_vision_policy(tokenizer, self.recipe.seed)
        stream = vision_questions.QuestionPictures(self._base.tasks, policy, self.recipe.seed, self._base.labels)
        return _train_vision(self.recipe, stream, policy, report)

    def measure(self, policy: Policy, model: ModelConfig, seed: int, episodes: int) -> dict[str, Any]:
        kinds: dict[str, TaskKind] = {
            "sampled": (False, make_env),
            "greedy": (True, make_env),
            "other_pictures": (False, vision_questions.OtherPictures),
            "other_pictures_greedy": (True, vision_questions.OtherPictures),
        }
        return {"measured": measure_tasks(policy, model, self._base.tasks, episodes, seed, kinds)}


MAKERS: dict[str, Callable[[str, dict[str, Any]], Maker]] = {
    **dict.fromkeys(pretrain.RECIPES, _Game),
    **dict.fromkeys(text_pretrain.RECIPES, _Text),
    **dict.fromkeys(vision_pretrain.RECIPES, _PictureGame),
    **dict.fromkeys(vision_questions.BASES, _Questions),
}
"""Family -> its maker, from the family and keys of the recipe that are changed."""


def maker_of(family: str, seed: int, steps: int | None = None) -> Maker:
    """The maker of a family, with the recipe's steps unless others are given."""
    return MAKERS[family](family, {"seed": seed} if steps is None else {"seed": seed, "steps": steps})


def _text_model(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerBase, losses: list[float]) -> Trained:
    return Trained((model, tokenizer), model.num_parameters(), losses)


def _train_vision(
    recipe: vision_pretrain.VisionRecipe, stream: vision_pretrain.Stream, policy: Policy, report: Report
) -> Trained:
    assert policy.vision is not None
    losses = vision_pretrain.pretrain_vision(
        recipe,
        stream,
        policy,
        lambda step, phase, loss, named: report(step, f"[{phase}] loss {loss:.4f}, labels {named:.4f}"),
    )
    return Trained((policy.model, policy.tokenizer, policy.vision.processor), policy.parameters, losses)
