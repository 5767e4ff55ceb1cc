"""One attempt at a run, in a process of its own: started, watched, logged, stopped with everything that it started.

Nothing here knows Ray. How a run ended is read from its folder (sweeps/store.py), not from its exit status.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from freshper.trainers.output_log import BoundedLog
from freshper.trainers.process import Ending, GuardedProcess
from freshper.trainers.reading import Tail
from sweeps.folder import SweepFolder

CHILD = Path(__file__).with_name("child.py")
LOG_BYTES = 2 << 20
"""Most bytes kept of a run's output, the newest."""


class Trial:
    """A running attempt. A thread of its own follows the process."""

    def __init__(self, folder: SweepFolder, run: str, run_folder: Path, cwd: Path, cpus: float, grace: float) -> None:
        """Start it.

        Args:
            folder: the sweep's folder, with the order for `run`.
            run: name of the run.
            run_folder: its folder (metrics.jsonl is read from it).
            cwd: working directory.
            cpus: cores that it may use.
            grace: seconds to save a checkpoint when it is stopped.
        """
        folder.log(run).mkdir(parents=True, exist_ok=True)
        self._log = BoundedLog(folder.log(run), LOG_BYTES)
        self._tail = MetricsTail(run_folder / "metrics.jsonl")
        self._news = threading.Condition()
        self._rows: list[dict[str, Any]] = []
        self.ending: Ending | None = None
        command = [sys.executable, str(CHILD), str(folder.order(run))]
        self._process = GuardedProcess(command, cwd=cwd, env=thread_variables(cpus), grace=grace)
        self._thread = threading.Thread(target=self._follow, name=f"trial-{run}", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            with self._process:
                ending = self._process.follow(self._log.write, self._look)
            self._look()
        finally:
            self._log.close()
        with self._news:
            self.ending = ending
            self._news.notify_all()

    def _look(self) -> None:
        rows = self._tail.read()
        if rows:
            with self._news:
                self._rows += rows
                self._news.notify_all()

    def wait(self, seconds: float) -> list[dict[str, Any]]:
        """New metrics rows, as soon as there are some, the trial ends, or `seconds` have passed."""
        with self._news:
            if not self._rows and self.ending is None:
                self._news.wait(seconds)
            rows, self._rows = self._rows, []
            return rows

    def stop(self, at_once: bool = False) -> None:
        """Ask it to save a checkpoint and end, or kill it; `join` waits for the end."""
        self._process.stop(at_once)

    def last_words(self, lines: int = 12) -> str:
        """The end of its output: what it said if it left no record."""
        return self._log.tail(lines).strip() or "it printed nothing"

    def join(self) -> Ending:
        """Wait until it and all its children are gone."""
        self._thread.join()
        assert self.ending is not None
        return self.ending


def thread_variables(cpus: float) -> dict[str, str]:
    """Environment that keeps every numerical library to the cores of the trial."""
    threads = str(max(1, int(cpus)))
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS")
    return {name: threads for name in names}


class MetricsTail:
    """New rows of a metrics.jsonl that another process writes, cuts back (a resume) or has not made yet."""

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path)  # rows of earlier attempts are no news
        self._last = -1

    def read(self) -> list[dict[str, Any]]:
        """Rows since the last call."""
        _, lines = self._tail.lines()
        rows = [json.loads(raw) for _, raw in lines]
        if not rows:
            return []
        # After a cut the kept rows come again: only the last of them tells where the run is now.
        new = [row for row in rows if row["iteration"] > self._last] or rows[-1:]
        self._last = rows[-1]["iteration"]
        return new


def merged(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The last row, with the evaluation of earlier ones if it has none."""
    out: dict[str, Any] = {}
    for row in rows:
        out |= {key: value for key, value in row.items() if key.startswith("eval/")}
    return out | dict(rows[-1])
