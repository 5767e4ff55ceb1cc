"""Keeps Hydra from leaving files behind in a sweep: its `multirun.yaml` goes to a folder that is removed."""

from __future__ import annotations

import tempfile
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, open_dict, read_write


class NoSweepFolder(Callback):
    """Named in conf/config.yaml; Hydra makes it and calls it around a multirun."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Point Hydra's sweep folder at a temporary one, which goes with this process at the latest."""
        self._folder = tempfile.TemporaryDirectory(prefix="freshper-sweep-")
        with read_write(config), open_dict(config):
            config.hydra.sweep.dir = self._folder.name

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Remove it."""
        if self._folder is not None:
            self._folder.cleanup()
