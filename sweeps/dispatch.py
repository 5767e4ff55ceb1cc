"""Runs the runs: a Ray of our own or an existing cluster, and a Tuner whose trials only watch processes."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from freshper.config.errors import ConfigError, Issue
from freshper.records.lock import LOCK_NAME, FolderLock, is_locked
from freshper.threads import available_cores
from sweeps.board import Board
from sweeps.errors import SweepError
from sweeps.folder import INTERRUPTED, SweepFolder, tell_to_stop
from sweeps.options import PREFIX, SweepOptions
from sweeps.plan import Cell
from sweeps.progress import Display
from sweeps.resources import GIB, Request, slots
from sweeps.store import Store

ROOT = Path(__file__).resolve().parents[1]
LOG_BYTES, LOG_FILES = 1 << 20, 2
OBJECT_STORE_BYTES = 100 << 20
"""Nothing but small reports goes through Ray; its default is a third of the memory."""

SCRATCH = "/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir()
START_ATTEMPTS = 3
SCRATCH_PREFIX, STALE_SECONDS = "fs-", 60.0

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # 15 otherwise, which runs would inherit
    # A run's guard must outlive a killed supervisor, to stop the run.
    "RAY_kill_child_processes_on_worker_exit": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the new one prints a banner even with verbose=0
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_ROTATION_MAX_BYTES": str(LOG_BYTES),
    "RAY_ROTATION_BACKUP_COUNT": str(LOG_FILES),
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # our run folders are the record
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # not every row has an evaluation
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C is ours
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",  # the run folders say what is done
    "TUNE_WARN_THRESHOLD_S": "1000000000",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1000000000",
}
"""Environment of Ray and Tune. What the user has set wins."""
OWN = {"RAY_AUTH_MODE": "disabled"}
"""The same for a Ray of our own only: it lives as long as the sweep, and would warn. A cluster may want its token."""


class Stop:
    """Why and how the sweep is being stopped. Trials read the stop file, wherever they run."""

    def __init__(self, folder: SweepFolder) -> None:
        self.file = folder.stop(secrets.token_hex(4))
        self.reason: str | None = None
        self._signals = 0

    def __call__(self) -> bool:
        """Whether nothing new may start."""
        return self.reason is not None

    def ask(self, reason: str, at_once: bool = False) -> None:
        """Start nothing new and end what is at work."""
        self.reason = self.reason or reason
        tell_to_stop(self.file, at_once)

    def signalled(self, number: int, frame: FrameType | None) -> None:
        """First: stop with checkpoints. Second: at once. Third: leave everything."""
        self._signals += 1
        if self._signals > 2:
            raise KeyboardInterrupt
        text = "stopping: runs save a checkpoint; once more to stop them at once"
        print(f"\n{text if self._signals == 1 else 'stopping at once'}", file=sys.stderr, flush=True)
        self.ask(INTERRUPTED, at_once=self._signals == 2)

    def __enter__(self) -> Stop:
        self._before = [(n, signal.signal(n, self.signalled)) for n in (signal.SIGINT, signal.SIGTERM)]
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before:
            signal.signal(number, handler)
        self.file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Cluster:
    """A Ray that is up."""

    nodes: list[dict[str, float]]
    """Resources of every node."""
    scratch: str
    """Temporary folder of this sweep on this machine."""


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """A temporary folder that goes with the sweep; those of sweeps that were killed go first.

    Short, since Ray makes sockets in it and their paths are limited to 107 bytes. A lock tells whether its owner lives.
    """
    for old in Path(SCRATCH).glob(f"{SCRATCH_PREFIX}*"):
        with contextlib.suppress(OSError):
            mine = old.stat().st_uid == os.getuid() and (old / LOCK_NAME).exists()
            if mine and time.time() - old.stat().st_mtime > STALE_SECONDS and not is_locked(old):
                shutil.rmtree(old, ignore_errors=True)
    path = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=SCRATCH))
    lock = FolderLock(path)
    try:
        yield str(path)
    finally:
        lock.release()
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def ray_session(options: SweepOptions, folder: SweepFolder) -> Iterator[Cluster]:
    """Ray, up and silent.

    Raises:
        ConfigError: if the cluster cannot be reached.
        SweepError: if a Ray of our own does not come up.
    """
    wanted = QUIET if options.address else {**QUIET, **OWN}
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(added)
    try:
        import ray

        with contextlib.ExitStack() as stack:
            stack.enter_context(_quiet_logs(folder))
            scratch = stack.enter_context(scratch_folder())
            settings: dict[str, Any] = {"address": options.address}
            if options.address is None:
                settings = {
                    "address": "local",
                    "num_cpus": available_cores(),
                    "include_dashboard": False,
                    "object_store_memory": OBJECT_STORE_BYTES,
                    "_temp_dir": scratch,
                }
            settings |= {
                "log_to_driver": False,
                "logging_level": logging.ERROR,
                "job_config": ray.job_config.JobConfig(code_search_path=[str(ROOT)]),
            }
            _start(ray, settings, options)
            stack.callback(ray.shutdown)
            yield Cluster(_nodes(ray, options), scratch)
    finally:
        for name in added:
            os.environ.pop(name, None)


def _start(ray: Any, settings: dict[str, Any], options: SweepOptions) -> None:
    """`ray.init`, which gives up after half a minute: on a busy machine once more, and again."""
    for attempt in range(START_ATTEMPTS):
        try:
            ray.init(**settings)
            return
        except (ConnectionError, ValueError) as error:
            text = f"no Ray cluster there ({str(error).splitlines()[0]}); start one with `ray start --head`"
            raise ConfigError([Issue(f"{PREFIX}address", text, options.address)]) from error
        except Exception as error:  # Ray raises nothing more precise when it does not come up
            ray.shutdown()
            if attempt == START_ATTEMPTS - 1:
                raise SweepError(f"Ray did not start: {error}") from error


def _nodes(ray: Any, options: SweepOptions) -> list[dict[str, float]]:
    """Resources of the living nodes; of a cluster that still grows, waits for one that can hold a run."""
    deadline = time.monotonic() + (0.0 if options.address is None else options.start_timeout)
    while True:
        nodes = [dict(node["Resources"]) for node in ray.nodes() if node["Alive"]]
        if any(Request.of(options).fits(node) for node in nodes) or time.monotonic() >= deadline:
            return nodes
        if not _grows(ray):
            return nodes
        time.sleep(1)


def _grows(ray: Any) -> bool:
    """Whether the cluster has an autoscaler that could add nodes."""
    from ray._private import ray_constants
    from ray.experimental.internal_kv import _internal_kv_get

    return bool(_internal_kv_get(ray_constants.DEBUG_AUTOSCALING_STATUS))


@contextlib.contextmanager
def _quiet_logs(folder: SweepFolder) -> Iterator[None]:
    """Ray's and Tune's messages go to ray.log, which is bounded, and not to the terminal."""
    handler = logging.handlers.RotatingFileHandler(folder.ray_log, maxBytes=LOG_BYTES, backupCount=1, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("ray")
    before = logger.handlers[:], logger.propagate, logger.level
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before[0], before[1]
        logger.setLevel(before[2])
        handler.close()


def dispatch(
    make_source: Callable[[Callable[[Cell], None]], Any],
    store: Store,
    options: SweepOptions,
    folder: SweepFolder,
    board: Board,
    display: Display,
    stop: Stop,
    cluster: Cluster,
    announce: Callable[[Cell], None],
) -> None:
    """Run everything that the source gives, inside a `ray_session`.

    Args:
        make_source: gives the source of runs (sweeps/search.py), told what to call with every new cell.
        store: where runs stand.
        options: how.
        folder: of the sweep.
        board: kept up to date.
        display: told what happens.
        stop: ends the sweep early.
        cluster: the Ray to use.
        announce: called with every cell before it can start: writes its order, puts it on the board.
    Raises:
        ConfigError: if the resources can never be had.
    """
    from ray import tune

    from sweeps.search import CellQueue
    from sweeps.supervisor import Supervisor
    from sweeps.watch import Watch

    board.slots = slots(options, cluster.nodes)
    request = Request.of(options)
    queue = CellQueue(
        make_source(announce),
        store,
        board.slots,
        lambda cell: {
            "sweep": str(folder.path),
            "run": cell.name,
            "run_folder": str(cell.path),
            "cwd": os.getcwd(),
            "stop": str(stop.file),
            "cpus": options.cpus,
            "grace": options.stop_grace,
            "retries": options.retries,
            "min_free": options.min_free_gib * GIB,
        },
        stop,
    )
    scheduler = None
    if options.asha.enabled:
        scheduler = tune.schedulers.AsyncHyperBandScheduler(
            time_attr="iteration",
            metric=options.metric,
            mode=options.mode,
            grace_period=options.asha.grace_iterations,
            reduction_factor=options.asha.reduction_factor,
            # Beyond every run's end: the last iteration is no reason to be stopped.
            max_t=1 + max(line.cell.config.iterations for line in board.lines.values()),
        )
    # One trial at a time waits for its actor by default: slots would fill one after another.
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(board.slots)
    tune.Tuner(
        tune.with_resources(Supervisor, request.as_ray()),
        tune_config=tune.TuneConfig(search_alg=queue, scheduler=scheduler, num_samples=-1, reuse_actors=True),
        run_config=tune.RunConfig(
            name="sweep",
            storage_path=f"{cluster.scratch}/tune",
            verbose=0,
            log_to_file=False,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False, checkpoint_frequency=0),
            failure_config=tune.FailureConfig(max_failures=options.retries),
            callbacks=[Watch(board, display, store, stop, options, folder)],
        ),
    ).fit()
