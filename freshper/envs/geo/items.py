"""Questions about pictures, with gold answers: generated diagrams, easy-VQA, or rows of a data set."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from freshper.config.envs.geoqa import GeoQAConfig
from freshper.envs.errors import EnvError
from freshper.envs.geo.diagrams import Diagram, draw_diagram
from freshper.envs.geo.easy_vqa import easy_vqa_rows
from freshper.envs.geo.pictures import Encoded, Picture, read_picture
from freshper.envs.math.reply import final_answer
from freshper.envs.rows import Row, Split, column, held_out, load_split, question_of

EVALUATION_SHARE = 1 / 8
"""Share of all diagrams that only evaluation shows."""
_MAX_DRAWS = 10_000
_SHOWN = 5


@dataclass(frozen=True)
class Item:
    """A question about a picture."""

    question: str
    """Its text."""
    answer: str
    """Gold answer: a value, words, or the letter of an option."""
    picture: Picture
    """What is asked about."""


class Items(Protocol):
    """An item for every environment seed; pictures of evaluation seeds are never those of training seeds, unless
    `evaluate_on: train`."""

    def at(self, seed: int) -> Item:
        """The item of a seed."""
        ...

    def longest(self, length: Callable[[Item], int]) -> list[Item]:
        """Some of the longest items, by `length`."""
        ...

    def check(self) -> None:
        """Decode every picture.

        Raises:
            EnvError: some cannot be decoded; names the first few rows.
        """
        ...


class GeneratedItems:
    """Generated diagrams. A hash of what is drawn, without its colour, decides whether a diagram is for evaluation."""

    def __init__(self, config: GeoQAConfig) -> None:
        self._config = config

    def at(self, seed: int) -> Item:
        """The diagram of a seed: draws until one belongs to the seed's side."""
        rng = np.random.default_rng(seed)
        evaluation = seed >= self._config.eval_seed
        tasks = self._config.tasks
        for _ in range(_MAX_DRAWS):
            diagram = draw_diagram(tasks[int(rng.integers(len(tasks)))], rng)
            if held_out(diagram.core, EVALUATION_SHARE) == evaluation:
                return _item(diagram)
        raise EnvError(f"env.tasks={','.join(tasks)}: too few different diagrams to keep evaluation apart")

    def longest(self, length: Callable[[Item], int]) -> list[Item]:
        """The longest of some hundred diagrams: they have no end."""
        return sorted((self.at(seed) for seed in range(400)), key=length, reverse=True)[:64]

    def check(self) -> None:
        """Nothing can be wrong with a drawing."""


class StoredItems:
    """Items of files."""

    def __init__(self, split: Split[Item], config: GeoQAConfig) -> None:
        self._split, self._config = split, config

    def at(self, seed: int) -> Item:
        """The item of a seed."""
        return self._split.at(seed)

    def longest(self, length: Callable[[Item], int]) -> list[Item]:
        """The longest of all."""
        return self._split.longest(length)

    def check(self) -> None:
        """Decode every picture once.

        Raises:
            EnvError: some cannot be decoded; names the first few rows.
        """
        problems = []
        for picture in dict.fromkeys(item.picture for item in (*self._split.train, *self._split.evaluation)):
            try:
                picture.pixels(self._config.image_size, self._config.fit)
            except EnvError as error:
                problems.append(str(error))
        if problems:
            more = f"\n  and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
            listed = "".join(f"\n  {problem}" for problem in problems[:_SHOWN])
            raise EnvError(f"{len(problems)} pictures (env.image_key) cannot be decoded:{listed}{more}")


def _item(diagram: Diagram) -> Item:
    return Item(diagram.question, diagram.answer, diagram)


@functools.cache
def load_items(config: GeoQAConfig) -> Items:
    """The items of a config, read once per process.

    Raises:
        EnvError: see :func:`freshper.envs.rows.load_split`; also a row without picture or answer.
    """
    if config.source == "embedded" and config.data == "diagrams":
        return GeneratedItems(config)
    if config.source == "embedded":
        train, evaluation = (
            [Item(question, answer, Encoded(path, str(path))) for question, answer, path in easy_vqa_rows(part)]
            for part in ("train", "test")
        )
        train = train[: config.max_train]
        return StoredItems(Split(train, train if config.evaluate_on == "train" else evaluation, config), config)

    def read(row: Row, where: str) -> Item:
        folder = config.folder if config.source == "folder" else None
        picture = read_picture(column(row, config.image_key, where, "image_key"), folder, where)
        return Item(question_of(row, config, where), _gold_answer(row, config, where), picture)

    def digest(item: Item) -> str:
        assert isinstance(item.picture, Encoded)
        return item.picture.digest()

    split = load_split(config, read, lambda item: f"{digest(item)} {item.question}", unit=digest)
    return StoredItems(split, config)


def _gold_answer(row: Row, config: GeoQAConfig, where: str) -> str:
    """What stands in the answer tag or the last box of a solution, else all of it."""
    value = column(row, config.answer_key, where, "answer_key")
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if isinstance(text, str):
        text = final_answer(text) or text.strip()
    if not isinstance(text, str) or not text:
        raise EnvError(f"{where}: no gold answer in {config.answer_key}: {value!r:.80}")
    return text
