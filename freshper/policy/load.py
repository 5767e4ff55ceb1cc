"""Load a language model, with or without vision, its tokenizer and its chat format as a policy."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from freshper.config.model import ModelConfig
from freshper.config.model_folder import TINY_FOLDERS
from freshper.config.model_package import package_of
from freshper.policy.chat import ChatFormat, chat_format
from freshper.policy.errors import ModelError
from freshper.policy.vision import Vision, load_vision, never_sampled
from freshper.policy.vision_inputs import VisionInputs, embeddings, vision_inputs
from freshper.replay.images import PackedImage

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

_NEVER = -1e9
"""Logit of tokens that must not be sampled: their probability is exactly zero, and zero times it is no NaN."""

_GENERIC_TOKENIZERS = ("PreTrainedTokenizerFast", "TokenizersBackend")


@dataclass
class Policy:
    """A language model with everything that rollouts and updates need to know about it."""

    model: Any
    """transformers causal LM, in evaluation mode (no dropout) throughout: ratios would be noise otherwise."""
    tokenizer: Any
    """Its tokenizer."""
    chat: ChatFormat
    """Pieces of its chat template."""
    end_ids: frozenset[int]
    """Token ids that end an assistant turn."""
    device: torch.device
    """Where the weights are."""
    autocast: torch.dtype | None
    """Format of matrix products, or None for that of the weights."""
    cache_argument: str
    """Name under which the model takes a key/value cache."""
    checkpointing: bool = False
    """Recompute activations in the backward pass."""
    vision: Vision | None = None
    """How it reads images; None for a model of text."""
    never: Tensor | None = None
    """Ids [n] that must not be sampled, None for none."""

    @property
    def parameters(self) -> int:
        """Number of weights."""
        return sum(p.numel() for p in self.model.parameters())

    def look(self, token_ids: Tensor, images: Sequence[Sequence[PackedImage]]) -> VisionInputs | None:
        """What the model reads of the images of conversations [B, T]; None where there are none."""
        if not any(images):
            return None
        if self.vision is None:
            raise ValueError("the conversations hold images, and the policy is a model of text")
        return vision_inputs(self.model, self.vision, token_ids, images)

    def hidden(self, token_ids: Tensor, vision: VisionInputs | None = None, **kwargs: Any) -> Tensor:
        """Last hidden states [B, T, hidden] of token ids [B, T] and what :meth:`look` made of their images."""
        return hidden_states(self.model, token_ids, self.autocast, self.checkpointing, vision, **kwargs)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [..., vocabulary] of hidden states, in float32 at least: computed only for the positions asked for.

        Sampling and training both read these, so a token that must not be sampled has probability zero in both.
        """
        with torch.autocast(self.device.type, self.autocast, enabled=self.autocast is not None):
            logits = self.model.get_output_embeddings()(hidden)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return logits if self.never is None else logits.index_fill(-1, self.never, _NEVER)


def hidden_states(
    model: Any,
    token_ids: Tensor,
    autocast: torch.dtype | None,
    checkpointing: bool,
    vision: VisionInputs | None = None,
    **kwargs: Any,
) -> Tensor:
    """Last hidden states [B, T, hidden] of a transformers model, with or without a language-model head."""
    if checkpointing:  # transformers recomputes in training mode only, and cannot use a cache in it
        model.train(torch.is_grad_enabled())
    with torch.autocast(token_ids.device.type, autocast, enabled=autocast is not None):
        if vision is None:
            return model.base_model(input_ids=token_ids, **kwargs).last_hidden_state
        kwargs.setdefault("position_ids", vision.positions)
        return model.base_model(inputs_embeds=embeddings(model, token_ids, vision), **kwargs).last_hidden_state


