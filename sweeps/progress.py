"""Shows the board while a sweep runs: one live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Literal, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from freshper.records.summary import duration
from sweeps.board import Board, Line
from sweeps.store import BROKEN, DONE

HEARTBEAT_SECONDS = 60.0
COLOURS = {"finished": "green", "running": "cyan", "failed": "red", "crashed": "red", "retrying": "yellow"}


class Display:
    """Shows what happens. Use it in `with`; `off` shows nothing."""

    def __init__(
        self, board: Board, mode: Literal["auto", "table", "lines", "off"] = "auto", stream: TextIO | None = None
    ) -> None:
        self._board, self._stream = board, stream or sys.stderr
        self._mode = ("table" if self._stream.isatty() else "lines") if mode == "auto" else mode
        self._beat = time.monotonic()
        self._live: Live | None = None
        if self._mode == "table":
            console = Console(file=self._stream)
            self._live = Live(console=console, get_renderable=self.table, refresh_per_second=2, redirect_stdout=False)

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def started(self, line: Line) -> None:
        """A run was started."""
        at = f", goes on after iteration {line.iteration}" if line.iteration else ""
        self.say(f"started   {line.cell.label}{at}")

    def retrying(self, line: Line) -> None:
        """A run failed and is started again."""
        self.say(f"retrying  {line.cell.label}: {first_line(line.cause)}")

    def ended(self, line: Line) -> None:
        """A run ended. The cause of a failed one is shown when it happens."""
        parts = [f"{line.state:<9} {line.cell.label}"]
        if line.success is not None:
            parts.append(f"success {100 * line.success:.1f} %")
        if line.seconds is not None:
            parts.append(duration(line.seconds))
        if line.cause is not None:
            parts.append(first_line(line.cause))
        self.say("  ".join(parts) + f"   [{self.counts()}]")

    def tick(self) -> None:
        """Time passes: a line every minute if nothing else was said."""
        if self._mode == "lines" and time.monotonic() - self._beat > HEARTBEAT_SECONDS:
            at_work = [
                f"{line.cell.label} {line.iteration}/{line.cell.config.iterations}"
                for line in self._board.lines.values()
                if line.ours
            ]
            self.say(f"[{self.counts()}]  at work: {'; '.join(at_work[:8])}{' ...' if len(at_work) > 8 else ''}")

    def say(self, text: str) -> None:
        """A line of its own; above the table where there is one."""
        self._beat = time.monotonic()
        if self._live is not None:
            self._live.console.print(Text(text))
        elif self._mode == "lines":
            print(text, file=self._stream, flush=True)

    def counts(self) -> str:
        """`3 done, 1 failed, 2 running, 6 left, about 4 min 10 s to go`."""
        counts = self._board.count()
        shown = [f"{number} {what}" for what, number in counts.items() if number or what in {"done", "left"}]
        eta = self._board.eta()
        return ", ".join(shown) + (f", about {duration(eta)} to go" if eta is not None and eta >= 1 else "")

    def table(self) -> Table:
        """The live table: what is at work first, then what failed, what waits, what is done; as many as fit."""
        height = self._live.console.size.height if self._live is not None else 24
        table = Table(title=self.counts(), title_justify="left", box=None, pad_edge=False, header_style="bold")
        for name in ("run", "state", "iteration", "success", "time left"):
            table.add_column(name, justify="left" if name in {"run", "state"} else "right", no_wrap=True)
        lines = sorted(self._board.lines.values(), key=_rank)
        room = max(3, height - 5)
        for line in lines[:room]:
            left = self._board.seconds_left(line) if line.ours else None
            table.add_row(
                Text(line.cell.label),
                Text(line.state, style=COLOURS.get(line.state, "")),
                f"{line.iteration}/{line.cell.config.iterations}",
                "" if line.success is None else f"{100 * line.success:.1f} %",
                "" if left is None else duration(left),
            )
        if len(lines) > room:
            table.add_row(Text(f"... and {len(lines) - room} more"))
        return table


def _rank(line: Line) -> int:
    if line.ours:
        return 0
    if line.state in BROKEN:
        return 1
    return 3 if line.state in DONE else 2


def first_line(text: str | None) -> str:
    """The first line of a cause."""
    return (text or "no cause given").splitlines()[0]
