"""The client of OpenEnv servers: what it sends, and what it makes of answers, errors and silence."""

from collections.abc import Iterator
from typing import Any

import pytest

from freshper.config.envs.openenv import OpenEnvConfig
from freshper.config.errors import ConfigError
from freshper.config.load import load_config
from freshper.envs.errors import EnvError, EnvironmentFailedError
from freshper.envs.openenv.env import OpenEnvText
from freshper.envs.openenv.session import address
from freshper.envs.prefetch import prefetch
from freshper.policy.load import Policy
from freshper.rollout.collect import EnvPool, Limits, collect
from freshper.rollout.engine import Turn
from tests.envs.openenv.fake import SCHEMA, TEXT, Fake, error, fake_server, late, said
from tests.models import random_policy


@pytest.fixture
def server() -> Iterator[Fake]:
    with fake_server() as fake:
        yield fake


def make(server: Fake, **settings: Any) -> OpenEnvText:
    return OpenEnvText(OpenEnvConfig(url=server.url, **{"retries": 0, **settings}), sleep=lambda seconds: None)


def by_kind(reset: str, step: str | None) -> Any:
    return lambda message: reset if message["type"] == "reset" else step


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h:1", "ws://h:1/ws"),
        ("https://h/x/", "wss://h/x/ws"),
        ("ws://h", "ws://h/ws"),
        ("wss://http.h", "wss://http.h/ws"),
    ],
)
def test_addresses(url: str, expected: str) -> None:
    assert address(url, "ws", "/ws") == expected
    assert address(url, "http", "/schema") == expected.replace("ws", "http", 1).removesuffix("/ws") + "/schema"


def test_an_episode(server: Fake) -> None:
    steps = iter([said("second", 0.25), said("third", None, metadata={"valid": False}), said("end", 1, True)])
    server.answer = lambda message: said("first") if message["type"] == "reset" else next(steps)
    env = make(server, system="Be brief.", reset={"level": 2})
    assert env.reset(seed=7) == ("first", {"system": "Be brief.", "valid": True, "success": False, "turn": 0})
    assert env.step("Left") == ("second", 0.25, False, False, {"valid": True, "success": False, "turn": 1})
    assert env.step("Up") == ("third", 0.0, False, False, {"valid": False, "success": False, "turn": 2})
    assert env.step("") == ("end", 1.0, True, False, {"valid": True, "success": True, "turn": 3})
    assert server.received == [
        {"type": "reset", "data": {"level": 2, "seed": 7}},
        *({"type": "step", "data": {"move": text}} for text in ("Left", "Up", "")),
    ]
    assert server.connections == 1
    env.close()


def test_the_turn_limit_and_success(server: Fake) -> None:
    server.answer = lambda message: said("go", 0.5, False)
    env = make(server, max_turns=2)
    env.reset(seed=0)
    assert [env.step("x")[2:4] for _ in range(2)] == [(False, False), (False, True)]
    server.answer = by_kind(said("go"), said("end", 0.5, True))
    env = make(server, success_above=0.5)
    env.reset(seed=0)
    assert env.step("x")[4]["success"] is False  # a return of 0.5 is not above
    server.answer = by_kind(said("go"), said("end", 0.0, True, metadata={"success": True}))
    env.reset(seed=0)
    assert env.step("x")[4]["success"] is True  # what the server says goes first


def test_only_what_stands_in_the_answer_is_sent(server: Fake) -> None:
    env = make(server, action_from="answer")
    env.reset(seed=0)
    assert env.step("Left")[3:] == (False, {"valid": False, "success": False, "turn": 1})
    env.step("I think <answer> Left </answer>")
    assert [m["data"] for m in server.received if m["type"] == "step"] == [{"move": "Left"}]


def test_an_action_that_the_server_refuses_is_an_invalid_turn(server: Fake) -> None:
    server.answer = by_kind(said("go"), error("VALIDATION_ERROR", "Invalid", errors=[{"msg": "too short"}]))
    env = make(server)
    env.reset(seed=0)
    assert env.step("x") == (
        "Invalid action: too short",
        0.0,
        False,
        False,
        {"valid": False, "success": False, "turn": 1},
    )


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (error("EXECUTION_ERROR", "KeyError"), "KeyError (EXECUTION_ERROR)"),
        (None, "cannot be reached"),
        ("no JSON", "answered no JSON"),
        ('{"type": "state", "data": {}}', "expected an observation or an error"),
        ('{"type": "observation", "data": {"observation": "x"}}', "expected an observation with fields"),
        (said("x", float("nan")), "expected a finite reward or null"),
        (said("x", "much"), "expected a finite reward or null"),
        ('{"type": "observation", "data": {"observation": {"other": "x"}}}', "sent no field text"),
    ],
)
def test_other_failures_are_environment_errors_and_the_next_reset_connects_anew(
    server: Fake, step: str | None, expected: str
) -> None:
    server.answer = by_kind(said("go"), step)
    env = make(server)
    env.reset(seed=0)
    text, reward, terminated, truncated, info = env.step("x")
    assert (text, reward, terminated, truncated) == ("", 0.0, False, True)
    assert info["error"].startswith(f"OpenEnv server {server.url}: ") and expected in info["error"]
    server.answer = lambda message: said("again")
    assert env.reset(seed=0)[0] == "again" and "error" not in env.step("x")[4]


def test_a_late_answer_is_not_taken_for_the_next_one(server: Fake) -> None:
    server.answer = late(0.6, said("late"))
    env = make(server, timeout=0.2)
    env.reset(seed=0)
    assert "no answer within 0.2 s" in env.step("x")[4]["error"]
    server.answer = lambda message: said("fresh")
    assert env.reset(seed=0)[0] == env.step("x")[0] == "fresh"


