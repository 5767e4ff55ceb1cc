"""FrozenLake as pictures: gymnasium's pixels, the text game's rules."""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from PIL import Image as Pillow

from freshper.config.compose import compose_config
from freshper.config.envs.frozen_lake import FrozenLakeConfig
from freshper.config.envs.frozen_lake_image import FrozenLakeImageConfig
from freshper.envs.expert import good_actions
from freshper.envs.frozen_lake import FrozenLakeText
from freshper.envs.frozen_lake_image import REPLY, FrozenLakeImage, instruction
from freshper.envs.lake_map import ACTIONS, draw_map, goal_distances
from freshper.envs.lake_render import LakePicture
from freshper.envs.make import make_env
from freshper.envs.observation import read_observation

CONFIG = FrozenLakeImageConfig()


@pytest.fixture(autouse=True)
def no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


def gymnasiums_frames(desc: list[str]) -> list[np.ndarray]:
    """gymnasium's own picture of a map, for each tile on which the player may stand."""
    env = FrozenLakeEnv(desc=desc, render_mode="rgb_array")
    env.reset()
    frames = []
    for tile in range(len(desc) ** 2):
        env.s = tile
        frames.append(env.render())
    return frames


@pytest.mark.parametrize("size", [2, 4, 5, 8])
def test_pixels_are_gymnasiums(size: int) -> None:
    rng = np.random.default_rng(size)
    for _ in range(3):
        desc = draw_map(FrozenLakeConfig(size=size, hole_probability=0.3), rng)
        picture = LakePicture(desc, 64)
        for tile, expected in enumerate(gymnasiums_frames(desc)):
            np.testing.assert_array_equal(picture.frame(tile), expected)


@pytest.mark.parametrize("pixels", [8, 16, 24, 32])
def test_small_pictures_are_averages_of_gymnasiums(pixels: int) -> None:
    desc = draw_map(CONFIG, np.random.default_rng(0))
    picture = LakePicture(desc, pixels)
    for tile, native in enumerate(gymnasiums_frames(desc)):
        shrunk = Pillow.fromarray(native).resize((4 * pixels, 4 * pixels), Pillow.Resampling.BOX)
        # A tile on its own is rounded like the whole picture, up to one step where blocks have a fraction of a pixel.
        assert np.abs(picture.frame(tile).astype(int) - np.asarray(shrunk).astype(int)).max() <= (64 % pixels > 0)
        if 64 % pixels == 0:
            side = 64 // pixels
            blocks = native.reshape(4 * pixels, side, 4 * pixels, side, 3).mean(axis=(1, 3))
            assert np.abs(picture.frame(tile) - blocks).max() < 1


def test_letters_of_a_small_map_can_be_told_apart() -> None:
    """The smallest pictures still show ice, hole, goal and player as different tiles."""
    picture = LakePicture(["SF", "HG"], 8)
    image = picture.frame(0)
    tiles = [image[r : r + 8, c : c + 8].astype(int) for r in (0, 8) for c in (0, 8)]
    for one in range(4):
        for other in range(one):
            assert np.abs(tiles[one] - tiles[other]).mean() > 10


def test_frames_differ_in_the_players_tiles_only_and_share_no_memory() -> None:
    picture = LakePicture(["SFF", "FFF", "FFG"], 16)
    first, second = picture.frame(0), picture.frame(4)
    changed = np.argwhere((first != second).any(axis=2)) // 16
    assert {tuple(place) for place in changed.tolist()} == {(0, 0), (1, 1)}
    second[:] = 0
    np.testing.assert_array_equal(picture.frame(4) == 0, False)


@pytest.mark.parametrize("slippery", [False, True])
def test_the_game_is_the_text_game_seed_by_seed(slippery: bool) -> None:
    image = FrozenLakeImage(FrozenLakeImageConfig(slippery=slippery))
    text = FrozenLakeText(FrozenLakeConfig(slippery=slippery))
    rng = np.random.default_rng(0)
    for seed in range(100):
        image.reset(seed=seed)
        text.reset(seed=seed)
        assert image.desc == text.desc
        while True:
            reply = "?" if rng.random() < 0.1 else REPLY.format(ACTIONS[int(rng.integers(4))])
            observation, *seen = image.step(reply)
            _, *expected = text.step(reply)
            assert seen == expected and image.state == text.state
            np.testing.assert_array_equal(observation["image"], LakePicture(text.desc, 16).frame(text.state))
            if seen[1] or seen[2]:
                break
        with pytest.raises(ResetNeeded):
            image.step(REPLY.format("Up"))


def test_words_tell_turn_and_format_but_no_place() -> None:
    env = FrozenLakeImage(CONFIG)
    first, info = env.reset(seed=1)
    assert info["system"]
    assert first["text"] == f"{instruction(CONFIG)}\nTurn 1, 10 left"
    assert "<answer>action</answer>" in first["text"] and all(action in first["text"] for action in ACTIONS)
    assert env.step("?")[0]["text"] == "Invalid reply. Reward 0. Turn 2, 9 left"
    # Maps differ, words do not.
    assert len({env.reset(seed=seed)[0]["text"] for seed in range(20)}) == 1
    assert len({env.reset(seed=seed)[0]["image"].tobytes() for seed in range(20)}) == 20
    slippery = FrozenLakeImage(FrozenLakeImageConfig(slippery=True)).reset(seed=1)[0]["text"]
    assert "slippery" in slippery and "slippery" not in first["text"]


@pytest.mark.parametrize(("size", "pixels", "expected"), [(4, 16, 64), (4, 64, 256), (8, 8, 64), (16, 64, 1024)])
def test_sizes(size: int, pixels: int, expected: int) -> None:
    env = make_env(FrozenLakeImageConfig(size=size, cell_pixels=pixels))
    observation, _ = env.reset(seed=0)
    seen = read_observation(observation)
    assert seen.image is not None and seen.image.shape == (expected, expected, 3)
    assert env.observation_space.contains(observation)


def test_the_expert_arrives_in_the_fewest_moves_within_the_horizon() -> None:
    env = FrozenLakeImage(CONFIG)
    solved = 0
    for seed in range(200):
        env.reset(seed=seed)
        distance = goal_distances(env.desc)[env.state]
        for turn in range(1, CONFIG.max_turns + 1):
            _, reward, terminated, truncated, info = env.step(REPLY.format(ACTIONS[good_actions(env)[0]]))
            assert terminated == (reward == 1) == info["success"] == (turn == distance)
            assert truncated == (turn == CONFIG.max_turns and not terminated)
            if terminated or truncated:
                break
        solved += info["success"]
        assert info["success"] == (distance <= CONFIG.max_turns)
    assert solved >= 195


def test_gymnasiums_checker_passes() -> None:
    check_env(make_env(CONFIG), skip_render_check=True)
    made = gymnasium.make("freshper/FrozenLakeImage-v0", config=CONFIG)
    assert made.observation_space.contains(made.reset(seed=0)[0])


def test_the_yaml_row_is_the_vision_row_of_the_paper() -> None:
    config = compose_config(["env=frozenlake_vlm", "model=hf", "model.path=org/name"]).env
    assert config == FrozenLakeImageConfig() and config.images and not FrozenLakeConfig().images
