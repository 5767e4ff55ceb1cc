"""A policy that sees: against transformers' own forward pass, and each way in which images go silently wrong."""

import dataclasses
import warnings

import numpy as np
import pytest
import torch
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from freshper.policy.chat import ChatTemplateError, chat_format, encode
from freshper.policy.logprobs import token_logprobs
from freshper.policy.vision import PatchCache, Patches, image_placeholder
from freshper.replay.images import pack_image
from freshper.rollout.engine import Sampling
from freshper.rollout.sampling import draw_tokens
from tests.models import tokenizer as text_tokenizer
from tests.vision import picture, random_vision_policy, reference_logprobs, vision_tokenizer

POLICY = random_vision_policy()
VISION = POLICY.vision
# The layout of Qwen2.5-VL's own template.
QWEN = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}"
    "{% for content in message['content'] %}{% if content['type'] == 'image' or 'image' in content %}"
    "<|vision_start|><|image_pad|><|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def conversation(images, words="Which way?"):
    """Token ids of a conversation with an image in each user message."""
    chat = POLICY.chat
    text = chat.first_prompt("Look.", VISION.message(words, images[0]))
    for image in images[1:]:
        text += "Left" + chat.next_prompt(VISION.message(words, image))
    return encode(POLICY.tokenizer, [text + "Down"])[0]


def ours(rows, images):
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    with torch.no_grad():
        hidden = POLICY.hidden(ids, POLICY.look(ids, images), use_cache=False)
        return POLICY.logits(hidden).log_softmax(-1)


def largest_difference(a, b):
    return float((a.exp() - b.exp()).abs().max())


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_log_probs_are_those_of_transformers_alone_and_in_a_batch(rng):
    """Rows of different lengths, numbers and sizes of images; one image twice in a row and once in another row."""
    shared = picture(rng)
    images = [[shared, picture(rng), shared], [picture(rng, 32, 64)], [picture(rng), shared]]
    rows = [conversation(shown, words) for shown, words in zip(images, ["Up?", "Which way?", "Go"], strict=True)]
    batch = ours(rows, images)
    for place, (row, shown) in enumerate(zip(rows, images, strict=True)):
        alone = ours([row], [shown])[0, : len(row) - 1]
        assert largest_difference(alone, reference_logprobs(POLICY, row, shown)) < 1e-5
        assert largest_difference(batch[place, : len(row) - 1], alone) < 1e-5


def test_an_image_that_is_shown_again_is_computed_once_and_learned_from_twice(rng):
    image, other = picture(rng), picture(rng)
    ids = torch.tensor([conversation([image, other, image])])
    vision = POLICY.look(ids, [[image, other, image]])
    assert len(vision.grid) == 2 and len(vision.pixel_values) == 2 * 64
    weight = POLICY.model.model.visual.patch_embed.proj.weight

    def gradient(inputs):
        POLICY.model.zero_grad()
        hidden = POLICY.hidden(ids, inputs, use_cache=False)
        POLICY.logits(hidden)[0].log_softmax(-1)[:, :50].sum().backward()
        return weight.grad.clone()

    once = gradient(vision)
    half = vision.pixel_values.reshape(2, 64, -1)
    three = dataclasses.replace(
        vision,
        pixel_values=half[[0, 1, 0]].reshape(192, -1),
        grid=vision.grid[[0, 1, 0]],
        order=torch.arange(48),
    )
    thrice = gradient(three)
    POLICY.model.zero_grad()
    torch.testing.assert_close(once, thrice, atol=1e-4 * float(thrice.abs().max()), rtol=1e-3)


def test_positions_are_not_one_dimensional(rng):
    """Without token types transformers numbers image tokens like text, without a word: it must show in the result."""
    images = [picture(rng), picture(rng)]
    row = conversation(images)
    ids = torch.tensor([row])
    vision = POLICY.look(ids, [images])
    assert vision.positions.shape == (3, 1, len(row)) and not torch.equal(vision.positions[0], vision.positions[1])
    assert int(vision.positions.max()) == len(row) - 1 - 2 * (16 - 4)  # 16 tokens of an image take 4 positions
    with torch.no_grad():
        right = POLICY.hidden(ids, vision, use_cache=False)
        wrong = POLICY.hidden(ids, vision, use_cache=False, position_ids=torch.arange(len(row))[None])
    assert float((right - wrong).abs().max()) > 0.05


def test_images_in_another_order_are_caught_or_matter(rng):
    wide, tall = picture(rng, 32, 64), picture(rng, 64, 64)
    row = conversation([wide, tall])
    ids = torch.tensor([row])
    for wrong in ([tall, wide], [wide], [wide, tall, tall], []):
        if not wrong:
            assert POLICY.look(ids, [wrong]) is None  # a batch without images is one of text
            continue
        with pytest.raises(ValueError, match="image tokens and images of the batch disagree"):
            POLICY.look(ids, [wrong])
    # In a batch each row has its own list, so one row's images cannot become another's.
    first, second = picture(rng), picture(rng)
    rows = [conversation([first]), conversation([second])]
    right, swapped = ours(rows, [[first], [second]]), ours(rows, [[second], [first]])
    assert largest_difference(right, swapped) > 1e-3
    for place, image in enumerate((first, second)):
        expected = reference_logprobs(POLICY, rows[place], [image])
        assert largest_difference(right[place, :-1], expected) < 1e-5
    with pytest.raises(ValueError, match="disagree"):
        POLICY.look(torch.tensor(rows), [[first, second], []])


