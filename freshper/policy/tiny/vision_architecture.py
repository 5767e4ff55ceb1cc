"""The small vision model: the Qwen2.5-VL architecture at a third of a million parameters, with its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import (
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from freshper.policy.chat import chat_format
from freshper.policy.load import Policy
from freshper.policy.tiny.tokenizer import MAX_LENGTH, VOCABULARY, build_tokenizer
from freshper.policy.vision import Vision, image_placeholder, never_sampled

PATCH, MERGE, FRAMES = 8, 2, 2
"""Pixels of a patch, patches of a visual token (each way), frames of a patch (a still image is shown twice)."""
VISION_START, VISION_END, IMAGE, VIDEO = "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"
MARKERS = (VISION_START, VISION_END, IMAGE, VIDEO)
"""Qwen's names, so that what is written for its models reads this one, too."""

VISION_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('unknown role ' + message['role']) }}"
    "{% endif %}"
    "{{ '<|' + message['role'] + '|>' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}"
    "{{ '<|end|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
"""That of the small text models, with images among the contents of a message."""


def build_vision_tokenizer(texts: Sequence[str], vocabulary: int = VOCABULARY) -> PreTrainedTokenizerFast:
    """Train the tokenizer (deterministic, well under a second).

    Args:
        texts: of the environment; their words become single tokens.
        vocabulary: upper limit on the number of tokens.
    """
    return build_tokenizer(texts, MARKERS, VISION_CHAT_TEMPLATE, vocabulary)


def vision_config(tokenizer: PreTrainedTokenizerBase) -> Qwen2_5_VLConfig:
    """The architecture: vision tower of 2 layers, language model as the small text one, both 64 wide.

    The first layer of the tower attends in windows of 4 patches, the second to the whole image, as the large models mix
    the two. The sections of the rotary positions (time, height, width) add up to half a head. `initializer_range`: see
    :func:`freshper.policy.tiny.architecture.tiny_config`.
    """
    start, end, image, video = (int(tokenizer.get_vocab()[marker]) for marker in MARKERS)
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 192,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "max_position_embeddings": MAX_LENGTH,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3]},
            "initializer_range": 0.08,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": None,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 4,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": FRAMES,
            "window_size": 4 * PATCH,
            "fullatt_block_indexes": [1],
            "out_hidden_size": 64,
            "initializer_range": 0.08,
        },
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )


def image_processor() -> Qwen2VLImageProcessorPil:
    """The processor of the tower. Its usual smallest image (56 x 56 pixels) would enlarge small pictures."""
    return Qwen2VLImageProcessorPil(
        patch_size=PATCH, merge_size=MERGE, temporal_patch_size=FRAMES, min_pixels=32 * 32, max_pixels=512 * 512
    )


def new_vision_policy(tokenizer: PreTrainedTokenizerBase, seed: int) -> Policy:
    """A newly initialised float32 policy; sets torch's global seed, from which transformers draws weights."""
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration(vision_config(tokenizer)).float().eval()
    chat = chat_format(tokenizer, "the small vision model")
    image_id = model.config.image_token_id
    end_ids = frozenset({int(tokenizer.eos_token_id)})
    return Policy(
        model=model,
        tokenizer=tokenizer,
        chat=chat,
        end_ids=end_ids,
        device=torch.device("cpu"),
        autocast=None,
        cache_argument="cache",
        vision=Vision(image_processor(), IMAGE, image_id, image_placeholder(tokenizer, chat, IMAGE, "tiny")),
        never=torch.tensor(never_sampled(model.config, tokenizer, end_ids)),
    )
