"""Text Sokoban: dynamics, rewards, horizon, messages, and the expert as a witness that rooms can be solved."""

import itertools

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from freshper.config.envs.sokoban import SokobanConfig
from freshper.envs.expert import distances_of, good_actions, winnable_actions
from freshper.envs.make import make_env
from freshper.envs.sokoban import INSTRUCTION, REPLY, SYSTEM, SokobanText
from freshper.envs.sokoban_search import ACTIONS, MOVES, UNSOLVABLE, Layout

# One file of layouts each: making all of them takes seconds.
SIMPLE = SokobanConfig(layouts=32)
HARD = SokobanConfig(layouts=32, name="sokoban_hard", size=8, boxes=2, min_moves=4, max_moves=16, max_turns=20)

ROOM = ("######", "#____#", "#____#", "#__#_#", "#____#", "######")


def started(walls: tuple[str, ...], targets: list[tuple[int, int]], *cells: tuple[int, int]) -> SokobanText:
    """An environment in a given room: player, then boxes."""
    env = SokobanText(HARD)
    env.reset(seed=0)
    env.start(Layout(walls, tuple(targets)), [list(cell) for cell in cells])
    return env


def rewards(env: SokobanText, *moves: str) -> list[float]:
    return [round(env.step(REPLY.format(move))[1], 6) for move in moves]


@pytest.mark.parametrize("config", [SIMPLE, HARD], ids=["simple", "hard"])
@pytest.mark.parametrize("first_seed", [0, SIMPLE.eval_seed])
def test_the_expert_solves_every_room_in_the_promised_number_of_moves(config: SokobanConfig, first_seed: int) -> None:
    env = SokobanText(config)
    seen = set()
    for seed in range(first_seed, first_seed + 100):
        env.reset(seed=seed)
        assert not set(env.boxes) & set(env.layout.targets)  # nothing is solved in advance
        distance = distances_of(env.layout).of(env.player, env.boxes)
        assert config.min_moves <= distance <= config.max_moves <= config.max_turns
        seen.add(distance)
        total = 0.0
        for turn in range(1, distance + 1):
            assert not set(good_actions(env)) - set(range(4))
            _, reward, terminated, truncated, info = env.step(REPLY.format(ACTIONS[good_actions(env)[-1]]))
            total += reward
            assert (terminated, truncated) == (turn == distance, False) and info["success"] == terminated
        # gym-sokoban: -0.1 a step, +1 for each box (those pushed off again pay it back), +10 at the end.
        assert total == pytest.approx(10 + config.boxes - 0.1 * distance)
        assert good_actions(env) == ()
    assert len(seen) >= 5


def test_rewards_of_pushing_on_off_and_solving() -> None:
    # Target at (1, 3); box at (2, 3), player below it would push up, but (3, 3) is a wall: push along row 1 instead.
    env = started(ROOM, [(1, 2), (4, 4)], (1, 4), (1, 3), (4, 3))
    assert rewards(env, "Left") == [0.9]  # on
    assert rewards(env, "Left") == [-1.1]  # off again
    assert rewards(env, "Left") == [-0.1]  # the box stands at the wall
    assert env.boxes == [(1, 1), (4, 3)]
    env = started(ROOM, [(1, 2), (4, 4)], (1, 4), (1, 3), (4, 3))
    assert rewards(env, "Left", "Down", "Left", "Left", "Down", "Down", "Right") == [0.9, *[-0.1] * 6]
    assert rewards(env, "Right") == [10.9]
    assert env.boxes == [(1, 2), (4, 4)]
    with pytest.raises(ResetNeeded):
        env.step(REPLY.format("Left"))


def test_moving_a_box_from_target_to_target_costs_one_step() -> None:
    env = started(ROOM, [(1, 2), (1, 3)], (1, 4), (1, 3), (4, 3))
    assert rewards(env, "Left") == [-0.1]


