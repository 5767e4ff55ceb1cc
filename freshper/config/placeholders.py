"""`{placeholders}` in the texts of an external trainer.

fill("--seed={seed} --out={run_dir}", {"seed": "3", "run_dir": "/runs/x"})  ->  "--seed=3 --out=/runs/x"
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from freshper.config.identity import run_path
from freshper.config.run import RunConfig
from freshper.config.schema import resolved

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def placeholders(text: str) -> list[str]:
    """Names in a text, in order.

    Raises:
        ValueError: for a brace that belongs to none.
    """
    names = []
    for match in _PIECE.finditer(text):
        if match[0] in {"{", "}"}:
            raise ValueError(f"single {match[0]} at position {match.start()}; write {match[0] * 2} for a literal brace")
        if match[1] is not None:
            names.append(match[1])
    return names


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders replaced.

    Raises:
        KeyError: for a name that `values` lacks.
    """
    return _PIECE.sub(lambda match: match[0][0] if match[1] is None else values[match[1]], text)


def placeholder_values(config: RunConfig, resume: bool) -> dict[str, str]:
    """What every placeholder stands for in an attempt at a run.

    Numbers read as YAML has them (500.0, inf), truth values as true and false, null as null. Sections and lists are no
    placeholders: `{config}` is the file that holds them.
    """
    folder = run_path(config).absolute()
    values = dict(_scalars(resolved(config), ""))
    return values | {
        "run_dir": str(folder),
        "config": str(folder / "config.yaml"),
        "resume": "true" if resume else "false",
        "python": sys.executable,
    }


def _scalars(section: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield from _scalars(value, f"{prefix}{name}.")
        elif value is None:
            yield f"{prefix}{name}", "null"
        elif isinstance(value, bool):
            yield f"{prefix}{name}", str(value).lower()
        elif not isinstance(value, list):
            yield f"{prefix}{name}", str(value)
