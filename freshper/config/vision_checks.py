"""Checks of what images ask of the model. Imports neither torch nor transformers."""

from __future__ import annotations

from collections.abc import Iterator

from freshper.config.errors import Issue
from freshper.config.model_folder import TINY_FOLDERS, has_vision, model_folder
from freshper.config.run import RunConfig


def check_vision(config: RunConfig) -> Iterator[Issue]:
    """Problems of an environment with images and a model of text, as far as the model's folder is on this machine."""
    env, model = config.env, config.model
    if model.kind == "tiny" and model.base is not None and model.base not in TINY_FOLDERS:
        return  # reported by check_model
    folder = model_folder(model)
    if folder is None or not (folder / "config.json").is_file() or has_vision(folder):
        return  # hub names are looked at when they are loaded
    if env.images:
        seeing = ", ".join(family for family, base in TINY_FOLDERS.items() if has_vision(base))
        tiny = model.kind == "tiny"
        yield Issue(
            "model.base" if tiny else "model.path",
            f"is a model of text (no vision_config in its config.json), and env.family = {env.family} shows images; "
            f"expected {f'a base with vision ({seeing}) or ' if tiny else ''}a vision-language model such as "
            "model=qwen2_5_vl_3b",
            model.base if tiny else model.path,
            ("env.family", "model.kind"),
        )
    if model.max_pixels is not None:
        yield Issue(
            "model.max_pixels",
            "is read by vision-language models only, and this is a model of text; expected null",
            model.max_pixels,
            ("model.path", "model.base"),
        )
