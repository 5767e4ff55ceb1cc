"""What Ray Tune runs: an actor that does nothing but watch one trial's process and report its metrics.

A class and not a function: Tune then tells it to stop by a call (`cleanup`), also when early stopping ends the run, so
the run gets the time to save a checkpoint. One actor watches one run after another; no state of a run is ever in it.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

from ray import tune

from sweeps.folder import SweepFolder
from sweeps.store import BROKEN, Standing, look
from sweeps.trial import Trial, merged

REPORT_SECONDS = 1.0
"""Longest time between two looks at the stop file; and between two reports, unless the run has news."""
EXIT_CONFIG = 2


class Supervisor(tune.Trainable):
    """Config keys (all plain): `sweep`, `run`, `run_folder`, `cwd`, `stop`, `cpus`, `grace`, `retries`, `min_free`."""

    def setup(self, config: dict[str, Any]) -> None:
        """Start the first trial."""
        self._trial: Trial | None = None
        self._begin(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """End what is still going on, then watch another run in this actor."""
        self.cleanup()
        self._begin(new_config)
        return True

    def _begin(self, config: dict[str, Any]) -> None:
        self._config = config
        self._folder = SweepFolder(Path(config["sweep"]))
        self._run_folder = Path(config["run_folder"])
        self._stop_file = Path(config["stop"])
        self._tries = 0
        self._told: str | None = None
        self._started = time.monotonic()
        self._cause: str | None = None
        self._start()

    def _start(self) -> None:
        """Start a trial, unless the run is somebody else's, done, or has no room."""
        self._trial, self._cause = None, None
        order = self._folder.order(self._config["run"])
        if not order.is_file():
            self._cause = f"{order} is not visible on {os.uname().nodename}: output.root must be on a shared folder"
            return
        free = shutil.disk_usage(self._folder.path).free
        if free < self._config["min_free"]:
            self._cause = (
                f"disk almost full: {free / 2**30:.2f} GiB free at {self._folder.path}, less than "
                f"hydra.sweeper.min_free_gib = {self._config['min_free'] / 2**30:g}"
            )
            return
        if self._stop_file.exists() or not look(self._run_folder).todo:
            return
        self._tries += 1
        self._trial = Trial(
            self._folder,
            self._config["run"],
            self._run_folder,
            Path(self._config["cwd"]),
            self._config["cpus"],
            self._config["grace"],
        )

    def step(self) -> dict[str, Any]:
        """News of the run, or its end (`done`)."""
        if self._trial is None:
            return self._end()
        rows = self._trial.wait(REPORT_SECONDS)
        self._obey()
        if rows:
            row = merged(rows)
            numbers = {k: v for k, v in row.items() if isinstance(v, int | float) and k.partition("/")[0] in SHOWN}
            return {**numbers, "iteration": row["iteration"], "state": "stopping" if self._told else "running"}
        if self._trial.ending is None:
            return {"state": "stopping" if self._told else "running"}
        standing = look(self._run_folder)
        again = standing.state in BROKEN or standing.state == "new"
        refused = self._trial.ending.returncode == EXIT_CONFIG
        if again and not refused and not self._told and self._tries <= self._config["retries"]:
            cause = standing.cause or str(self._trial.ending)
            self._start()
            return {"state": "retrying", "cause": cause, "tries": self._tries}
        return self._end()

    def _obey(self) -> None:
        """Pass on what the stop file says."""
        if self._trial is None or not self._stop_file.exists():
            return
        order = self._stop_file.read_text(encoding="utf-8")
        if order != self._told:
            self._told = order
            self._trial.stop(at_once=order == "at once")

    def _end(self) -> dict[str, Any]:
        """The last report: the state of the run's folder, or why there is none."""
        standing = self._verdict(look(self._run_folder))
        self._trial = None
        return {
            "done": True,
            "ended": True,
            "state": standing.state,
            "cause": standing.cause,
            "at": standing.iteration,
            "tries": self._tries,
            "seconds": time.monotonic() - self._started,
        }

    def _verdict(self, standing: Standing) -> Standing:
        if self._cause is not None:
            return Standing("failed", self._cause, standing.iteration, standing.attempts)
        if self._trial is None:
            return standing
        ending = self._trial.join()
        if self._told and standing.state in {"new", "crashed", "interrupted"}:
            return standing
        if ending.returncode == EXIT_CONFIG and standing.todo:
            # It was refused before it began: no record, but it said why.
            return Standing("failed", self._trial.last_words(), standing.iteration)
        if standing.state == "new":
            return Standing("crashed", f"{ending} before it wrote a record:\n{self._trial.last_words()}")
        if standing.state == "crashed":
            return Standing("crashed", f"{standing.cause} ({ending})", standing.iteration, standing.attempts)
        return standing

    def cleanup(self) -> None:
        """Stop the trial with a checkpoint and wait until nothing of it is left."""
        if self._trial is not None:
            self._trial.stop()
            self._trial.join()
            self._trial = None


SHOWN = frozenset({"eval", "fresh", "iteration", "counts"})
"""Namespaces of metrics that are reported to the sweep; the rest stays in the run folder."""
