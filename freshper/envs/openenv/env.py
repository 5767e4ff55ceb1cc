"""Play an environment that lives on an OpenEnv server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import gymnasium
from gymnasium.error import ResetNeeded

from freshper.config.envs.openenv import OpenEnvConfig
from freshper.envs.answer import extract_answer
from freshper.envs.errors import EnvError, EnvironmentFailedError
from freshper.envs.openenv.schema import text_fields
from freshper.envs.openenv.session import Answer, CapacityError, NoAnswerError, RefusedActionError, Session
from freshper.envs.text_space import AnyText

_MAX_TEXT = 1_000_000
_FIRST_PAUSE = 0.5


class OpenEnvText(gymnasium.Env[str, str]):
    """An episode of a session on the server; the reply, or the answer in it, is one field of the action.

    A reply whose action is missing or does not fit the server's schema uses up the turn; the environment does not
    move. Everything else that goes wrong within an episode ends it with `info["error"]`: it says nothing about the
    policy and must not be trained on.
    """

    metadata = {"render_modes": []}

    def __init__(self, config: OpenEnvConfig, sleep: Callable[[float], None] = time.sleep) -> None:
        """Ask the server which fields it has.

        Raises:
            EnvError: it does not answer, or which fields are text is not clear.
        """
        self.config = config
        self.observation_space = AnyText(_MAX_TEXT)
        self.action_space = AnyText(_MAX_TEXT)
        self._sleep = sleep
        self._fields = text_fields(config)
        self._session = Session(config.url, config.timeout)
        self._sent: Future[Answer] | None = None
        self._turn = 0
        self._return = 0.0
        self._over = True

    def check(self) -> None:
        """Play the beginning of two evaluation episodes, one of them twice.

        Raises:
            EnvError: the server has no room, or does not begin an episode that its seed determines.
        """
        seed = self.config.eval_seed
        try:
            texts = [self.reset(seed=k)[0] for k in (seed, seed + 1, seed)]
        except EnvironmentFailedError as error:
            raise EnvError(str(error)) from error
        if texts[0] != texts[2] and self.config.unseeded == "refuse":
            raise EnvError(
                f"env.url = {self.config.url}: two resets with seed={seed} began differently, {texts[0][:80]!r} and "
                f"{texts[2][:80]!r}; expected an environment whose reset takes a seed; env.unseeded=accept does without"
            )

    def longest_first_messages(self) -> list[tuple[str, str]]:
        """System and first user message of an evaluation episode; the server knows of longer ones, we do not."""
        return [(self.config.system, self.reset(seed=self.config.eval_seed)[0])]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin the episode of `seed` (None: a training episode).

        Raises:
            EnvError: the server is full.
            EnvironmentFailedError: it began no episode in `retries` further attempts.
        """
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(self.config.train_seed, self.config.eval_seed))
        self._sent, self._turn, self._return, self._over = None, 0, 0.0, False
        text = self._first({**(self.config.reset or {}), "seed": seed})
        return text, {"system": self.config.system, "valid": True, "success": False, "turn": 0}

    def send(self, reply: str) -> None:
        """Begin the step of `reply`, so that those of other episodes need not wait for its answer."""
        action = self._action(reply)
        self._sent = None if action is None else self._session.step(action)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one reply, unless `send` did already. info: `valid`, `success`, `turn`; `error` if the server failed."""
        if self._over:
            raise ResetNeeded("the episode is over: call reset() before step()")
        if self._sent is None:
            self.send(action)
        sent, self._sent = self._sent, None
        self._turn += 1
        self._over = self._turn >= self.config.max_turns
        info = {"valid": False, "success": False, "turn": self._turn}
        if sent is None:
            return "Invalid reply. Reply <answer>...</answer>.", 0.0, False, self._over, info
        try:
            answer = sent.result()
            text = self._text(answer)
        except RefusedActionError as error:
            return f"Invalid action: {error}", 0.0, False, self._over, info
        except NoAnswerError as error:
            self._over = True
            return "", 0.0, False, True, {**info, "valid": True, "error": self._failed(error)}
        self._return += answer.reward
        self._over = answer.done or self._over
        success = bool(answer.metadata.get("success", answer.done and self._return > self.config.success_above))
        info |= {"valid": bool(answer.metadata.get("valid", True)), "success": success}
        return text, answer.reward, answer.done, self._over and not answer.done, info

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _first(self, arguments: dict[str, Any]) -> str:
        for attempt in range(self.config.retries + 1):
            try:
                return self._text(self._session.reset(arguments))
            except NoAnswerError as error:
                failure = error
            if attempt < self.config.retries:
                self._sleep(_FIRST_PAUSE * 2**attempt)
        if isinstance(failure, CapacityError):
            raise EnvError(
                f"env.url = {self.config.url}: {failure}; expected a session for each episode side by side: give the "
                "server more (max_concurrent_envs), or set rollout.lock_step to what it has"
            )
        raise EnvironmentFailedError(self._failed(failure))

    def _action(self, reply: str) -> dict[str, Any] | None:
        text = reply if self.config.action_from == "reply" else extract_answer(reply)
        return None if text is None else {self._fields.action: text}

    def _text(self, answer: Answer) -> str:
        """The field that is the message, as JSON if it is no text."""
        if self._fields.observation not in answer.observation:
            has = ", ".join(answer.observation) or "none"
            raise NoAnswerError(f"sent no field {self._fields.observation} (env.observation_key); its fields: {has}")
        value = answer.observation[self._fields.observation]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    def _failed(self, error: NoAnswerError) -> str:
        return f"OpenEnv server {self.config.url}: {error}"
