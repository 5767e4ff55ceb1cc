"""What the small base for Sokoban in pictures is pretrained on, and the base that ships."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from freshper.config.compose import compose_config
from freshper.config.envs.sokoban_image import SokobanImageConfig
from freshper.config.model import ModelConfig
from freshper.config.model_folder import TINY_FOLDERS
from freshper.envs.sokoban_render import SYMBOLS, draw_cell
from freshper.policy.load import load_policy, load_tokenizer
from freshper.policy.tiny.demonstrations import Player
from freshper.policy.tiny.vision_architecture import build_vision_tokenizer, new_vision_policy
from freshper.policy.tiny.vision_demonstrations import GamePictures, game_texts
from freshper.policy.tiny.vision_pretrain import RECIPES
from freshper.rollout.measure import measure

CONFIG = SokobanImageConfig(layouts=32)
ONE, TWO = (SokobanImageConfig(layouts=32, size=4 + 2 * boxes, boxes=boxes, cell_pixels=16) for boxes in (1, 2))
BASE = TINY_FOLDERS["sokoban_image"]


@pytest.fixture(autouse=True, scope="module")
def room_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FRESHPER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def policy():
    return new_vision_policy(build_vision_tokenizer(game_texts(CONFIG)), 0)


@pytest.mark.parametrize("config", [ONE, TWO], ids=["one", "two"])
def test_labels_say_what_each_visual_token_shows_and_where_the_pieces_are(policy, config):
    """Read back from the pixels: the block of every image token is the drawing of what its label names."""
    cells, places = config.size**2, 2 * (1 + 2 * config.boxes)
    seen = set()
    for shown in GamePictures(config, policy, 0).draw(16, Player(0.6, 0.0), 10):
        labels = [policy.tokenizer.decode([word]) for word in shown.labels[shown.labels >= 0].tolist()]
        assert len(labels) == (cells + places) * len(shown.images)
        assert int((shown.ids == policy.vision.image_id).sum()) == cells * len(shown.images)
        for number, image in enumerate(shown.images):
            begin = number * (cells + places)
            symbols, where = labels[begin : begin + cells], labels[begin + cells : begin + cells + places]
            blocks = image.pixels().reshape(config.size, 16, config.size, 16, 3).swapaxes(1, 2).reshape(-1, 16, 16, 3)
            for block, symbol in zip(blocks, symbols, strict=True):
                np.testing.assert_array_equal(block, draw_cell(symbol, 16))
            pieces = [
                int(row.removeprefix("row")) * config.size + int(column.removeprefix("col"))
                for row, column in zip(where[::2], where[1::2], strict=True)
            ]
            player, boxes, targets = pieces[0], pieces[1 : 1 + config.boxes], pieces[1 + config.boxes :]
            assert symbols[player] in "PS" and all(symbols[box] in "X√" for box in boxes)
            assert all(symbols[target] in "OS√" for target in targets)
            seen |= set(symbols)
    assert seen == set(SYMBOLS) - ({"√"} if config.boxes == 1 else set())  # a single box on its target ends the game


def test_a_visual_token_of_four_cells_has_no_name_but_the_pieces_have_a_place(policy):
    config = CONFIG.model_copy(update={"cell_pixels": 16})
    small, large = (GamePictures(c, policy, 0).draw(4, Player(1.0, 0.0), 3) for c in (CONFIG, config))
    for shown, named in zip(small, large, strict=True):
        tokens = shown.ids == policy.vision.image_id
        assert int(tokens.sum()) == 9 * len(shown.images) and (shown.labels[tokens] == -100).all()
        places = named.labels[(named.labels >= 0) & (named.ids != policy.vision.image_id)]
        assert torch.equal(shown.labels[shown.labels >= 0], places) and len(places) == 6 * len(shown.images)


def test_every_word_of_the_game_is_one_token(policy):
    observed = policy.tokenizer.tokenize(game_texts(CONFIG)[1])
    words = [token.removeprefix("Ġ") for token in observed]
    assert {"brown", "box", "ring", "figure", "Down", "Right"} <= set(words)
    assert all(len(policy.tokenizer(symbol).input_ids) == 1 for symbol in SYMBOLS)


def test_demonstrations_are_reproducible(policy):
    one, two, other = (GamePictures(CONFIG, policy, seed).draw(6, Player(0.5, 0.1), 5) for seed in (0, 0, 1))
    assert all(torch.equal(a.ids, b.ids) and a.images == b.images for a, b in zip(one, two, strict=True))
    assert [a.images for a in one] != [a.images for a in other]


def test_the_shipped_base_is_the_recipes_and_reads_pictures():
    record = json.loads((BASE / "recipe.json").read_text())
    recipe, config = RECIPES["sokoban_image"]
    assert record["recipe"] == json.loads(json.dumps(asdict(recipe))) and record["env"] == config.model_dump()
    assert record["parameters"] < 500_000 and record["sampled"]["episodes"] >= 256
    assert record["sampled"]["valid"] > 0.95 and 0.1 < record["sampled"]["success"] < 0.6
    # With a blank picture, or another room's, what is left is chance.
    for control in ("blank_image", "other_maps_image"):
        assert record[control]["optimal_by_turn"][0] < record[control]["chance_by_turn"][0] + 0.1
    assert record["greedy"]["optimal_by_turn"][0] > record["greedy"]["chance_by_turn"][0] + 0.2
    assert load_tokenizer(str(BASE)).get_vocab() == build_vision_tokenizer(game_texts(config)).get_vocab()
    assert sum(path.stat().st_size for path in BASE.iterdir()) < 2_000_000


def test_the_shipped_base_plays_as_measured():
    record = json.loads((BASE / "recipe.json").read_text())
    score = measure(load_policy(ModelConfig(base="sokoban_image")), SokobanImageConfig(), episodes=48, seed=1)
    expected = record["sampled"]["success"]
    assert score.valid > 0.9 and abs(score.success - expected) < 4 * (expected * (1 - expected) / 48) ** 0.5


@pytest.mark.parametrize("model", ["tiny", "tiny_vl"])
def test_the_task_takes_its_base(model):
    config = compose_config(["env=sokoban_vlm", f"model={model}"])
    assert (config.model.kind, config.model.base, config.model.name) == ("tiny", "sokoban_image", model)
