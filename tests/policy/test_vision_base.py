"""The small vision model's recipe, its demonstrations, and the base that ships."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

from freshper.config.envs.frozen_lake_image import FrozenLakeImageConfig
from freshper.config.model import ModelConfig
from freshper.config.model_folder import TINY_FOLDERS
from freshper.envs.answer import parse_action
from freshper.envs.lake_map import ACTIONS, goal_distances
from freshper.envs.lake_render import draw_tile
from freshper.policy.load import load_policy, load_tokenizer
from freshper.policy.tiny.demonstrations import Player
from freshper.policy.tiny.vision_architecture import new_vision_policy
from freshper.policy.tiny.vision_demonstrations import GamePictures
from freshper.policy.tiny.vision_pretrain import RECIPES, pretrain_vision, vision_losses
from freshper.rollout.measure import measure
from tests.vision import vision_tokenizer

CONFIG = FrozenLakeImageConfig()
BASE = TINY_FOLDERS["frozen_lake_image"]


@pytest.fixture(scope="module")
def policy():
    return new_vision_policy(vision_tokenizer(), 0)


def test_labels_say_what_each_visual_token_shows(policy):
    """Read back from the pixels: the block of every image token is the picture of what its label names."""
    words = policy.tokenizer.convert_ids_to_tokens
    for shown in GamePictures(CONFIG, policy, 0).draw(10, Player(0.5, 0.0), 4):
        labels = words(shown.labels[shown.labels >= 0].tolist())
        assert len(labels) == 20 * len(shown.images)
        for number, image in enumerate(shown.images):
            tiles = image.pixels().reshape(4, 16, 4, 16, 3).swapaxes(1, 2).reshape(16, 16, 16, 3)
            for tile, label in zip(tiles, labels[20 * number : 20 * number + 16], strict=True):
                crack = range(3)
                known = {
                    "O": [draw_tile("H", 0, False, 16)],
                    "G": [draw_tile("G", 0, False, 16)],
                    "_": [draw_tile("S", 0, False, 16), *(draw_tile("F", c, False, 16) for c in crack)],
                    "P": [draw_tile("S", 0, True, 16), *(draw_tile("F", c, True, 16) for c in crack)],
                }
                assert any(np.array_equal(tile, picture) for picture in known[label])
            cells, places = labels[20 * number : 20 * number + 16], labels[20 * number + 16 : 20 * number + 20]
            assert places == [
                f"{name}{part}"
                for word in "PG"
                for name, part in zip(("row", "col"), divmod(cells.index(word), 4), strict=True)
            ]


def test_a_player_that_teaches_good_moves_only(policy):
    every = GamePictures(CONFIG, policy, 0).draw(12, Player(0.4, 0.1), 5)
    good = GamePictures(CONFIG, policy, 0).draw(12, Player(0.4, 0.1, teaches_all=False), 5)
    for all_of_it, some in zip(every, good, strict=True):
        assert torch.equal(all_of_it.ids, some.ids) and not bool((some.mask & ~all_of_it.mask).any())
    assert 0 < sum(int(shown.mask.sum()) for shown in good) < sum(int(shown.mask.sum()) for shown in every)


def test_demonstrations_are_reproducible_and_never_those_of_evaluation(policy):
    one, two, other = (GamePictures(CONFIG, policy, seed).draw(6, Player(0.5, 0.1), 5) for seed in (0, 0, 1))
    assert all(torch.equal(a.ids, b.ids) and a.images == b.images for a, b in zip(one, two, strict=True))
    assert [a.images for a in one] != [a.images for a in other]
    lengths = [len(shown.ids) for shown in one]
    assert lengths == sorted(lengths, reverse=True)


def test_an_expert_goes_the_shortest_way_and_the_mask_is_its_replies(policy):
    stream = GamePictures(CONFIG, policy, 0)
    for shown in stream.draw(10, Player(1.0, 0.0), 10):
        text = policy.tokenizer.decode(shown.ids[shown.mask])
        replies = [reply for reply in text.split("<|end|>") if reply]
        assert len(replies) == len(shown.images) and all(parse_action(reply, ACTIONS) for reply in replies)
    # The map of the last episode played is still there; its first state was as far away as there were replies.
    alone = GamePictures(CONFIG, policy, 3)
    (shown,) = alone.draw(1, Player(1.0, 0.0), 10)
    desc = alone._env.desc
    assert len(shown.images) == goal_distances(desc)["".join(desc).index("S")]


def test_other_tiles_than_visual_tokens_have_no_labels(policy):
    stream = GamePictures(FrozenLakeImageConfig(cell_pixels=24), policy, 0)
    (shown,) = stream.draw(1, Player(0.5, 0.0), 1)
    tokens = shown.ids == policy.vision.image_id
    assert tokens.sum() == 36 and (shown.labels[tokens] == -100).all() and (shown.labels >= 0).sum() == 4
    bare = replace(shown, labels=torch.full_like(shown.labels, -100))
    replies, named = vision_losses(policy, [bare])
    assert named.item() == 0 and vision_losses(policy, [shown])[0].item() == replies.item()


@pytest.mark.slow
def test_a_short_pretraining_lowers_both_losses():
    policy = new_vision_policy(vision_tokenizer(), 0)
    recipe, config = RECIPES["frozen_lake_image"]
    phases = tuple(replace(phase, episodes=16, max_turns=min(phase.max_turns, 3)) for phase in recipe.phases)
    cells: list[float] = []
    losses = pretrain_vision(
        replace(recipe, steps=40, phases=phases),
        GamePictures(config, policy, 0),
        policy,
        lambda step, phase, loss, named: cells.append(named),
    )
    assert len(losses) == len(cells) == 40 and np.isfinite(losses).all()
    assert losses[-1] < 0.5 * losses[0] and cells[-1] < 0.7 * cells[0]


def test_the_shipped_base_is_the_recipes_and_reads_pictures():
    record = json.loads((BASE / "recipe.json").read_text())
    recipe, config = RECIPES["frozen_lake_image"]
    assert record["recipe"] == json.loads(json.dumps(asdict(recipe))) and record["env"] == config.model_dump()
    assert record["parameters"] < 500_000 and record["sampled"]["episodes"] >= 256
    assert record["sampled"]["valid"] > 0.95
    # With a blank picture, or another map's, what is left is chance.
    for control in ("blank_image", "other_maps_image"):
        assert record[control]["optimal_by_turn"][0] < record[control]["chance_by_turn"][0] + 0.1
    assert record["greedy"]["optimal_by_turn"][0] > record["greedy"]["chance_by_turn"][0] + 0.2
    assert load_tokenizer(str(BASE)).get_vocab() == vision_tokenizer().get_vocab()
    assert sum(path.stat().st_size for path in BASE.iterdir()) < 2_000_000


def test_the_shipped_base_plays_as_measured():
    record = json.loads((BASE / "recipe.json").read_text())
    score = measure(load_policy(ModelConfig(base="frozen_lake_image")), CONFIG, episodes=48, seed=1)
    expected = record["sampled"]["success"]
    assert score.valid > 0.9 and abs(score.success - expected) < 4 * (expected * (1 - expected) / 48) ** 0.5
