"""A buffer as plain arrays, and back, with every claim of the saved state checked before anything changes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from freshper.config.replay import ReplayConfig
from freshper.replay.images import ImageStore, images_of_state
from freshper.replay.index import PriorityIndex
from freshper.replay.masses import masses_of
from freshper.replay.packing import unpack_row
from freshper.replay.priority import checked_bases

_VERSION = 3
_ARRAYS = {
    "slots": np.int64,
    "bases": np.float64,
    "masses": np.float64,
    "order": np.int64,
    "clocks": np.int64,
    "first_keys": np.int64,
    "free": np.int64,
    "counters": np.int64,
    "offsets": np.int64,
    "records": np.uint8,
    "image_keys": np.uint8,
    "image_sizes": np.int64,
    "image_offsets": np.int64,
    "image_data": np.uint8,
}


def dump_state(
    index: PriorityIndex,
    records: Sequence[bytes],
    images: ImageStore,
    counters: Mapping[str, int],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """State of an index, of the records of its live rows (oldest first), their images, counters and the generator."""
    meta = {
        "version": _VERSION,
        "config": _layout(index.config),
        "reference": list(index.sampler.reference),
        "counters": dict(counters),
        "rng": rng.bit_generator.state,
    }
    offsets = np.cumsum([0, *(len(r) for r in records)], dtype=np.int64)
    return {
        "meta": json.dumps(meta, default=_array_as_list),
        "records": np.frombuffer(b"".join(records), dtype=np.uint8),
        "offsets": offsets,
        **images.state(),
        **index.table.state(),
    }


def load_state(
    state: Mapping[str, Any], index: PriorityIndex, rng: np.random.Generator
) -> tuple[list[bytes], ImageStore, dict[str, int]]:
    """Fill an empty ``index`` and set ``rng``; returns the records, oldest first, their images and the counters.

    Raises ValueError with what is wrong: a missing or misshapen part, another replay config, arrays that contradict
    each other, a damaged record or image.
    """
    missing = sorted({"meta", *_ARRAYS} - set(state))
    if missing:
        raise ValueError(f"replay state lacks {', '.join(missing)}")
    arrays = {name: _array(name, state[name]) for name in _ARRAYS}
    meta = _meta(str(state["meta"]), index.config, rng)
    rows = len(arrays["slots"])
    for name, expected in (("bases", rows), ("masses", rows), ("offsets", rows + 1), ("counters", 4)):
        if len(arrays[name]) != expected:
            raise ValueError(f"replay state has {len(arrays[name])} {name}, expected {expected}")
    for name in ("clocks", "first_keys"):
        if len(arrays[name]) != len(arrays["order"]):
            raise ValueError(f"replay state has {len(arrays[name])} {name} for {len(arrays['order'])} buckets")
    if rows > index.config.capacity:
        raise ValueError(f"replay state holds {rows} rows, more than the capacity {index.config.capacity}")
    masses = masses_of(checked_bases(arrays["bases"]), index.config.priority.alpha)
    if not np.allclose(masses, arrays["masses"], rtol=1e-12, atol=0):
        raise ValueError("masses in the replay state are not its base priorities to the power alpha")
    records, images = _records(arrays)
    index.table.restore(arrays)
    index.sampler.reference = (int(meta["reference"][0]), float(meta["reference"][1]))
    rng.bit_generator.state = meta["rng"]
    return records, images, meta["counters"]


def _layout(config: ReplayConfig) -> dict[str, Any]:
    """The settings that a saved buffer depends on."""
    names = {"capacity", "unit", "priority", "decay", "uniform_mix", "eviction", "age_unit"}
    return config.model_dump(mode="json", include=names)


def _meta(text: str, config: ReplayConfig, rng: np.random.Generator) -> dict[str, Any]:
    try:
        meta = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"meta of the replay state is not JSON: {error}") from error
    if not isinstance(meta, dict) or meta.get("version") != _VERSION:
        raise ValueError(f"replay state is not of version {_VERSION}")
    lacking = sorted({"config", "reference", "counters", "rng"} - set(meta))
    if lacking:
        raise ValueError(f"meta of the replay state lacks {', '.join(lacking)}")
    present = _layout(config)
    if meta["config"] != present:
        changed = [
            f"{k}: saved {meta['config'].get(k)}, now {v}" for k, v in present.items() if meta["config"].get(k) != v
        ]
        raise ValueError(f"replay state was saved under another config ({'; '.join(changed)})")
    if meta["rng"]["bit_generator"] != type(rng.bit_generator).__name__:
        raise ValueError(
            f"replay state was drawn with {meta['rng']['bit_generator']}, not {type(rng.bit_generator).__name__}"
        )
    return meta


def _array(name: str, value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype != _ARRAYS[name] or array.ndim != 1:
        raise ValueError(
            f"{name} in the replay state is {array.dtype} {array.shape}, not a line of {_ARRAYS[name].__name__}"
        )
    return array


def _records(arrays: Mapping[str, np.ndarray]) -> tuple[list[bytes], ImageStore]:
    data, offsets = arrays["records"], arrays["offsets"]
    if offsets[0] != 0 or offsets[-1] != len(data) or np.any(np.diff(offsets) < 0):
        raise ValueError(f"record offsets of the replay state do not divide its {len(data)} bytes")
    joined = data.tobytes()
    records = [joined[a:b] for a, b in itertools.pairwise(offsets.tolist())]
    saved, store = images_of_state(arrays), ImageStore()
    for entry, record in enumerate(records):
        try:
            for trajectory in unpack_row(record, saved):
                store.hold(trajectory.images)
        except ValueError as error:
            raise ValueError(f"record {entry} of the replay state is damaged: {error}") from error
    if len(store) != len(saved):
        raise ValueError(f"replay state has {len(saved)} images, its records show {len(store)}")
    return records, store


def _array_as_list(value: Any) -> Any:
    # Some bit generators (MT19937) keep part of their state in an array.
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
