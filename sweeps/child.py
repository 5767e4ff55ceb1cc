"""Train the run of one order. A process of its own, so that nothing of a run leaks into the next.

python sweeps/child.py outputs/sweeps/<id>/orders/<run>.yaml       what a sweep starts; works by hand too
"""

from __future__ import annotations

import ctypes
import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Started as a script from anywhere: what Python put first is this folder, and we mean the one above.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from freshper.threads import before_torch

before_torch()

from freshper.config.errors import ConfigError
from sweeps.folder import read_order

PR_SET_PDEATHSIG = 1


def main(file: Path) -> int:
    """Exit status, as of run.py."""
    # Ray's workers block SIGINT, and a blocked signal stays blocked in children: a run could not be told to stop.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _end_with_parent()
    sys.stdout, sys.stderr = patient_stream(1), patient_stream(2)
    try:
        order = read_order(file)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    from freshper.trainers import train

    return train(order.config, order.argv)


class PatientPipe(io.RawIOBase):
    """A pipe that may lose its reader: a killed sweep is no reason for the run to fail before its checkpoint."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        """Yes."""
        return True

    def fileno(self) -> int:
        """The pipe's descriptor."""
        return self._descriptor

    def write(self, data: Buffer) -> int:
        """Write, or drop the data if nobody reads any more."""
        try:
            return os.write(self._descriptor, data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def patient_stream(descriptor: int) -> io.TextIOWrapper:
    """A text stream on a `PatientPipe`, line by line."""
    return io.TextIOWrapper(io.BufferedWriter(PatientPipe(descriptor)), "utf-8", "replace", line_buffering=True)


def _end_with_parent() -> None:
    """Have the kernel send SIGTERM when the guard dies, so that a checkpoint is saved. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
