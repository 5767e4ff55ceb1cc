"""Pictures of data sets: kept encoded, decoded when they are shown, all brought to one size."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from PIL import Image as Pillow
from PIL import ImageOps, UnidentifiedImageError

from freshper.envs.errors import EnvError
from freshper.envs.observation import Image

Fit = Literal["pad", "stretch"]
_WHITE = (255, 255, 255)


class Picture(Protocol):
    """A picture that can be shown at any size."""

    def pixels(self, size: int, fit: Fit) -> Image:
        """uint8 [size, size, 3]; not to be written to."""
        ...


@dataclass(frozen=True)
class Encoded:
    """A picture file, in memory or on disk."""

    source: bytes | Path
    """The file's bytes, or where it is."""
    where: str
    """Data file and row, for messages."""

    def content(self) -> bytes:
        """The file's content.

        Raises:
            EnvError: it cannot be read.
        """
        if isinstance(self.source, bytes):
            return self.source
        try:
            return self.source.read_bytes()
        except OSError as error:
            raise EnvError(f"{self.where}: the picture {self.source} cannot be read: {error.strerror}") from error

    def digest(self) -> str:
        """The same for the same file content."""
        return hashlib.sha256(self.content()).hexdigest()

    def pixels(self, size: int, fit: Fit) -> Image:
        """See :class:`Picture`.

        Raises:
            EnvError: it is no picture, or a broken one.
        """
        return _decode(self, size, fit)


@functools.lru_cache(maxsize=256)
def _decode(picture: Encoded, size: int, fit: Fit) -> Image:
    try:
        with Pillow.open(io.BytesIO(picture.content())) as opened:
            return to_square(opened, size, fit)
    except UnidentifiedImageError as error:
        raise EnvError(f"{picture.where}: not a picture that Pillow can read") from error
    except (OSError, ValueError, SyntaxError, Pillow.DecompressionBombError) as error:
        raise EnvError(f"{picture.where}: a broken picture: {error}") from error


def to_square(image: Pillow.Image, size: int, fit: Fit) -> Image:
    """RGB pixels of a picture at [size, size, 3], bicubic. What is transparent, and the margin of `pad`, is white."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layered = image.convert("RGBA")
        image = Pillow.new("RGBA", layered.size, (*_WHITE, 255))
        image.alpha_composite(layered)
    plain = image.convert("RGB")
    if fit == "pad":
        fitted = ImageOps.pad(plain, (size, size), Pillow.Resampling.BICUBIC, color=_WHITE)
    else:
        fitted = plain.resize((size, size), Pillow.Resampling.BICUBIC)
    return np.asarray(fitted, dtype=np.uint8)


def read_picture(value: Any, folder: str | None, where: str) -> Encoded:
    """The picture in a row's column.

    Args:
        value: encoded bytes; a path; a data URI with base64; or {bytes, path} as `datasets` stores pictures, with
            base64 for the bytes in JSON.
        folder: what relative paths start from; None: the working directory.
        where: data file and row, for messages.

    Raises:
        EnvError: none of these, or a path to nothing.
    """
    if isinstance(value, dict) and set(value) & {"bytes", "path"}:
        data, path = value.get("bytes"), value.get("path")
        if isinstance(data, str):
            return Encoded(_base64(data, where), where)
        value = data if data is not None else path
    if isinstance(value, bytes):
        return Encoded(value, where)
    if isinstance(value, str) and value.startswith("data:"):
        return Encoded(_base64(value.partition(",")[2], where), where)
    if isinstance(value, str) and value.strip():
        path = Path(folder or ".").expanduser() / value
        if not path.is_file():
            raise EnvError(f"{where}: no such picture: {path}")
        return Encoded(path, where)
    raise EnvError(
        f"{where}: expected a picture (encoded bytes, a path, a data URI, or bytes and path), found {value!r:.80}"
    )


def _base64(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise EnvError(f"{where}: the picture is not base64: {error}") from error
