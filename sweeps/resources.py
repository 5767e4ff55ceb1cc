"""Whether a sweep can run at all: CPUs, GPUs and memory of one run against the nodes, and free disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from freshper.config.errors import ConfigError, Issue
from freshper.threads import available_cores
from sweeps.options import PREFIX, SweepOptions

GIB = 2**30


@dataclass(frozen=True)
class Request:
    """What one run asks for."""

    cpus: float
    """Cores."""
    gpus: float
    """GPUs."""
    memory: int
    """Bytes."""

    @classmethod
    def of(cls, options: SweepOptions) -> Request:
        """The request that the options make."""
        return cls(options.cpus, options.gpus, int(options.memory_gib * GIB))

    def as_ray(self) -> dict[str, float]:
        """As Ray wants it."""
        wanted = {"cpu": self.cpus, "gpu": self.gpus, "memory": float(self.memory)}
        return {name: amount for name, amount in wanted.items() if amount}

    def fits(self, node: Mapping[str, float]) -> int:
        """Runs that a node with these resources can hold at a time."""
        shares = [
            node.get(name, 0.0) / amount
            for name, amount in (("CPU", self.cpus), ("GPU", self.gpus), ("memory", float(self.memory)))
            if amount
        ]
        return int(min(shares) + 1e-9)


def check_machine(options: SweepOptions) -> list[Issue]:
    """What this machine alone cannot give, known without Ray (`address: null`)."""
    cores = available_cores()
    if options.address is None and options.cpus > cores:
        return [Issue(f"{PREFIX}cpus", f"expected at most {cores}, the cores of this machine", options.cpus)]
    return []


def slots(options: SweepOptions, nodes: Sequence[Mapping[str, float]]) -> int:
    """Runs at a time on these nodes.

    Raises:
        ConfigError: if no node can hold a single run, or not as many as `concurrency` asks for.
    """
    request = Request.of(options)
    room = sum(request.fits(node) for node in nodes)
    if room == 0:
        raise ConfigError(_lacking(request, options, nodes))
    if options.concurrency is not None and options.concurrency > room:
        raise ConfigError(
            [
                Issue(
                    f"{PREFIX}concurrency",
                    f"expected at most {room}: so many runs of {_wants(request)} fit on {_has(nodes)}",
                    options.concurrency,
                )
            ]
        )
    return options.concurrency or room


def _lacking(request: Request, options: SweepOptions, nodes: Sequence[Mapping[str, float]]) -> list[Issue]:
    asked = (
        ("cpus", "CPU", options.cpus, 1.0),
        ("gpus", "GPU", options.gpus, 1.0),
        ("memory_gib", "memory", options.memory_gib, float(GIB)),
    )
    issues = []
    for key, name, value, unit in asked:
        most = max((node.get(name, 0.0) for node in nodes), default=0.0) / unit
        if value > most:
            issues.append(Issue(PREFIX + key, f"expected at most {most:.4g}, the most that one node has", value))
    if not issues:
        text = f"no single node has {_wants(request)}; there are {_has(nodes)}"
        issues.append(Issue(f"{PREFIX}cpus", text, options.cpus))
    return issues


def _wants(request: Request) -> str:
    parts = [f"{request.cpus:g} CPU"]
    parts += [f"{request.gpus:g} GPU"] if request.gpus else []
    parts += [f"{request.memory / GIB:g} GiB"] if request.memory else []
    return ", ".join(parts)


def _has(nodes: Sequence[Mapping[str, float]]) -> str:
    shown = [
        f"{node.get('CPU', 0):g} CPU, {node.get('GPU', 0):g} GPU, {node.get('memory', 0) / GIB:.3g} GiB"
        for node in nodes[:4]
    ]
    more = f" and {len(nodes) - 4} more nodes" if len(nodes) > 4 else ""
    return "; ".join(shown) + more if shown else "no node"


def check_disk(root: Path, options: SweepOptions, runs: int, run_bytes: float | None) -> list[Issue]:
    """Whether `runs` more runs fit on the disk of `root`.

    Args:
        root: output root; need not exist yet.
        options: the floor, `min_free_gib`.
        runs: runs still to be done.
        run_bytes: size of a finished one, None if there is none to measure.
    """
    existing = next(path for path in (root, *root.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    needed = options.min_free_gib * GIB + runs * (run_bytes or 0.0)
    if free >= needed:
        return []
    size = "" if run_bytes is None else f" and {runs} runs of about {run_bytes / 2**20:.0f} MiB"
    text = (
        f"needs {needed / GIB:.2f} GiB of free disk ({PREFIX}min_free_gib = {options.min_free_gib:g}{size}), "
        f"but {existing} has {free / GIB:.2f} GiB"
    )
    return [Issue("output.root", text, str(root))]


def folder_bytes(folder: Path) -> int:
    """Disk that a folder takes."""
    total = 0
    for path, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(os.path.join(path, name)).st_size
            except FileNotFoundError:  # a run at work removed it
                continue
    return total
