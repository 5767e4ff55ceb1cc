"""What commands share: load the runs that the options name, tell what was noticed, say where files are."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.findings import Finding
from analysis.load.study import Study, load
from freshper.config.cache import cache_folder as common_cache


def cache_folder(options: argparse.Namespace) -> Path | None:
    """Folder of the cache that the options name, else `analysis` in the machine's; None if they want none."""
    return None if options.no_cache else options.cache or common_cache() / "analysis"


def load_runs(options: argparse.Namespace, allow_duplicates: bool = False, ages: bool = False) -> Study:
    """The study that a command's options name.

    Raises:
        AnalysisError: see `analysis.load.study.load`.
    """
    return load(
        options.runs,
        cache=cache_folder(options),
        ages=ages,
        labels=options.labels,
        exclude=options.exclude,
        allow_sampled=options.allow_sampled,
        allow_duplicates=allow_duplicates,
    )


def tell(findings: Sequence[Finding]) -> None:
    """Print errors and warnings to standard error, each once."""
    for text in dict.fromkeys(str(finding) for finding in findings if finding.severity != "note"):
        print(text, file=sys.stderr)


def say_where(paths: Sequence[Path], folder: Path) -> None:
    """Say what was written."""
    print(f"{len(paths)} files in {folder}")
