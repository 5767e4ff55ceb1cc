"""Checks of the model section, the folder of a Hugging Face model included. Imports neither torch nor transformers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from freshper.config.errors import Issue
from freshper.config.model import ModelConfig
from freshper.config.model_package import PREFIX, check_package

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_TINY = Path(__file__).resolve().parents[1] / "policy" / "tiny"
TINY_FOLDER = _TINY / "base"
"""The small base model for FrozenLake (recipe: `python -m freshper.policy.pretrain`)."""
TINY_FOLDERS = {"frozen_lake": TINY_FOLDER} | {
    folder.name.removeprefix("base_"): folder for folder in sorted(_TINY.glob("base_*"))
}
"""The small base models that ship with freshper, by the environment family that they were pretrained on."""
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
        if model.base is not None and model.base not in TINY_FOLDERS:
            yield Issue(
                "model.base",
                f"there is no small base model for this family, only for {', '.join(TINY_FOLDERS)}; choose one of "
                "these to start from another game's, or model=hf model.path=<folder or hub name>",
                model.base,
                ("model.kind", "env.family"),
            )
    elif not model.path:
        yield Issue(
            "model.path", "model.kind = hf expects a model folder or a hub name org/name", model.path, ("model.kind",)
        )
    else:
        yield from _check_path("model.path", model.path, chat=True)


def check_critic(path: str, model: ModelConfig) -> Iterator[Issue]:
    """Problems of a separate critic's folder: it reads the policy's token ids, so it needs the policy's tokenizer."""
    key = "algorithm.critic.path"
    found = list(_check_path(key, path, chat=False))
    yield from found
    policy, critic = model_folder(model), Path(path).expanduser()
    if found or policy is None or not (policy / "tokenizer.json").is_file() or not critic.is_dir():
        return  # hub names, and tokenizers kept in other files, are compared when they are loaded
    if (critic / "tokenizer.json").is_file() and _vocabulary(policy) != _vocabulary(critic):
        yield Issue(
            key,
            f"has another tokenizer than the policy in {policy}; expected a model whose token ids mean the same",
            path,
            also=("model.path", "model.kind"),
        )


def model_folder(model: ModelConfig) -> Path | None:
    """The local folder of the policy's weights; None for a hub name, or where there is none."""
    if model.kind == "tiny":
        return TINY_FOLDERS[model.base or "frozen_lake"]
    folder = None if model.path is None else Path(model.path).expanduser()
    return folder if folder is not None and folder.is_dir() else None


def has_vision(folder: Path) -> bool:
    """Whether the model of a folder reads images."""
    return "vision_config" in _json_dict(folder / "config.json")


def _vocabulary(folder: Path) -> tuple[object, object]:
    """What decides which text a token id stands for."""
    tokenizer = _json_dict(folder / "tokenizer.json")
    added = tokenizer.get("added_tokens")
    names = [(t.get("id"), t.get("content")) for t in added] if isinstance(added, list) else added
    return tokenizer.get("model"), names


def _check_path(key: str, path: str, chat: bool) -> Iterator[Issue]:
    if path.startswith(PREFIX):
        yield from check_package(key, path)
        return
    folder = Path(path).expanduser()
    if folder.is_dir():
        yield from (Issue(key, text, path) for text in _missing_parts(folder, chat))
    elif folder.exists():
        yield Issue(key, "expected a folder, this is a file", path)
    elif not _HUB_NAME.fullmatch(path) or Path(path.split("/")[0]).is_dir():
        yield Issue(key, "no such folder (a hub name would read org/name)", path)


def _missing_parts(folder: Path, chat: bool) -> Iterator[str]:
    if not (folder / "config.json").is_file():
        yield "the folder has no config.json; expected a Hugging Face model folder"
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("pytorch_model*.bin")):
        yield "the folder has no weights; expected *.safetensors or pytorch_model*.bin"
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        yield f"the folder has no tokenizer; expected one of {', '.join(_TOKENIZER_FILES)}"
    elif chat and not _has_chat_template(folder):
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
