"""What is wrong with a config, told all at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


class _Unset:
    """Marks an issue that has no value to show."""


UNSET = _Unset()


@dataclass(frozen=True)
class Issue:
    """One thing that is wrong: the full dotted key, what it was, what was expected."""

    key: str
    """Full dotted key, or the override as typed where no key could be read from it."""
    expected: str
    """What was expected, in words that complete "<key> = <value>: "."""
    value: Any = UNSET
    """The value that was given, if there was one."""
    also: tuple[str, ...] = ()
    """Other keys that the message is about (cross-field checks)."""

    def __str__(self) -> str:
        shown = self.key if isinstance(self.value, _Unset) else f"{self.key} = {_show(self.value)}"
        return f"{shown}: {self.expected}"


class ConfigError(Exception):
    """The config cannot be used. ``issues`` lists everything that was found, the message shows all of it."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple({str(issue): issue for issue in issues}.values())
        count = len(self.issues)
        head = "1 problem in the config:" if count == 1 else f"{count} problems in the config:"
        super().__init__("\n".join([head, *(f"  {issue}" for issue in self.issues)]))


def _show(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def nearest(name: str, valid: Iterable[str], count: int = 3) -> list[str]:
    """The valid dotted names closest to `name`, best first; empty if nothing is close.

    A name counts as close if the whole resembles (`replay.decay.tua`) or if its last part does (`tau`).
    """
    candidates = list(dict.fromkeys(valid))
    scores: dict[str, float] = {}
    leaf = name.rsplit(".", 1)[-1]
    for candidate in candidates:
        if name.startswith(f"{candidate}."):
            continue  # the section that the name is in is no suggestion
        whole = difflib.SequenceMatcher(None, name, candidate).ratio()
        last = difflib.SequenceMatcher(None, leaf, candidate.rsplit(".", 1)[-1]).ratio()
        if whole >= 0.7 or last >= 0.75:
            scores[candidate] = whole + last
    return sorted(scores, key=lambda c: (-scores[c], c))[:count]


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """`; did you mean a, b or c?`, or what the name's section holds, or the empty string."""
    valid = list(valid)
    names = nearest(name, valid)
    if not names:
        section = name.rpartition(".")[0]
        inside = [key for key in valid if section and key.rpartition(".")[0] == section]
        return f"; {section} has: {', '.join(key[len(section) + 1 :] for key in inside)}" if inside else ""
    return f"; did you mean {' or '.join(filter(None, [', '.join(names[:-1]), names[-1]]))}?"
