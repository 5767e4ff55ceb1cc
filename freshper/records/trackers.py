"""Optional experiment trackers beside the run folder: Weights & Biases and TensorBoard. Both get plain containers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from freshper.config.identity import identity, run_name
from freshper.config.run import RunConfig
from freshper.config.schema import resolved


class Tracker(Protocol):
    """Something that shows metrics while a run goes on."""

    def log(self, row: Mapping[str, Any]) -> None:
        """Take the row of one iteration."""
        ...

    def finish(self, failed: bool = False) -> None:
        """Hand over what is left and close; further calls are errors."""
        ...


def make_trackers(config: RunConfig, folder: Path) -> list[Tracker]:
    """The trackers that `tracking.*` asks for, possibly none."""
    trackers: list[Tracker] = []
    if config.tracking.wandb != "off":
        trackers.append(WandbTracker(config, folder))
    if config.tracking.tensorboard:
        trackers.append(TensorBoardTracker(folder))
    return trackers


class WandbTracker:
    """Weights & Biases. Offline writes into the run folder and touches no network; `wandb sync` uploads it later.

    The wandb id is the run's identity, so a resumed run goes on in the same wandb run; a run whose folder was named by
    hand is a run of its own there too. Runs are grouped by experiment, their job type is the arm.
    """

    def __init__(self, config: RunConfig, folder: Path) -> None:
        import wandb

        self._run = wandb.init(
            project=config.tracking.project,
            name=run_name(config),
            id=wandb_id(config),
            group=wandb_group(config),
            job_type=config.variant.name,
            tags=[config.env.name, config.model.name, config.algorithm.name],
            config=resolved(config),
            dir=str(folder),
            mode="online" if config.tracking.wandb == "online" else "offline",
            resume="allow" if config.tracking.wandb == "online" else None,
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off"),
        )

    def log(self, row: Mapping[str, Any]) -> None:
        """Numbers only, at step `iteration`."""
        self._run.log(dict(_numbers(row)), step=int(row["iteration"]))

    def finish(self, failed: bool = False) -> None:
        """Close the wandb run."""
        self._run.finish(exit_code=1 if failed else 0)


def wandb_id(config: RunConfig) -> str:
    """The run's identity, and its folder's name where that was chosen by hand."""
    name = config.output.name
    return identity(config) if name is None else f"{identity(config)}-{re.sub(r'[^0-9A-Za-z_-]', '_', name)[:100]}"


def wandb_group(config: RunConfig) -> str:
    """`tracking.group`, or the experiment's name, or environment and model: what is compared in one picture."""
    return config.tracking.group or config.experiment.name or f"{config.env.name}-{config.model.name}"


class TensorBoardTracker:
    """TensorBoard event files in `<folder>/tensorboard`; needs the tensorboard package, not torch."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.summary import Writer

        self._writer = Writer(str(folder / "tensorboard"))

    def log(self, row: Mapping[str, Any]) -> None:
        """Numbers only, at step `iteration`."""
        for name, value in _numbers(row):
            self._writer.add_scalar(name, value, int(row["iteration"]))

    def finish(self, failed: bool = False) -> None:
        """Close the event file."""
        self._writer.close()


def _numbers(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The scalar metrics of a row; lists and text stay in metrics.jsonl. NaN is left out, trackers draw it as zero."""
    for name, value in row.items():
        if name != "iteration" and isinstance(value, int | float) and not math.isnan(value):
            yield name, float(value)


def log_all(trackers: Sequence[Tracker], row: Mapping[str, Any]) -> None:
    """Give one row to every tracker."""
    for tracker in trackers:
        tracker.log(row)
