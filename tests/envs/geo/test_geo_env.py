"""Three tries at a question about a picture, with feedback."""

import gymnasium
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from freshper.config.compose import compose_config
from freshper.config.envs.geoqa import GeoQAConfig
from freshper.envs.expert import right_reply
from freshper.envs.geo.env import REPLY, GeoQA, first_message
from freshper.envs.make import make_env
from freshper.envs.observation import read_observation

CONFIG = GeoQAConfig()


@pytest.mark.parametrize(
    ("rule", "right", "wrong"),
    [("by_try", [1.0, 0.5, 0.25], 0.0), ("binary", [1.0, 1.0, 1.0], 0.0), ("public", [2.0, 2.0, 2.0], 0.5)],
)
def test_reward_by_try(rule: str, right: list[float], wrong: float) -> None:
    env = GeoQA(GeoQAConfig(reward=rule))  # type: ignore[arg-type]
    for misses, expected in enumerate(right):
        env.reset(seed=misses)
        for turn in range(misses):
            observation, reward, terminated, truncated, info = env.step(REPLY.format("99999"))
            assert (reward, terminated, truncated, info["success"]) == (wrong, False, False, False)
            assert observation["text"] == f"Incorrect. {2 - turn} {'try' if turn else 'tries'} left."
        observation, reward, terminated, truncated, info = env.step(right_reply(env))
        assert (reward, terminated, truncated, info["success"]) == (expected, True, False, True)
        assert observation["text"] == "Correct."
        with pytest.raises(ResetNeeded):
            env.step("")


@pytest.mark.parametrize(("rule", "expected"), [("by_try", 0.0), ("binary", 0.0), ("public", 0.0)])
def test_a_reply_without_an_answer_uses_up_a_try_and_earns_nothing(rule: str, expected: float) -> None:
    env = GeoQA(GeoQAConfig(reward=rule))  # type: ignore[arg-type]
    env.reset(seed=0)
    for turn in (1, 2, 3):
        observation, reward, terminated, truncated, info = env.step("I do not know")
        assert (reward, terminated, truncated, info["valid"]) == (expected, False, turn == 3, False)
        assert observation["text"].startswith("No answer found. Reply <answer>result</answer>.")
    with pytest.raises(ResetNeeded):
        env.step("")


def test_the_picture_comes_with_every_try() -> None:
    env = GeoQA(CONFIG)
    first, info = env.reset(seed=5)
    seen = read_observation(first)
    assert seen.image is not None and seen.image.shape == (64, 64, 3) and info["system"]
    assert seen.text == first_message(env.item, CONFIG) and seen.text.endswith(env.item.question)
    assert "3 tries" in seen.text and "<answer>result</answer>" in seen.text
    later = env.step(REPLY.format("99999"))[0]
    assert (later["image"] == first["image"]).all()
    first["image"][:] = 0  # an observation is the receiver's own
    assert later["image"].any() and env.step("")[0]["image"].any()


def test_a_seed_fixes_the_item() -> None:
    one, other = GeoQA(CONFIG), make_env(CONFIG)
    for seed in (0, 3, CONFIG.eval_seed + 3):
        first, info = one.reset(seed=seed)
        again, again_info = other.reset(seed=seed)
        assert first["text"] == again["text"] and (first["image"] == again["image"]).all() and info == again_info
    assert GeoQA(GeoQAConfig(max_turns=1)).reset(seed=0)[0]["text"].count("1 try.") == 1


def test_the_expert_is_right_at_once_on_every_kind() -> None:
    env = GeoQA(GeoQAConfig(tasks=("angle", "length", "area", "perimeter", "longest", "triangle"), image_size=128))
    for seed in range(120):
        env.reset(seed=seed)
        _, reward, terminated, _, info = env.step(right_reply(env))
        assert (reward, terminated, info["success"]) == (1.0, True, True)


def test_before_reset_there_is_no_item() -> None:
    env = GeoQA(CONFIG)
    with pytest.raises(ResetNeeded):
        _ = env.item
    with pytest.raises(ResetNeeded):
        env.step("")


def test_gymnasiums_checker_passes() -> None:
    check_env(make_env(CONFIG), skip_render_check=True)
    made = gymnasium.make("freshper/GeoQA-v0", config=CONFIG)
    assert made.observation_space.contains(made.reset(seed=0)[0])


@given(
    st.text(max_size=300)
    | st.sampled_from(["<answer>", "<answer>" * 9999, "\\boxed{" * 9999, "9" * 99999, "\x00", "√" * 999, "\ud800"])
)
@settings(max_examples=60, deadline=None)
def test_any_reply_is_survived(reply: str) -> None:
    env = GeoQA(CONFIG)
    env.reset(seed=1)
    for text in (reply, REPLY.format(reply), f"\\boxed{{{reply}}}"):
        observation, reward, terminated, truncated, info = env.step(text)
        assert env.observation_space.contains(observation)
        assert reward in (0.0, 0.25, 0.5, 1.0) and (reward > 0) == info["success"] == terminated
        if terminated or truncated:
            break
    else:
        pytest.fail("the third try did not end the episode")


def test_the_yaml_rows() -> None:
    model = ["model=hf", "model.path=org/name"]
    geo = compose_config(["env=geoqa", *model]).env
    assert isinstance(geo, GeoQAConfig) and geo.images
    assert (geo.source, geo.hub, geo.eval_split) == ("embedded", "leonardPKU/GEOQA_R1V_Train_8K", None)
    assert compose_config(["env=geoqa", "env.data=easy_vqa", *model]).env.data == "easy_vqa"  # type: ignore[union-attr]
    shapes = compose_config(["env=easy_vqa", *model]).env
    assert isinstance(shapes, GeoQAConfig) and (shapes.data, shapes.max_turns) == ("easy_vqa", 1)
