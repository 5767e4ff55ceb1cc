"""Sokoban as pictures: the text game's rules, and pictures that say what its grid says."""

import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from freshper.config.compose import compose_config
from freshper.config.envs.sokoban import RoomSection, SokobanConfig
from freshper.config.envs.sokoban_image import SokobanImageConfig
from freshper.config.errors import ConfigError
from freshper.envs.expert import distances_of, good_actions
from freshper.envs.make import make_env
from freshper.envs.observation import read_observation
from freshper.envs.sokoban import REPLY, SokobanText
from freshper.envs.sokoban_image import INSTRUCTION, SYSTEM, SokobanImage
from freshper.envs.sokoban_render import SYMBOLS, draw_cell, draw_room
from freshper.envs.sokoban_search import ACTIONS, Layout

# One file of layouts each: making all of them takes seconds.
SIMPLE = SokobanImageConfig(layouts=32, cell_pixels=16)
HARD = SokobanImageConfig(
    layouts=32, name="hard", size=8, boxes=2, min_moves=4, max_moves=16, max_turns=20, cell_pixels=8
)
GAMES = pytest.mark.parametrize("config", [SIMPLE, HARD], ids=["simple", "hard"])


def text_twin(config: SokobanImageConfig) -> SokobanText:
    """The text game in the same rooms."""
    keys = ("layouts", "size", "boxes", "min_moves", "max_moves", "max_turns")
    return SokobanText(SokobanConfig(**{key: getattr(config, key) for key in keys}))


def read_picture(image: np.ndarray, pixels: int) -> list[str]:
    """The room in a picture, by comparing each block of pixels with the drawing of every symbol."""
    rows = []
    for top in range(0, image.shape[0], pixels):
        blocks = [image[top : top + pixels, left : left + pixels] for left in range(0, image.shape[1], pixels)]
        found = [[symbol for symbol in SYMBOLS if np.array_equal(block, draw_cell(symbol, pixels))] for block in blocks]
        assert all(len(symbols) == 1 for symbols in found)
        rows.append("".join(symbol for (symbol,) in found))
    return rows


@GAMES
def test_the_game_is_the_text_game_and_the_picture_its_grid_cell_by_cell(config: SokobanImageConfig) -> None:
    image, text = SokobanImage(config), text_twin(config)
    rng = np.random.default_rng(0)
    seen = set()
    for seed in [*range(40), *range(config.eval_seed, config.eval_seed + 10)]:
        shown, _ = image.reset(seed=seed)
        board, _ = text.reset(seed=seed)
        while True:
            grid = board.split("\n")[-config.size :]
            assert read_picture(shown["image"], config.cell_pixels) == grid == image.grid()
            seen |= set("".join(grid))
            name = ACTIONS[int(rng.choice(good_actions(text) or range(4)))]
            reply = "?" if rng.random() < 0.1 else REPLY.format(name)
            shown, *rest = image.step(reply)
            board, *expected = text.step(reply)
            assert rest == expected
            assert (image.player, image.boxes, image.layout) == (text.player, text.boxes, text.layout)
            if rest[1] or rest[2]:
                break
        assert read_picture(shown["image"], config.cell_pixels) == board.split("\n")[-config.size :]
        seen |= set("".join(image.grid()))
        with pytest.raises(ResetNeeded):
            image.step(REPLY.format("Up"))
    assert seen == set(SYMBOLS)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 8).flatmap(
        lambda width: st.lists(st.text(SYMBOLS, min_size=width, max_size=width), min_size=1, max_size=8)
    ),
    pixels=st.sampled_from([8, 13, 16, 64]),
)
def test_any_room_can_be_read_back_from_its_picture(rows: list[str], pixels: int) -> None:
    image = draw_room(rows, pixels)
    assert image.shape == (len(rows) * pixels, len(rows[0]) * pixels, 3) and image.dtype == np.uint8
    assert read_picture(image, pixels) == rows


@pytest.mark.parametrize("pixels", [8, 16])
def test_cells_differ_by_colour_and_by_shape(pixels: int) -> None:
    for one, other in itertools.combinations(SYMBOLS, 2):
        a, b = (draw_cell(symbol, pixels).astype(float) for symbol in (one, other))
        assert np.abs(a - b).mean() > 6
        # Without colours, a box on its target is a darker box; all others have another outline.
        grey = np.abs(a.mean(axis=2) - b.mean(axis=2)).mean()
        assert grey > 5 or {one, other} == {"X", "√"}


