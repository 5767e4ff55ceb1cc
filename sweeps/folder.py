"""The folder of one sweep, `<output.root>/sweeps/<id>`: what was asked for, how it went, what the runs printed.

    sweep.json      command, commit, options, every run with its state       results.csv   one row per run
    orders/<run>    config and command with which a run was started           logs/<run>/   what it printed (bounded)
    trials.json     points of a search, in order                              stopped.json  runs stopped early
    ray.log         Ray's own messages (bounded)

Nothing in it decides whether a run is done: that is in the run's own folder. It can be removed at any time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from freshper.config.load import load_config
from freshper.config.run import RunConfig
from freshper.config.schema import resolved
from freshper.records.atomic import write_json, write_text, write_yaml

SUBFOLDER = "sweeps"
RECORD = "sweep.json"
INTERRUPTED = "interrupted"
"""Why a sweep that was told to by a signal has stopped."""


@dataclass(frozen=True)
class Order:
    """What a child process needs in order to train one run."""

    argv: tuple[str, ...]
    """Command line for the record: script and overrides."""
    config: RunConfig
    """Validated config."""


@dataclass(frozen=True)
class SweepFolder:
    """Paths in a sweep's folder, and its small files."""

    path: Path
    """Absolute path."""

    def make(self) -> None:
        """Make the folder and its subfolders."""
        for folder in (self.path / "orders", self.path / "logs"):
            folder.mkdir(parents=True, exist_ok=True)

    def order(self, run: str) -> Path:
        """File with the order for a run."""
        return self.path / "orders" / f"{run}.yaml"

    def log(self, run: str) -> Path:
        """Folder with what a run printed: output.log, and output.log.1 with what came before."""
        return self.path / "logs" / run

    def stop(self, token: str) -> Path:
        """File by which one process tells its trials to stop."""
        return self.path / f".stop-{token}"

    @property
    def record(self) -> Path:
        """sweep.json."""
        return self.path / RECORD

    @property
    def results(self) -> Path:
        """results.csv."""
        return self.path / "results.csv"

    @property
    def trials(self) -> Path:
        """trials.json."""
        return self.path / "trials.json"

    @property
    def ray_log(self) -> Path:
        """Ray's own messages."""
        return self.path / "ray.log"

    def read_stopped(self) -> dict[str, int]:
        """Run -> iteration at which early stopping ended it."""
        file = self.path / "stopped.json"
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}

    def write_stopped(self, runs: dict[str, int]) -> None:
        """Replace stopped.json."""
        write_json(self.path / "stopped.json", runs)


def write_order(file: Path, order: Order) -> None:
    """Write an order, as YAML: infinity and any text come back as they were."""
    write_yaml(file, {"argv": list(order.argv), "config": resolved(order.config)})


def read_order(file: Path) -> Order:
    """Read an order.

    Raises:
        ConfigError: if its config is not valid.
    """
    data: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    return Order(tuple(data["argv"]), load_config(data["config"]))


def tell_to_stop(file: Path, at_once: bool) -> None:
    """Tell all trials of a process to stop: with a checkpoint, or at once."""
    write_text(file, "at once" if at_once else "checkpoint")
