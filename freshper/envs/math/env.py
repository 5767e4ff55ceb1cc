"""Solve a problem in several tries: a chat message per try, feedback after each (paper section 3)."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded

from freshper.config.envs.math import MathConfig
from freshper.envs.errors import EnvError
from freshper.envs.math.problems import Problem, load_problems
from freshper.envs.math.reply import final_answer
from freshper.envs.math.verifier import shared_verifier
from freshper.envs.text_space import AnyText

SYSTEM = "You solve maths problems."
REPLY = "<answer>{}</answer>"
"""The reply that the instruction asks for, around an answer."""
_MAX_TEXT = 100_000


class MathText(gymnasium.Env[str, str]):
    """One problem, up to `max_turns` tries.

    An observation is the user message of the turn, an action the assistant's reply, whose answer is read from the first
    answer tag, else from the last `\\boxed{}`. The right answer ends the episode. A reply without an answer uses up a
    try. The seed chooses the problem.
    """

    metadata = {"render_modes": []}

    def __init__(self, config: MathConfig | None = None) -> None:
        self.config = config or MathConfig()
        self.observation_space = AnyText(_MAX_TEXT)
        self.action_space = AnyText(_MAX_TEXT)
        self._problems = load_problems(self.config)
        self._verifier = shared_verifier(self.config.time_limit)
        self._problem = Problem("", "")
        self._turn = 0
        self._over = True

    @property
    def problem(self) -> Problem:
        """The current problem and its gold answer."""
        return self._problem

    def check(self) -> None:
        """Try the verifier.

        Raises:
            EnvError: math-verify does not start, or does not work.
        """
        if self._verifier.check("\\sqrt{2}/2", "\\frac{1}{\\sqrt{2}}") != "right":
            raise EnvError("math-verify does not work: it does not find sqrt(2)/2 equal to 1/sqrt(2)")

    def longest_first_messages(self) -> list[tuple[str, str]]:
        """System and first user message of the longest problems."""
        problems = self._problems.longest(lambda problem: len(problem.question))
        return [(SYSTEM, first_message(problem, self.config)) for problem in problems]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Ask the problem of `seed` (None: a training problem); info carries the system message."""
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(self.config.train_seed, self.config.eval_seed))
        self._problem = self._problems.at(seed)
        self._turn = 0
        self._over = False
        return first_message(self._problem, self.config), _info(valid=True, success=False, turn=0)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Check one reply. info: `valid` (an answer was found), `success`, `turn`, `answer`, `verdict`."""
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before step()")
        self._turn += 1
        answer = final_answer(action, last_number=self.config.answer == "last_number")
        verdict = "none" if answer is None else self._verifier.check(answer, self._problem.answer)
        right = verdict == "right"
        truncated = not right and self._turn >= self.config.max_turns
        self._over = right or truncated
        reward = 0.0
        if right:
            reward = 0.5 ** (self._turn - 1) if self.config.reward == "by_try" else 1.0
        info = {**_info(valid=answer is not None, success=right, turn=self._turn), "answer": answer, "verdict": verdict}
        return self._feedback(answer, right), reward, right, truncated, info

    def _feedback(self, answer: str | None, right: bool) -> str:
        if right:
            return "Correct."
        left = self.config.max_turns - self._turn
        form = REPLY.format("result") if self.config.answer == "tagged" else "with the result"
        problem = "Incorrect." if answer is not None else f"No answer found. Reply {form}."
        return f"{problem} {left} {'try' if left == 1 else 'tries'} left."


def _info(valid: bool, success: bool, turn: int) -> dict[str, Any]:
    return {"system": SYSTEM, "valid": valid, "success": success, "turn": turn}


def first_message(problem: Problem, config: MathConfig) -> str:
    """The first user message: reply format, number of tries, problem."""
    if config.answer == "last_number":
        return problem.question if config.max_turns == 1 else f"{problem.question}\n{config.max_turns} tries."
    tries = f"{config.max_turns} tries" if config.max_turns > 1 else "1 try"
    return f"Think step by step, then reply {REPLY.format('result')}. {tries}.\n{problem.question}"