def test_what_cannot_move_stays_and_costs_a_step() -> None:
    env = started(ROOM, [(4, 1), (4, 4)], (1, 1), (1, 2), (1, 3))
    assert rewards(env, "Up", "Left", "Right") == [-0.1] * 3  # wall, wall, two boxes in a row
    assert env.player == (1, 1) and env.boxes == [(1, 2), (1, 3)]
    env = started(ROOM, [(4, 1), (4, 2)], (1, 3), (2, 3), (4, 4))
    assert rewards(env, "Down") == [-0.1]  # a box before a wall
    assert env.player == (1, 3)


@pytest.mark.parametrize("reply", ["", "Left", "<answer>Jump</answer>", "<answer>Left", "日本", "<answer>1</answer>"])
def test_an_invalid_reply_costs_a_step_and_moves_nobody(reply: str) -> None:
    env = SokobanText(SIMPLE)
    first, _ = env.reset(seed=3)
    before = env.player, env.boxes
    observation, reward, terminated, truncated, info = env.step(reply)
    assert (round(reward, 6), terminated, truncated) == (-0.1, False, False)
    assert info == {"valid": False, "success": False, "turn": 1}
    assert (env.player, env.boxes) == before
    assert observation.startswith("Invalid reply. Reward -0.1. Turn 2, 9 left\n")
    assert observation.split("\n")[1:] == first.split("\n")[-7:]


@pytest.mark.parametrize(("config", "floor"), [(SIMPLE, -1.0), (HARD, -2.0)], ids=["simple", "hard"])
def test_the_worst_idle_score_is_the_horizon_times_a_step(config: SokobanConfig, floor: float) -> None:
    env = SokobanText(config)
    env.reset(seed=0)
    steps = [env.step("") for _ in range(config.max_turns)]
    assert sum(step[1] for step in steps) == pytest.approx(floor)
    assert [step[3] for step in steps] == [False] * (config.max_turns - 1) + [True]
    assert not any(step[2] for step in steps)
    with pytest.raises(ResetNeeded):
        env.step("")


def test_messages_show_the_room_in_the_papers_symbols() -> None:
    env = started(ROOM, [(1, 2), (4, 4)], (1, 4), (1, 3), (4, 4))
    first, info = env.start(env.layout, [[1, 4], [1, 3], [4, 4]])
    assert info["system"] == SYSTEM and first.startswith(INSTRUCTION)
    assert first[len(INSTRUCTION) :].split("\n")[1:] == [
        "Turn 1, 20 left",
        "P row1 col4 X row1 col3 √ row4 col4 O row1 col2",
        "######",
        "#_OXP#",
        "#____#",
        "#__#_#",
        "#___√#",
        "######",
    ]
    later = env.step(REPLY.format("Down"))[0]
    assert later.startswith("Reward -0.1. Turn 2, 19 left\nP row2 col4") and "Actions" not in later
    env = started(ROOM, [(1, 2), (4, 4)], (1, 3), (2, 2), (2, 3))
    assert "#_S__#" in env.step(REPLY.format("Left"))[0]


def test_a_board_drawn_once_leaves_the_cells_ahead() -> None:
    once = SokobanText(HARD.model_copy(update={"board": "first_turn"}))
    every = SokobanText(HARD)
    room = Layout(ROOM, ((1, 2), (4, 4)))
    first = once.start(room, [[1, 4], [1, 3], [4, 4]])[0]
    assert first == every.start(room, [[1, 4], [1, 3], [4, 4]])[0] + "\nUp:## Down:__ Left:XO Right:##"
    later = once.step(REPLY.format("Down"))[0]
    assert later.split("\n") == [*every.step(REPLY.format("Down"))[0].split("\n")[:2], "Up:_# Down:_√ Left:__ Right:##"]
    assert once.step("")[0].split("\n")[2:] == ["Up:_# Down:_√ Left:__ Right:##"]


