"""samples.jsonl: a few transcripts per evaluation, to be read by eye.

Rows: `iteration`, `mode` (sampled or greedy), `seed`, `success`, `return`, `messages` (list of role and content).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from freshper.records.jsonl import LineWriter, read_lines


class SamplesWriter(LineWriter):
    """Writes samples.jsonl; several rows may share an iteration."""

    def write_episode(
        self,
        iteration: int,
        mode: str,
        seed: int,
        success: bool,
        episode_return: float,
        messages: Sequence[dict[str, str]],
    ) -> None:
        """Append one transcript."""
        self.write(
            {
                "iteration": iteration,
                "mode": mode,
                "seed": seed,
                "success": success,
                "return": episode_return,
                "messages": list(messages),
            }
        )


def read_samples(path: Path) -> list[dict[str, Any]]:
    """Transcripts of a samples.jsonl (or of the one in a run folder); text stays text."""
    return read_lines(path / "samples.jsonl" if path.is_dir() else path, special=False)
