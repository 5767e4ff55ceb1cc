"""Questions with their gold answers: of the embedded world, or read from a data set."""

from __future__ import annotations

import functools
from typing import Any

from freshper.config.envs.search import SearchConfig
from freshper.envs.errors import EnvError
from freshper.envs.rows import Row, Split, column, load_split, question_of
from freshper.envs.search.items import Question
from freshper.envs.search.world import world_of


@functools.cache
def load_questions(config: SearchConfig) -> Split[Question]:
    """The questions of a config, read once per process; evaluation asks none that training does.

    Raises:
        EnvError: see :func:`freshper.envs.rows.load_split`; also a question without a gold answer.
    """
    if config.source == "embedded":
        world = world_of(config)
        evaluation = world.train if config.evaluate_on == "train" else world.evaluation
        return Split(world.train[: config.max_train], evaluation, config)

    def read(row: Row, where: str) -> Question:
        golds = gold_answers(column(row, config.answer_key, where, "answer_key"))
        if not golds:
            raise EnvError(f"{where}: no gold answer in {config.answer_key}: {row[config.answer_key]!r}")
        return Question(question_of(row, config, where), golds)

    return load_split(config, read, lambda question: question.text)


def gold_answers(value: Any) -> tuple[str, ...]:
    """Accepted answers from a text, a number, a list of them, or a dict that holds them under `target` or `aliases`."""
    if isinstance(value, dict):
        value = value.get("target", value.get("aliases"))
    values = value if isinstance(value, list | tuple) else [value]
    texts = [str(v) for v in values if isinstance(v, str | int | float) and not isinstance(v, bool)]
    return tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))
