"""What there is to load under the paths that a user names: run folders in trees and sweeps, exports, event files."""

from __future__ import annotations

import difflib
import fnmatch
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from analysis.findings import AnalysisError, Finding
from analysis.load.planned import SWEEP, PlannedSweep, read_sweeps
from analysis.load.record import Kind

CONFIG, METRICS = "config.yaml", "metrics.jsonl"
RUN_FILES = (METRICS, "status.json", "provenance.json")
EXPECTED = (
    f"expected a run folder (with {CONFIG} and {METRICS}), a folder that holds some, the folder of a sweep, a "
    "wandb CSV export, a wandb offline run folder, or a folder of TensorBoard event files"
)


@dataclass(frozen=True)
class Source:
    """Something to read runs from."""

    kind: Kind
    """How to read it."""
    path: Path
    """Resolved folder or file."""
    root: Path
    """Resolved path that the user named."""


@dataclass(frozen=True)
class Found:
    """What some paths hold."""

    sources: tuple[Source, ...]
    """Each once, in the order of the paths and then by name."""
    sweeps: tuple[PlannedSweep, ...]
    """Plans of the sweeps under the paths."""
    findings: tuple[Finding, ...]
    """What was passed over."""


def find_sources(paths: Sequence[str | Path], exclude: Iterable[str] = ()) -> Found:
    """What there is under `paths`.

    Args:
        paths: run folders, folders of run folders (of any depth), CSV exports, wandb or TensorBoard folders or files. A
            path under which there are sweeps and no runs stands for the runs of those sweeps, wherever they are.
        exclude: glob patterns of folder or file names to leave out.

    Raises:
        AnalysisError: naming every path under which there is nothing to load.
    """
    patterns = tuple(exclude)
    sources: dict[Path, Source] = {}
    sweeps: dict[Path, PlannedSweep] = {}
    findings: list[Finding] = []
    problems: list[str] = []
    for text in paths:
        path = Path(text).expanduser()
        if not path.exists():
            problems.append(f"{path}: no such file or folder{_similar(path)}")
            continue
        held = _under(path.resolve(), patterns)
        findings += held.findings
        if held.problem:
            problems.append(f"{path}: {held.problem}")
        for source in held.sources:
            sources.setdefault(source.path, source)
        sweeps |= {sweep.file: sweep for sweep in held.sweeps}
    if not paths:
        problems.append(f"no path given; {EXPECTED}")
    if problems:
        raise AnalysisError("\n".join(problems))
    return Found(tuple(sources.values()), tuple(sweeps.values()), tuple(dict.fromkeys(findings)))


def _similar(path: Path) -> str:
    parent = path.parent
    if not parent.is_dir():
        return ""
    names = difflib.get_close_matches(path.name, [entry.name for entry in parent.iterdir()], 3, 0.6)
    return f"; did you mean {' or '.join(str(parent / name) for name in names)}?" if names else ""


@dataclass
class _Held:
    """What one path holds."""

    sources: list[Source] = field(default_factory=list)
    sweeps: list[PlannedSweep] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    problem: str = ""
    """What is wrong with the path; empty if there is something to load."""


def _under(path: Path, patterns: tuple[str, ...]) -> _Held:
    if path.is_file() and path.name in {METRICS, CONFIG} and is_run_folder(path.parent):
        return _Held([Source("folder", path.parent, path.parent)])
    if path.is_file() and path.name != SWEEP:
        kind = file_kind(path)
        return _Held([Source(kind, path, path)]) if kind else _Held(problem=f"not something to load; {EXPECTED}")
    path = path.parent if path.is_file() else path
    held = _Held()
    files = tables = excluded = 0
    plans: list[Path] = []
    for folder, subfolders, names in os.walk(path):
        here = Path(folder)
        kept = [n for n in sorted(subfolders) if not _matches(n, patterns) and (not n.startswith(".") or n == ".")]
        excluded += sum(_matches(name, patterns) for name in subfolders)
        subfolders[:] = kept
        files += len(names)
        if is_run_folder(here, names):
            subfolders.clear()  # checkpoints, trackers' own files: the record is here
            held.sources.append(Source("folder", here, path))
            continue
        if METRICS in names:
            text = f"{here} has {METRICS} but no {CONFIG} of a run; not loaded"
            held.findings.append(Finding("warning", "no config", (), text))
        plans += [here / SWEEP] if SWEEP in names else []
        tables += sum(name.endswith(".csv") for name in names)
        if any(file_kind(here / name) == "tensorboard" for name in names):
            held.sources.append(Source("tensorboard", here, path))
        logs = sorted(
            name for name in names if file_kind(here / name) == "wandb_offline" and not _matches(name, patterns)
        )
        held.sources += [Source("wandb_offline", here / name, path) for name in logs]
    held.sweeps, unreadable = read_sweeps(plans)
    held.findings += unreadable
    if not held.sources:
        held.sources = [
            Source("folder", place, path) for sweep in held.sweeps for place in _started(sweep)
            if not _matches(place.name, patterns)
        ]  # fmt: skip
    if not held.sources:
        held.problem = _why_nothing(held, files, excluded, f"{path}/*.csv" if tables else "")
    return held


def _started(sweep: PlannedSweep) -> list[Path]:
    """Folders of a sweep's runs, as far as they exist."""
    return [place.resolve() for run in sweep.runs for place in [sweep.place(run)] if place and is_run_folder(place)]


def _why_nothing(held: _Held, files: int, excluded: int, tables: str) -> str:
    """Why there is nothing to load under a path."""
    if held.findings:
        return "; ".join(finding.text for finding in held.findings)
    if any(_started(sweep) for sweep in held.sweeps):
        return "all runs of the sweeps in it are excluded"
    if held.sweeps:
        return "no run in it; " + "; ".join(
            f"{sweep.file} planned {len(sweep.runs)} runs, of which none has a folder: {sweep.command()} starts them"
            for sweep in held.sweeps
        )
    why = "the folder is empty" if not files and not excluded else f"no run among its {files} files"
    if excluded:
        why += f" ({excluded} folders excluded)"
    if tables:
        why += f"; to load the CSV exports in it, name the files ({tables})"
    return f"{why}; {EXPECTED}"


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def is_run_folder(folder: Path, names: Iterable[str] | None = None) -> bool:
    """Whether the folder is one that a run writes. A run killed in its first moment has a config and nothing else."""
    present = set(os.listdir(folder) if names is None else names)
    if CONFIG not in present:
        return False
    if present & set(RUN_FILES):
        return True
    with (folder / CONFIG).open("rb") as file:
        text = b"\n" + file.read(100_000)
    return all(key in text for key in (b"\nseed:", b"\nvariant:", b"\nreplay:")) and b"\ndefaults:" not in text


def file_kind(path: Path) -> Kind | None:
    """How a file is read, by its name."""
    if path.suffix == ".csv":
        return "wandb_csv"
    if path.suffix == ".wandb":
        return "wandb_offline"
    return "tensorboard" if path.name.startswith("events.out.tfevents.") else None