def test_steps_of_many_episodes_wait_side_by_side(server: Fake) -> None:
    envs = [make(server) for _ in range(8)]
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
    waiting = 0
    most = 0

    def answer(message: dict[str, Any]) -> str:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        slow(message)
        waiting -= 1
        return said(message["data"]["move"])

    slow, server.answer = late(0.2, ""), answer
    replies = [f"move {k}" for k in range(8)]
    prefetch(envs, replies)
    assert [env.step(reply)[0] for env, reply in zip(envs, replies, strict=True)] == replies
    assert most > 1
    assert sum(m["type"] == "step" for m in server.received) == 8  # each was sent once


def test_rollouts_play_failed_episodes_again_and_count_them(server: Fake) -> None:
    failures = iter([None, error("EXECUTION_ERROR"), None])

    def answer(message: dict[str, Any]) -> str | None:
        if message["type"] == "reset":
            return said(f"task {message['data']['seed']}")
        return next(failures, said("done", 1.0, True))

    server.answer = answer
    policy = random_policy()
    pool = EnvPool(lambda: make(server))
    played = collect(policy, lambda: Scripted(policy), pool, [5, 6], Limits(512, 0.0), 0, 0)
    assert [t.seed for t in played] == [5, 6] and [t.episode_return for t in played] == [1.0, 1.0]
    assert sum(t.info.get("environment_errors", 0) for t in played) == 3


class Scripted:
    """An engine that says the same in every turn."""

    def __init__(self, policy: Policy) -> None:
        self.ids = policy.tokenizer("Up").input_ids

    def start(self, prompts: Any, images: Any = ()) -> list[Turn]:
        return [Turn(list(self.ids), [-1.0] * len(self.ids), "end", 0.0) for _ in prompts]

    def extend(self, lanes: Any, prompts: Any, images: Any = ()) -> list[Turn]:
        return self.start(prompts)


def test_a_reset_is_tried_again(server: Fake) -> None:
    answers = iter([error("EXECUTION_ERROR", "busy"), None, said("third time")])
    server.answer = lambda message: next(answers)
    pauses: list[float] = []
    env = OpenEnvText(OpenEnvConfig(url=server.url, retries=2), sleep=pauses.append)
    assert env.reset(seed=0)[0] == "third time" and pauses == [0.5, 1.0]
    server.answer = lambda message: error("EXECUTION_ERROR", "no such level")
    with pytest.raises(EnvironmentFailedError, match="no such level"):
        env.reset(seed=0)


def test_a_full_server_says_what_to_do(server: Fake) -> None:
    server.greeting = error("CAPACITY_REACHED", "1/1 sessions active")
    with pytest.raises(EnvError, match="1/1 sessions active.*rollout.lock_step"):
        make(server).reset(seed=0)


def test_check_wants_the_seed_to_count(server: Fake) -> None:
    server.answer = lambda message: said(f"task {message['data']['seed']}")
    make(server).check()
    server.answer = lambda message: said(f"task {len(server.received)}")
    with pytest.raises(EnvError, match="began differently.*env.unseeded=accept"):
        make(server).check()
    make(server, unseeded="accept").check()
    server.answer = lambda message: error("EXECUTION_ERROR", "no such level")
    with pytest.raises(EnvError, match="no such level"):
        make(server).check()


def test_values_that_are_no_text_are_shown_as_json(server: Fake) -> None:
    server.answer = lambda message: said({"board": [1, 2]})
    assert make(server, observation_key="text").reset(seed=0)[0] == '{"board": [1, 2]}'


@pytest.mark.parametrize(
    ("action", "observation", "settings", "expected"),
    [
        (None, None, {"action_key": "mvoe"}, "env.action_key = mvoe: .* did you mean move"),
        (None, None, {"observation_key": "image"}, "env.observation_key = image: .* text, score"),
        ({"properties": {"a": TEXT, "b": TEXT}}, None, {}, "env.action_key: expected .* has: a, b"),
        (None, {"properties": {"a": TEXT, "b": TEXT}}, {}, "env.observation_key: expected .* has: a, b"),
        ({}, None, {}, "env.action_key: .* none that its schema tells"),
        (3, None, {}, "is it an OpenEnv server"),
    ],
)
def test_fields_that_are_not_there_are_named(
    server: Fake, action: Any, observation: Any, settings: dict[str, Any], expected: str
) -> None:
    server.schema = {
        "action": SCHEMA["action"] if action is None else action,
        "observation": SCHEMA["observation"] if observation is None else observation,
    }
    with pytest.raises(EnvError, match=expected):
        make(server, **settings)


def test_a_server_that_is_not_there() -> None:
    with fake_server() as gone:
        pass
    with pytest.raises(EnvError, match="cannot be read.*start the server first"):
        make(gone)


@pytest.mark.parametrize(
    ("settings", "key", "expected"),
    [
        ({"url": "127.0.0.1:8000"}, "env.url", "http://127.0.0.1:8000"),
        ({"reset": {"seed": 1}}, "env.reset", "expected no seed"),
        ({"retries": -1}, "env.retries", "at least 0"),
    ],
)
def test_settings_that_cannot_be_used(settings: dict[str, Any], key: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({"env": {"family": "openenv", **settings}})
    (issue,) = caught.value.issues
    assert issue.key == key and expected in issue.expected


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'freshper\[openenv\]'"):
        load_config({"env": {"family": "openenv"}})
