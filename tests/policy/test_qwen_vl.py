"""A folder laid out like the published Qwen2.5-VL-3B-Instruct, at a size for tests."""

import json

import numpy as np
import pytest
import torch

from freshper.config.model import ModelConfig
from freshper.policy.chat import encode
from freshper.policy.errors import ModelError
from freshper.policy.load import load_policy
from freshper.policy.vision_inputs import vision_inputs
from tests.qwen_vl import write_qwen_vl
from tests.vision import picture, reference_logprobs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_qwen_vl(tmp_path_factory.mktemp("qwen") / "model")


def load(folder, **changes):
    return load_policy(ModelConfig(kind="hf", path=str(folder), **changes))


def test_it_loads_with_its_own_names_and_numbers(folder):
    policy = load(folder)
    tok = policy.tokenizer
    assert policy.vision.image_token == "<|image_pad|>" and policy.vision.image_id == tok.convert_tokens_to_ids(
        "<|image_pad|>"
    )
    assert policy.end_ids == set(tok.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"]))
    # Its padding ends turns as well, so it stays allowed; its own <|vision_pad|> does not.
    ruled_out = ["<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>"]
    assert policy.never.tolist() == sorted(tok.convert_tokens_to_ids(ruled_out))
    assert policy.vision.tokens(256, 256) == 81 and policy.vision.tokens(1000, 1000) == 36 * 36
    assert load(folder, max_pixels=65536).vision.tokens(1000, 1000) == 81
    with pytest.raises(ModelError, match="model.max_pixels=100"):
        load(folder, max_pixels=100)


def test_the_template_may_lie_with_the_tokenizer(folder, tmp_path):
    other = load(write_qwen_vl(tmp_path / "other", legacy_template=False))
    assert other.chat == load(folder).chat and other.vision.placeholder == "<|vision_start|><|image_pad|><|vision_end|>"


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_log_probs_are_transformers_own(folder, attention):
    """Windows of the tower, grouped queries, images of several sizes: nothing is tuned to the small model."""
    policy, rng = load(folder, attention=attention), np.random.default_rng(0)
    rows = []
    for sizes in ([(56, 56), (112, 168)], [(224, 112)]):
        images = [picture(rng, *size) for size in sizes]
        text = policy.chat.first_prompt("Look.", policy.vision.message("Go?", images[0]))
        for image in images[1:]:
            text += "Up" + policy.chat.next_prompt(policy.vision.message("And?", image))
        rows.append((encode(policy.tokenizer, [text + "Left"])[0], images))
    width = max(len(ids) for ids, _ in rows)
    ids = torch.tensor([row + [0] * (width - len(row)) for row, _ in rows])
    with torch.no_grad():
        hidden = policy.hidden(ids, policy.look(ids, [images for _, images in rows]), use_cache=False)
        found = policy.logits(hidden).log_softmax(-1).exp()
    for place, (row, images) in enumerate(rows):
        expected = reference_logprobs(policy, row, images).exp()
        assert float((found[place, : len(row) - 1] - expected).abs().max()) < 1e-5


def test_a_processor_of_another_tower_is_refused(folder, tmp_path):
    import shutil

    copy = shutil.copytree(folder, tmp_path / "model")
    config = json.loads((copy / "preprocessor_config.json").read_text())
    (copy / "preprocessor_config.json").write_text(json.dumps({**config, "patch_size": 16}))
    with pytest.raises(ModelError, match="cuts patches by"):
        load(copy)
    (copy / "preprocessor_config.json").unlink()
    with pytest.raises(ModelError, match="image processor cannot be loaded"):
        load(copy)


def test_inputs_are_sample_major(folder):
    policy, rng = load(folder), np.random.default_rng(1)
    one, two = picture(rng, 56, 56), picture(rng, 56, 56)
    rows = [encode(policy.tokenizer, [policy.vision.message("Go?", image)])[0] for image in (one, two, one)]
    inputs = vision_inputs(policy.model, policy.vision, torch.tensor(rows), [[one], [two], [one]])
    patches = policy.vision.patches([one, two])
    assert torch.equal(inputs.pixel_values, torch.from_numpy(np.concatenate([p.values for p in patches])))
    assert inputs.grid.tolist() == [[1, 4, 4], [1, 4, 4]]
    assert inputs.order.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3]
