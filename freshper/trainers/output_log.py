"""The output of an external program on disk, bounded, and as lines."""

from __future__ import annotations

import re
from pathlib import Path

LINE_BYTES = 1 << 16
"""A longer line is cut into pieces of this size."""
_BREAK = re.compile(rb"\r\n|\n|\r")


class BoundedLog:
    """Appends to `<folder>/output.log`; when that holds half of `limit` bytes it becomes output.log.1, and the older
    half is dropped."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.path, self.older = folder / "output.log", folder / "output.log.1"
        self._limit = max(limit // 2, 1)
        self._file = self.path.open("ab", buffering=0)
        self._size = self._file.tell()

    def write(self, data: bytes) -> None:
        """Append.

        Raises:
            OSError: the disk is full.
        """
        while data:
            if self._size >= self._limit:
                self._file.close()
                self.path.replace(self.older)
                self._file, self._size = self.path.open("ab", buffering=0), 0
            piece, data = data[: self._limit - self._size], data[self._limit - self._size :]
            self._file.write(piece)
            self._size += len(piece)

    def tail(self, lines: int = 40, size: int = 16_384) -> str:
        """The last lines, at most `size` bytes of them."""
        data = b"".join(path.read_bytes()[-size:] for path in (self.older, self.path) if path.exists())[-size:]
        return "\n".join(data.decode(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class LineSplitter:
    """Bytes to lines of text. A carriage return ends a line too: a progress bar is many lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that are complete now."""
        pieces = _BREAK.split(self._rest + data)
        self._rest = pieces.pop()
        while len(self._rest) > LINE_BYTES:
            pieces.append(self._rest[:LINE_BYTES])
            self._rest = self._rest[LINE_BYTES:]
        return [piece.decode(errors="replace") for piece in pieces]

    def rest(self) -> list[str]:
        """The unfinished last line, if there is one."""
        rest, self._rest = self._rest, b""
        return [rest.decode(errors="replace")] if rest else []