def test_pictures_share_no_memory() -> None:
    first = draw_room(["#P", "_X"], 16)
    first[:] = 0
    assert (draw_room(["#P", "_X"], 16) > 0).any()
    env = SokobanImage(SIMPLE)
    shown = env.reset(seed=1)[0]["image"]
    before = shown.copy()
    env.step(REPLY.format("Up"))
    np.testing.assert_array_equal(shown, before)


def test_a_symbol_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError):
        draw_room(["#?"], 16)


@GAMES
def test_the_expert_solves_every_room_in_the_promised_number_of_moves(config: SokobanImageConfig) -> None:
    env = SokobanImage(config)
    for seed in [*range(30), *range(config.eval_seed, config.eval_seed + 30)]:
        env.reset(seed=seed)
        distance = distances_of(env.layout).of(env.player, env.boxes)
        assert config.min_moves <= distance <= config.max_moves <= config.max_turns
        total = 0.0
        for turn in range(1, distance + 1):
            _, reward, terminated, truncated, info = env.step(REPLY.format(ACTIONS[good_actions(env)[0]]))
            total += reward
            assert (terminated, truncated, info["success"]) == (turn == distance, False, turn == distance)
        assert total == pytest.approx(10 + config.boxes - 0.1 * distance)


def test_words_tell_turn_reward_and_format_but_no_place() -> None:
    env = SokobanImage(SIMPLE)
    first, info = env.reset(seed=1)
    assert info["system"] == SYSTEM and first["text"] == f"{INSTRUCTION}\nTurn 1, 10 left"
    assert "<answer>action</answer>" in first["text"] and all(action in first["text"] for action in ACTIONS)
    assert env.step("?")[0]["text"] == "Invalid reply. Reward -0.1. Turn 2, 9 left"
    # Rooms differ, words do not.
    assert len({env.reset(seed=seed)[0]["text"] for seed in range(20)}) == 1
    assert len({env.reset(seed=seed)[0]["image"].tobytes() for seed in range(20)}) > 10
    room = Layout(("######", "#____#", "#____#", "#__#_#", "#____#", "######"), ((1, 3),))
    start, info = env.start(room, [[1, 1], [1, 2]])
    assert start["text"] == first["text"] and info["system"] == SYSTEM
    assert read_picture(start["image"], 16)[1] == "#PXO_#"
    assert env.step(REPLY.format("Right"))[0]["text"] == "Reward 10.9. Turn 2, 9 left"


@pytest.mark.parametrize(("size", "pixels", "expected"), [(6, 8, 48), (6, 42, 252), (10, 64, 640)])
def test_sizes(size: int, pixels: int, expected: int) -> None:
    config = SokobanImageConfig(size=size, cell_pixels=pixels, layouts=32)
    env = make_env(config)
    observation, _ = env.reset(seed=0)
    seen = read_observation(observation)
    assert seen.image is not None and seen.image.shape == (expected, expected, 3)
    assert env.observation_space.contains(observation) and config.image_pixels() == expected**2


def test_gymnasiums_checker_passes() -> None:
    check_env(make_env(SIMPLE), skip_render_check=True)
    made = gymnasium.make("freshper/SokobanImage-v0", config=SIMPLE)
    assert made.observation_space.contains(made.reset(seed=0)[0])


def test_the_yaml_is_the_simple_room_of_the_text_game() -> None:
    model = ["model=hf", "model.path=org/name"]
    config = compose_config(["env=sokoban_vlm", *model]).env
    assert config == SokobanImageConfig() and config.images
    text = compose_config(["env=sokoban_simple", *model]).env
    shared = set(RoomSection.model_fields) - {"family", "name"}
    assert config.model_dump(include=shared) == text.model_dump(include=shared)


def test_rooms_must_be_solvable_in_time_here_too() -> None:
    with pytest.raises(ConfigError, match="env.max_moves"):
        compose_config(["env=sokoban_vlm", "env.max_turns=5", "model=hf", "model.path=org/name"])
