"""The settings of a run that tables group by, read from its resolved config."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from freshper.config.identity import digest, effective, scientific

UNLABELLED = "unlabelled"
"""Task of an imported run about which nothing is known."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """None means not known, or without a meaning for the run (no tau without replay)."""

    task: str = UNLABELLED
    """`env.name`."""
    algorithm: str | None = None
    """`algorithm.name`."""
    variant: str | None = None
    """`variant.name`."""
    arm: str = ""
    """What tables call the run: its variant, with the settings in which runs of that variant differ."""
    seed: int | None = None
    """Run seed."""
    model: str | None = None
    """`model.name`."""
    scale: str | None = None
    """`scale.name`."""
    tau: float | None = None
    """Time constant of the decay in `age_unit`; infinite without decay."""
    alpha: float | None = None
    """Priority exponent."""
    base: str | None = None
    """Base priority."""
    replay_ratio: int | None = None
    """K, replay batches per iteration; 0 without replay."""
    is_beta: float | None = None
    """Initial beta of the importance-sampling correction; None if it is off."""
    age_unit: str | None = None
    """`optimizer_steps` or `iterations`."""
    planned_iterations: int | None = None
    """`iterations`."""
    evaluation_episodes: int | None = None
    """Episodes per evaluation."""
    identity: str | None = None
    """Hash of everything in the config that changes what is learned."""
    cell: str | None = None
    """The same without the seed: repetitions share it."""


def facts_of(config: dict[str, Any]) -> tuple[Facts, tuple[str, ...]]:
    """Facts of a resolved config, and the dotted keys that should be there and are not."""
    absent: list[str] = []
    science = effective(config)

    def get(key: str) -> Any:
        node: Any = config
        for part in key.split("."):
            if not isinstance(node, dict) or part not in node:
                absent.append(key)
                return None
            node = node[part]
        return node

    replay = bool(get("replay.enabled"))
    law, tau = get("replay.decay.law"), get("replay.decay.tau")
    corrected = bool(get("replay.is_correction.enabled"))
    batches, beta = get("replay.batches_per_iteration"), get("replay.is_correction.beta")
    variant = get("variant.name")
    facts = Facts(
        task=get("env.name") or UNLABELLED,
        algorithm=get("algorithm.name"),
        variant=variant,
        arm=variant or "",
        seed=get("seed"),
        model=get("model.name"),
        scale=get("scale.name"),
        tau=None if not replay else math.inf if law == "none" else tau,
        alpha=get("replay.priority.alpha") if replay else None,
        base=get("replay.priority.base") if replay else None,
        replay_ratio=batches if replay else 0,
        is_beta=beta if replay and corrected else None,
        age_unit=get("replay.age_unit") if replay else None,
        planned_iterations=get("iterations"),
        evaluation_episodes=get("evaluation.episodes"),
        identity=digest(science),
        cell=digest({key: value for key, value in science.items() if key != "seed"}),
    )
    return facts, tuple(dict.fromkeys(absent))


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """Dotted key -> value of the scientific part of a config, without replay's settings where there is no replay.

    A decay's settings stay where there is no decay: tables put such runs beside those with one. All values can be
    hashed: lists become tuples.
    """
    found: dict[str, Any] = {}

    def walk(section: dict[str, Any], prefix: str) -> None:
        for name, value in section.items():
            key = f"{prefix}{name}"
            if type(value) is dict:
                walk(value, f"{key}.")
            else:
                found[key] = tuple(value) if type(value) is list else value

    science = scientific(config)
    replay = science.get("replay")
    if isinstance(replay, dict) and replay.get("enabled") is False:
        science["replay"] = {"enabled": False}
    walk(science, "")
    return found


def shown(value: Any) -> str:
    """A config value as it is shown: `null`, `true`, `500`, `0.0005`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
