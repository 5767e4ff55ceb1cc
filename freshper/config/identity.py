"""Which run is this: a short hash of everything in the config that changes what is learned, and its folder."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from freshper.config.run import NOT_IDENTITY, RunConfig
from freshper.config.schema import resolved

HEX_DIGITS = 10


def identity(config: RunConfig) -> str:
    """Ten hex digits: the same for the same science, whatever the output folder, trackers, threads or device.

    `tau=500`, `500.0` and `5e2` are one identity, since the schema has made each the float 500.0. Nor does a setting
    count that nothing reads: an on-policy run is the same run whatever tau is.
    """
    return digest(effective(resolved(config)))


def scientific(config: Mapping[str, Any]) -> dict[str, Any]:
    """A resolved config without the keys of `NOT_IDENTITY`."""

    def keep(section: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        return {
            name: keep(value, f"{prefix}{name}.") if isinstance(value, Mapping) else value
            for name, value in section.items()
            if f"{prefix}{name}" not in NOT_IDENTITY
        }

    return keep(config, "")


def effective(config: Mapping[str, Any]) -> dict[str, Any]:
    """`scientific`, without what another key switches off: a replay buffer's settings without a buffer, a decay's
    without a decay, a command's without a command."""
    kept = scientific(config)
    match kept:
        case {"replay": {"enabled": False}}:
            kept["replay"] = {"enabled": False}
        case {"replay": {"decay": {"law": "none"}}}:
            kept["replay"]["decay"] = {"law": "none"}
    match kept:
        case {"model": {"max_pixels": None}}:  # as before there were images
            del kept["model"]["max_pixels"]
    match kept:
        case {"trainer": {"kind": "local"}}:
            del kept["trainer"]
    return kept


def digest(values: Mapping[str, Any]) -> str:
    """Short hash of the canonical JSON of plain containers."""
    return hashlib.sha256(canonical_json(values).encode()).hexdigest()[:HEX_DIGITS]


def canonical_json(values: Any) -> str:
    """JSON with sorted keys, no spaces, and one spelling per number: a float always has its shortest repr, -0.0 is 0.0,
    infinity is the text "inf"."""
    return json.dumps(_canonical(values), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else str(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return value


def differing_keys(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Dotted scientific keys on which two resolved configs differ -> (mine, theirs); a missing one is "(absent)".

    None if they are one run (`effective`).
    """
    if _canonical(effective(mine)) == _canonical(effective(theirs)):
        return {}
    flat_mine, flat_theirs = _flatten(scientific(mine)), _flatten(scientific(theirs))
    absent = "(absent)"
    return {
        key: (flat_mine.get(key, absent), flat_theirs.get(key, absent))
        for key in sorted(flat_mine.keys() | flat_theirs.keys())
        if _canonical(flat_mine.get(key, absent)) != _canonical(flat_theirs.get(key, absent))
    }


def _flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def run_name(config: RunConfig) -> str:
    """`<env>-<model>-<algorithm>-<variant>-seed<seed>-<identity>`, or `output.name` where it is set."""
    if config.output.name is not None:
        return config.output.name
    names = [config.env.name, config.model.name, config.algorithm.name, config.variant.name]
    parts = [*names, f"seed{config.seed}", identity(config)]
    return "-".join(re.sub(r"[^\w.+]+", "_", part) for part in parts)


def run_path(config: RunConfig) -> Path:
    """Folder of the run, as given by `output.root` (relative to the current folder if that is relative)."""
    return Path(config.output.root).expanduser() / run_name(config)
