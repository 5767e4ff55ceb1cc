"""From what Hydra composed to a validated `RunConfig`, with every problem reported at once."""

from __future__ import annotations

import copy
from typing import Any

from omegaconf import Container, DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from freshper.config.checks import check
from freshper.config.errors import UNSET, ConfigError, Issue, did_you_mean
from freshper.config.run import RunConfig
from freshper.config.schema import family_keys, plain, schema_fields

Path = tuple[str | int, ...]

_TEXT = {
    "greater_than": "expected a number greater than {gt:g}",
    "greater_than_equal": "expected a number of at least {ge:g}",
    "less_than": "expected a number less than {lt:g}",
    "less_than_equal": "expected a number of at most {le:g}",
    "literal_error": "expected {expected}",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "string_type": "expected text",
    "model_type": "expected a section with keys, not a single value",
    "too_long": "expected {max_length} values",
    "missing": "a value is required",
}


def load_config(composed: DictConfig | dict[str, Any]) -> RunConfig:
    """Validate a composed config (OmegaConf or plain) and return it; no OmegaConf type survives.

    Raises:
        ConfigError: with all missing values, broken interpolations, unknown keys, wrong values and cross-field
            conflicts together.
    """
    if isinstance(composed, Container):
        data, issues, bad = _to_plain(composed)
    else:
        data, issues, bad = plain(copy.deepcopy(composed)), [], set()
    if isinstance(data.get("env"), dict):
        data["env"].setdefault("family", RunConfig().env.family)
    config = _validate(data, issues, bad)
    if config is not None:
        # A conflict that involves a key that is wrong anyway would only repeat the news.
        issues += [issue for issue in check(config) if not bad & {issue.key, *issue.also}]
    if issues:
        raise ConfigError(issues)
    assert config is not None
    return config


def _to_plain(composed: Container) -> tuple[dict[str, Any], list[Issue], set[str]]:
    """Resolve node by node, so that each broken or missing one is named by its full key and left out."""
    issues: list[Issue] = []
    bad: set[str] = set()

    def visit(node: Any, prefix: str) -> Any:
        if isinstance(node, DictConfig):
            keys = [str(key) for key in node]
            out = {key: read(node, key, f"{prefix}{key}") for key in keys}
            return {key: value for key, value in out.items() if value is not UNSET}
        if isinstance(node, ListConfig):
            values = [read(node, index, f"{prefix[:-1]}[{index}]") for index in range(len(node))]
            return [value for value in values if value is not UNSET]
        return node

    def read(node: Any, key: str | int, full: str) -> Any:
        if OmegaConf.is_missing(node, key):
            issues.append(Issue(full, f"no value given; set it: {full}=<value>"))
            bad.add(full)
            return UNSET
        try:
            value = node[key]
        except OmegaConfBaseException as error:
            raw = OmegaConf.to_container(node, resolve=False)[key]  # type: ignore[call-overload, index]
            issues.append(Issue(full, f"the interpolation cannot be resolved: {str(error).splitlines()[0]}", raw))
            bad.add(full)
            return UNSET
        return visit(value, f"{full}.")

    data = visit(composed, "")
    assert isinstance(data, dict)
    return data, issues, bad


def _validate(data: dict[str, Any], issues: list[Issue], bad: set[str]) -> RunConfig | None:
    """Schema validation. Wrong values are reported, then dropped (default taken), so that the rest is checked too."""
    while True:
        try:
            return RunConfig.model_validate(data)
        except ValidationError as error:
            dropped = False
            for detail in error.errors(include_url=False):
                path = _path_in(data, detail["loc"])
                key = _dotted(path)
                issues.append(_issue(key, detail, data))
                bad.add(key.split("[")[0])
                dropped |= _drop(data, path)
            if not dropped:
                return None


def _issue(key: str, detail: ErrorDetails, data: dict[str, Any]) -> Issue:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        return unknown_key(key, detail["input"], data["env"]["family"] if key.startswith("env.") else None)
    if kind == "union_tag_invalid":  # the only union is that of the environment families
        known = ", ".join(family_keys())
        return Issue(f"{key}.family", f"expected one of {known}", context["tag"])
    if kind == "value_error":
        return Issue(key, str(context["error"]), detail["input"])
    text = _TEXT[kind].format(**context) if kind in _TEXT else detail["msg"]
    return Issue(key, text, detail["input"])


def unknown_key(key: str, value: Any, family: str | None) -> Issue:
    """A key that is none, or, with `family`, one of another environment family than the chosen one."""
    if family is None or family not in family_keys():
        return Issue(key, f"unknown key{did_you_mean(key, schema_fields())}", value)
    others = [name for name, keys in family_keys().items() if key in keys]
    if others:
        inside = ", ".join(sorted(name.partition(".")[2] for name in family_keys()[family]))
        return Issue(key, f"belongs to env.family = {' and '.join(others)}; the chosen {family} has: {inside}", value)
    elsewhere = [name for name in schema_fields() if not name.startswith("env.")]
    return Issue(key, f"unknown key{did_you_mean(key, [*sorted(family_keys()[family]), *elsewhere])}", value)


def _path_in(data: Any, loc: Path) -> Path:
    """The part of a pydantic location that exists in the data (union tags and the like removed)."""
    path: list[str | int] = []
    for position, step in enumerate(loc):
        inside = (isinstance(data, dict) and step in data) or (
            isinstance(data, list) and isinstance(step, int) and step < len(data)
        )
        if inside:
            path.append(step)
            data = data[step]
        elif position == len(loc) - 1 and not path:
            path.append(step)
    return tuple(path)


def _dotted(path: Path) -> str:
    key = ""
    for step in path:
        key += f"[{step}]" if isinstance(step, int) else f".{step}" if key else step
    return key


def _drop(data: Any, path: Path) -> bool:
    """Remove a wrong entry; for an entry of a list the whole list goes, so that the default is taken."""
    names = path[: next((i for i, step in enumerate(path) if isinstance(step, int)), len(path))]
    for step in names[:-1]:
        data = data[step]
    if not names or names[-1] not in data:
        return False
    del data[names[-1]]
    return True
