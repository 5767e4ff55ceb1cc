"""Settings of the policy model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from freshper.config.section import Int, Section


class ModelConfig(Section):
    """Which language model is trained and in which numeric format."""

    kind: Literal["tiny", "hf"] = "tiny"
    """`tiny`: the small base model that ships with freshper; `hf`: any Hugging Face folder of a causal language
    model, or of a vision-language model of the Qwen2-VL line."""
    base: str | None = None
    """Which small base model `kind: tiny` starts from: the environment family it was pretrained on. null is
    frozen_lake; conf/model/tiny.yaml sets it to the family of the chosen environment."""
    name: str = "tiny"
    """Label used for run folders and tables."""
    path: str | None = None
    """Folder (or hub name) with config.json, weights, tokenizer and chat template, or `package:<name>`; needed for
    `kind: hf`."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Format of the weights. Keep float32 where the learning rate is small: bfloat16 loses updates to rounding."""
    max_pixels: Int | None = Field(None, ge=1)
    """Most pixels of an image that the policy reads: its image processor scales larger ones down. null: the limit that
    the model comes with. Read by vision-language models only."""
    autocast: Literal["none", "bfloat16"] = "none"
    """Format of matrix products (torch.autocast); weights keep `dtype`."""
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    """Attention implementation asked of transformers."""
    device: str = "auto"
    """`auto` (cuda if present, else cpu), `cpu`, `cuda` or `cuda:N`."""
    gradient_checkpointing: bool = False
    """Trade compute for memory in the update."""
    max_length: Int = Field(2048, ge=16)
    """Longest conversation in tokens; an episode that would not fit is cut and flagged `truncated`."""
