"""Three tries with feedback."""

import re

import gymnasium
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freshper.config.compose import compose_config
from freshper.config.envs.math import MathConfig
from freshper.envs.make import make_env
from freshper.envs.math.env import REPLY, MathText

CONFIG = MathConfig()


@pytest.mark.parametrize(("rule", "rewards"), [("by_try", [1.0, 0.5, 0.25]), ("binary", [1.0, 1.0, 1.0])])
def test_reward_by_try(rule: str, rewards: list[float]) -> None:
    env = MathText(MathConfig(reward=rule))  # type: ignore[arg-type]
    for wrong, expected in enumerate(rewards):
        env.reset(seed=wrong)
        for turn in range(wrong):
            text, reward, terminated, truncated, info = env.step(REPLY.format("99999"))
            assert (reward, terminated, truncated, info["success"]) == (0.0, False, False, False)
            assert text == f"Incorrect. {2 - turn} {'try' if turn else 'tries'} left."
        _, reward, terminated, truncated, info = env.step(f"I say {REPLY.format(env.problem.answer)}")
        assert (reward, terminated, truncated, info["success"]) == (expected, True, False, True)
        with pytest.raises(ResetNeeded):
            env.step("")


def test_three_wrong_tries_are_cut_and_an_unreadable_one_counts() -> None:
    env = MathText(CONFIG)
    env.reset(seed=0)
    text, reward, terminated, truncated, info = env.step("I do not know")
    assert (reward, terminated, truncated, info["valid"]) == (0.0, False, False, False)
    assert text.startswith("No answer found.") and "<answer>" in text and text.endswith("2 tries left.")
    env.step(REPLY.format(99999))
    _, reward, terminated, truncated, info = env.step(REPLY.format("nonsense"))
    assert (reward, terminated, truncated, info["success"], info["valid"]) == (0.0, False, True, False, True)
    with pytest.raises(ResetNeeded):
        env.step("")


def test_repeating_the_sum_earns_nothing() -> None:
    env = MathText(CONFIG)
    for seed in range(20):
        env.reset(seed=seed)
        task = env.problem.question.split(":")[-1].rstrip("= .")
        assert env.step(REPLY.format(task))[1] == 0.0


def test_first_message_and_seeds() -> None:
    env, other = MathText(CONFIG), make_env(CONFIG)
    first, info = env.reset(seed=3)
    assert first.endswith(env.problem.question) and "<answer>" in first and "3 tries" in first and info["system"]
    assert other.reset(seed=3) == (first, info)
    assert env.reset(seed=4)[0] != first


def test_gymnasiums_checker_passes() -> None:
    check_env(make_env(CONFIG), skip_render_check=True)
    made = gymnasium.make("freshper/Math-v0", config=CONFIG)
    assert made.observation_space.contains(made.reset(seed=0)[0])


@given(
    st.text(max_size=300)
    | st.sampled_from(["<answer>", "<answer>" * 9999, "\\boxed{" * 9999, "9" * 99999, "\x00", "日本語" * 999])
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_reply_is_survived(reply: str) -> None:
    env = MathText(CONFIG)
    env.reset(seed=1)
    for text in (reply, REPLY.format(reply), f"\\boxed{{{reply}}}"):
        observation, reward, terminated, truncated, info = env.step(text)
        assert env.observation_space.contains(observation)
        assert reward in (0.0, 0.25, 0.5, 1.0) and (reward > 0) == info["success"] == terminated
        if terminated or truncated:
            break
    else:
        pytest.fail("the third try did not end the episode")


def test_arithmetic_asks_for_no_format_and_takes_the_last_number() -> None:
    config = compose_config(["env=arithmetic"]).env
    assert isinstance(config, MathConfig)
    env = MathText(config)
    for seed in range(50):
        first, info = env.reset(seed=seed)
        assert "<answer>" not in first and first.endswith("=") and info["system"] == "You solve maths problems."
        assert all(abs(int(number)) < 100 for number in re.findall(r"\d+", first))
        _, reward, terminated, truncated, info = env.step(f"{first} {env.problem.answer}.")
        assert (reward, terminated, truncated, info["success"]) == (1.0, True, False, True)
        env.reset(seed=seed)
        _, reward, terminated, truncated, info = env.step(f"{env.problem.answer}, no, {int(env.problem.answer) + 1}")
        assert (reward, terminated, truncated, info["valid"]) == (0.0, False, True, True)
    env.reset(seed=0)
    assert env.step("I do not know")[4]["valid"] is False
