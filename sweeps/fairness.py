"""Whether the arms of a sweep can be compared: do they differ in anything but what makes them arms?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from freshper.config.identity import canonical_json, scientific
from freshper.config.schema import resolved
from sweeps.plan import Cell

ARM_KEYS = ("variant", "replay", "algorithm.epochs")
"""Keys and sections that the files of conf/variant set: what an arm is."""


def unfair(cells: Sequence[Cell]) -> list[str]:
    """One sentence per key in which variants differ although it is no part of an arm.

    A key that takes the same set of values in every variant (a seed, a swept learning rate) is fair. A key that one
    variant runs with other values than another (a variant's file that also sets the batch size, say) confounds them.
    """
    arms: dict[str, dict[str, dict[str, Any]]] = {}
    for cell in cells:
        values = arms.setdefault(cell.config.variant.name, {})
        for key, value in _flat(scientific(resolved(cell.config))).items():
            if not any(key == arm or key.startswith(f"{arm}.") for arm in ARM_KEYS):
                values.setdefault(key, {})[canonical_json(value)] = value
    if len(arms) < 2:
        return []
    sentences = []
    for key in sorted({key for values in arms.values() for key in values}):
        by_arm = {name: values.get(key, {}) for name, values in arms.items()}
        if len({tuple(sorted(values)) for values in by_arm.values()}) > 1:
            listed = "; ".join(
                f"{name}: {', '.join(str(value) for value in values.values()) or '(absent)'}"
                for name, values in by_arm.items()
            )
            sentences.append(f"{key} differs between variants ({listed})")
    return sentences


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
