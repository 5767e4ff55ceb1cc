"""Images of trajectories: held once each, compressed without loss, for as long as a row of the buffer shows them.

An image is known by a digest of its pixels, so that equal frames of any episodes are one. Trajectories hold references;
packed rows name keys; the store counts how many rows use each key.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

KEY_BYTES = 16
"""Length of an image's key."""
_TABLE_ENTRY = 200
"""Bytes of the two dictionary entries of an image when the tables have just grown."""


@dataclass(frozen=True, slots=True)
class PackedImage:
    """An RGB image, compressed. Two are equal if their pixels are."""

    key: bytes
    """Digest of size and pixels."""
    height: int = field(compare=False)
    """Rows of pixels."""
    width: int = field(compare=False)
    """Columns of pixels."""
    data: bytes = field(compare=False, repr=False)
    """zlib stream of the pixels, row by row."""

    def pixels(self) -> NDArray[np.uint8]:
        """The pixels [H, W, 3], exactly as they were packed. Raises ValueError on a damaged image."""
        try:
            raw = zlib.decompress(self.data)
        except zlib.error as error:
            raise ValueError(f"image {self.key.hex()} cannot be decompressed: {error}") from error
        if len(raw) != self.height * self.width * 3:
            raise ValueError(f"image {self.key.hex()} has {len(raw)} bytes, not {self.height} x {self.width} x 3")
        return np.frombuffer(raw, np.uint8).reshape(self.height, self.width, 3)


def image_key(pixels: NDArray[np.uint8]) -> bytes:
    """The key of an image [H, W, 3]."""
    height, width, _ = pixels.shape
    digest = hashlib.blake2b(struct.pack("<II", height, width), digest_size=KEY_BYTES)
    digest.update(pixels.tobytes())
    return digest.digest()


def pack_image(pixels: NDArray[np.uint8]) -> PackedImage:
    """Compress an image [H, W, 3]."""
    return _packed(image_key(pixels), pixels)


def _packed(key: bytes, pixels: NDArray[np.uint8]) -> PackedImage:
    # The fastest level: drawn frames shrink to a few per cent at any, photographs hardly at the best.
    return PackedImage(key, pixels.shape[0], pixels.shape[1], zlib.compress(pixels.tobytes(), 1))


class Album:
    """Packs the images of a collection, equal ones once."""

    def __init__(self) -> None:
        self._known: dict[bytes, PackedImage] = {}

    def pack(self, pixels: NDArray[np.uint8]) -> PackedImage:
        """The packed image of pixels [H, W, 3]; one object for equal pixels."""
        key = image_key(pixels)
        if key not in self._known:
            self._known[key] = _packed(key, pixels)
        return self._known[key]


class ImageStore:
    """The images that live rows show, each once, with the number of times that it is shown."""

    def __init__(self) -> None:
        self._images: dict[bytes, PackedImage] = {}
        self._uses: dict[bytes, int] = {}
        self.nbytes = 0
        """Bytes of images and tables as Python objects."""

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, key: bytes) -> PackedImage:
        return self._images[key]

    def uses(self, key: bytes) -> int:
        """Times that live rows show an image; 0 if it is not held."""
        return self._uses.get(key, 0)

    def hold(self, images: Iterable[PackedImage]) -> None:
        """Count further uses; an image seen for the first time is kept."""
        for image in images:
            if image.key not in self._images:
                self._images[image.key] = image
                self._uses[image.key] = 0
                self.nbytes += _nbytes(image)
            self._uses[image.key] += 1

    def release(self, keys: Iterable[bytes]) -> None:
        """Take uses back; an image without any is freed. Raises KeyError for one that is not held."""
        for key in keys:
            self._uses[key] -= 1
            if not self._uses[key]:
                self.nbytes -= _nbytes(self._images.pop(key))
                del self._uses[key]

    def state(self) -> dict[str, Any]:
        """The images as arrays, see :func:`images_of_state`. Uses are not saved: the rows tell them."""
        images = list(self._images.values())
        return {
            "image_keys": np.frombuffer(b"".join(image.key for image in images), np.uint8),
            "image_sizes": np.array([(i.height, i.width) for i in images], np.int64).reshape(-1),
            "image_offsets": np.cumsum([0, *(len(image.data) for image in images)], dtype=np.int64),
            "image_data": np.frombuffer(b"".join(image.data for image in images), np.uint8),
        }


def images_of_state(state: Mapping[str, Any]) -> dict[bytes, PackedImage]:
    """The images that :meth:`ImageStore.state` saved, by key.

    Raises ValueError where arrays contradict each other, or pixels their key.
    """
    offsets, sizes = state["image_offsets"], state["image_sizes"].reshape(-1, 2).tolist()
    joined, keys = state["image_data"].tobytes(), state["image_keys"].tobytes()
    if offsets[0] != 0 or offsets[-1] != len(joined) or np.any(np.diff(offsets) < 0):
        raise ValueError(f"image offsets of the replay state do not divide its {len(joined)} bytes")
    if not len(offsets) - 1 == len(sizes) == len(keys) / KEY_BYTES:
        raise ValueError(f"replay state has {len(offsets) - 1} images, {len(sizes)} sizes, {len(keys)} bytes of keys")
    found: dict[bytes, PackedImage] = {}
    for entry, ((start, end), (height, width)) in enumerate(
        zip(itertools.pairwise(offsets.tolist()), sizes, strict=True)
    ):
        image = PackedImage(keys[KEY_BYTES * entry : KEY_BYTES * (entry + 1)], height, width, joined[start:end])
        if image_key(image.pixels()) != image.key:
            raise ValueError(f"image {entry} of the replay state has other pixels than its key says")
        found[image.key] = image
    return found


def image_bound(pixels: int) -> int:
    """Most bytes that an image of so many pixels takes in the store, if it cannot be compressed at all."""
    raw = 3 * pixels
    empty = PackedImage(bytes(KEY_BYTES), 0, 0, b"")
    return _nbytes(empty) + raw + raw // 1000 + 64  # zlib's own bound is 5 bytes per 16 kB and a header


def _nbytes(image: PackedImage) -> int:
    return sys.getsizeof(image) + sys.getsizeof(image.key) + sys.getsizeof(image.data) + _TABLE_ENTRY
