"""Find out before the first iteration whether the environment works: data, retriever, room for the longest question."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any, Protocol, runtime_checkable

import gymnasium

from freshper.config.run import RunConfig
from freshper.envs.errors import EnvError
from freshper.envs.make import make_env
from freshper.envs.observation import read_observation
from freshper.envs.seeds import eval_seed
from freshper.policy.chat import encode
from freshper.policy.errors import ModelError
from freshper.policy.load import Policy
from freshper.replay.images import PackedImage, pack_image


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
        EnvError: data that cannot be used, a retriever that does not answer, a question or an image that leaves no room
            in `model.max_length` for a reply of `rollout.max_new_tokens`.
        ModelError: an environment that shows images, and a policy that cannot see.
    """
    if config.env.images and policy.vision is None:
        raise ModelError(
            f"model.path={config.model.path}: is a model of text, and env.family = {config.env.family} shows images; "
            "expected a vision-language model"
        )
    with closing(make_env(config.env)) as env:
        _try(config, policy, env)


def _try(config: RunConfig, policy: Policy, env: gymnasium.Env[Any, str]) -> None:
    messages: list[tuple[str, str]] = []
    image = None
    if isinstance(env, Checkable):
        env.check()
        messages += env.longest_first_messages()
    if config.env.images:
        observation, info = env.reset(seed=eval_seed(config.env, 0))
        seen = read_observation(observation)
        image = None if seen.image is None else pack_image(seen.image)
        messages.append((info.get("system", ""), seen.text))
    if not messages:
        return
    longest = max(map(len, _first_prompts(policy, messages, image)))
    need = longest + config.rollout.max_new_tokens
    if need > config.model.max_length:
        of_image, smaller = "", "shorter questions"
        if image is not None and policy.vision is not None:
            tokens = policy.vision.tokens(image.height, image.width)
            of_image, smaller = f" ({tokens} of them its image)", "smaller images (model.max_pixels)"
        raise EnvError(
            f"model.max_length = {config.model.max_length}: the longest question makes a first prompt of {longest} "
            f"tokens{of_image}, and a reply may take rollout.max_new_tokens = {config.rollout.max_new_tokens}; "
            f"expected at least model.max_length = {need}, or {smaller}"
        )


def _first_prompts(policy: Policy, messages: list[tuple[str, str]], image: PackedImage | None) -> list[list[int]]:
    """Token ids of first prompts, each with the image where there is one."""
    if image is not None and policy.vision is not None:
        messages = [(system, policy.vision.message(user, image)) for system, user in messages]
    return encode(policy.tokenizer, [policy.chat.first_prompt(system, user) for system, user in messages])
