"""Episodes that fail for no fault of the policy are never among what is trained on."""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

import gymnasium
import pytest

from freshper.envs.errors import EnvironmentFailedError
from freshper.rollout.collect import EnvPool, Limits, collect
from freshper.rollout.engine import Turn
from tests.models import random_policy

POLICY = random_policy()
IDS = POLICY.tokenizer("Up").input_ids


class Scripted:
    """An engine that says the same in every turn."""

    def start(self, prompts: Any, images: Any = ()) -> list[Turn]:
        return [Turn(list(IDS), [-1.0] * len(IDS), True, 0.0) for _ in prompts]

    def extend(self, lanes: Any, prompts: Any, images: Any = ()) -> list[Turn]:
        return self.start(prompts)


class Flaky(gymnasium.Env[str, str]):
    """Two turns; the first `failures[seed]` episodes of a seed end in an error in the second turn. Reward 1."""

    failures: Counter[int]
    prefetched: list[list[str]]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        assert seed is not None
        self.seed, self.turn = seed, 0
        return f"task {seed}", {"system": "s"}

    def prefetch(self, replies: Sequence[str]) -> None:
        self.prefetched.append(list(replies))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        info = {"valid": True, "success": False}
        if self.turn == 1:
            return "go on", 0.0, False, False, info
        if self.failures[self.seed] > 0:
            self.failures[self.seed] -= 1
            return "", 0.0, False, True, {**info, "error": "search engine down"}
        return "done", 1.0, True, False, {**info, "success": True}


def play(failures: dict[int, int], seeds: Sequence[int], lock_step: int = 0, group_size: int = 1) -> Any:
    Flaky.failures, Flaky.prefetched = Counter(failures), []
    return collect(POLICY, Scripted, EnvPool(Flaky), seeds, Limits(512, 0.0), 0, 0, lock_step, 5, group_size)


@pytest.mark.parametrize("lock_step", [0, 2])
def test_failed_episodes_are_played_again_and_counted(lock_step: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        played = play({11: 1, 13: 2}, [10, 11, 12, 13], lock_step)
    assert [t.seed for t in played] == [10, 11, 12, 13]
    assert [t.group_id for t in played] == [5, 6, 7, 8]
    assert [t.episode_return for t in played] == [1.0] * 4 and all(t.info["success"] for t in played)
    assert [t.info.get("environment_errors", 0) for t in played] == [0, 1, 0, 2]
    assert "search engine down" in caplog.text and "episodes ended in an environment error" in caplog.text


def test_groups_stay_whole() -> None:
    played = play({10: 1}, [10, 10, 11, 11], group_size=2)
    assert [t.group_id for t in played] == [5, 5, 6, 6]
    assert sum(t.info.get("environment_errors", 0) for t in played) == 1


def test_an_environment_that_keeps_failing_ends_the_run() -> None:
    with pytest.raises(EnvironmentFailedError, match="2 of 3 episodes .* attempt 4: search engine down"):
        play({10: 99, 12: 99}, [10, 11, 12])
    assert len(play({10: 3}, [10])) == 1


def test_all_replies_of_a_turn_are_prefetched_at_once() -> None:
    play({}, [1, 2, 3])
    assert Flaky.prefetched == [["Up"] * 3, ["Up"] * 3]
