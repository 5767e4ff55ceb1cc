"""What has been parsed before, so that a second look at a thousand runs takes seconds.

One file per path that was named. An entry is used only if the SHA-1 of the whole content of each of the folder's parsed
files is the one it was made from, and the code that parses is the same too; times of files play no part. So an entry
can never be stale, whatever happened to a file. Status and lock of a run are not cached at all.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json

from analysis.load.ages import FIELDS, Ages, AgesFile
from analysis.load.columns import Columns, Damage
from analysis.load.facts import Facts
from analysis.load.run_folder import AGES, Parsed
from freshper.records.atomic import replacing


def digest(data: Mapping[str, bytes]) -> str:
    """Key of a folder's contents: names and SHA-1 of the files that are parsed."""
    return " ".join(f"{name}:{hashlib.sha1(content).hexdigest()}" for name, content in data.items())


@functools.cache
def code_digest(folder: Path = Path(__file__).parent) -> str:
    """Changes with the code (and tables of data) in a package; this one decides what is made of a file."""
    state = hashlib.sha1()
    for file in sorted([*folder.rglob("*.py"), *folder.rglob("*.csv")]):
        state.update(file.read_bytes())
    return state.hexdigest()


@dataclass(frozen=True)
class Entry:
    """What is kept of a folder."""

    key: str
    """Digest of the files that `parsed` was made from."""
    parsed: Parsed
    ages_key: str | None = None
    """Digest of the ages.jsonl that `ages` was made from; None if it was not looked at."""
    ages: AgesFile | None = None


class Cache:
    """Parsed run folders under one root."""

    def __init__(self, folder: Path, root: Path) -> None:
        """
        Args:
            folder: where caches lie; made when something is stored.
            root: resolved path that the user named.
        """
        self.path = folder / f"{hashlib.sha1(os.fsencode(root)).hexdigest()[:20]}.npz"
        self._known = _read(self.path)
        self._used: dict[str, Entry] = {}
        self._changed = False

    def get(self, folder: Path, data: Mapping[str, bytes], parse: Callable[[Mapping[str, bytes]], Parsed]) -> Parsed:
        """What `parse` makes of a folder's contents, from the cache if they are those it knows."""
        key, known = digest(data), self._known.get(str(folder))
        if known is None or known.key != key:
            known, self._changed = Entry(key, parse(data)), True
        self._used[str(folder)] = known
        return known.parsed

    def get_ages(self, folder: Path, data: bytes, parse: Callable[[bytes], AgesFile]) -> AgesFile:
        """The same for the contents of ages.jsonl; `get` comes first."""
        key, entry = digest({AGES: data}), self._used[str(folder)]
        if entry.ages is None or entry.ages_key != key:
            entry, self._changed = replace(entry, ages_key=key, ages=parse(data)), True
            self._used[str(folder)] = entry
        assert entry.ages is not None
        return entry.ages

    def save(self) -> None:
        """Write if anything is new. Replaces the file atomically.

        Raises:
            OSError: if the folder cannot be written.
        """
        if self._changed:
            _write(self.path, self._used)


def _write(path: Path, entries: Mapping[str, Entry]) -> None:
    index: list[dict[str, Any]] = []
    iterations, values, present, ages = [], [], [], []
    for folder, entry in entries.items():
        parsed, columns = entry.parsed, entry.parsed.columns
        pooled = None if entry.ages is None else entry.ages.ages
        index.append(
            {
                "folder": folder,
                "key": entry.key,
                "config": parsed.config,
                "provenance": parsed.provenance,
                "unreadable": parsed.unreadable,
                "damage": asdict(parsed.damage),
                "facts": asdict(parsed.facts),
                "absent": parsed.absent,
                "names": columns.names,
                "rows": len(columns),
                "ages_key": entry.ages_key,
                "ages": None if entry.ages is None else {"damaged": entry.ages.damaged, "torn": entry.ages.torn},
                "pool": None if pooled is None else [pooled.unit, pooled.pooled, pooled.batches, len(pooled.table)],
            }
        )
        iterations.append(columns.iterations)
        values.append(columns.values.reshape(-1))
        present.append(np.packbits(columns.present.reshape(-1)))
        ages.append(np.empty(0) if pooled is None else pooled.table.reshape(-1))
    # default=str: YAML knows dates, which stay what they look like.
    head = json.dumps({"code": code_digest(), "index": index}, default=str).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, durable=False) as file:
        _write_arrays(
            file,
            head=(np.uint8, [np.frombuffer(head, np.uint8)]),
            iterations=(np.int64, iterations),
            values=(np.float64, values),
            present=(np.uint8, present),
            ages=(np.float64, ages),
        )


def _write_arrays(file: BinaryIO, **arrays: tuple[type, Sequence[NDArray[Any]]]) -> None:
    """Write an .npz of one-dimensional arrays, each given in pieces that are not copied together first."""
    with zipfile.ZipFile(file, "w") as pack:
        for name, (kind, pieces) in arrays.items():
            description = {
                "descr": np.lib.format.dtype_to_descr(np.dtype(kind)),
                "fortran_order": False,
                "shape": (sum(map(len, pieces)),),
            }
            with pack.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, description)
                for piece in pieces:
                    member.write(piece.data)


class _Reader:
    """Hands out an array piece by piece."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array, self._at = array, 0

    def take(self, *shape: int) -> NDArray[Any]:
        """The next piece, in this shape."""
        begin, self._at = self._at, self._at + math.prod(shape)
        return self._array[begin : self._at].reshape(shape)


def _bits(packed: _Reader, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """The next piece of truth values, eight to a byte."""
    size = math.prod(shape)
    return np.unpackbits(packed.take((size + 7) // 8), count=size).view(bool).reshape(shape)


def _read(path: Path) -> dict[str, Entry]:
    """Entries of a cache file; none if it cannot be read, if it is damaged, or if other code wrote it."""
    try:
        with np.load(path, allow_pickle=False) as pack:
            head = from_json(pack["head"].tobytes())
            if head["code"] != code_digest():
                return {}
            iterations, values, present, ages = (
                _Reader(pack[name]) for name in ("iterations", "values", "present", "ages")
            )
    except (OSError, zipfile.BadZipFile, EOFError, ValueError, KeyError):
        return {}
    entries = {}
    for item in head["index"]:
        names, rows = tuple(item["names"]), item["rows"]
        shape = (len(names), rows)
        damage = item["damage"]
        parsed = Parsed(
            item["config"],
            item["provenance"],
            Columns(iterations.take(rows), names, values.take(*shape), _bits(present, shape)),
            Damage(damage["torn"], tuple(damage["lines"]), damage["superseded"], tuple(damage["ignored"])),
            item["unreadable"],
            Facts(**item["facts"]),
            tuple(item["absent"]),
        )
        pooled = None
        if item["pool"] is not None:
            unit, used, batches, bins = item["pool"]
            pooled = Ages(unit, ages.take(bins, len(FIELDS)), used, batches)
        file = None if item["ages"] is None else AgesFile(pooled, **item["ages"])
        entries[item["folder"]] = Entry(item["key"], parsed, item["ages_key"], file)
    return entries
