"""What tables call a run: its variant, and the settings in which runs of that variant differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from analysis.load.facts import shown
from analysis.load.record import RunRecord

SHORT = {
    "replay.decay.tau": "tau",
    "replay.priority.base": "base",
    "replay.priority.alpha": "alpha",
    "replay.batches_per_iteration": "K",
    "replay.is_correction.enabled": "IS",
    "replay.is_correction.beta": "beta",
    "replay.decay.law": "law",
    "replay.decay.placement": "placement",
    "replay.age_unit": "age",
    "replay.priority.initial": "initial",
    "algorithm.learning_rate": "lr",
    "model.name": "model",
    "scale.name": "scale",
}
"""Short names in arm labels, in the order in which they are shown; other keys follow by their last part."""
FOLLOWS = {"scale.tau": "replay.decay.tau", "scale.critic_learning_rate": "algorithm.critic.learning_rate"}
"""Keys that only hand a value on: not shown beside the key that receives it."""
SHOWN = 4
"""Most settings in a label; the rest becomes a hash, so that different settings never share a label."""


def with_arms(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Records with arm labels.

    Runs of one task, algorithm and variant whose configs differ in anything but the seed are different arms and get the
    differing settings into their label, `freshper tau=100`. Runs are never pooled over settings.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, record in enumerate(records):
        facts = record.facts
        if record.settings and facts.arm == facts.variant:  # not renamed by a labels file
            groups.setdefault((facts.task, facts.algorithm, facts.variant), []).append(index)
    labelled = list(records)
    for members in groups.values():
        cells = {records[index].facts.cell: records[index] for index in members}
        if len(cells) < 2:
            continue
        labels = _labels({str(cell): record for cell, record in cells.items()})
        for index in members:
            facts = records[index].facts
            arm = f"{facts.variant} {labels[str(facts.cell)]}"
            labelled[index] = dataclasses.replace(records[index], facts=dataclasses.replace(facts, arm=arm))
    return labelled


def _labels(cells: dict[str, RunRecord]) -> dict[str, str]:
    flattened = {cell: record.settings for cell, record in cells.items()}
    keys = varying(list(flattened.values()))
    shown_keys = sorted(keys, key=lambda key: (list(SHORT).index(key) if key in SHORT else len(SHORT), key))
    labels = {}
    for cell, values in flattened.items():
        parts = [f"{_name(key, keys)}={shown(values.get(key))}" for key in shown_keys[:SHOWN]]
        labels[cell] = " ".join(parts + ([f"+{cell[:6]}"] if len(keys) > SHOWN else []))
    return labels


def varying(configs: Sequence[dict[str, Any]]) -> list[str]:
    """Dotted keys that differ between flattened configs, without the seed and without keys that only hand on."""
    keys = list(dict.fromkeys(key for config in configs for key in config))
    absent = object()
    differing = [key for key in keys if key != "seed" and len({repr(c.get(key, absent)) for c in configs}) > 1]
    return [key for key in differing if FOLLOWS.get(key) not in differing]


def _name(key: str, keys: Sequence[str]) -> str:
    if key in SHORT:
        return SHORT[key]
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in keys) == 1 else key
