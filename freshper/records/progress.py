"""Progress while training: a bar on a terminal, a plain line every so often elsewhere (logs, CI)."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any, Literal, TextIO

from tqdm import tqdm

from freshper.records.summary import duration

SHOWN = (
    ("fresh/return", "reward", "{:.2f}"),
    ("fresh/success", "train", "{:.0%}"),
    ("eval/success", "eval", "{:.0%}"),
    ("replay/age_mean", "age", "{:.0f}"),
)
"""Metric, label and format of what is shown; the last known value stays on display."""


class Progress:
    """Shows rows as they come. `off` shows nothing."""

    def __init__(
        self,
        total: int,
        mode: Literal["auto", "bar", "lines", "off"] = "auto",
        done: int = 0,
        stream: TextIO | None = None,
        every_seconds: float = 10.0,
    ) -> None:
        """
        Args:
            total: iterations of the run.
            mode: `auto` is a bar on a terminal and lines elsewhere.
            done: iterations already complete (a resumed run); they do not count for the time left.
            stream: where to, default standard error.
            every_seconds: least time between two lines; evaluations and the last iteration always get one.
        """
        self._stream = stream or sys.stderr
        self._mode = ("bar" if self._stream.isatty() else "lines") if mode == "auto" else mode
        self._total, self._start, self._done = total, done, done
        self._began = time.monotonic()
        self._last_line, self._every = -float("inf"), every_seconds
        self._values: dict[str, str] = {}
        self._bar = (
            tqdm(total=total, initial=done, file=self._stream, unit="it", dynamic_ncols=True)
            if self._mode == "bar"
            else None
        )

    def update(self, row: Mapping[str, Any]) -> None:
        """Show the row of an iteration (`iteration` counts from 1; row 0 is the base model)."""
        for key, label, form in SHOWN:
            if key in row:
                self._values[label] = form.format(row[key])
        step = int(row["iteration"]) - self._done
        self._done = int(row["iteration"])
        if self._bar is not None:
            self._bar.set_postfix(self._values, refresh=False)
            self._bar.update(step)
        elif self._mode == "lines":
            due = time.monotonic() - self._last_line >= self._every
            if due or "eval/success" in row or self._done == self._total:
                self._last_line = time.monotonic()
                print(self.line(), file=self._stream, flush=True)

    def line(self) -> str:
        """`iteration 40/150  reward 0.31  train 28%  ...  elapsed 1 min 02 s  left 2 min 48 s`."""
        elapsed = time.monotonic() - self._began
        parts = [f"iteration {self._done}/{self._total}"]
        parts += [f"{label} {value}" for label, value in self._values.items()]
        parts.append(f"elapsed {duration(elapsed)}")
        if self._start < self._done < self._total:
            parts.append(f"left {duration(elapsed / (self._done - self._start) * (self._total - self._done))}")
        return "  ".join(parts)

    def close(self) -> None:
        """Leave the display as it stands."""
        if self._bar is not None:
            self._bar.close()
