"""Files that are either the old version or the new one, never half of one, at whatever moment the process dies."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import yaml

TEMP_PREFIX = ".tmp-"


@contextlib.contextmanager
def replacing(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """A new file to write into, beside `path`, whose place it takes at the end of the block; removed if that raises.

    Args:
        path: file to replace.
        durable: also wait until the disk has it. What can be made again need not survive a loss of power.

    Raises:
        OSError: if the disk is full or the folder cannot be written; `path` is then as it was.
    """
    handle, temporary = tempfile.mkstemp(prefix=TEMP_PREFIX, suffix=f"-{path.name}", dir=path.parent)
    with contextlib.ExitStack() as undo:
        undo.callback(Path(temporary).unlink, missing_ok=True)
        with os.fdopen(handle, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
        undo.pop_all()
    if durable:
        sync_folder(path.parent)


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: temporary file beside it, fsync, rename, fsync of the folder.

    Raises:
        OSError: see `replacing`.
    """
    with replacing(path) as file:
        file.write(data)


def sync_folder(folder: Path) -> None:
    """Make renames and new files in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Replace `path` by UTF-8 text; see `write_bytes`."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Replace `path` by indented JSON. NaN and infinity are refused (ValueError): they are not JSON."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_yaml(path: Path, value: Any) -> None:
    """Replace `path` by YAML of plain containers, keys in their order."""
    write_text(path, yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
