"""What there is to load under the paths that a user names: run folders in trees and sweeps, exports, event files."""

from __future__ import annotations

import difflib
import fnmatch
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.findings import AnalysisError, Finding
from analysis.load.record import Kind

CONFIG, METRICS = "config.yaml", "metrics.jsonl"
RUN_FILES = (METRICS, "status.json", "provenance.json")
EXPECTED = (
    f"expected a run folder (with {CONFIG} and {METRICS}), a folder that holds some, a wandb CSV export, a wandb "
    "offline "
    "run folder, or a folder of TensorBoard event files"
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


def find_sources(paths: Sequence[str | Path], exclude: Iterable[str] = ()) -> tuple[list[Source], list[Finding]]:
    """Sources under `paths`, each once, in the order of the paths and then by name; and what was passed over.

    Args:
        paths: run folders, folders of run folders (of any depth), CSV exports, wandb or TensorBoard folders or files.
        exclude: glob patterns of folder or file names to leave out.

    Raises:
        AnalysisError: naming every path under which there is nothing to load.
    """
    patterns = tuple(exclude)
    found: dict[Path, Source] = {}
    findings: list[Finding] = []
    problems: list[str] = []
    for text in paths:
        path = Path(text).expanduser()
        if not path.exists():
            problems.append(f"{path}: no such file or folder{_similar(path)}")
            continue
        sources, passed, problem = _under(path.resolve(), patterns)
        findings += passed
        if problem:
            problems.append(f"{path}: {problem}")
        for source in sources:
            found.setdefault(source.path, source)
    if not paths:
        problems.append(f"no path given; {EXPECTED}")
    if problems:
        raise AnalysisError("\n".join(problems))
    return list(found.values()), findings


def _similar(path: Path) -> str:
    parent = path.parent
    if not parent.is_dir():
        return ""
    names = difflib.get_close_matches(path.name, [entry.name for entry in parent.iterdir()], 3, 0.6)
    return f"; did you mean {' or '.join(str(parent / name) for name in names)}?" if names else ""


def _under(path: Path, patterns: tuple[str, ...]) -> tuple[list[Source], list[Finding], str]:
    """Sources, what was passed over, and what is wrong with a path (empty if it holds something)."""
    if path.is_file():
        kind = file_kind(path)
        if path.name in {METRICS, CONFIG} and is_run_folder(path.parent):
            return [Source("folder", path.parent, path.parent)], [], ""
        return ([Source(kind, path, path)], [], "") if kind else ([], [], f"not something to load; {EXPECTED}")
    sources: list[Source] = []
    findings: list[Finding] = []
    files = tables = excluded = 0
    for folder, subfolders, names in os.walk(path):
        here = Path(folder)
        kept = [n for n in sorted(subfolders) if not _matches(n, patterns) and (not n.startswith(".") or n == ".")]
        excluded += sum(_matches(name, patterns) for name in subfolders)
        subfolders[:] = kept
        files += len(names)
        if is_run_folder(here, names):
            subfolders.clear()  # checkpoints, trackers' own files: the record is here
            sources.append(Source("folder", here, path))
            continue
        if METRICS in names:
            findings.append(
                Finding("warning", "no config", (), f"{here} has {METRICS} but no {CONFIG} of a run; not loaded")
            )
        tables += sum(name.endswith(".csv") for name in names)
        events = [name for name in names if file_kind(here / name) == "tensorboard"]
        if events:
            sources.append(Source("tensorboard", here, path))
        logs = sorted(
            name for name in names if file_kind(here / name) == "wandb_offline" and not _matches(name, patterns)
        )
        sources += [Source("wandb_offline", here / name, path) for name in logs]
    if sources:
        return sources, findings, ""
    if findings:
        return [], [], "; ".join(finding.text for finding in findings)
    why = "the folder is empty" if not files and not excluded else f"no run among its {files} files"
    if excluded:
        why += f" ({excluded} folders excluded)"
    if tables:
        why += f"; to load the CSV exports in it, name the files ({path}/*.csv)"
    return [], [], f"{why}; {EXPECTED}"


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
