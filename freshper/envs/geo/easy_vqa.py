"""The 5,000 pictures of shapes in the package easy-vqa: its files are read, the package itself is not imported."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Literal

from freshper.envs.errors import EnvError

Part = Literal["train", "test"]


def easy_vqa_folder() -> Path:
    """Where the package keeps its data.

    Raises:
        EnvError: it is not installed.
    """
    found = importlib.util.find_spec("easy_vqa")
    if found is None or not found.submodule_search_locations:
        raise EnvError("env.data=easy_vqa needs the easy-vqa package: pip install 'freshper[data]'")
    return Path(found.submodule_search_locations[0]) / "data"


def easy_vqa_rows(part: Part) -> list[tuple[str, str, Path]]:
    """(question, answer, picture file) of the package's own training or test part, which share no picture.

    Raises:
        EnvError: it is not installed, or its files are not those of version 1.0.
    """
    folder = easy_vqa_folder() / part
    file = folder / "questions.json"
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
        return [(question, answer, folder / "images" / f"{number}.png") for question, answer, number in rows]
    except (OSError, ValueError, TypeError) as error:
        raise EnvError(f"{file}: expected the questions of easy-vqa 1.0: {error}") from error