def resolve_device(name: str) -> torch.device:
    """`auto` is cuda if there is one, else cpu.

    Raises:
        ModelError: a CUDA device is asked for where there is none.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(f"model.device={name}: torch sees no CUDA device; use model.device=cpu or auto")
    return device


def model_folder(config: ModelConfig) -> str:
    """Folder or hub name of the weights."""
    if config.kind == "tiny":
        return config.path or str(TINY_FOLDERS[config.base or "frozen_lake"])
    if config.path is None:
        raise ModelError("model.kind=hf needs model.path: a folder with config.json, weights and tokenizer")
    return weights_at(config.path)


def weights_at(path: str) -> str:
    """Folder or hub name of a `path` in the config; a package's model is converted first, if it was not before.

    Raises:
        ModelError: see :func:`freshper.policy.model_package.converted_folder`.
    """
    package = package_of(path)
    if package is None:
        return path
    from freshper.policy.model_package import converted_folder

    return str(converted_folder(package))


def load_policy(config: ModelConfig) -> Policy:
    """Load weights and tokenizer and check that they can be trained on multi-turn conversations.

    Raises:
        ModelError: missing folder, missing files, or an architecture that this code would silently get wrong.
        ChatTemplateError: see :func:`freshper.policy.chat.chat_format`.
    """
    where = model_folder(config)
    source = f"model.path={where}"
    device = resolve_device(config.device)
    tokenizer, model = load_parts(_policy_class(where, source), where, config, source)
    model.to(device)
    parameters = inspect.signature(type(model.base_model).forward).parameters
    chat, end_ids = chat_format(tokenizer, where), _end_ids(model, tokenizer, where)
    vision = never = None
    if hasattr(model.config, "vision_config"):
        vision = load_vision(where, model, tokenizer, chat, config.max_pixels)
        never = torch.tensor(never_sampled(model.config, tokenizer, end_ids), device=device)
    policy = Policy(
        model=model,
        tokenizer=tokenizer,
        chat=chat,
        end_ids=end_ids,
        device=device,
        autocast=autocast_dtype(config),
        cache_argument="cache" if "cache" in parameters else "past_key_values",
        checkpointing=config.gradient_checkpointing,
        vision=vision,
        never=never,
    )
    _check_head(policy, where)
    return policy


def _policy_class(where: str, source: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    try:
        config = AutoConfig.from_pretrained(where)
    except (OSError, ValueError) as error:
        raise ModelError(f"{source}: cannot be loaded: {error}") from error
    return AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM


def load_parts(auto_class: Any, where: str, config: ModelConfig, source: str) -> tuple[Any, Any]:
    """Tokenizer and weights of a folder or hub name, checked, in evaluation mode and on the CPU.

    Args:
        auto_class: transformers class that makes the model.
        where: folder or hub name.
        config: number formats, attention, length, gradient checkpointing.
        source: key and value that error messages begin with.

    Raises:
        ModelError: as :func:`load_policy`.
    """
    from safetensors import SafetensorError

    try:
        tokenizer = load_tokenizer(where)
        loaded = auto_class.from_pretrained(
            where, dtype=_DTYPES[config.dtype], attn_implementation=config.attention, output_loading_info=True
        )
    # transformers lets the errors of torch and safetensors through, assertions included.
    except (OSError, ValueError, ImportError, RuntimeError, AssertionError, SafetensorError) as error:
        raise ModelError(f"{source}: cannot be loaded as a language model: {error}") from error
    model, loading = loaded
    absent = sorted(map(str, [*loading["missing_keys"], *loading["mismatched_keys"]]))
    if absent:  # transformers would go on with random numbers in their place
        raise ModelError(f"{source}: {len(absent)} weights are missing or misshapen: {', '.join(absent[:5])}")
    model.eval()
    if config.gradient_checkpointing:
        _check_dropout(model, source)
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    _check_attention(model, config, source)
    return tokenizer, model


def autocast_dtype(config: ModelConfig) -> torch.dtype | None:
    """Format of matrix products, or None for that of the weights."""
    return None if config.autocast == "none" else _DTYPES[config.autocast]


def load_tokenizer(where: str) -> Any:
    """Load the tokenizer exactly as its files say.

    AutoTokenizer lets the model's type overrule a generic tokenizer class: beside a Qwen2 model it rebuilds the
    vocabulary with Qwen's own splitting rules, which gives other ids for the same text without a warning.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast
    from transformers.models.auto.tokenization_auto import get_tokenizer_config
    from transformers.utils import cached_file

    generic = get_tokenizer_config(where).get("tokenizer_class") in _GENERIC_TOKENIZERS
    tokenizer = (PreTrainedTokenizerFast if generic else AutoTokenizer).from_pretrained(where)
    if not tokenizer.chat_template:  # older vision-language models keep it with their processor
        file = cached_file(where, "chat_template.json", _raise_exceptions_for_missing_entries=False)
        if file is not None:
            tokenizer.chat_template = json.loads(Path(file).read_text(encoding="utf-8"))["chat_template"]
    return tokenizer


def _end_ids(model: nn.Module, tokenizer: Any, where: str) -> frozenset[int]:
    configured = model.generation_config.eos_token_id  # type: ignore[union-attr]
    ids = configured if isinstance(configured, list) else [configured]
    found = frozenset(int(i) for i in [*ids, tokenizer.eos_token_id] if i is not None)
    if not found:
        raise ModelError(f"model.path={where}: neither tokenizer nor generation_config names an end-of-turn token")
    return found


@torch.no_grad()
def _check_head(policy: Policy, where: str) -> None:
    """Refuse models whose logits are more than the output layer of the hidden states (soft caps, scales)."""
    ids = torch.arange(4, device=policy.device)[None] + 1
    whole = policy.model(input_ids=ids).logits.float()
    if policy.never is not None:
        whole = whole.index_fill(-1, policy.never, _NEVER)
    ours = policy.logits(policy.hidden(ids))
    if policy.autocast is None and not torch.allclose(whole, ours, atol=1e-2, rtol=1e-3):
        raise ModelError(
            f"model.path={where}: this architecture changes its logits after the output layer; not supported"
        )


def _check_dropout(model: Any, source: str) -> None:
    """Gradient checkpointing needs training mode, in which dropout would make every ratio noise."""
    rates = [module.p for module in model.modules() if isinstance(module, nn.Dropout)]
    rates.append(
        getattr(model.config.get_text_config(), "attention_dropout", 0.0)
    )  # not every architecture has the field
    if any(rates):
        raise ModelError(f"{source}: has dropout, which model.gradient_checkpointing=true would switch on")


def _check_attention(model: Any, config: ModelConfig, source: str) -> None:
    text = model.config.get_text_config()
    kinds = set(text.layer_types) if hasattr(text, "layer_types") else {"full_attention"}
    if kinds == {"full_attention"}:
        return
    if kinds == {"full_attention", "sliding_attention"} and text.sliding_window >= config.max_length:
        return
    raise ModelError(
        f"{source}: attention layers {sorted(kinds)} are not supported within model.max_length="
        f"{config.max_length}; expected full attention"
    )
