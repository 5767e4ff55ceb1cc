"""Text CliffWalking against gymnasium's own, and against its promises."""

import numpy as np
import pytest
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from freshper.config.envs.cliff_walking import CliffWalkingConfig
from freshper.envs.cliff_walking import (
    ACTIONS,
    EVAL_STARTS,
    GOAL,
    MAP,
    REPLY,
    SAFE_TILES,
    START,
    SYSTEM,
    TRAIN_STARTS,
    CliffWalkingText,
    instruction,
)
from freshper.envs.expert import cliff_actions, good_actions
from freshper.envs.make import make_env

CONFIG = CliffWalkingConfig()


def play(env: CliffWalkingText, *moves: str) -> list[float]:
    return [env.step(REPLY.format(move))[1] for move in moves]


def test_dynamics_and_rewards_are_gymnasiums() -> None:
    rng = np.random.default_rng(0)
    env, peer = CliffWalkingText(CONFIG), CliffWalkingEnv()
    falls = arrivals = 0
    for episode in range(60):
        env.reset(seed=episode)
        peer.reset(seed=episode)
        while True:
            # Half of the moves go right, so that cliff and goal are reached.
            action = 1 if rng.random() < 0.5 else int(rng.integers(4))
            _, reward, terminated, truncated, info = env.step(REPLY.format(ACTIONS[action]))
            state, expected, ended, _, _ = peer.step(action)
            assert (env.state, reward, terminated) == (state, expected, ended)
            assert info["success"] == ended
            falls += reward == -100
            arrivals += ended
            if terminated or truncated:
                break
    assert falls > 100 and arrivals > 5


def test_the_map_is_gymnasiums() -> None:
    peer = CliffWalkingEnv()
    assert peer.shape == (4, 12) and peer.start_state_index == START
    assert "".join(MAP) == "".join(
        "S" if tile == START else "G" if tile == GOAL else "C" if cliff else "_"
        for tile, cliff in enumerate(peer._cliff.flatten())
    )


def test_the_expert_arrives_with_the_best_score() -> None:
    env = CliffWalkingText(CONFIG)
    for choice in (0, -1):
        env.reset(seed=0)
        total = 0.0
        for _ in range(13):
            _, reward, terminated, _, info = env.step(REPLY.format(ACTIONS[good_actions(env)[choice]]))
            total += reward
        assert (total, terminated, info["success"]) == (-13, True, True)
        assert good_actions(env) == ()


def test_good_actions_are_those_on_shortest_walks() -> None:
    peer = CliffWalkingEnv()
    distance = {GOAL: 0}
    while len(distance) < len(SAFE_TILES) + 1:  # the safe tiles and the goal
        for tile in SAFE_TILES:
            steps = [
                distance[to] for moves in peer.P[tile].values() for _, to, r, _ in moves if r > -100 and to in distance
            ]
            if steps:
                distance[tile] = min(1 + min(steps), distance.get(tile, 99))
    for tile in SAFE_TILES:
        moves = {a: peer.P[tile][a][0] for a in range(4)}
        good = tuple(a for a, (_, to, r, _) in moves.items() if r > -100 and distance[to] == distance[tile] - 1)
        assert cliff_actions(tile) == good


@pytest.mark.parametrize(("rule", "cost"), [("step", -1.0), ("free", 0.0)])
@pytest.mark.parametrize("reply", ["", "Up", "<answer>North</answer>", "<answer>Up", "崖"])
def test_an_invalid_turn_costs_what_the_config_says(rule: str, cost: float, reply: str) -> None:
    env = CliffWalkingText(CliffWalkingConfig(invalid_turn=rule))
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(reply)
    assert (reward, terminated, truncated) == (cost, False, False)
    assert info == {"valid": False, "success": False, "turn": 1} and env.state == START
    assert observation == f"Invalid reply. Reward {cost:.0f}. Turn 2, 199 left\nP row3 col0"


def test_never_moving_scores_best_only_under_the_public_rule() -> None:
    for rule, score in (("step", -200.0), ("free", 0.0)):
        env = CliffWalkingText(CliffWalkingConfig(invalid_turn=rule))
        env.reset(seed=0)
        steps = [env.step("") for _ in range(200)]
        assert sum(step[1] for step in steps) == score
        assert [step[3] for step in steps] == [False] * 199 + [True]
        with pytest.raises(ResetNeeded):
            env.step("")


def test_falling_leads_back_to_the_maps_start() -> None:
    env = CliffWalkingText(CONFIG)
    env.reset(seed=0)
    assert play(env, "Up", "Right", "Down") == [-1, -1, -100]
    assert env.state == START


def test_every_seed_is_the_same_episode_unless_starts_are_random() -> None:
    fixed, random = CliffWalkingText(CONFIG), CliffWalkingText(CliffWalkingConfig(random_start=True))
    assert len({fixed.reset(seed=seed)[0] for seed in (0, 5, CONFIG.eval_seed)}) == 1

    def starts(first: int) -> set[int]:
        found = set()
        for seed in range(first, first + 500):
            one = random.reset(seed=seed)
            found.add(random.state)
            assert random.reset(seed=seed) == one
        return found

    assert starts(0) == set(TRAIN_STARTS) and starts(CONFIG.eval_seed) == set(EVAL_STARTS)
    assert sorted([*TRAIN_STARTS, *EVAL_STARTS]) == list(SAFE_TILES) and START in EVAL_STARTS
    assert GOAL not in SAFE_TILES and len(SAFE_TILES) == 37


def test_the_board_is_drawn_once_or_every_turn() -> None:
    drawn = ["____________"] * 3 + ["PCCCCCCCCCCG"]
    for board, later in (("first_turn", []), ("every_turn", ["____________"] * 2 + ["P___________", "SCCCCCCCCCCG"])):
        config = CliffWalkingConfig(board=board)
        env = CliffWalkingText(config)
        first, info = env.reset(seed=0)
        assert info["system"] == SYSTEM
        assert first == "\n".join([instruction(config), "Turn 1, 200 left", "P row3 col0", *drawn])
        observation = env.step(REPLY.format("Up"))[0]
        assert observation.split("\n") == ["Reward -1. Turn 2, 199 left", "P row2 col0", *later]


def test_the_instruction_tells_the_rules_that_hold() -> None:
    assert "an invalid reply too" in instruction(CONFIG)
    assert "an invalid reply 0" in instruction(CliffWalkingConfig(invalid_turn="free"))


def test_gymnasiums_checker_passes() -> None:
    check_env(make_env(CONFIG), skip_render_check=True)
