"""Whatever a policy writes, no game breaks, and every observation is one that its space contains."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshper.config.envs.cliff_walking import CliffWalkingConfig
from freshper.config.envs.frozen_lake import FrozenLakeConfig
from freshper.config.envs.frozen_lake_image import FrozenLakeImageConfig
from freshper.config.envs.sokoban import SokobanConfig
from freshper.config.envs.sokoban_image import SokobanImageConfig
from freshper.envs.make import make_env
from freshper.envs.observation import read_observation

GAMES: dict[str, Any] = {
    "frozen_lake": FrozenLakeConfig(),
    "frozen_lake_slippery": FrozenLakeConfig(size=8, slippery=True, max_turns=40),
    "frozen_lake_image": FrozenLakeImageConfig(),
    "frozen_lake_image_slippery": FrozenLakeImageConfig(size=8, cell_pixels=8, slippery=True, max_turns=40),
    "sokoban_simple": SokobanConfig(layouts=32),
    "sokoban_hard": SokobanConfig(layouts=32, size=8, boxes=2, min_moves=4, max_moves=16, max_turns=20),
    "sokoban_drawn_once": SokobanConfig(layouts=32, board="first_turn"),
    "sokoban_image": SokobanImageConfig(layouts=32),
    "cliff_walking": CliffWalkingConfig(max_turns=40),
    "cliff_walking_public": CliffWalkingConfig(
        max_turns=40, invalid_turn="free", board="every_turn", random_start=True
    ),
}
LEGAL = ["<answer>Up</answer>", "<ANSWER> down\n</Answer>", "Fine. <answer>Left</answer>", "<answer>RIGHT</answer>"]
HUGE = [
    "<answer>" * 20_000,
    "a" * 1_000_000 + "</answer>",
    "<answer>" + "Up" * 200_000 + "</answer>",
    "</answer>" * 9_999,
]
ODD = [
    "",
    "\x00",
    "\ud800",
    "<answer>\u202eUp</answer>",
    "<answer>Ｕｐ</answer>",
    "<answer></answer>",
    "√" * 50,
    "<answer>1</answer>",
]
text = st.text(st.characters(), max_size=60)
reply = st.one_of(
    st.sampled_from(LEGAL),
    st.sampled_from(ODD),
    st.sampled_from(HUGE),
    text,
    text.map(lambda t: f"<answer>{t}</answer>"),
)


@pytest.mark.parametrize("name", GAMES)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**31 - 1), replies=st.lists(reply, min_size=1, max_size=45))
def test_any_reply_is_played(name: str, seed: int, replies: list[str]) -> None:
    config = GAMES[name]
    env = make_env(config)
    observation, info = env.reset(seed=seed)
    assert env.observation_space.contains(observation) and info["system"]
    for turn, words in enumerate(replies, start=1):
        observation, reward, terminated, truncated, info = env.step(words)
        assert env.observation_space.contains(observation)
        assert isinstance(reward, float) and -100 <= reward <= 11
        assert not (terminated and truncated)
        assert truncated == (not terminated and turn == config.max_turns)
        assert info["turn"] == turn and (not info["success"] or terminated)
        assert isinstance(info["valid"], bool) and isinstance(info["success"], bool)
        assert info["valid"] or read_observation(observation).text.startswith("Invalid reply. ")
        if terminated or truncated:
            break