def test_image_tokens_are_never_drawn_and_have_no_probability_in_training(rng):
    names = ["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>", "<|pad|>"]
    assert POLICY.never.tolist() == sorted(POLICY.tokenizer.convert_tokens_to_ids(names))
    # A hidden state that would make the image token certain.
    head = POLICY.model.get_output_embeddings().weight.detach()
    hidden = (30 * head[VISION.image_id] / head[VISION.image_id].norm()).repeat(400, 1).requires_grad_()
    raw = POLICY.model.get_output_embeddings()(hidden)
    assert int(raw[0].argmax()) == VISION.image_id
    for temperature in (0.5, 1.0, 2.0):
        sampling = Sampling(1, temperature=temperature)
        tokens, logp, _ = draw_tokens(POLICY.logits(hidden.detach()), sampling, torch.Generator().manual_seed(0))
        assert not set(tokens.tolist()) & set(POLICY.never.tolist())
        again, entropy = token_logprobs(POLICY, hidden, tokens, temperature)
        torch.testing.assert_close(again, logp)  # the ratio of a fresh token is one
        allowed = torch.ones(len(head), dtype=torch.bool)
        allowed[POLICY.never] = False
        p = torch.softmax(raw[0][allowed] / temperature, -1)
        assert float(entropy[0].detach()) == pytest.approx(float(-(p * p.log()).sum().detach()), abs=1e-4)
        (again.sum() + entropy.sum()).backward()
        assert torch.isfinite(hidden.grad).all()


def test_a_small_image_is_not_enlarged(rng):
    """The processor's usual minimum would make 56 x 56 pixels of it and blur every cell."""
    assert VISION.tokens(32, 32) == 4 and VISION.tokens(64, 64) == 16
    usual = Qwen2VLImageProcessorPil(patch_size=8, merge_size=2)
    assert usual.get_number_of_image_patches(32, 32) // 4 > 4
    image = picture(rng, 32, 32)
    (patches,) = VISION.patches([image])
    assert patches.grid == (1, 4, 4)
    mean, std = np.array(usual.image_mean), np.array(usual.image_std)
    first = patches.values[0].reshape(3, 2, 8, 8)  # colour, frame, row, column
    expected = (image.pixels()[:8, :8] / 255 - mean) / std
    np.testing.assert_allclose(first[:, 0].transpose(1, 2, 0), expected, atol=1e-5)
    np.testing.assert_array_equal(first[:, 0], first[:, 1])


def test_equal_pixels_give_equal_patches_with_and_without_the_cache(rng):
    images = [picture(rng) for _ in range(3)]
    fresh = random_vision_policy().vision
    before = fresh.patches(images)
    assert [p is q for p, q in zip(before, fresh.patches(images), strict=True)] == [True] * 3
    again = random_vision_policy().vision.patches([pack_image(image.pixels()) for image in images])
    for one, two in zip(before, again, strict=True):
        np.testing.assert_array_equal(one.values, two.values)


def test_the_cache_forgets_the_least_recently_used():
    cache = PatchCache(most_bytes=100)
    for name in b"abc":
        cache.put(bytes([name]), Patches(np.zeros((1, 10), np.float32), (1, 1, 1)))
        cache.get(b"a")
    assert cache.get(b"b") is None and cache.get(b"a") is not None and cache.get(b"c") is not None
    assert cache.nbytes == 80


def test_a_message_has_as_many_pads_as_visual_tokens(rng):
    for height, width in ((64, 64), (32, 128), (16, 16)):
        ids = encode(POLICY.tokenizer, [VISION.message("Go", picture(rng, height, width))])[0]
        assert ids.count(VISION.image_id) == VISION.tokens(height, width)
        start, end = POLICY.tokenizer.convert_tokens_to_ids(["<|vision_start|>", "<|vision_end|>"])
        assert ids[0] == start and ids[VISION.tokens(height, width) + 1] == end


@pytest.mark.parametrize("template", [None, QWEN])
def test_placeholders_rebuild_the_templates_own_rendering(template):
    import copy

    tok = copy.copy(vision_tokenizer())
    if template:
        tok.chat_template = template
    chat = chat_format(tok, "here")
    image = image_placeholder(tok, chat, "<|image_pad|>", "here")
    assert image == "<|vision_start|><|image_pad|><|vision_end|>"

    def user(text):
        return {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": text}]}

    messages = [{"role": "system", "content": "Look."}, user("Go?"), {"role": "assistant", "content": "Up"}, user("?")]
    whole = tok.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert whole == chat.first_prompt("Look.", image + "Go?") + "Up" + chat.next_prompt(image + "?")


def test_a_template_without_images_is_refused():
    chat = chat_format(text_tokenizer(), "here")
    with pytest.raises(ChatTemplateError, match="some/folder.*does not show an image"):
        image_placeholder(text_tokenizer(), chat, "<|image_pad|>", "some/folder")


def test_text_alone_is_numbered_in_one_dimension():
    """A vision model on a task of text: as transformers runs it, with the same tokens ruled out."""
    row = encode(POLICY.tokenizer, [POLICY.chat.first_prompt("Be brief.", "Which way?") + "Up"])[0]
    assert largest_difference(ours([row], [[]])[0, :-1], reference_logprobs(POLICY, row, [])) < 1e-5


def test_no_deprecated_argument_is_used(rng):
    from freshper.rollout.hf_engine import HFEngine

    image = picture(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HFEngine(POLICY, Sampling(3), torch.Generator(), 512).start([conversation([image])], [[image]])