@pytest.mark.parametrize("seed", range(5))
def test_the_cells_ahead_are_those_of_the_grid(seed: int) -> None:
    once, every = SokobanText(HARD.model_copy(update={"board": "first_turn"})), SokobanText(HARD)
    rng = np.random.default_rng(seed)
    messages = once.reset(seed=seed)[0], every.reset(seed=seed)[0]
    for _ in range(15):
        ahead = dict(part.split(":") for part in messages[0].split("\n")[-1].split())
        grid = messages[1].split("\n")[-8:]
        row, column = every.player
        for name, (down, right) in zip(ACTIONS, MOVES, strict=True):
            places = [(row + step * down, column + step * right) for step in (1, 2)]
            cells = [grid[r][c] if 0 <= r < 8 and 0 <= c < 8 else "#" for r, c in places]
            assert ahead[name] == "".join(cells)
        reply = REPLY.format(ACTIONS[int(rng.integers(4))])
        one, two = once.step(reply), every.step(reply)
        assert one[1:] == two[1:]  # the same game
        if one[2]:
            break
        messages = one[0], two[0]


def test_a_seed_fixes_everything_and_the_past_nothing() -> None:
    used, fresh = SokobanText(SIMPLE), SokobanText(SIMPLE)
    used.reset(seed=99)
    used.step(REPLY.format("Up"))
    firsts = set()
    for seed in range(200):
        assert used.reset(seed=seed) == fresh.reset(seed=seed)
        firsts.add(fresh.reset(seed=seed)[0])
        assert used.step(REPLY.format("Up")) == fresh.step(REPLY.format("Up"))
    assert len(firsts) > 100


def test_without_a_seed_the_generator_goes_on() -> None:
    env = SokobanText(SIMPLE)
    env.reset(seed=5)
    later = [env.reset()[0] for _ in range(20)]
    env.reset(seed=5)
    assert later == [env.reset()[0] for _ in range(20)] and len(set(later)) > 10


def test_the_expert_sees_when_nothing_helps() -> None:
    env = started(ROOM, [(2, 2), (4, 4)], (2, 1), (1, 1), (4, 3))
    assert distances_of(env.layout).of(env.player, env.boxes) == UNSOLVABLE  # a box in the corner
    assert good_actions(env) == ()


def test_good_actions_are_those_that_lower_the_distance() -> None:
    rng = np.random.default_rng(0)
    for seed in range(30):
        env = SokobanText(HARD)
        env.reset(seed=seed)
        room, table = env.layout, distances_of(env.layout)
        for _ in range(10):
            cells = [list(env.player), *map(list, env.boxes)]
            here = table.of(env.player, env.boxes)
            helped, winnable = [], []
            for action, name in enumerate(ACTIONS):
                env.start(room, cells)
                env.step(REPLY.format(name))
                if here not in (0, UNSOLVABLE) and table.of(env.player, env.boxes) == here - 1:
                    helped.append(action)
                moved = [list(env.player), *map(list, env.boxes)] != cells
                if moved and table.of(env.player, env.boxes) != UNSOLVABLE:
                    winnable.append(action)
            env.start(room, cells)
            assert (good_actions(env), winnable_actions(env)) == (tuple(helped), tuple(winnable))
            env.step(REPLY.format(ACTIONS[int(rng.integers(4))]))


def test_gymnasiums_checker_passes_and_the_largest_room_fits() -> None:
    check_env(make_env(SIMPLE), skip_render_check=True)
    env = SokobanText(SokobanConfig(size=10, boxes=3, min_moves=8, max_moves=40, max_turns=100))
    walls = ("#" * 10, *["#" + "_" * 8 + "#"] * 8, "#" * 10)
    observation, _ = env.start(Layout(walls, ((1, 1), (1, 2), (1, 3))), [[5, 5], [2, 2], [2, 3], [2, 4]])
    assert env.observation_space.contains(observation)
    assert all(f"row{r} col{c}" in observation for r, c in itertools.product((1, 2), (2, 3)))
