"""Checks of the model section, the folder of a Hugging Face model included. Imports neither torch nor transformers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from freshper.config.errors import Issue
from freshper.config.model import ModelConfig

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model")


def check_model(model: ModelConfig) -> Iterator[Issue]:
    """Problems of `model.*`: device and number formats, and for `kind: hf` the path and what lies there."""
    if not _DEVICE.fullmatch(model.device):
        yield Issue("model.device", "expected auto, cpu, cuda or cuda:<number>", model.device)
    if model.device == "cpu" and model.attention == "flash_attention_2":
        yield Issue(
            "model.attention",
            "runs on CUDA only, and model.device = cpu; expected sdpa or eager",
            model.attention,
            also=("model.device",),
        )
    if model.kind == "tiny":
        if model.path is not None:
            yield Issue(
                "model.path", "is used by model=hf only; model.kind = tiny expects null", model.path, ("model.kind",)
            )
    elif not model.path:
        yield Issue(
            "model.path", "model.kind = hf expects a model folder or a hub name org/name", model.path, ("model.kind",)
        )
    else:
        yield from _check_path(model.path)


def _check_path(path: str) -> Iterator[Issue]:
    folder = Path(path).expanduser()
    if folder.is_dir():
        yield from (Issue("model.path", text, path) for text in _missing_parts(folder))
    elif folder.exists():
        yield Issue("model.path", "expected a folder, this is a file", path)
    elif not _HUB_NAME.fullmatch(path) or Path(path.split("/")[0]).is_dir():
        yield Issue("model.path", "no such folder (a hub name would read org/name)", path)


def _missing_parts(folder: Path) -> Iterator[str]:
    if not (folder / "config.json").is_file():
        yield "the folder has no config.json; expected a Hugging Face causal LM folder"
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("pytorch_model*.bin")):
        yield "the folder has no weights; expected *.safetensors or pytorch_model*.bin"
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        yield f"the folder has no tokenizer; expected one of {', '.join(_TOKENIZER_FILES)}"
    elif not _has_chat_template(folder):
        yield (
            "the tokenizer has no chat template; expected chat_template.jinja or chat_template in tokenizer_config.json"
        )


def _has_chat_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file():
        return True
    return any(
        (folder / name).is_file() and bool(_json_dict(folder / name).get("chat_template"))
        for name in ("tokenizer_config.json", "chat_template.json")
    )


def _json_dict(path: Path) -> dict[str, object]:
    """A JSON file's object; anything unreadable counts as empty (loading the model will say more)."""
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}
