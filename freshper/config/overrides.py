"""Command-line overrides checked before Hydra sees them: all mistakes at once, each with the nearest valid names.

Hydra stops at the first mistake, knows no suggestion, and accepts any key behind `+`. What is left alone here: flags
(`-m`, `--help`, `--cfg job`, ...) and everything under `hydra`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, ValueType
from hydra.errors import HydraException

from freshper.config.errors import ConfigError, Issue, did_you_mean
from freshper.config.schema import CONF_DIR, default_groups, free_mappings, group_options, schema_fields


def check_overrides(overrides: Sequence[str], multirun: bool, conf_dir: Path = CONF_DIR) -> list[Override]:
    """Parse overrides and check their keys and group options.

    Args:
        overrides: as typed, `key=value`, with `+`, `++`, `~`, sweeps.
        multirun: whether `-m` was given; without it a sweep is an error.
        conf_dir: folder of the groups.
    Returns:
        The parsed overrides, those of Hydra's own included.
    Raises:
        ConfigError: listing every override that cannot be meant.
    """
    parsed, issues = sort_overrides(overrides, multirun, conf_dir)
    if issues:
        raise ConfigError(issues)
    return parsed


def sort_overrides(
    overrides: Sequence[str], multirun: bool, conf_dir: Path = CONF_DIR
) -> tuple[list[Override], list[Issue]]:
    """The overrides that can be meant, parsed, and what is wrong with the others; see `check_overrides`."""
    groups, chosen = group_options(conf_dir), default_groups(conf_dir)
    parser = OverridesParser.create()
    parsed: list[Override] = []
    issues: list[Issue] = []
    for text in overrides:
        try:
            override = parser.parse_override(text)
        except HydraException as error:
            issues.append(Issue(text, f"cannot be read; expected key=value ({' '.join(str(error).split())})"))
            continue
        found = [] if override.is_hydra_override() else list(_check(override, text, groups, chosen, multirun))
        issues += found
        if not found:
            parsed.append(override)
    return parsed, issues


def _check(
    override: Override, text: str, groups: Mapping[str, list[str]], chosen: frozenset[str], multirun: bool
) -> Iterator[Issue]:
    key = override.key_or_group
    value = text.partition("=")[2]
    if _is_entry(key):
        return
    if key not in groups and key not in schema_fields():
        keys = [*groups, *schema_fields()]
        yield Issue(key, f"unknown key{did_you_mean(key, keys)}", value)
        return
    if key == "env.family":
        options = ", ".join(groups["env"])
        yield Issue(key, f"comes with the environment; expected env=<option>, one of {options}", value)
        return
    if override.is_sweep_override() and not multirun:
        yield Issue(key, f"several values need a sweep: add -m (or write a list as {key}=[a,b])", value)
    if key in groups:
        yield from _check_group(override, key, value, groups[key], key in chosen)
    elif override.is_add() and not override.is_force_add():
        yield Issue(key, f"the key exists already; expected it without +: {key}={value}", value)


def _is_entry(key: str) -> bool:
    """Whether the key names an entry of a mapping whose keys are free, such as `trainer.command.env.HOME`."""
    return any(key.startswith(f"{mapping}.") for mapping in free_mappings())


def _check_group(override: Override, group: str, value: str, options: list[str], chosen: bool) -> Iterator[Issue]:
    if override.is_delete():
        return
    if chosen and override.is_add():
        yield Issue(group, f"config.yaml chooses an option already; expected it without +: {group}={value}", value)
    elif not chosen and not override.is_add():
        yield Issue(group, f"config.yaml chooses none; expected +{group}={value}", value)
    for option in _options(override):
        if option not in options:
            listed = ", ".join(options)
            yield Issue(group, f"unknown option{did_you_mean(option, options)}; options: {listed}", option)


def _options(override: Override) -> list[str]:
    """The group options named by an override: one, a sweep's or a list's. A glob names none until it is matched."""
    if override.value_type == ValueType.GLOB_CHOICE_SWEEP:
        return []
    if override.is_choice_sweep():
        return [text.strip("'\"") for text in override.sweep_string_iterator()]
    if override.is_sweep_override():
        return []
    value = override.value()
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]
