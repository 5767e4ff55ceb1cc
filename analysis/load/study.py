"""Load runs into a study: one record per run, one runs table, one tidy frame.

study = load(["outputs"])
study.runs                                  # one row per run
study.frame(["eval/success"])               # one row per run, iteration and metric
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.findings import AnalysisError, DuplicateRunsError, Finding
from analysis.load import frame as frames
from analysis.load.ages import read_ages
from analysis.load.arms import with_arms
from analysis.load.cache import Cache
from analysis.load.find import Source, find_sources
from analysis.load.names import apply_labels, unlabelled
from analysis.load.planned import PlannedSweep
from analysis.load.record import RunRecord
from analysis.load.run_folder import AGES, parse, read_bytes, record_of
from analysis.load.tensorboard import read_tensorboard
from analysis.load.wandb_csv import read_wandb_csv
from analysis.load.wandb_offline import read_wandb_offline
from freshper.config.errors import nearest


@dataclass(frozen=True)
class Study:
    """Runs that are looked at together."""

    records: tuple[RunRecord, ...]
    """All runs, by task, arm and seed."""
    findings: tuple[Finding, ...]
    """What was noticed while loading, of all runs."""
    sweeps: tuple[PlannedSweep, ...] = ()
    """What sweeps under the paths planned."""

    @functools.cached_property
    def runs(self) -> pd.DataFrame:
        """One row per run: names and settings (`analysis.load.facts.Facts`), state, rows, source."""
        return frames.runs_frame(self.records)

    def frame(self, metrics: Sequence[str] | None = None) -> pd.DataFrame:
        """The tidy frame, see `analysis.load.frame.tidy_frame`; all metrics unless some are named.

        Raises:
            AnalysisError: a metric that no run has, with the nearest names.
        """
        if metrics is not None:
            self.check_metrics(metrics)
        return frames.tidy_frame(self.records, metrics)

    @functools.cached_property
    def metrics(self) -> tuple[str, ...]:
        """Names of all metrics that any run recorded, sorted."""
        return tuple(sorted({name for record in self.records for name in record.columns.names}))

    def check_metrics(self, metrics: Iterable[str]) -> None:
        """Raise AnalysisError for metrics that no run has, naming the nearest that there are."""
        problems = []
        for name in metrics:
            if name not in self.metrics:
                near = nearest(name.replace("/", "."), [known.replace("/", ".") for known in self.metrics])
                names = [known for known in self.metrics if known.replace("/", ".") in near]
                hint = (
                    f"did you mean {' or '.join(names)}?" if names else f"there are {', '.join(self.metrics) or 'none'}"
                )
                problems.append(f"no run has the metric {name}; {hint}")
        if problems:
            raise AnalysisError("\n".join(problems))


def load(
    paths: Sequence[str | Path],
    *,
    cache: Path | None = None,
    ages: bool = False,
    labels: Path | None = None,
    exclude: Iterable[str] = (),
    allow_sampled: bool = False,
    allow_duplicates: bool = False,
) -> Study:
    """Load everything under some paths.

    Args:
        paths: see `analysis.load.find.find_sources`.
        cache: folder for caches (`analysis.load.cache`); None reads everything anew.
        ages: also read ages.jsonl (`RunRecord.ages`).
        labels: CSV that says what imported runs are (`analysis.load.names.apply_labels`).
        exclude: glob patterns of folder or file names to leave out.
        allow_sampled: take wandb exports whose values are means over several steps, and flag them.
        allow_duplicates: report runs of one key instead of raising.

    Raises:
        AnalysisError: there is nothing to load, or something named cannot be read; all such problems at once.
        DuplicateRunsError: two runs have the same key.
    """
    found = find_sources(paths, exclude)
    sources, findings = found.sources, list(found.findings)
    records = _read_folders([source for source in sources if source.kind == "folder"], cache, ages, findings)
    problems: list[str] = []
    tables = [source.path for source in sources if source.kind == "wandb_csv"]
    if tables:
        try:
            records += read_wandb_csv(tables, allow_sampled)
        except DuplicateRunsError:
            raise
        except AnalysisError as error:
            problems.append(str(error))
    for source in sources:
        try:
            if source.kind == "wandb_offline":
                records.append(read_wandb_offline(source.path))
            elif source.kind == "tensorboard":
                records.append(read_tensorboard(source.path))
        except AnalysisError as error:
            problems.append(str(error))
    if problems:
        raise AnalysisError("\n".join(problems))
    records = _unique_names(records)
    if labels is not None:
        records = apply_labels(records, labels)
    nameless = [record.run for record in records if unlabelled(record)]
    if nameless:
        some = ", ".join([*nameless[:3], *(["..."] if len(nameless) > 3 else [])])
        text = f"nothing tells task, arm and seed of {len(nameless)} runs ({some}); give them with --labels FILE"
        findings.append(Finding("warning", "unlabelled", tuple(nameless), text))
    records = with_arms(records)
    duplicates = _duplicates(records)
    if duplicates and not allow_duplicates:
        raise DuplicateRunsError("\n".join(finding.text for finding in duplicates))
    records.sort(key=lambda r: (r.facts.task, r.facts.algorithm or "", r.facts.arm, r.facts.seed or 0, r.run))
    told = [finding for record in records for finding in record.findings]
    return Study(tuple(records), (*findings, *duplicates, *told), found.sweeps)


def _read_folders(
    sources: Sequence[Source], cache: Path | None, ages: bool, findings: list[Finding]
) -> list[RunRecord]:
    records = []
    caches: dict[Path, Cache] = {}
    for source in sources:
        folder = source.path
        data, file = read_bytes(folder), folder / AGES
        wanted = file.read_bytes() if ages and file.is_file() else None
        if cache is None:
            parsed, aged = parse(data), None if wanted is None else read_ages(wanted)
        else:
            if source.root not in caches:
                caches[source.root] = Cache(cache, source.root)
            store = caches[source.root]
            parsed = store.get(folder, data, parse)
            aged = None if wanted is None else store.get_ages(folder, wanted, read_ages)
        records.append(record_of(folder, parsed, aged))
    for store in caches.values():
        try:
            store.save()
        except OSError as error:
            text = f"nothing cached: {store.path} cannot be written: {error.strerror}"
            findings.append(Finding("note", "cache", (), text))
    return records


def _unique_names(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Records with unique names: where two folders have one name, the folder above is named too."""
    named = list(records)
    for depth in (1, 2, 3):
        counts = Counter(record.run for record in named)
        for index, record in enumerate(named):
            if counts[record.run] > 1:
                name = "/".join([*record.source.parts[-1 - depth : -1], records[index].run])
                findings = tuple(dataclasses.replace(finding, runs=(name,)) for finding in record.findings)
                named[index] = dataclasses.replace(record, run=name, findings=findings)
    return named


def _duplicates(records: Sequence[RunRecord]) -> list[Finding]:
    seen: dict[tuple[object, ...], RunRecord] = {}
    found = []
    for record in records:
        facts = record.facts
        if facts.identity is not None:
            key: tuple[object, ...] = ("identity", facts.identity)
            what = f"the same config and seed (identity {facts.identity})"
        elif facts.seed is not None:
            key = (facts.task, facts.algorithm, facts.arm, facts.seed)
            what = f"task {facts.task}, arm {facts.arm} and seed {facts.seed}"
        else:
            continue
        first = seen.setdefault(key, record)
        if first is not record:
            text = f"{first.source} and {record.source} have {what}; expected each run once (--exclude leaves one out)"
            found.append(Finding("error", "duplicate", (first.run, record.run), text))
    return found
