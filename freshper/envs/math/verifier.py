"""Decide whether an answer is right: numbers exactly and at once, all else by math-verify within a time limit."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Literal

from freshper.envs.errors import EnvError
from freshper.envs.math.quantities import same_number, to_number

Verdict = Literal["right", "wrong", "timeout"]
_START_LIMIT = 120.0


class Verifier:
    """Compares answers with golds. Not thread-safe."""

    def __init__(self, time_limit: float) -> None:
        """
        Args:
            time_limit: seconds for one comparison by math-verify; then its process is ended and the answer is wrong.
        """
        self.time_limit = time_limit
        self.timeouts = 0
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._known: dict[tuple[str, str], Verdict] = {}

    def check(self, answer: str, gold: str) -> Verdict:
        """`right` if `answer` is the value of `gold`.

        A gold that is a number asks for a number: `3+4` and `\\sqrt{4}` are arithmetic left undone, not answers to it,
        and a policy that is paid for them learns to repeat the question.
        """
        same = same_number(answer, gold)
        if same is not None:
            return "right" if same else "wrong"
        answer = answer.strip().strip("$").strip()
        if to_number(gold) is not None or not _is_one_expression(answer):
            return "wrong"
        key = (answer, gold)
        if key not in self._known:
            if len(self._known) > 10_000:
                self._known.clear()
            self._known[key] = self._ask(answer, gold)
        return self._known[key]

    def _ask(self, answer: str, gold: str) -> Verdict:
        if self._process is None or self._process.poll() is not None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([answer, gold]) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=self.time_limit)
        except (queue.Empty, BrokenPipeError):
            self.close()
            self.timeouts += 1
            return "timeout"
        if not line:  # it ended itself, out of memory
            self.close()
            return "timeout"
        return "right" if json.loads(line) else "wrong"

    def _start(self) -> None:
        worker = Path(__file__).with_name("worker.py")
        self._lines = queue.Queue()
        self._process = subprocess.Popen(
            [sys.executable, str(worker)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, encoding="utf-8",
        )  # fmt: skip
        threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()
        try:
            ready = self._lines.get(timeout=_START_LIMIT)
        except queue.Empty:
            ready = ""
        if ready.strip() != "ready":
            self.close()
            raise EnvError("math-verify does not start: pip install 'freshper[math]', then try `import math_verify`")

    def close(self) -> None:
        """End the process; the next comparison starts another."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    _close(stream)
            self._process = None


def _is_one_expression(text: str) -> bool:
    """Whether the text stays one expression when it is put in a box: nothing in it ends the box or opens another."""
    depth = 0
    for character in text.replace("\\{", "").replace("\\}", ""):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            return False
    return depth == 0 and "$" not in text and "boxed" not in text


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    try:
        for line in process.stdout:
            lines.put(line)
    except ValueError:  # closed while reading
        pass
    lines.put("")


def _close(stream: IO[str]) -> None:
    with contextlib.suppress(BrokenPipeError):
        stream.close()


@functools.cache
def shared_verifier(time_limit: float) -> Verifier:
    """One verifier per time limit and process: the environments of a batch take turns with it."""
    verifier = Verifier(time_limit)
    atexit.register(verifier.close)
    return verifier
