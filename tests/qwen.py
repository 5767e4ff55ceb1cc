"""Qwen2.5-Instruct models for tests: the published architectures at a tiny size, with random weights."""

from __future__ import annotations

import functools
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

PUBLISHED = {
    "qwen2_5_0_5b": {"heads": 14, "key_value_heads": 2, "layers": 24, "tied": True, "vocabulary": 151936},
    "qwen2_5_3b": {"heads": 16, "key_value_heads": 2, "layers": 36, "tied": True, "vocabulary": 151936},
    "qwen2_5_7b": {"heads": 28, "key_value_heads": 4, "layers": 28, "tied": False, "vocabulary": 152064},
}
"""What differs between the published models, by option of `model`."""
SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
TEMPLATE = (
    "{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}"
    "{%- else %}{{- '<|im_start|>system\\n" + SYSTEM + "<|im_end|>\\n' }}{%- endif %}"
    "{%- for message in messages %}{%- if message.role == 'user' or message.role == 'assistant' or (message.role == "
    "'system' and not loop.first) %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + "
    "'\\n' }}{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
"""The published template without its tools."""
_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""How the published tokenizer splits text."""


@functools.cache
def qwen_tokenizer(specials: tuple[str, ...] = ()):
    """A byte-level BPE tokenizer with Qwen2.5's splitting, special tokens and chat template, and few merges."""
    from tokenizers import Regex
    from transformers import Qwen2TokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    text = ["You solve maths problems. Reply with the answer. Left Down Right Up row column player goal hole turn"] * 3
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    tokenizer.train_from_iterator(text, trainer)
    names = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *specials)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    return Qwen2TokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    )


def qwen_folder(folder: Path, option: str) -> Path:
    """Write a model of the architecture that an option of `model` names: its heads per key-value head, biases, rotary
    base, tying and padded vocabulary, with fewer layers and channels."""
    import torch
    from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

    published, tokenizer = PUBLISHED[option], qwen_tokenizer()
    heads = published["heads"] // 2
    config = Qwen2Config(
        vocab_size=(len(tokenizer) // 64 + 1) * 64,  # more rows than tokens, as in the published models
        hidden_size=8 * heads, intermediate_size=40 * heads, num_hidden_layers=2, num_attention_heads=heads,
        num_key_value_heads=published["key_value_heads"] // 2, hidden_act="silu", max_position_embeddings=32768,
        initializer_range=0.1, rms_norm_eps=1e-6, tie_word_embeddings=published["tied"],
        rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0}, use_sliding_window=False,
        sliding_window=32768, max_window_layers=2, attention_dropout=0.0,
        bos_token_id=tokenizer.convert_tokens_to_ids("<|endoftext|>"), eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config)
    for layer in model.model.layers:  # published weights have biases that matter
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
            torch.nn.init.normal_(projection.bias, std=0.1)
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.7, top_p=0.8, top_k=20, repetition_penalty=1.05,
        eos_token_id=[tokenizer.eos_token_id, config.bos_token_id], pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
