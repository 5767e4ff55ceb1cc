"""Tiny random models for tests: the real architectures, untrained."""

import functools

import torch

from freshper.policy.chat import chat_format
from freshper.policy.load import Policy
from freshper.policy.tiny.architecture import tiny_config
from freshper.policy.tiny.tokenizer import build_tokenizer


@functools.cache
def tokenizer():
    return build_tokenizer()


def random_policy(seed=0, architecture="qwen2", **changes):
    """A policy with random weights, large enough in scale that its choices are far from uniform."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = tiny_config(tokenizer())
    for name, value in {"initializer_range": 0.3, **changes}.items():
        setattr(config, name, value)
    if architecture == "llama":
        fields = config.to_dict()
        keep = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                "max_position_embeddings", "initializer_range", "eos_token_id", "pad_token_id")  # fmt: skip
        config = LlamaConfig(**{k: fields[k] for k in keep}, num_key_value_heads=2, tie_word_embeddings=False)
        model = LlamaForCausalLM(config)
    else:
        model = Qwen2ForCausalLM(config)
    tok = tokenizer()
    return Policy(
        model=model.eval(),
        tokenizer=tok,
        chat=chat_format(tok, "test"),
        end_ids=frozenset({tok.eos_token_id}),
        device=torch.device("cpu"),
        autocast=None,
        cache_argument="cache",
    )
