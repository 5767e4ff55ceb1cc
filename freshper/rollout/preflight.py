"""Find out before the first iteration whether the environment works: data, retriever, room for the longest question."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from freshper.config.run import RunConfig
from freshper.envs.errors import EnvError
from freshper.envs.make import make_env
from freshper.policy.chat import encode
from freshper.policy.load import Policy


@runtime_checkable
class Checkable(Protocol):
    """An environment that can tell what would go wrong later."""

    def check(self) -> None:
        """Try what episodes will depend on.

        Raises:
            EnvError: it does not work.
        """
        ...

    def longest_first_messages(self) -> Iterable[tuple[str, str]]:
        """System and first user message of the episodes with the longest questions, by characters."""
        ...


def preflight(config: RunConfig, policy: Policy) -> None:
    """Build an environment of the run and try it.

    Raises:
        EnvError: data that cannot be used, a retriever that does not answer, a question that leaves no room in
            `model.max_length` for a reply of `rollout.max_new_tokens`.
    """
    env = make_env(config.env)
    if not isinstance(env, Checkable):
        return
    env.check()
    texts = [policy.chat.first_prompt(system, user) for system, user in env.longest_first_messages()]
    if not texts:
        return
    longest = max(len(ids) for ids in encode(policy.tokenizer, texts))
    need = longest + config.rollout.max_new_tokens
    if need > config.model.max_length:
        raise EnvError(
            f"model.max_length = {config.model.max_length}: the longest question makes a first prompt of {longest} "
            f"tokens, and a reply may take rollout.max_new_tokens = {config.rollout.max_new_tokens}; expected at least "
            f"model.max_length = {need}, or shorter questions"
        )
