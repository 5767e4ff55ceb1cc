"""Play many episodes side by side and return them as trajectories.

An episode's tokens are the ids that were fed and sampled, in order. Prompt text is tokenised once, when it appears.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from freshper.envs.errors import EnvironmentFailedError
from freshper.envs.prefetch import prefetch
from freshper.policy.chat import encode
from freshper.policy.load import Policy
from freshper.replay.images import PackedImage
from freshper.replay.trajectory import Trajectory
from freshper.rollout.engine import Engine, Turn
from freshper.rollout.messages import Decoder, Messages

_ATTEMPTS = 4
"""Times that an episode is played before environment errors in it end the run."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """What ends an episode besides its environment, and what a bad reply costs in training."""

    max_length: int
    """Most tokens of a conversation."""
    format_penalty: float
    """Training reward of a turn whose action cannot be parsed (<= 0)."""


class EnvPool:
    """Environments kept between batches: making one costs more than an episode. A reset with a seed erases the past."""

    def __init__(self, make_env: Callable[[], gymnasium.Env[Any, str]]) -> None:
        self._make = make_env
        self._envs: list[gymnasium.Env[Any, str]] = []

    def take(self, count: int) -> list[gymnasium.Env[Any, str]]:
        """The first `count` environments; new ones are made as needed."""
        self._envs += [self._make() for _ in range(count - len(self._envs))]
        return self._envs[:count]


@dataclass
class _Episode:
    """An episode while it is being played."""

    env: gymnasium.Env[Any, str]
    seed: int
    group_id: int
    ids: list[int]
    response: list[bool]
    logprobs: list[float]
    spans: list[tuple[int, int]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    valid: list[bool] = field(default_factory=list)
    dropped_mass: list[float] = field(default_factory=list)
    images: list[PackedImage] = field(default_factory=list)
    success: bool = False
    truncated: str = ""
    error: str = ""
    """Why the environment ended the episode for no fault of the policy."""
    failures: int = 0
    """Attempts at this episode that ended in such an error."""

    def add_prompt(self, ids: Sequence[int], images: Sequence[PackedImage]) -> None:
        self.images += images
        self.ids += ids
        self.response += [False] * len(ids)
        self.logprobs += [0.0] * len(ids)

    def add_turn(self, turn: Turn) -> None:
        start = len(self.ids)
        self.ids += turn.token_ids
        self.response += [True] * len(turn.token_ids)
        self.logprobs += turn.logprobs
        self.spans.append((start, len(self.ids)))
        self.dropped_mass.append(turn.dropped_mass)


def collect(
    policy: Policy,
    engine: Callable[[], Engine],
    envs: EnvPool,
    seeds: Sequence[int],
    limits: Limits,
    policy_version: int,
    iteration: int,
    lock_step: int = 0,
    first_group: int = 0,
    group_size: int = 1,
) -> list[Trajectory]:
    """Play one episode per environment seed.

    Args:
        policy: its tokenizer and chat format.
        engine: makes an engine with all lanes closed.
        envs: environments to play in.
        seeds: environment seeds.
        limits: episode length and format penalty.
        policy_version: optimiser steps taken so far.
        iteration: stamped on the trajectories.
        lock_step: episodes side by side; 0 means all.
        first_group: `group_id` of the first episode.
        group_size: neighbours that share a `group_id`, and should share a seed.

    Returns:
        One trajectory per seed, in order, with advantages still zero. An episode that the environment ended with
        `info["error"]` is none of them: it says nothing about the policy, so the same seed is played again, and
        `info["environment_errors"]` of what is returned counts such attempts.

    Raises:
        EnvironmentFailedError: an episode failed time and again.
    """
    width = lock_step or len(seeds)
    decoder, messages = Decoder(policy), Messages(policy)
    done: list[Trajectory] = []
    for first in range(0, len(seeds), width):
        part = seeds[first : first + width]
        groups = [first_group + (first + lane) // group_size for lane in range(len(part))]
        episodes = _play_soundly(policy, engine, envs.take(len(part)), part, limits, decoder, messages, groups)
        done += [_freeze(episode, limits, policy_version, iteration) for episode in episodes]
    return done


def _play_soundly(
    policy: Policy,
    engine: Callable[[], Engine],
    envs: list[gymnasium.Env[Any, str]],
    seeds: Sequence[int],
    limits: Limits,
    decoder: Decoder,
    messages: Messages,
    groups: Sequence[int],
) -> list[_Episode]:
    """Episodes without environment errors: those that have one are played again, side by side."""
    episodes = _play(policy, engine(), envs, seeds, limits, decoder, messages, groups)
    for attempt in range(1, _ATTEMPTS + 1):
        failed = [lane for lane, episode in enumerate(episodes) if episode.error]
        if not failed:
            return episodes
        error, _ = Counter(episodes[lane].error for lane in failed).most_common(1)[0]
        what = f"{len(failed)} of {len(seeds)} episodes ended in an environment error, attempt {attempt}: {error}"
        if attempt == _ATTEMPTS:
            break
        _logger.warning("%s; they are played again", what)
        again = _play(
            policy,
            engine(),
            [envs[lane] for lane in failed],
            [seeds[lane] for lane in failed],
            limits,
            decoder,
            messages,
            [groups[lane] for lane in failed],
        )
        for lane, episode in zip(failed, again, strict=True):
            episode.failures = episodes[lane].failures + 1
            episodes[lane] = episode
    raise EnvironmentFailedError(f"{what}; nothing of this batch was trained on")


def _play(
    policy: Policy,
    engine: Engine,
    envs: list[gymnasium.Env[Any, str]],
    seeds: Sequence[int],
    limits: Limits,
    decoder: Decoder,
    messages: Messages,
    groups: Sequence[int],
) -> list[_Episode]:
    episodes, texts, images = [], [], []
    for env, seed, group in zip(envs, seeds, groups, strict=True):
        observation, info = env.reset(seed=int(seed))
        text, shown = messages.read(observation)
        texts.append(policy.chat.first_prompt(info.get("system", ""), text))
        images.append(shown)
        episodes.append(_Episode(env, int(seed), group, [], [], []))
    prompts = encode(policy.tokenizer, texts)
    longest = max(len(prompt) for prompt in prompts)
    if longest + 2 > limits.max_length:
        raise ValueError(
            f"the first prompt takes {longest} tokens, which leaves no room within model.max_length={limits.max_length}"
        )
    for episode, prompt, shown in zip(episodes, prompts, images, strict=True):
        episode.add_prompt(prompt, shown)
    turns = engine.start(prompts, images if any(images) else ())
    active = list(range(len(episodes)))
    while True:
        going, texts, seen = [], [], []
        replies = [decoder.text(turn.token_ids) for turn in turns]
        prefetch([episodes[lane].env for lane in active], replies)
        for lane, turn, reply in zip(active, turns, replies, strict=True):
            episode = episodes[lane]
            episode.add_turn(turn)
            observation, reward, terminated, truncated, info = episode.env.step(reply)
            episode.rewards.append(float(reward))
            episode.valid.append(bool(info["valid"]))
            episode.success = bool(info["success"])
            episode.error = info.get("error", "")
            if truncated:
                episode.truncated = "turns"
            if not (terminated or truncated):
                going.append(lane)
                text, shown = messages.read(observation)
                texts.append(policy.chat.next_prompt(text))
                seen.append(shown)
        if not going:
            return episodes
        active, prompts, images = [], [], []
        for lane, ids, shown in zip(going, encode(policy.tokenizer, texts), seen, strict=True):
            episode = episodes[lane]
            if episode.ids[-1] == ids[0]:  # the policy sampled the end-of-turn token that the template would add
                ids = ids[1:]
            if len(episode.ids) + len(ids) + 1 > limits.max_length:
                episode.truncated = "length"
                continue
            episode.add_prompt(ids, shown)
            active.append(lane)
            prompts.append(ids)
            images.append(shown)
        if not active:
            return episodes
        turns = engine.extend(active, prompts, images if any(images) else ())


def _freeze(episode: _Episode, limits: Limits, policy_version: int, iteration: int) -> Trajectory:
    valid = np.asarray(episode.valid)
    rewards = np.asarray(episode.rewards, dtype=np.float32)
    info: dict[str, Any] = {
        "success": episode.success,
        "valid_rate": float(valid.mean()),
        "truncated": episode.truncated,
    }
    if any(episode.dropped_mass):
        info["dropped_mass"] = float(np.mean(episode.dropped_mass))
    if episode.failures:
        info["environment_errors"] = episode.failures
    return Trajectory(
        token_ids=np.asarray(episode.ids, dtype=np.int32),
        response_mask=np.asarray(episode.response),
        behaviour_logprobs=np.asarray(episode.logprobs, dtype=np.float32),
        turn_spans=np.asarray(episode.spans, dtype=np.int32).reshape(-1, 2),
        turn_rewards=rewards,
        turn_penalties=np.where(valid, 0.0, limits.format_penalty).astype(np.float32),
        advantages=np.zeros(len(episode.ids), dtype=np.float32),
        episode_return=float(rewards.sum()),
        group_id=episode.group_id,
        seed=episode.seed,
        policy_version=policy_version,
        iteration=iteration,
        info=info,
        images=tuple(episode.images),
    )
