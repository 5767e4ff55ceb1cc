"""An external program under guard: its output as it comes, its end, and how to end it.

    with GuardedProcess(["python", "train.py"], cwd=Path("."), env={...}, grace=20) as process:
        process.follow(log.write, tick)      # KeyboardInterrupt: process.stop(), then follow again
    process.ending                           # Ending(returncode=0, ...)

The program has a session of its own, so a terminal's Ctrl-C reaches only us; see `freshper.trainers.guard` for what
happens to it when we are gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

GUARD = Path(__file__).with_name("guard.py")
TICK_SECONDS = 0.2
CHUNK = 1 << 16
FOREIGN = ("RAY_", "_RAY", "TUNE_")
"""Beginnings of variables that would tie a program's own Ray to ours."""


@dataclass(frozen=True)
class Ending:
    """How a program ended."""

    returncode: int | None
    """Exit status, negative for a signal; None if it never started or its guard was killed."""
    error: str | None = None
    """Why it could not be started or followed."""
    survivors: tuple[int, ...] = ()
    """Processes that cannot be killed."""

    def __str__(self) -> str:
        if self.error is not None or self.returncode is None:
            return self.error or "its guard was killed"
        if self.returncode < 0:
            return f"killed by {signal.Signals(-self.returncode).name}"
        return f"exit status {self.returncode}"


def child_environment(added: Mapping[str, str], scratch: str) -> dict[str, str]:
    """This process' environment without Ray's and wandb's hold on it, with a temporary folder of the child's own Ray.

    A program that calls `ray.init()` then starts a cluster of its own: it finds neither our address nor the file in
    which `ray start` announces one. `added` comes last, so it may say otherwise.
    """
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(FOREIGN) and name != "WANDB_SERVICE"
    }
    return {"PYTHONUNBUFFERED": "1", **kept, "RAY_TMPDIR": scratch, **added}


class GuardedProcess:
    """A running program. Leaving the `with` block ends it, whatever is still going on."""

    def __init__(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], grace: float, inherit: Sequence[int] = ()
    ) -> None:
        """Start it; a program that cannot be started shows in `ending`.

        Args:
            argv: program and arguments.
            cwd: its working directory.
            env: variables added to ours.
            grace: seconds between SIGINT, SIGTERM and SIGKILL when it is stopped.
            inherit: descriptors that the guard keeps open as long as anything of the program lives (a lock).
        """
        # Short, since Ray makes sockets in it and their paths are limited to 107 bytes.
        scratch = tempfile.mkdtemp(prefix="fp-", dir="/tmp" if os.path.isdir("/tmp") else None)
        self._report, report = os.pipe()
        command = [sys.executable, "-I", "-S", str(GUARD), "--grace", str(grace), "--report", str(report)]
        try:
            self._guard = subprocess.Popen(
                [*command, "--scratch", scratch, "--", *argv],
                cwd=cwd,
                env=child_environment(env, scratch),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(report, *inherit),
                start_new_session=True,
                bufsize=0,
            )
        finally:
            os.close(report)
        assert self._guard.stdin is not None and self._guard.stdout is not None
        self._lifeline, self._output = self._guard.stdin, self._guard.stdout
        self._told = b""
        self.ending: Ending | None = None

    def follow(self, on_output: Callable[[bytes], None], on_tick: Callable[[], None]) -> Ending:
        """Read output until the program and all its children are gone.

        Args:
            on_output: gets the output as it comes.
            on_tick: called every fifth of a second and after each output.
        Returns:
            The ending.
        """
        sources = {self._report} if self._output.closed else {self._report, self._output.fileno()}
        while self.ending is None:
            ready, _, _ = select.select(list(sources), [], [], TICK_SECONDS)
            if self._report in ready and not self._listen():
                self._end(on_output)
            elif len(ready) > (self._report in ready):
                data = os.read(self._output.fileno(), CHUNK)
                if data:
                    on_output(data)
                else:  # closed by the program, which may go on
                    sources.discard(self._output.fileno())
                    self._output.close()
            on_tick()
        return self.ending

    def stop(self, at_once: bool = False) -> None:
        """Ask the guard to end the program, gently or at once; `follow` sees it to the end."""
        if not self._lifeline.closed:
            self._lifeline.close()
        if at_once and self._guard.poll() is None:
            self._guard.terminate()

    def _listen(self) -> bool:
        """Hear the guard; False once it has hung up."""
        data = os.read(self._report, 4096)
        self._told += data
        return bool(data)

    def _end(self, on_output: Callable[[bytes], None]) -> None:
        """Take what is left in the pipe, and the guard's last word."""
        facts: dict[str, Any] = {}
        for line in self._told.splitlines():
            facts |= json.loads(line)
        if "pid" in facts and "returncode" not in facts:  # the guard was killed: what we can reach is the group
            with contextlib.suppress(ProcessLookupError):
                os.killpg(facts["pid"], signal.SIGKILL)
        while not self._output.closed and select.select([self._output], [], [], 0)[0]:
            data = os.read(self._output.fileno(), CHUNK)
            if not data:
                break
            on_output(data)
        self._output.close()
        os.close(self._report)
        self._guard.wait()
        self.stop()
        self.ending = Ending(facts.get("returncode"), facts.get("error"), tuple(facts.get("survivors", ())))

    def __enter__(self) -> GuardedProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.ending is None:
            self.stop(at_once=True)
            self.follow(lambda data: None, lambda: None)
