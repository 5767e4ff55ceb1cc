"""A folder laid out as the published Qwen2.5-VL models are, at a size for tests: random weights, its own small BPE."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

WORDS = (
    "You play FrozenLake on a picture of the grid. Walk to the red flag, avoid every dark blue hole. You are the grey "
    "figure. Actions: Left, Down, Right, Up. Reply <answer>action</answer>. Turn 1, 9 left Reward 0. Invalid reply."
)
SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
]  # fmt: skip
TEMPLATE = (
    "{% set image_count = namespace(value=0) %}{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n{% else %}"
    "{% for content in message['content'] %}"
    "{% if content['type'] == 'image' or 'image' in content or 'image_url' in content %}"
    "{% set image_count.value = image_count.value + 1 %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_qwen_vl(folder: Path, legacy_template: bool = True) -> Path:
    """Write config, weights, tokenizer, chat template and image processor.

    Args:
        folder: made if need be.
        legacy_template: keep the template in chat_template.json, as the published folders do, not with the tokenizer.
    """
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    folder.mkdir(parents=True, exist_ok=True)
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe.train_from_iterator([WORDS] * 10, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet))
    bpe.add_special_tokens(SPECIAL)
    bpe.save(str(folder / "tokenizer.json"))
    ids = {token: bpe.token_to_id(token) for token in SPECIAL}
    settings = {
        "tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "bos_token": None, "unk_token": None, "add_bos_token": False, "clean_up_tokenization_spaces": False,
        "split_special_tokens": False, "model_max_length": 131072, "additional_special_tokens": SPECIAL[1:],
    }  # fmt: skip
    if legacy_template:
        (folder / "chat_template.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    else:
        settings["chat_template"] = TEMPLATE
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
                "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
                "image_processor_type": "Qwen2VLImageProcessor", "processor_class": "Qwen2_5_VLProcessor",
            }
        )
    )  # fmt: skip
    flat = {  # the published config.json is flat, with the older names of the rotary positions
        "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl",
        "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 96,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
        "max_window_layers": 2, "use_sliding_window": False, "sliding_window": 32768, "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0, "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
        "initializer_range": 0.1, "tie_word_embeddings": True, "use_cache": True, "torch_dtype": "bfloat16",
        "vocab_size": 448, "bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"],
        "image_token_id": ids["<|image_pad|>"], "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"], "vision_end_token_id": ids["<|vision_end|>"],
        "vision_config": {
            "model_type": "qwen2_5_vl", "depth": 2, "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 48,
            "num_heads": 2, "in_chans": 3, "out_hidden_size": 64, "patch_size": 14, "spatial_merge_size": 2,
            "spatial_patch_size": 14, "window_size": 56, "fullatt_block_indexes": [1], "tokens_per_second": 2,
            "temporal_patch_size": 2,
        },
    }  # fmt: skip
    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(**json.loads(json.dumps(flat))))
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(flat))
    (folder / "generation_config.json").write_text(
        json.dumps({"pad_token_id": ids["<|endoftext|>"], "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]]})
    )
    return folder
