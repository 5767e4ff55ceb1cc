"""Conversations of someone who answers questions about pictures, often wrongly: what their small base is made of."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from freshper.config.envs.geoqa import GeoQAConfig
from freshper.envs.expert import right_reply
from freshper.envs.geo.env import REPLY, SYSTEM, GeoQA, first_message
from freshper.envs.geo.items import load_items
from freshper.envs.seeds import train_seed
from freshper.policy.load import Policy
from freshper.policy.tiny.demonstrations import Message, Player, encode
from freshper.policy.tiny.picture_labels import ink_in_parts, shape_in_parts
from freshper.policy.tiny.pretrain import Phase
from freshper.policy.tiny.vision_architecture import MERGE, PATCH
from freshper.policy.tiny.vision_demonstrations import Shown
from freshper.policy.tiny.vision_pretrain import VisionRecipe
from freshper.replay.images import Album, PackedImage

DIAGRAMS = GeoQAConfig()
SHAPES = GeoQAConfig(name="easy_vqa", data="easy_vqa", max_turns=1, reward="binary")
Labels = Callable[[NDArray[np.uint8], int], list[int]]
"""From pixels and the side of a part to a digit for each part, row by row."""


@dataclass(frozen=True)
class QuestionBase:
    """How the base for some tasks is made."""

    recipe: VisionRecipe
    tasks: tuple[GeoQAConfig, ...]
    """Tasks that take turns."""
    labels: Labels
    """What it learns to name in each part of a picture."""


BASES = {
    "geoqa": QuestionBase(
        VisionRecipe(
            steps=320,
            label_weight=1.0,
            phases=(Phase("looking", 0.75, 96, 1, 1.0), Phase("mostly guesses", 0.25, 48, 3, 0.3)),
        ),
        (DIAGRAMS, SHAPES),
        ink_in_parts,
    ),
    "easy_vqa": QuestionBase(
        VisionRecipe(
            steps=700,
            label_weight=1.0,
            phases=(Phase("looking", 0.85, 96, 1, 1.0), Phase("mostly guesses", 0.15, 48, 1, 0.2)),
        ),
        (SHAPES,),
        shape_in_parts,
    ),
}
"""First right answers, and what is in each part of the picture; then episodes in which most tries are guesses, so that
reinforcement learning has work to do. Amounts of ink are enough to see diagrams, but not to see shapes, so these have
a base of their own."""
VOCABULARY = 640
"""Upper limit on the tokens: enough for every word of the questions."""
_SEEN = 2000
"""Items from which guesses and words are taken."""
_MALFORMED = ("{}", "<answer>{}", "", "<answer></answer>")


def question_texts(configs: Sequence[GeoQAConfig]) -> list[str]:
    """Texts of the environments, for the tokenizer: each word is in them once."""
    texts = [SYSTEM, "Correct. Incorrect. No answer found. Reply result. 1 try left. 2 tries left.\n"]
    for config in configs:
        items = [load_items(config).at(seed) for seed in range(_SEEN)]
        texts += sorted({first_message(item, config) for item in items} | {f" {item.answer}" for item in items})
    words = {word for text in texts for word in re.findall(r" ?[A-Za-z]+", text)}
    return sorted(words)


class QuestionPictures:
    """An endless, seeded stream of encoded conversations; its seeds are never those of evaluation."""

    def __init__(
        self, configs: Sequence[GeoQAConfig], policy: Policy, seed: int, labels: Labels = ink_in_parts
    ) -> None:
        """
        Args:
            configs: tasks that take turns.
            policy: its tokenizer and placeholders.
            seed: fixes the stream.
            labels: what is to be named in each part of a picture.
        """
        assert policy.vision is not None
        self._tokenizer, self._vision, self._seed = policy.tokenizer, policy.vision, seed
        self._envs = [GeoQA(config) for config in configs]
        self._guesses = [_answers_by_kind(config) for config in configs]
        self._named = labels
        self._rng = np.random.default_rng(seed)
        self._episodes = 0
        self._digits = torch.tensor(policy.tokenizer.convert_tokens_to_ids(list("0123456789")))

    def draw(self, count: int, player: Player, max_turns: int) -> list[Shown]:
        """The next `count` conversations, longest first."""
        shown = []
        for _ in range(count):
            which = self._episodes % len(self._envs)
            env = self._envs[which]
            seed = train_seed(env.config, self._seed, self._episodes)
            self._episodes += 1
            shown.append(self._play(env, seed, self._guesses[which], player, max_turns))
        return sorted(shown, key=lambda conversation: len(conversation.ids), reverse=True)

    def _play(self, env: GeoQA, seed: int, guesses: dict[str, list[str]], player: Player, max_turns: int) -> Shown:
        observation, info = env.reset(seed=seed)
        messages: list[Message] = [{"role": "system", "content": info["system"]}]
        album, images, taught = Album(), list[PackedImage](), list[bool]()
        for _ in range(max_turns):
            images.append(album.pack(observation["image"]))
            content = self._vision.message(observation["text"], images[-1])
            reply = self._reply(env, guesses[_kind(env.item.question)], player)
            taught.append(player.teaches_all or reply == right_reply(env))
            messages += [{"role": "user", "content": content}, {"role": "assistant", "content": reply}]
            observation, _, terminated, truncated, _ = env.step(reply)
            if terminated or truncated:
                break
        ids, mask = encode(self._tokenizer, messages, taught)
        labels = torch.full_like(ids, -100)
        named = [digit for image in images for digit in self._named(image.pixels(), PATCH * MERGE)]
        labels[ids == self._vision.image_id] = self._digits[named]
        return Shown(ids, mask, tuple(images), labels)

    def _reply(self, env: GeoQA, guesses: list[str], player: Player) -> str:
        broken = self._rng.random() < player.malformed_probability
        if self._rng.random() < player.expert_probability and not broken:
            return right_reply(env)
        guess = guesses[int(self._rng.integers(len(guesses)))]
        return (_MALFORMED[int(self._rng.integers(len(_MALFORMED)))] if broken else REPLY).format(guess)


def _kind(question: str) -> str:
    """Questions that begin alike have answers of one kind."""
    return " ".join(question.split()[:2])


def _answers_by_kind(config: GeoQAConfig) -> dict[str, list[str]]:
    """The answers to questions of each kind, as often as they are right."""
    answers = defaultdict(list)
    for seed in range(_SEEN):
        item = load_items(config).at(seed)
        answers[_kind(item.question)].append(item.answer)
    return dict(answers)


class OtherPictures(GeoQA):
    """The control: each question with the picture of another item, so that only the words can help."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Ask the question of `seed`, show another picture."""
        observation, info = super().reset(seed=seed, options=options)
        if seed is not None:
            other = load_items(self.config).at(int(np.random.default_rng(seed).integers(self.config.eval_seed)))
            self._image = other.picture.pixels(self.config.image_size, self.config.fit)
        return {**observation, "image": self._image.copy()}, info
