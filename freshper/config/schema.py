"""The schema seen from outside: its keys, their docs, and its defaults as Hydra's lowest layer."""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from freshper.config.env import EnvConfig
from freshper.config.run import RunConfig

CONF_DIR = Path(__file__).resolve().parents[2] / "conf"
"""The Hydra groups of this checkout."""


def section_classes(annotation: Any) -> list[type[BaseModel]]:
    """The section classes in an annotation: one, or each member of a (discriminated) union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [cls for part in typing.get_args(annotation) for cls in section_classes(part)]


def _walk(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        yield key, field
        for section in section_classes(field.annotation):
            yield from _walk(section, f"{key}.")


@functools.cache
def schema_fields() -> dict[str, FieldInfo]:
    """Every dotted key of `RunConfig`, sections included, in order. Keys of all environment families are there."""
    return dict(_walk(RunConfig, ""))


@functools.cache
def free_mappings() -> frozenset[str]:
    """Dotted keys of mappings whose own keys are up to the user, such as `trainer.command.env`."""
    return frozenset(key for key, field in schema_fields().items() if typing.get_origin(field.annotation) is dict)


@functools.cache
def family_keys() -> dict[str, frozenset[str]]:
    """Environment family -> its dotted keys."""
    return {
        family.model_fields["family"].default: frozenset(key for key, _ in _walk(family, "env."))
        for family in section_classes(EnvConfig)
    }


def plain(value: Any) -> Any:
    """Tuples to lists, all the way down: what YAML and JSON can hold."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def resolved(config: RunConfig) -> dict[str, Any]:
    """The whole config as plain containers, every key present."""
    return typing.cast(dict[str, Any], plain(config.model_dump()))


def register_defaults() -> None:
    """Put the schema's defaults where `conf/` finds them: `schema/run`, and `schema/env/<family>` for each family.

    Every key then exists before any group file is read, so the command line can set it without `+`, and defaults are
    written down once, in the schema. Group files may add numbers up, `${freshper_sum:1,${variant.replay_ratio}}`, and
    choose by a name, `${freshper_choice:${env},{gsm8k: qwen2_5_7b},qwen2_5_0_5b}`: the last is for every other name.
    """
    store = ConfigStore.instance()
    run = resolved(RunConfig())
    del run["env"]
    OmegaConf.register_new_resolver("freshper_sum", lambda *numbers: sum(numbers), replace=True)
    OmegaConf.register_new_resolver(
        "freshper_choice", lambda name, table, otherwise: table.get(name, otherwise), replace=True
    )
    node = OmegaConf.create(run)
    for key in free_mappings():
        OmegaConf.set_struct(OmegaConf.select(node, key), False)  # the command line may add entries without `+`
    store.store(group="schema", name="run", node=node, package="_global_", provider="freshper")
    for family in section_classes(EnvConfig):
        node = plain(family().model_dump())
        store.store(group="schema/env", name=node["family"], node=node, provider="freshper")


def group_options(conf_dir: Path = CONF_DIR) -> dict[str, list[str]]:
    """Group name -> its options, read from the folders of `conf/`. Hydra's own groups are left out, and so are folders
    within a group: what they hold is chosen by config.yaml, not by the user."""
    groups: dict[str, list[str]] = {}
    for folder in sorted(path for path in conf_dir.iterdir() if path.is_dir() and path.name != "hydra"):
        groups[folder.name] = sorted(file.stem for file in folder.glob("*.yaml"))
    return groups


@functools.cache
def default_groups(conf_dir: Path = CONF_DIR) -> frozenset[str]:
    """Groups of which config.yaml already chooses an option; the others are added with `+group=option`."""
    loaded = OmegaConf.to_container(OmegaConf.load(conf_dir / "config.yaml"), resolve=False)
    assert isinstance(loaded, dict)
    return frozenset(next(iter(entry)) for entry in loaded["defaults"] if isinstance(entry, dict))
