"""What is wrong: errors that stop everything, and findings about single runs that are told and carried along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note"]
"""`error`: a number would be wrong or is not there · `warning`: a comparison is weaker than it looks · `note`: good to
know."""
ORDER: tuple[Severity, ...] = ("error", "warning", "note")

EXIT_FINDINGS, EXIT_NOTHING = 1, 2
"""Exit status of a command that found an error, and of one that could do nothing."""


class AnalysisError(Exception):
    """Nothing can be done with what was given; the message says what, where, and what was expected instead."""


class DuplicateRunsError(AnalysisError):
    """Two runs have the same key, so that one of them would be counted twice; the message names both."""


@dataclass(frozen=True)
class Finding:
    """One thing that a reader of the numbers should know."""

    severity: Severity
    """How bad it is."""
    kind: str
    """Short name of the kind of finding, such as `truncated`."""
    runs: tuple[str, ...]
    """Names of the runs concerned, possibly none."""
    text: str
    """What was found, in a sentence that names files and values."""
    commands: tuple[str, ...] = ()
    """What to type in order to mend it."""

    def __str__(self) -> str:
        lines = [f"{self.severity}: {self.text}", *(f"    {command}" for command in self.commands)]
        return "\n".join(lines)
