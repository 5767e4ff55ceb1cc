"""Text FrozenLake against gymnasium's own, and against its promises."""

from collections.abc import Iterator

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv, is_valid
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from freshper.config.envs.frozen_lake import FrozenLakeConfig
from freshper.envs.expert import optimal_actions
from freshper.envs.frozen_lake import REPLY, FrozenLakeText, instruction
from freshper.envs.lake_map import ACTIONS, draw_map, goal_distances
from freshper.envs.make import make_env

CONFIG = FrozenLakeConfig()


def replies(seed: int) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    while True:
        yield REPLY.format(ACTIONS[int(rng.integers(4))])


def board(observation: str) -> list[str]:
    return observation.split("\n")[-4:]


def test_maps_are_solvable_and_well_spread() -> None:
    env = FrozenLakeText(CONFIG)
    starts, goals, holes = np.zeros(16), np.zeros(16), 0
    for seed in range(1000):
        env.reset(seed=seed)
        tiles = "".join(env.desc)
        assert tiles.count("S") == tiles.count("G") == 1
        assert goal_distances(env.desc)[tiles.index("S")] > 0
        starts[tiles.index("S")] += 1
        goals[tiles.index("G")] += 1
        holes += tiles.count("H")
    # Every tile is a start and a goal about 62 times; rejecting unsolvable maps costs a few holes and corners.
    assert starts.min() > 30 and starts.max() < 100
    assert goals.min() > 30 and goals.max() < 100
    assert 0.16 < holes / 14_000 < 0.2


def test_solvability_agrees_with_gymnasiums_search_from_the_corner() -> None:
    rng = np.random.default_rng(0)
    for _ in range(500):
        letters = np.where(rng.random((4, 4)) < 0.4, "H", "F")
        letters[0, 0], letters[3, 3] = "S", "G"
        desc = ["".join(row) for row in letters]
        assert (goal_distances(desc)[0] > 0) == is_valid([list(row) for row in desc], 4)


def test_fixed_corners_and_size() -> None:
    desc = draw_map(FrozenLakeConfig(size=6, random_start_and_goal=False), np.random.default_rng(0))
    assert len(desc) == 6 and desc[0][0] == "S" and desc[5][5] == "G"


def test_hopeless_settings_are_refused() -> None:
    config = FrozenLakeConfig(size=16, hole_probability=0.99, random_start_and_goal=False)
    with pytest.raises(ValueError, match="hole_probability"):
        draw_map(config, np.random.default_rng(0))


@pytest.mark.parametrize("slippery", [False, True])
def test_dynamics_are_gymnasiums(slippery: bool) -> None:
    env = FrozenLakeText(FrozenLakeConfig(slippery=slippery, max_turns=30))
    for seed in range(100):
        env.reset(seed=seed)
        peer = FrozenLakeEnv(desc=env.desc, is_slippery=slippery)
        peer.reset()
        assert env.transitions == peer.P
        assert env.state == peer.s
        peer.np_random.bit_generator.state = env.np_random.bit_generator.state
        for reply in replies(seed):
            _, reward, terminated, truncated, info = env.step(reply)
            action = next(i for i, name in enumerate(ACTIONS) if name in reply)
            state, expected, ended, _, _ = peer.step(action)
            assert (env.state, reward, terminated) == (state, expected, ended)
            assert info["success"] == (expected == 1)
            if terminated or truncated:
                break


@pytest.mark.parametrize("slippery", [False, True])
def test_a_seed_fixes_everything(slippery: bool) -> None:
    config = FrozenLakeConfig(slippery=slippery)
    used, fresh = FrozenLakeText(config), FrozenLakeText(config)
    used.reset(seed=99)
    used.step(REPLY.format("Up"))
    for seed in range(50):
        assert used.reset(seed=seed) == fresh.reset(seed=seed)
        for reply in replies(seed):
            one, other = used.step(reply), fresh.step(reply)
            assert one == other
            if one[2] or one[3]:
                break


@pytest.mark.parametrize("reply", ["", "Left", "<answer>Jump</answer>", "<answer>Left", "日本"])
def test_an_invalid_reply_wastes_the_turn(reply: str) -> None:
    env = FrozenLakeText(FrozenLakeConfig(slippery=True))
    first, _ = env.reset(seed=3)
    state, rng = env.state, env.np_random.bit_generator.state
    observation, reward, terminated, truncated, info = env.step(reply)
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info == {"valid": False, "success": False, "turn": 1}
    assert (env.state, env.np_random.bit_generator.state) == (state, rng)
    assert board(observation) == board(first)
    assert observation.startswith("Invalid reply. Reward 0. Turn 2, 9 left\n")


def test_truncation_at_max_turns() -> None:
    env = FrozenLakeText(FrozenLakeConfig(max_turns=3))
    env.reset(seed=0)
    assert [env.step("")[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    with pytest.raises(ResetNeeded):
        env.step("")


def test_the_expert_always_arrives_in_the_fewest_moves() -> None:
    env = FrozenLakeText(FrozenLakeConfig(max_turns=16))
    for seed in range(200):
        env.reset(seed=seed)
        best, distance = optimal_actions(env.desc), goal_distances(env.desc)[env.state]
        for turn in range(1, distance + 1):
            observation, reward, terminated, _, info = env.step(REPLY.format(ACTIONS[best[env.state][-1]]))
            assert terminated == (reward == 1) == info["success"] == (turn == distance)
        assert "√" in "".join(board(observation))


def test_falling_into_a_hole_ends_without_reward() -> None:
    env = FrozenLakeText(CONFIG)
    falls = 0
    for seed in range(50):
        env.reset(seed=seed)
        for reply in replies(seed):
            observation, reward, terminated, truncated, info = env.step(reply)
            if terminated and not info["success"]:
                falls += 1
                assert reward == 0 and "X" in "".join(board(observation))
            if terminated or truncated:
                break
    assert falls > 5


def test_messages_say_what_a_player_needs() -> None:
    env = FrozenLakeText(CONFIG)
    first, info = env.reset(seed=1)
    assert info["system"] and first.startswith(instruction(CONFIG))
    later = env.step(REPLY.format("Up"))[0]
    assert later.startswith("Reward 0. Turn 2, 9 left\n") and "Actions" not in later
    rows = board(first)
    row, column = next((r, rows[r].index("P")) for r in range(4) if "P" in rows[r])
    assert f"P row{row} col{column} G row" in first
    assert "Turn 1, 10 left" in first
    assert "slippery" not in first
    slippery, _ = FrozenLakeText(FrozenLakeConfig(slippery=True)).reset(seed=1)
    assert "slippery" in slippery


def test_gymnasiums_checker_passes() -> None:
    check_env(make_env(CONFIG), skip_render_check=True)
    made = gymnasium.make("freshper/FrozenLake-v0", config=CONFIG)
    observation, _ = made.reset(seed=0)
    assert made.observation_space.contains(observation)
    for reply in replies(0):
        observation, _, terminated, truncated, _ = made.step(reply)
        assert made.observation_space.contains(observation)
        if terminated or truncated:
            break


def test_the_largest_map_fits_the_observation_space() -> None:
    env = FrozenLakeText(FrozenLakeConfig(size=16, slippery=True))
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
