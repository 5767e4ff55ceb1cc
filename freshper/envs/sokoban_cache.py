"""Sokoban layouts kept on disk, so that rooms are made once per machine and not once per run.

The cache holds nothing that could not be made again: a file that is absent, damaged or of another version is rebuilt
with the same content. Files are written whole and then renamed, so any number of processes may share the folder.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np

from freshper.config.cache import cache_folder
from freshper.config.envs.sokoban import RoomSection, SokobanConfig
from freshper.envs.sokoban_layouts import VERSION, Starts, draw_starts
from freshper.envs.sokoban_search import Layout
from freshper.records.atomic import write_bytes

CHUNK = 32
"""Layouts in one file."""
_HEADER = b"freshper sokoban layouts\n"


class DamagedFileError(ValueError):
    """A cache file whose content is not what was written."""


def load_layout(config: RoomSection, held_out: bool, index: int) -> Starts:
    """Layout number `index` of training or evaluation, from memory, else from disk, else made and stored."""
    key = (config.size, config.boxes, config.min_moves, config.max_moves)
    return _chunk(cache_folder(), key, held_out, index // CHUNK)[index % CHUNK]


@functools.lru_cache(maxsize=256)
def _chunk(folder: Path, key: tuple[int, int, int, int], held_out: bool, number: int) -> tuple[Starts, ...]:
    """One file's layouts. Remembered per process: a batch has many environments, all with the same rooms."""
    size, boxes, low, high = key
    name = f"v{VERSION}-size{size}-boxes{boxes}-moves{low}to{high}"
    path = folder / "sokoban" / name / f"{'eval' if held_out else 'train'}-{number:04d}"
    try:
        return read(path)
    except FileNotFoundError:
        _announce(path.parent)
    except DamagedFileError as error:
        warnings.warn(f"{path}: {error}; its rooms are made again", stacklevel=3)
    config = SokobanConfig(size=size, boxes=boxes, min_moves=low, max_moves=high, max_turns=high)
    made = tuple(draw_starts(config, held_out, number * CHUNK + k) for k in range(CHUNK))
    try:
        write(path, made)
    except OSError as error:
        warnings.warn(
            f"{path}: rooms cannot be cached ({error}); every run will make them again (set FRESHPER_CACHE)",
            stacklevel=3,
        )
    return made


@functools.cache
def _announce(folder: Path) -> None:
    print(f"making Sokoban rooms, once for this machine, in {folder} ...", file=sys.stderr, flush=True)


def write(path: Path, layouts: tuple[Starts, ...]) -> None:
    """Write atomically; the last of several writers wins, and all of them write the same layouts."""
    texts = [{"walls": starts.layout.walls, "targets": starts.layout.targets} for starts in layouts]
    arrays = {"layouts": np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8)}
    for number, starts in enumerate(layouts):
        arrays |= {f"positions{number}": starts.positions, f"moves{number}": starts.moves}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    payload = buffer.getvalue()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, _HEADER + hashlib.sha256(payload).digest() + payload)


def read(path: Path) -> tuple[Starts, ...]:
    """Layouts of a file.

    Raises:
        FileNotFoundError: there is none.
        DamagedFileError: it is unreadable, cut short or changed.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedFileError(f"cannot be read ({error})") from error
    start = len(_HEADER) + hashlib.sha256().digest_size
    payload = content[start:]
    if content[:start] != _HEADER + hashlib.sha256(payload).digest():
        raise DamagedFileError("is damaged (its checksum does not match)")
    try:
        with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
            texts = json.loads(arrays["layouts"].tobytes())
            return tuple(
                Starts(
                    Layout(tuple(text["walls"]), tuple((r, c) for r, c in text["targets"])),
                    arrays[f"positions{number}"],
                    arrays[f"moves{number}"],
                )
                for number, text in enumerate(texts)
            )
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DamagedFileError(f"is not a file of layouts ({error})") from error
