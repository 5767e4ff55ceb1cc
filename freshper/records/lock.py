"""One process at a time in a run folder. The operating system drops the lock when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from pathlib import Path

LOCK_NAME = ".lock"
_RETRIES, _PAUSE = 10, 0.03
"""A reader that asks `is_locked` holds the lock for microseconds; do not mistake it for a holder."""


class RunInUse(Exception):  # noqa: N818  # what happened, not a fault
    """Another process holds the run folder."""


class FolderLock:
    """Exclusive advisory lock (flock) on `<folder>/.lock`, which names its holder."""

    def __init__(self, folder: Path) -> None:
        """Take the lock.

        Raises:
            RunInUse: naming folder, host and process id of the holder; nothing has been written then.
        """
        self._path = folder / LOCK_NAME
        holder = ""
        for _ in range(_RETRIES):
            self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current():
                    return
            except BlockingIOError:
                holder = os.read(self._handle, 1000).decode(errors="replace").strip()
            os.close(self._handle)
            time.sleep(_PAUSE)
        holder = holder or "another process that has just started"
        raise RunInUse(f"{folder} is in use by {holder}; wait for it to end, or set another output.name or seed")

    def name_holder(self) -> None:
        """Write host and process id of this process into the lock file."""
        os.truncate(self._handle, 0)
        os.pwrite(self._handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def _is_current(self) -> bool:
        """Whether the file that we hold is still the one that others will find (see `discard`)."""
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(self._path))
        except FileNotFoundError:
            return False

    def fileno(self) -> int:
        """Descriptor of the lock. Whoever inherits it holds the folder too, until its last copy is closed."""
        return self._handle

    def discard(self) -> None:
        """Remove the lock file and release."""
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        self.release()

    def release(self) -> None:
        """Give the folder back; the lock file stays, empty of meaning."""
        with contextlib.suppress(OSError):
            os.close(self._handle)


def is_locked(folder: Path) -> bool:
    """Whether some living process holds the folder. Changes nothing."""
    try:
        handle = os.open(folder / LOCK_NAME, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
