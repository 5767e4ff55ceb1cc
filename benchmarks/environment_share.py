"""What part of a training iteration is spent in environments (used by `benchmarks/environments.py --share`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

ITERATIONS = 3


@dataclass
class Spent:
    """Seconds so far, by a clock."""

    clock: Callable[[], float]
    playing: float = 0.0
    """In `reset` and `step`."""
    asking: float = 0.0
    """In `prefetch`: where searches are run."""

    def of(self, kind: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function and add its time to `kind`."""
        began = self.clock()
        try:
            return function(*args, **kwargs)
        finally:
            setattr(self, kind, getattr(self, kind) + self.clock() - began)


class Timed:
    """An environment whose time is added up."""

    def __init__(self, env: Any, spent: Spent) -> None:
        self.env, self.spent = env, spent

    def reset(self, **kwargs: Any) -> Any:
        return self.spent.of("playing", self.env.reset, **kwargs)

    def step(self, action: str) -> Any:
        return self.spent.of("playing", self.env.step, action)


class TimedPrefetching(Timed):
    """The same for an environment that asks for all episodes of a turn at once."""

    def prefetch(self, replies: Sequence[str]) -> None:
        self.spent.of("asking", self.env.prefetch, replies)


@dataclass(frozen=True)
class Share:
    """Seconds of an iteration, means over three."""

    iteration: float
    playing: float
    asking: float


def measure(name: str, clock: Callable[[], float]) -> Share:
    """Train as `python run.py env=<name>` does: one iteration to warm up, then three, without evaluations."""
    import torch

    from freshper.config.compose import compose_config
    from freshper.envs.make import make_env
    from freshper.envs.prefetch import Prefetching
    from freshper.learner.learner import Learner
    from freshper.policy.load import load_policy
    from freshper.rollout.collect import EnvPool

    torch.set_num_threads(1)
    config = compose_config([f"env={name}"])
    learner = Learner(config, load_policy(config.model))
    spent = Spent(clock)

    def make() -> Any:
        env = make_env(config.env)
        return TimedPrefetching(env, spent) if isinstance(env, Prefetching) else Timed(env, spent)

    learner.envs = EnvPool(make)
    learner.iterate()
    spent.playing = spent.asking = 0.0
    began = clock()
    for _ in range(ITERATIONS):
        learner.iterate()
    whole = clock() - began
    return Share(whole / ITERATIONS, spent.playing / ITERATIONS, spent.asking / ITERATIONS)
