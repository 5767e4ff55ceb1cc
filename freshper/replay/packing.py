"""Trajectories as compact ``bytes`` records, and back, without loss.

Tokens dominate a record, so each per-token array is kept only where it carries information: ids in two bytes when the
vocabulary allows it, the mask as bits, log-probs and advantages at response tokens only (they are zero elsewhere by
contract), and advantages as a single number when they are constant, as they are under outcome rewards.

Layout of one: header | image keys | ids | mask bits | log-probs | advantages | values | spans | rewards | penalties |
info JSON, little-endian. A row of the buffer is one trajectory or a group of them: count, sizes, records. Images are
named by their keys (a number, then so many keys) and lie in the image store, where rows share them.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freshper.replay.images import KEY_BYTES, ImageStore, PackedImage
from freshper.replay.trajectory import Trajectory

# T, n turns, response tokens, advantages stored, flags | return | group, seed, policy version, iteration.
_HEADER = struct.Struct("<IIIIB d qqqq")
_WIDE_IDS, _VALUES, _IMAGES = 1, 2, 4
_COUNT = struct.Struct("<I")
_FLAGS_AT = 16
"""Where in the header the flags are."""
Images = ImageStore | Mapping[bytes, PackedImage]
"""Where unpacking finds the images that a record names."""
_NO_IMAGES: Mapping[bytes, PackedImage] = {}
_DTYPES = {
    "token_ids": "int32",
    "response_mask": "bool",
    "behaviour_logprobs": "float32",
    "turn_spans": "int32",
    "turn_rewards": "float32",
    "turn_penalties": "float32",
    "advantages": "float32",
    "values": "float32",
}


def pack_row(trajectories: Sequence[Trajectory]) -> bytes:
    """One row of the buffer: the records of its trajectories behind their number and sizes."""
    records = [pack(t) for t in trajectories]
    return struct.pack(f"<{1 + len(records)}I", len(records), *map(len, records)) + b"".join(records)


def unpack_row(row: bytes, images: Images = _NO_IMAGES) -> list[Trajectory]:
    """The trajectories of a row. Raises ValueError on a row that is cut short, or shows an image not in `images`."""
    return [unpack(record, images) for record in _records(row)]


def image_keys(row: bytes) -> list[bytes]:
    """Keys of the images that a row shows, as often as it shows them; reads nothing else of it."""
    return [key for record in _records(row) for key in _keys(record)]


def _records(row: bytes) -> list[bytes]:
    try:
        (count,) = struct.unpack_from("<I", row)
        sizes = struct.unpack_from(f"<{count}I", row, 4)
    except struct.error as error:
        raise ValueError(f"row of {len(row)} bytes is shorter than its header") from error
    ends = list(itertools.accumulate(sizes, initial=4 + 4 * count))
    if not count or ends[-1] != len(row):
        raise ValueError(f"row of {len(row)} bytes, its {count} records need {ends[-1]}")
    return [row[start:end] for start, end in itertools.pairwise(ends)]


def _keys(record: bytes) -> list[bytes]:
    if len(record) < _HEADER.size:
        raise ValueError(f"record of {len(record)} bytes is shorter than its header of {_HEADER.size}")
    if not record[_FLAGS_AT] & _IMAGES:
        return []
    start = _HEADER.size + _COUNT.size
    count = _COUNT.unpack_from(record, _HEADER.size)[0] if len(record) >= start else 0
    if not count or len(record) < start + KEY_BYTES * count:
        raise ValueError(f"record of {len(record)} bytes is shorter than its {count} image keys")
    return [record[at : at + KEY_BYTES] for at in range(start, start + KEY_BYTES * count, KEY_BYTES)]


def pack(trajectory: Trajectory) -> bytes:
    """The record of ``trajectory``.

    Raises ValueError, or TypeError for something in ``info``, naming the field where the record could not be exact.
    """
    t = trajectory
    for name, dtype in _DTYPES.items():
        array = getattr(t, name)
        if array is not None and array.dtype != dtype:
            raise ValueError(f"{name} has dtype {array.dtype}, expected {dtype}")
    if t.turn_spans.shape != (t.n_turns, 2):
        raise ValueError(f"turn_spans has shape {t.turn_spans.shape}, expected ({t.n_turns}, 2)")
    mask = t.response_mask
    logprobs = _at_responses("behaviour_logprobs", t.behaviour_logprobs, mask)
    advantages = _at_responses("advantages", t.advantages, mask)
    values = np.zeros(0, np.float32) if t.values is None else _at_responses("values", t.values, mask)
    bits = advantages.view(np.uint32)
    if bits.size > 1 and (bits == bits[0]).all():
        advantages = advantages[:1]
    ids = t.token_ids
    wide = bool(ids.size) and bool(ids.min() < 0 or ids.max() > np.iinfo(np.uint16).max)
    _require_json(t.info, "info")
    flags = _WIDE_IDS * wide + _VALUES * (t.values is not None) + _IMAGES * bool(t.images)
    keys = b"".join((_COUNT.pack(len(t.images)), *(image.key for image in t.images))) if t.images else b""
    scalars = (t.group_id, t.seed, t.policy_version, t.iteration)
    try:
        header = _HEADER.pack(
            t.n_tokens, t.n_turns, logprobs.size, advantages.size, flags, float(t.episode_return), *scalars
        )
    except struct.error as error:
        names = "group_id, seed, policy_version, iteration"
        raise ValueError(f"{names} = {scalars} must be integers of at most 64 bits") from error
    arrays = (
        ids if wide else ids.astype(np.uint16),
        np.packbits(mask),
        logprobs,
        advantages,
        values,
        t.turn_spans,
        t.turn_rewards,
        t.turn_penalties,
    )
    info = json.dumps(t.info, separators=(",", ":")).encode()
    return b"".join((header, keys, *(a.tobytes() for a in arrays), info))


def unpack(record: bytes, images: Images = _NO_IMAGES) -> Trajectory:
    """The trajectory of a record; its arrays own their memory.

    Raises ValueError on a record that is cut short, or shows an image that is not in `images`.
    """
    keys = _keys(record)
    try:
        shown = tuple(images[key] for key in keys)
    except KeyError as error:
        raise ValueError(f"record shows the image {error.args[0].hex()}, which is not stored") from error
    tokens, turns, responses, stored, flags, episode_return, *scalars = _HEADER.unpack_from(record)
    group_id, seed, policy_version, iteration = scalars
    cursor = _HEADER.size + (_COUNT.size + KEY_BYTES * len(keys) if keys else 0)

    def take(dtype: Any, count: int) -> NDArray[Any]:
        nonlocal cursor
        end = cursor + count * np.dtype(dtype).itemsize
        if end > len(record):
            raise ValueError(f"record ends at byte {len(record)}, its arrays need {end}")
        part = np.frombuffer(record, dtype=dtype, count=count, offset=cursor)
        cursor = end
        return part

    ids = take(np.int32 if flags & _WIDE_IDS else np.uint16, tokens).astype(np.int32)
    mask = np.unpackbits(take(np.uint8, (tokens + 7) // 8), count=tokens).astype(np.bool_)
    if np.count_nonzero(mask) != responses or stored not in (1, responses):
        raise ValueError(f"record is corrupt: mask, {responses} response tokens and {stored} advantages disagree")
    logprobs = np.zeros(tokens, dtype=np.float32)
    logprobs[mask] = take(np.float32, responses)
    advantages = np.zeros(tokens, dtype=np.float32)
    advantages[mask] = take(np.float32, stored)
    values = np.zeros(tokens, dtype=np.float32) if flags & _VALUES else None
    if values is not None:
        values[mask] = take(np.float32, responses)
    spans = take(np.int32, 2 * turns).reshape(turns, 2).copy()
    rewards, penalties = take(np.float32, turns).copy(), take(np.float32, turns).copy()
    return Trajectory(
        token_ids=ids,
        response_mask=mask,
        behaviour_logprobs=logprobs,
        turn_spans=spans,
        turn_rewards=rewards,
        turn_penalties=penalties,
        advantages=advantages,
        episode_return=episode_return,
        group_id=group_id,
        seed=seed,
        policy_version=policy_version,
        iteration=iteration,
        info=json.loads(record[cursor:]),
        values=values,
        images=shown,
    )


def record_bound(
    tokens: int, response_tokens: int, turns: int, info_bytes: int, values: bool = True, images: int = 0
) -> int:
    """Most bytes that a row of one trajectory of this size takes as a Python object, any vocabulary.

    Of its images only the keys: what they show is counted by the store.
    """
    empty_bytes_object, row_header = 33, 8
    per_response = 12 if values else 8
    arrays = tokens * 4 + (tokens + 7) // 8 + per_response * response_tokens + 16 * turns
    keys = _COUNT.size + KEY_BYTES * images if images else 0
    return empty_bytes_object + row_header + _HEADER.size + keys + arrays + info_bytes


def _at_responses(name: str, values: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    # A masked product leaves -0.0 behind, which is zero enough.
    stray = np.flatnonzero((values != 0) & ~mask)
    if stray.size:
        raise ValueError(f"{name} is {values[stray[0]]} at token {stray[0]}, which was not sampled; expected 0")
    return values[mask]


def _require_json(value: object, path: str) -> None:
    """Raise TypeError unless ``value`` survives JSON: no tuples, numpy values or keys that are not strings."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path} has the key {key!r}; keys must be strings")
            _require_json(item, f"{path}.{key}")
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _require_json(item, f"{path}[{position}]")
    elif value is not None and not isinstance(value, (str, int, float)):
        raise TypeError(f"{path} is a {type(value).__name__}; only JSON values can be stored")
