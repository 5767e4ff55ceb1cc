"""Ctrl-C (or SIGTERM) that lets the current iteration end, so that a checkpoint can be saved and nothing is lost."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """While entered, the first signal is only noted (`requested`), the next one raises KeyboardInterrupt.

    Signals belong to the main thread; entered in another one, it changes nothing.
    """

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Interrupt:
        self._before = []
        if threading.current_thread() is threading.main_thread():
            self._before = [(number, signal.signal(number, self._note)) for number in SIGNALS]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before:
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        print(
            "\nstopping after this iteration, with a checkpoint; once more to stop at once", file=sys.stderr, flush=True
        )
