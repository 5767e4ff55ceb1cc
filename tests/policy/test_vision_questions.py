"""What the small base for questions about pictures is pretrained on, and the base that ships."""

import json

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from freshper.config.model import ModelConfig
from freshper.config.model_folder import TINY_FOLDERS
from freshper.envs.geo.env import GeoQA
from freshper.envs.math.reply import final_answer
from freshper.policy.load import load_policy
from freshper.policy.tiny.demonstrations import Player
from freshper.policy.tiny.picture_labels import ink_in_parts, shape_in_parts
from freshper.policy.tiny.vision_architecture import build_vision_tokenizer, new_vision_policy
from freshper.policy.tiny.vision_questions import (
    BASES,
    DIAGRAMS,
    SHAPES,
    VOCABULARY,
    OtherPictures,
    QuestionPictures,
    question_texts,
)

TASKS = (DIAGRAMS, SHAPES)
EXPERT, GUESSER = Player(1.0, 0.0), Player(0.0, 0.0)


@pytest.fixture(scope="module")
def policy():
    return new_vision_policy(build_vision_tokenizer(question_texts(TASKS), VOCABULARY), 0)


def replies(policy, shown) -> list[str]:
    """The player's messages of a conversation."""
    text = policy.tokenizer.decode(shown.ids)
    return [part.split("<|end|>")[0] for part in text.split("<|assistant|>")[1:]]


def test_conversations_have_images_labels_and_a_mask_of_replies(policy):
    for shown in QuestionPictures(TASKS, policy, 0).draw(12, Player(0.3, 0.1), 3):
        tokens = int((shown.ids == policy.vision.image_id).sum())
        labelled = shown.labels >= 0
        assert tokens == 16 * len(shown.images) and 1 <= len(shown.images) <= 3
        assert torch.equal(labelled, shown.ids == policy.vision.image_id)
        said = policy.tokenizer.decode(shown.ids[shown.mask])
        assert said == "".join(f"{reply}<|end|>" for reply in replies(policy, shown))
        names = policy.tokenizer.convert_ids_to_tokens(shown.labels[labelled].tolist())
        assert set(names) <= set("0123456789")


def test_an_expert_is_right_at_once_and_a_guesser_as_often_as_chance(policy):
    def tries(player: Player) -> list[int]:
        return [len(replies(policy, shown)) for shown in QuestionPictures((DIAGRAMS,), policy, 3).draw(300, player, 3)]

    assert set(tries(EXPERT)) == {1}
    assert np.mean([count == 1 for count in tries(GUESSER)]) < 0.35
    said = [replies(policy, s)[0] for s in QuestionPictures(TASKS, policy, 1).draw(60, GUESSER, 1)]
    assert all(final_answer(reply) for reply in said)
    broken = [replies(policy, s)[0] for s in QuestionPictures(TASKS, policy, 1).draw(60, Player(1.0, 1.0), 1)]
    assert all(final_answer(reply) is None for reply in broken)


def test_a_player_that_teaches_right_replies_only(policy):
    taught = []
    for shown in QuestionPictures((DIAGRAMS,), policy, 2).draw(60, Player(0.3, 0.1, teaches_all=False), 3):
        said, given = policy.tokenizer.decode(shown.ids[shown.mask]), replies(policy, shown)
        assert said in ("", f"{given[-1]}<|end|>") and (said or len(given) == 3)  # the right reply ends the episode
        taught.append(bool(said))
    assert 0 < sum(taught) < len(taught)


def test_the_stream_is_seeded_and_never_shows_evaluation(policy):
    one, other = (QuestionPictures((DIAGRAMS,), policy, 5).draw(40, EXPERT, 1) for _ in range(2))
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(one, other, strict=True))
    env = GeoQA(DIAGRAMS)
    held_out = {env.reset(seed=DIAGRAMS.eval_seed + k)[0]["image"].tobytes() for k in range(400)}
    assert not held_out & {image.pixels().tobytes() for shown in one for image in shown.images}


def test_ink_in_parts_counts_what_is_drawn():
    pixels = np.full((32, 32, 3), 255, np.uint8)
    pixels[:16, 16:] = 20  # all of one part
    pixels[16:24, :16] = (255, 100, 255)  # half of another
    pixels[24:, 16:] = 200  # a line of the grid is paper
    assert ink_in_parts(pixels, 16) == [0, 9, 5, 0]


@pytest.mark.parametrize(("kind", "draw"), [(1, "polygon"), (2, "ellipse"), (3, "rectangle")])
@pytest.mark.parametrize(("colour", "rgb"), [(1, (255, 0, 0)), (4, (0, 0, 0)), (6, (0, 128, 128)), (8, (255, 255, 0))])
def test_shape_in_parts_names_colour_and_kind_in_turn(kind, draw, colour, rgb):
    picture = Image.new("RGB", (64, 64), (250, 240, 255))
    place = [(8, 40), (56, 40), (32, 4)] if draw == "polygon" else (8, 4, 50, 44)
    getattr(ImageDraw.Draw(picture), draw)(place, fill=rgb)
    names = np.reshape(shape_in_parts(np.asarray(picture), 16), (4, 4))
    assert (names[3] == 0).all() and names[1:3].any(axis=1).all()
    assert {int(names[r, c]) for r in range(3) for c in range(4) if names[r, c] and (r + c) % 2} == {kind}
    assert {int(names[r, c]) for r in range(3) for c in range(4) if names[r, c] and not (r + c) % 2} == {colour}
    assert shape_in_parts(np.full((32, 32, 3), 255, np.uint8), 16) == [0, 0, 0, 0]


def test_words_of_the_questions_are_single_tokens(policy):
    env = GeoQA(SHAPES)
    for seed in range(20):
        first, info = env.reset(seed=seed)
        for text in (info["system"], first["text"], env.item.answer):
            tokens = policy.tokenizer.tokenize(text)
            assert len(tokens) <= 1.7 * len(text.split()) + 6, tokens
    assert len(policy.tokenizer) <= VOCABULARY


def test_other_pictures_are_of_other_items():
    env, other = GeoQA(DIAGRAMS), OtherPictures(DIAGRAMS)
    same = 0
    for seed in range(20):
        seen, swapped = env.reset(seed=seed)[0], other.reset(seed=seed)[0]
        assert seen["text"] == swapped["text"] and env.item == other.item
        same += bool((seen["image"] == swapped["image"]).all())
        assert (other.step("")[0]["image"] == swapped["image"]).all()
    assert same <= 1


@pytest.mark.parametrize("base", BASES)
def test_the_bases_that_ship_see_and_leave_room_to_learn(base):
    folder = TINY_FOLDERS[base]
    assert (folder / "model.safetensors").stat().st_size < 2 * 2**20
    measured = json.loads((folder / "recipe.json").read_text())["measured"]
    success = {kind: metrics["success"] for kind, metrics in measured[base].items()}
    assert 0.3 <= success["sampled"] <= 0.65
    assert success["sampled"] > success["other_pictures"]
    assert success["greedy"] > success["other_pictures_greedy"] + 0.1
    policy = load_policy(ModelConfig(kind="tiny", base=base, device="cpu"))
    question = {"geoqa": "What is the area?", "easy_vqa": "What color is the shape?"}[base]
    tokens = policy.tokenizer.tokenize(question)
    assert policy.vision is not None and "".join(tokens).replace("Ġ", " ") == question and len(tokens) <= 8
