"""Third-party environments: a small one is defined here and plugged in by its id."""

from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium.spaces import Discrete, Text

from freshper.config.compose import compose_config
from freshper.config.envs.gym import GymConfig
from freshper.config.errors import ConfigError
from freshper.config.load import load_config
from freshper.envs.errors import EnvError
from freshper.envs.gym import GymText
from freshper.envs.make import make_env
from freshper.learner.learner import Learner
from freshper.policy.load import load_policy
from freshper.rollout.collect import EnvPool, Limits, collect
from freshper.rollout.engine import Turn
from tests.models import random_policy

ID = "tests.envs.test_gym:FreshperTestsEcho-v0"


class Echo(gymnasium.Env[str, str]):
    """Say the word of the seed."""

    observation_space = Text(100)
    action_space = Text(100)

    def __init__(self, words: tuple[str, ...] = ("Left", "Up"), talks: bool = False, answer: Any = "again") -> None:
        self.words, self.talks, self.answer = words, talks, answer

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.word = self.words[int(self.np_random.integers(len(self.words)))]
        return f"say {self.word}", {"system": "Echo."} if self.talks else {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        right = self.word in action
        info = {"valid": "<answer>" in action, "success": False} if self.talks else {}
        return self.answer, float(right), right, False, info


class Silent(Echo):
    """Not a text environment."""

    action_space = Discrete(3)  # type: ignore[assignment]


gymnasium.register(id="FreshperTestsEcho-v0", entry_point=Echo)
gymnasium.register(id="FreshperTestsSilent-v0", entry_point=Silent)


def test_it_plugs_in_by_id_and_its_info_is_completed() -> None:
    env = make_env(GymConfig(id=ID, max_turns=3, system="Be brief.", kwargs={"words": ("Down",)}))
    first, info = env.reset(seed=4)
    assert first == "say Down" and info == {"system": "Be brief.", "valid": True, "success": False, "turn": 0}
    assert env.step("no")[1:] == (0.0, False, False, {"valid": True, "success": False, "turn": 1})
    assert env.step("Down")[1:] == (1.0, True, False, {"valid": True, "success": True, "turn": 2})


def test_what_it_says_itself_goes_first() -> None:
    env = GymText(GymConfig(id=ID, system="Be brief.", kwargs={"words": ("Down",), "talks": True}))
    assert env.reset(seed=4)[1]["system"] == "Echo.\nBe brief."
    assert env.step("Up")[4] == {"valid": False, "success": False, "turn": 1}
    assert env.step("<answer>Down</answer>")[4] == {"valid": True, "success": False, "turn": 2}


def test_success_above_and_the_turn_limit() -> None:
    env = GymText(GymConfig(id=ID, max_turns=2, success_above=1.0, kwargs={"words": ("Down",)}))
    env.reset(seed=0)
    assert env.step("Down")[2:] == (
        True,
        False,
        {"valid": True, "success": False, "turn": 1},
    )  # a return of 1 is not above
    env.reset(seed=0)
    assert [env.step("")[3] for _ in range(2)] == [False, True]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step("")


def test_an_observation_that_is_no_text_is_named() -> None:
    env = GymText(GymConfig(id=ID, kwargs={"answer": 7}))
    env.reset(seed=0)
    with pytest.raises(EnvError, match="type int, expected str"):
        env.step("x")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "expected a registered gymnasium id"),
        ({"id": "no_such_module:Game-v0"}, "module no_such_module cannot be imported"),
        ({"id": "NoSuchGameAtAll-v0"}, "doesn't exist"),
        ({"id": "tests.envs.test_gym:FreshperTestsSilent-v0"}, "the actions are Discrete(3), expected text"),
        ({"id": ID, "kwargs": {"colour": "red"}}, "unexpected keyword argument 'colour'"),
    ],
)
def test_an_id_that_cannot_be_used_is_a_config_error(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"env": {"family": "gym", **changes}})
    (issue,) = caught.value.issues
    assert issue.key == "env.id" and expected in issue.expected


def test_id_and_arguments_come_from_the_command_line() -> None:
    config = compose_config(
        ["env=gym", f"env.id={ID}", "env.kwargs={words: [Up]}", "env.name=echo", "model.base=frozen_lake"]
    )
    assert isinstance(config.env, GymConfig) and config.env.kwargs == {"words": ["Up"]}
    assert make_env(config.env).reset(seed=0)[0] == "say Up"


def test_the_documented_example_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "environments.md").read_text()
    example = text.split("```python\n")[1].split("```")[0]
    assert example.count("\n") <= 10
    (tmp_path / "freshper_tests_game.py").write_text(example)
    monkeypatch.syspath_prepend(tmp_path)
    config = compose_config(
        ["env=gym", "env.id=freshper_tests_game:MyGame-v0", "model.base=frozen_lake", "rollout.episodes=4"]
    )
    report = Learner(config, load_policy(config.model)).iterate()
    assert report.metrics["fresh/success"] == report.metrics["fresh/return"] == 1.0
    assert "the system message" in load_policy(config.model).tokenizer.decode(report.fresh[0].token_ids)


class Scripted:
    """An engine that says the same in every turn."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids

    def start(self, prompts: Any, images: Any = ()) -> list[Turn]:
        return [Turn(list(self.ids), [-1.0] * len(self.ids), "end", 0.0) for _ in prompts]

    def extend(self, lanes: Any, prompts: Any, images: Any = ()) -> list[Turn]:
        return self.start(prompts)


def test_rollouts_play_it() -> None:
    policy = random_policy()
    ids = policy.tokenizer("Up").input_ids
    pool = EnvPool(lambda: make_env(GymConfig(id=ID, max_turns=3)))
    played = collect(policy, lambda: Scripted(ids), pool, list(range(8)), Limits(512, -0.1), 0, 0)
    assert {t.info["success"] for t in played} == {True, False}
    for trajectory in played:
        assert trajectory.episode_return == float(trajectory.info["success"])
        assert len(trajectory.turn_rewards) == (1 if trajectory.info["success"] else 3)
        assert (trajectory.turn_penalties == 0).all()
