"""Runs one program and sees to it that nothing of it survives: not its end, not a cancel, not the death of our caller.

A process of its own, standard library only, started by `freshper.trainers.process`:

    python guard.py --grace 20 --report FD --scratch DIR -- program arguments ...

Standard input is the lifeline. When it closes, which the operating system does when the caller dies, the program is
stopped: SIGINT to its process group, SIGTERM to everything that descends from it, SIGKILL, with `--grace` seconds
between. SIGTERM to the guard means: at once. Orphans become the guard's children (Linux' subreaper), so a descendant is
found even if it has left the process group, as Ray's daemons do; elsewhere only the process group is stopped.

Writes JSON lines to the descriptor `--report`: `{"pid": 12}` or `{"error": "..."}`, and at the end
`{"returncode": -9, "survivors": []}`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

POLL_SECONDS = 0.05
KILL_SECONDS = 60.0
PR_SET_CHILD_SUBREAPER = 36


class Guard:
    """The program and the way to its end."""

    def __init__(self, grace: float, report: int) -> None:
        self.grace, self._report = grace, report
        self.at_once = False
        self._returncode: int | None = None
        self._pid = 0

    def run(self, argv: list[str]) -> None:
        """Start the program, wait for its end or for the lifeline's, leave nothing behind, report."""
        # Handlers, not SIG_IGN: an ignored signal would stay ignored in the program.
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.signal(signal.SIGHUP, lambda *_: None)
        signal.signal(signal.SIGTERM, self._hurry)
        if sys.platform == "linux":
            ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            self._program = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as error:
            self._tell(error=f"{argv[0]} cannot be started: {error.strerror}")
            return
        self._pid = self._program.pid
        self._tell(pid=self._pid)
        while not self._ended() and not self.at_once and not lifeline_closed(POLL_SECONDS):
            pass
        if self._returncode is None:
            self._interrupt()
        survivors = self._clear()
        self._tell(returncode=self._returncode, survivors=survivors)

    def _hurry(self, *_: object) -> None:
        self.at_once = True

    def _tell(self, **facts: object) -> None:
        try:
            os.write(self._report, json.dumps(facts).encode() + b"\n")
        except OSError:  # the caller is gone
            return

    def _ended(self) -> bool:
        """Whether the program has ended; buries everything that has."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return self._returncode is not None
            if pid == self._pid:
                self._returncode = os.waitstatus_to_exitcode(status)

    def _interrupt(self) -> None:
        """SIGINT to the group, as a terminal would, and time to write a checkpoint."""
        if not self.at_once:
            signal_group(self._pid, signal.SIGINT)
            self._wait(lambda: self._returncode is not None)

    def _clear(self) -> list[int]:
        """End all that is left: SIGTERM, then SIGKILL until nothing is.

        Returns:
            Processes that cannot be killed (stuck in a driver).
        """
        if not self.at_once and self._send(signal.SIGTERM):
            self._wait(lambda: not self._left())
        deadline = time.monotonic() + KILL_SECONDS
        while self._send(signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._left()

    def _wait(self, done: Callable[[], bool]) -> None:
        """Until `done`, the end of the grace period, or a call to hurry."""
        deadline = time.monotonic() + self.grace
        while time.monotonic() < deadline and not self.at_once:
            self._ended()
            if done():
                return
            time.sleep(POLL_SECONDS)

    def _left(self) -> list[int]:
        return descendants(os.getpid()) if sys.platform == "linux" else group_members(self._pid)

    def _send(self, number: signal.Signals) -> bool:
        """Signal all that is left; whether there was anything."""
        self._ended()
        left = self._left()
        for pid in left:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        return bool(left)


def lifeline_closed(seconds: float) -> bool:
    """Wait at most so long for the end of standard input."""
    ready, _, _ = select.select([0], [], [], seconds)
    return bool(ready) and os.read(0, 4096) == b""


def signal_group(leader: int, number: signal.Signals) -> None:
    """Signal a process group that may be gone."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return


def group_members(leader: int) -> list[int]:
    """`[-leader]`, which `os.kill` takes as the group, if anybody is left in it."""
    try:
        os.killpg(leader, 0)
    except (ProcessLookupError, PermissionError):
        return []
    return [-leader]


def descendants(root: int) -> list[int]:
    """Living processes below `root`, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as file:
                # pid (name) state ppid ...; the name may hold spaces and brackets
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state not in {"Z", "X"}:
            children.setdefault(int(parent), []).append(int(entry))
    found, todo = [], [root]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def main() -> int:
    """Read the command line and guard."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grace", type=float, required=True, help="seconds between SIGINT, SIGTERM and SIGKILL")
    parser.add_argument("--report", type=int, required=True, help="open descriptor to report to")
    parser.add_argument("--scratch", required=True, help="folder to remove at the end")
    parser.add_argument("argv", nargs="+", help="program and arguments")
    options = parser.parse_args()
    os.set_inheritable(options.report, False)
    try:
        Guard(options.grace, options.report).run(options.argv)
    finally:
        shutil.rmtree(options.scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
