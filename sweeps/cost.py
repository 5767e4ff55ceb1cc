"""What runs cost, from the records of finished ones that resemble them most."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from freshper.config.identity import differing_keys
from freshper.config.run import RunConfig
from freshper.config.schema import resolved
from freshper.records.metrics import read_metrics
from freshper.records.run_dir import CONFIG_NAME
from freshper.records.status import stored_status
from sweeps.resources import folder_bytes

MOST_PEERS = 200
"""Finished runs that are read at most, newest first."""
FREE = frozenset({"seed", "iterations"})
"""Keys that a peer may differ in: a run's cost is counted per iteration."""
SAME = ("env.name", "model.name", "trainer.kind")
"""Keys that a peer must share."""


@dataclass(frozen=True)
class Peer:
    """A finished run."""

    config: Mapping[str, Any]
    """Its resolved config."""
    start_seconds: float
    """Seconds of row 0: the evaluation of the base model."""
    iteration_seconds: float
    """Seconds per iteration, evaluations included."""
    bytes: int
    """Disk that its folder takes."""


@dataclass(frozen=True)
class Estimate:
    """What one run is expected to cost."""

    seconds: float
    """Wall time from its first iteration to its last."""
    bytes: float
    """Disk."""
    peers: int
    """Finished runs that it is taken from (the median)."""
    differing: int
    """Keys in which those differ from the run, seed and number of iterations aside."""


def read_peers(root: Path) -> list[Peer]:
    """Finished runs under an output root, the newest `MOST_PEERS`. Folders that cannot be read are left out."""
    if not root.is_dir():
        return []
    folders = [path for path in root.iterdir() if (path / CONFIG_NAME).is_file()]
    folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    peers = []
    for folder in folders[:MOST_PEERS]:
        try:
            peer = _read(folder)
        except (ValueError, yaml.YAMLError):
            continue
        if peer is not None:
            peers.append(peer)
    return peers


def _read(folder: Path) -> Peer | None:
    status = stored_status(folder)
    if status is None or status.state != "finished":
        return None
    rows = read_metrics(folder)
    seconds = [float(row["time/iteration"]) for row in rows if "time/iteration" in row]
    if len(seconds) < 2:
        return None
    # The C loader reads a config in a millisecond, the Python one takes ten times as long.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    config = yaml.load((folder / CONFIG_NAME).read_text(encoding="utf-8"), Loader=loader)
    if not isinstance(config, dict):
        return None
    return Peer(config, seconds[0], sum(seconds[1:]) / len(seconds[1:]), folder_bytes(folder))


def estimate(config: RunConfig, peers: Sequence[Peer]) -> Estimate | None:
    """Cost of a run by the peers that differ from it in the fewest keys; None without a peer."""
    mine = resolved(config)
    distances = [(_distance(mine, peer.config), peer) for peer in peers if _comparable(mine, peer.config)]
    if not distances:
        return None
    least = min(distance for distance, _ in distances)
    nearest = [peer for distance, peer in distances if distance == least]
    seconds = statistics.median(p.start_seconds + config.iterations * p.iteration_seconds for p in nearest)
    return Estimate(seconds, statistics.median(p.bytes for p in nearest), len(nearest), least)


def _distance(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> int:
    return len(set(differing_keys(mine, theirs)) - FREE)


def _comparable(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    return all(_get(mine, key) == _get(theirs, key) for key in SAME)


def _get(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
