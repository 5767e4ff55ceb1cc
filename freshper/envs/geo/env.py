"""Answer a question about a picture in several tries: a chat message per try, feedback after each (paper section 3)."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from freshper.config.envs.geoqa import GeoQAConfig
from freshper.envs.geo.items import Item, load_items
from freshper.envs.geo.match import is_right
from freshper.envs.math.reply import final_answer
from freshper.envs.observation import image_space
from freshper.envs.text_space import AnyText

SYSTEM = "You answer questions about pictures."
REPLY = "<answer>{}</answer>"
"""The reply that the instruction asks for, around an answer."""
_MAX_TEXT = 100_000


class GeoQA(gymnasium.Env[dict[str, Any], str]):
    """One question about one picture, up to `max_turns` tries.

    An observation is `{"text", "image"}`, the picture with every try; an action is the assistant's reply, whose answer
    is read from the first answer tag, else from the last `\\boxed{}`. The right answer ends the episode. A reply
    without an answer uses up a try. The seed chooses the item.
    """

    metadata = {"render_modes": []}

    def __init__(self, config: GeoQAConfig | None = None) -> None:
        self.config = config or GeoQAConfig()
        size = self.config.image_size
        self.observation_space = image_space(size, size, _MAX_TEXT)
        self.action_space = AnyText(_MAX_TEXT)
        self._items = load_items(self.config)
        self._item: Item | None = None
        self._image = np.zeros((size, size, 3), np.uint8)
        self._turn = 0
        self._over = True

    @property
    def item(self) -> Item:
        """The current question, its picture and its gold answer.

        Raises:
            ResetNeeded: there is none yet.
        """
        if self._item is None:
            raise ResetNeeded("call reset() first")
        return self._item

    def check(self) -> None:
        """Decode every picture of the data set.

        Raises:
            EnvError: some cannot be decoded; names their rows.
        """
        self._items.check()

    def longest_first_messages(self) -> list[tuple[str, str]]:
        """System and first user message of the longest questions."""
        items = self._items.longest(lambda item: len(item.question))
        return [(SYSTEM, first_message(item, self.config)) for item in items]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Ask the question of `seed` (None: a training one); info carries the system message."""
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(self.config.train_seed, self.config.eval_seed))
        self._item = self._items.at(seed)
        self._image = self._item.picture.pixels(self.config.image_size, self.config.fit)
        self._turn = 0
        self._over = False
        info = {"system": SYSTEM, "valid": True, "success": False, "turn": 0}
        return self._observe(first_message(self._item, self.config)), info

    def step(self, action: str) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Check one reply. info: `valid` (an answer was found), `success`, `turn`, `answer`."""
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before step()")
        self._turn += 1
        answer = final_answer(action)
        item = self.item
        right = answer is not None and is_right(answer, item.answer, item.question, self.config.tolerance)
        truncated = not right and self._turn >= self.config.max_turns
        self._over = right or truncated
        info = {"system": SYSTEM, "valid": answer is not None, "success": right, "turn": self._turn, "answer": answer}
        return self._observe(self._feedback(answer, right)), self._reward(answer, right), right, truncated, info

    def _reward(self, answer: str | None, right: bool) -> float:
        rule = self.config.reward
        if rule == "public":
            return 2.0 if right else 0.5 if answer is not None else 0.0
        if not right:
            return 0.0
        return 0.5 ** (self._turn - 1) if rule == "by_try" else 1.0

    def _feedback(self, answer: str | None, right: bool) -> str:
        if right:
            return "Correct."
        left = self.config.max_turns - self._turn
        problem = "Incorrect." if answer is not None else f"No answer found. Reply {REPLY.format('result')}."
        return f"{problem} {left} {'try' if left == 1 else 'tries'} left."

    def _observe(self, text: str) -> dict[str, Any]:
        return {"text": text, "image": self._image.copy()}


def first_message(item: Item, config: GeoQAConfig) -> str:
    """The first user message: reply format, number of tries, question."""
    tries = f"{config.max_turns} tries" if config.max_turns > 1 else "1 try"
    return f"Reply {REPLY.format('result')}. {tries}.\n{item.question}"
