"""Ray Tune's callbacks: keep the board up to date, show what happens, stop the sweep where that is asked for."""

from __future__ import annotations

import time
from typing import Any

from ray import tune
from ray.tune.experiment import Trial as TuneTrial

from sweeps.board import Board
from sweeps.folder import SweepFolder
from sweeps.options import SweepOptions
from sweeps.progress import Display
from sweeps.store import BROKEN, Standing, Store


class Watch(tune.Callback):
    """One per dispatch."""

    def __init__(
        self, board: Board, display: Display, store: Store, stop: Any, options: SweepOptions, folder: SweepFolder
    ) -> None:
        self._board, self._display, self._store, self._stop = board, display, store, stop
        self._options, self._folder = options, folder
        self._moved = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: Tune writes its callbacks down for a restore of its own, and a live table cannot be pickled."""
        return {}

    def on_step_end(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        """Time passes. Ends a sweep that gets no resources."""
        self._display.tick()
        waiting = any(trial.status == TuneTrial.PENDING for trial in trials)
        if not waiting or any(trial.status == TuneTrial.RUNNING for trial in trials):
            self._moved = time.monotonic()
        elif time.monotonic() - self._moved > self._options.start_timeout and not self._stop():
            self._stop.ask(
                f"no resources for a run within hydra.sweeper.start_timeout = {self._options.start_timeout:g} s"
            )
            raise TimeoutError(self._stop.reason)

    def on_trial_start(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        """Its supervisor is up."""
        self._display.started(self._board.start(trial.config["run"]))

    def on_trial_result(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, result: dict[str, Any], **info: Any
    ) -> None:
        """News, or the end."""
        name = trial.config["run"]
        if "ended" not in result:  # `done` is also what early stopping makes of a result
            line = self._board.news(name, result)
            if result["state"] == "retrying":
                self._display.retrying(line)
            return
        self._end(name, Standing(result["state"], result["cause"], result.get("at", 0)))

    def on_trial_complete(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        """Stopped early, if it did not end by itself."""
        name = trial.config["run"]
        if self._board.lines[name].ours and not self._stop():
            at = self._board.lines[name].iteration
            self._store.stopped[name] = at
            self._folder.write_stopped(self._store.stopped)
            self._end(name, Standing("stopped", f"stopped early after iteration {at}", at))

    def on_trial_error(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        """The supervisor is gone: out of memory, or the node."""
        self._end(trial.config["run"], Standing("crashed", "its supervisor was lost (node gone or out of memory)"))

    def _end(self, name: str, standing: Standing) -> None:
        line = self._board.end(name, standing)
        self._display.ended(line)
        if self._options.fail_fast and standing.state in BROKEN:
            self._stop.ask(f"fail_fast: {line.cell.label} {standing.state}")
