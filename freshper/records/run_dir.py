"""The folder of one run: who may write in it, and whether it is new, to be resumed or finished.

    with RunDirectory.open(config) as run:
        if run.state == "finished": ...
        run.start(collect(config, argv))          # config.yaml, provenance.json, status.json
        ...
        run.end("finished", iteration=150)

Contents: config.yaml, provenance.json, status.json, metrics.jsonl, samples.jsonl, checkpoints/, curve.png, error.txt.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import yaml

from freshper.config.identity import differing_keys, run_path
from freshper.config.run import RunConfig
from freshper.config.schema import resolved
from freshper.records.atomic import TEMP_PREFIX, write_json, write_text, write_yaml
from freshper.records.lock import LOCK_NAME, FolderLock, RunInUse
from freshper.records.status import FINAL, RunStatus, State, stored_status, write_status

CONFIG_NAME = "config.yaml"

__all__ = ["RunDirError", "RunDirectory", "RunInUse"]


class RunDirError(Exception):
    """The run folder cannot be used as asked; the message names folder and key. Nothing in it was changed."""


class RunDirectory:
    """An open, locked run folder. Make it with `open`, give it back with `close` (or use it in `with`)."""

    path: Path
    """Absolute path of the folder."""
    state: Literal["new", "resume", "finished"]
    """`new` nothing trained yet · `resume` a stopped run, go on from its checkpoint · `finished` train nothing."""
    status: RunStatus | None
    """Status found when the folder was opened, then the one last written."""

    def __init__(self, config: RunConfig, path: Path, lock: FolderLock) -> None:
        self.config = config
        self.path = path
        self._lock = lock
        found = stored_status(path)
        if found is not None and found.state == "running":
            # The lock is ours, so whoever wrote that is gone.
            found = found.ended("crashed", "the process ended without a final record", found.iteration)
        self.status = found
        self.state = "new" if found is None else "finished" if found.state in FINAL else "resume"

    @classmethod
    def open(cls, config: RunConfig, resume: Literal["auto", "never", "must"] | None = None) -> RunDirectory:
        """Make or enter the folder of `config`, take its lock, and decide between new, resume and finished.

        Args:
            config: the run; its folder is `run_path(config)`.
            resume: overrides `config.resume`.
        Raises:
            RunInUse: another process holds the folder.
            RunDirError: the folder cannot be made or entered, holds another run, or `resume` forbids its state.
        """
        resume = resume or config.resume
        path = run_path(config).absolute()
        used = _is_used(path)
        if used and resume == "never":
            raise RunDirError(
                f"{path} holds a run already, and resume = never; expected an unused folder (output.name, seed)"
            )
        if not used and resume == "must":
            raise RunDirError(f"{path} holds no run, and resume = must; expected the folder of a run that was stopped")
        if used and not (path / CONFIG_NAME).is_file():
            raise RunDirError(
                f"{path} is not a run folder: it has files but no {CONFIG_NAME}; expected another output.name"
            )
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = FolderLock(path)
        except OSError as error:
            raise RunDirError(
                f"output.root = {config.output.root}: {path} cannot be written: {error.strerror}"
            ) from error
        with contextlib.ExitStack() as undo:
            undo.callback(lock.release)
            try:
                _check_same_run(config, path)
                run = cls(config, path, lock)
            except ValueError as error:
                raise RunDirError(str(error)) from error
            lock.name_holder()
            undo.pop_all()
            return run

    def start(self, provenance: Mapping[str, Any]) -> None:
        """Write config.yaml, provenance.json and a `running` status; a resumed run keeps its first provenance.

        Each later attempt's provenance goes to provenance-<attempt>.json.
        """
        first = self.status is None
        self.status = RunStatus("running") if self.status is None else self.status.next_attempt()
        name = "provenance.json" if first else f"provenance-{self.status.attempts}.json"
        # The config comes first: it is what makes the folder a run folder.
        write_yaml(self.path / CONFIG_NAME, resolved(self.config))
        write_json(self.path / name, dict(provenance))
        write_status(self.path, self.status)

    def end(
        self, state: State, cause: str | None = None, iteration: int | None = None, error: str | None = None
    ) -> None:
        """Write the final status, and `error` (a traceback) to error.txt."""
        assert self.status is not None, "start() comes first"
        if error is not None:
            write_text(self.path / "error.txt", error)
        self.status = self.status.ended(state, cause, iteration)
        write_status(self.path, self.status)

    @property
    def lock(self) -> FolderLock:
        """The lock on the folder, to be shared with a process that outlives this one."""
        return self._lock

    @property
    def metrics(self) -> Path:
        """metrics.jsonl, one row per iteration."""
        return self.path / "metrics.jsonl"

    @property
    def samples(self) -> Path:
        """samples.jsonl, a few transcripts."""
        return self.path / "samples.jsonl"

    @property
    def checkpoints(self) -> Path:
        """Folder of checkpoints; the trainer makes it."""
        return self.path / "checkpoints"

    @property
    def curve(self) -> Path:
        """The learning curve's picture."""
        return self.path / "curve.png"

    def close(self) -> None:
        """Release the lock; a folder in which nothing was ever written goes again."""
        if _is_used(self.path):
            self._lock.release()
            return
        self._lock.discard()
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def __enter__(self) -> RunDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_used(path: Path) -> bool:
    """Whether the folder holds more than a lock and leftovers of an interrupted write."""
    if not path.is_dir():
        return False
    return any(entry.name != LOCK_NAME and not entry.name.startswith(TEMP_PREFIX) for entry in path.iterdir())


def _check_same_run(config: RunConfig, path: Path) -> None:
    """Raise if the folder's config.yaml is of another identity, naming the keys that differ."""
    file = path / CONFIG_NAME
    if not file.is_file():
        return
    try:
        stored = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise RunDirError(f"{file} is not YAML: {error}") from error
    if not isinstance(stored, dict):
        raise RunDirError(f"{file} is not a run config; expected a mapping")
    differing = differing_keys(resolved(config), stored)
    if differing:
        listed = "\n".join(f"  {key} = {mine}: there {theirs}" for key, (mine, theirs) in differing.items())
        raise RunDirError(f"{path} holds another run (expected another output.name). These keys differ:\n{listed}")
