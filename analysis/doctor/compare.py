"""What is wrong with a comparison: missing cells, unequal seeds and configs, curves that should differ and do not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from analysis.doctor.commands import command
from analysis.findings import Finding
from analysis.load.arms import FOLLOWS
from analysis.load.facts import shown
from analysis.load.record import RunRecord
from analysis.tables.scores import REFERENCE, Block, counted

TWINS = (
    "eval/success",
    "eval/return",
    "fresh/return",
    "fresh/success",
    "fresh/entropy",
    "fresh/loss",
    "fresh/grad_norm",
)
"""Metrics that are compared in the search for identical curves."""
TWIN_POINTS = 4
"""Iterations after 0 below which equal curves prove nothing."""
SHARED_BY_REPLAY = ("batches_per_iteration", "batch_size", "warmup", "unit", "age_unit")
"""Keys of `replay` that have to agree between arms with replay."""


def check_block(block: Block) -> Iterator[Finding]:
    """All findings about the runs of one task and algorithm."""
    yield from _missing_cells(block)
    yield from _single_runs(block)
    yield from _configs(block)
    yield from _code(block)
    yield from _twins(block)


def _missing_cells(block: Block) -> Iterator[Finding]:
    seeds = {arm: {r.facts.seed for r in runs if r.facts.seed is not None} for arm, runs in block.arms.items()}
    everything = sorted(set().union(*seeds.values()))
    for arm, present in seeds.items():
        missing = [seed for seed in everything if seed not in present]
        if not missing:
            continue
        if not present:
            text = f"{block.label}, {arm}: no run tells its seed, so it cannot be compared seed by seed"
            yield Finding("warning", "unequal seeds", tuple(r.run for r in block.arms[arm]), text)
            continue
        model = block.arms[arm][0]
        listed = ", ".join(map(str, missing))
        text = f"{block.label}: {arm} has no run of seed {listed}, which other arms have"
        again = command(model, {"seed": ",".join(map(str, missing))})
        yield Finding("warning", "missing cell", tuple(r.run for r in block.arms[arm]), text, (again,))


def _single_runs(block: Block) -> Iterator[Finding]:
    for arm, runs in block.arms.items():
        done = counted(runs)
        if len(done) == 1:
            text = f"{block.label}: {arm} has one run that counts; nothing can be said about its spread"
            yield Finding("note", "one run", (done[0].run,), text)
        elif not done:
            text = f"{block.label}: {arm} has {len(runs)} runs and none that counts"
            yield Finding("warning", "no run counts", tuple(r.run for r in runs), text)


def _configs(block: Block) -> Iterator[Finding]:
    """Keys outside replay in which an arm differs from the reference; keys of replay that replay arms must share."""
    configs = {arm: runs[0].settings for arm, runs in block.arms.items() if runs[0].settings}
    if len(configs) < 2:
        return
    reference = REFERENCE if REFERENCE in configs else next(iter(configs))
    base = configs[reference]
    told: dict[tuple[str, ...], list[str]] = {}
    for arm, config in configs.items():
        keys = [
            key for key in dict.fromkeys([*base, *config])
            if not key.startswith("replay.") and key not in {"seed", "variant.name", *FOLLOWS}
            and config.get(key, "(absent)") != base.get(key, "(absent)")
            and not (key == "algorithm.epochs" and arm.startswith("on_policy_epochs"))
        ]  # fmt: skip
        if keys:
            shown_keys = tuple(
                f"{k} = {shown(config.get(k, '(absent)'))}, there {shown(base.get(k, '(absent)'))}" for k in keys
            )
            told.setdefault(shown_keys, []).append(arm)
    for differences, arms in told.items():
        text = f"{block.label}: {', '.join(arms)} and {reference} differ in more than replay: {'; '.join(differences)}"
        runs = tuple(r.run for arm in [*arms, reference] for r in block.arms[arm])
        yield Finding("warning", "unequal configs", runs, text)
    replaying = {arm: config for arm, config in configs.items() if config.get("replay.enabled")}
    variants = {arm.partition(" ")[0] for arm in replaying}
    for key in SHARED_BY_REPLAY:
        values = {arm: shown(config.get(f"replay.{key}")) for arm, config in replaying.items()}
        if len(variants) > 1 and len(set(values.values())) > 1:
            listed = ", ".join(f"{arm}: {value}" for arm, value in values.items())
            runs = tuple(r.run for arm in values for r in block.arms[arm])
            text = f"{block.label}: arms with replay differ in replay.{key} ({listed})"
            yield Finding("warning", "unequal configs", runs, text)


def _code(block: Block) -> Iterator[Finding]:
    everyone = [r for runs in block.arms.values() for r in runs if r.provenance is not None]
    commits: dict[str, list[str]] = {}
    for record in everyone:
        assert record.provenance is not None
        commit = record.provenance.get("commit")
        if commit:
            commits.setdefault(str(commit)[:10], []).append(record.run)
    if len(commits) > 1:
        listed = ", ".join(f"{commit} ({len(runs)} runs)" for commit, runs in commits.items())
        runs = tuple(run for names in commits.values() for run in names)
        yield Finding("note", "unequal code", runs, f"{block.label}: runs of different commits: {listed}")
    dirty = tuple(r.run for r in everyone if r.provenance is not None and r.provenance.get("dirty"))
    if dirty:
        text = f"{block.label}: {len(dirty)} runs come from a working tree with changes that no commit has"
        yield Finding("note", "uncommitted code", dirty, text)


def _twins(block: Block) -> Iterator[Finding]:
    """Runs with the same curve to the last digit although arm or seed differ: a setting that has no effect."""
    groups: dict[str, list[RunRecord]] = {}
    for runs in block.arms.values():
        for record in runs:
            print_ = _fingerprint(record)
            if print_ is not None:
                groups.setdefault(print_, []).append(record)
    for twins in groups.values():
        if len(twins) < 2:
            continue
        names = tuple(record.run for record in twins)
        arms = list(dict.fromkeys(record.facts.arm for record in twins))
        if len(arms) > 1:
            differing = _differing(twins)
            text = (
                f"{block.label}: identical curves in the arms {', '.join(arms)} ({', '.join(names)}); they differ in "
                f"{differing}, which had no effect"
            )
            yield Finding("error", "identical curves", names, text)
        else:
            seeds = ", ".join(str(record.facts.seed) for record in twins)
            text = f"{block.label}: identical curves of {arms[0]} for the seeds {seeds}; the seed had no effect"
            yield Finding("error", "identical curves", names, text)


def _fingerprint(record: RunRecord) -> str | None:
    """Hash of a run's curves after iteration 0; None where they are too short or too flat to tell anything."""
    if record.state == "dead":
        return None
    state = hashlib.sha1()
    points, distinct = 0, 0
    for name in TWINS:
        x, values = record.columns.series(name)
        x, values = x[x > 0], values[x > 0]
        if len(values):
            state.update(name.encode() + x.tobytes() + values.tobytes())
            points, distinct = max(points, len(values)), max(distinct, len(np.unique(values)))
    return state.hexdigest() if points >= TWIN_POINTS and distinct >= 3 else None


def _differing(twins: Sequence[RunRecord]) -> str:
    configs = [record.settings for record in twins]
    keys = {key for a, b in combinations(configs, 2) for key in {*a, *b} if a.get(key) != b.get(key)}
    return ", ".join(sorted(keys - {"variant.name", "seed"})) or "their names"
