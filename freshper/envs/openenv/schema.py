"""Which fields of an OpenEnv server's actions and observations are the text."""

from __future__ import annotations

import difflib
import http.client
import json
import urllib.request
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from freshper.config.envs.openenv import OpenEnvConfig
from freshper.envs.errors import EnvError
from freshper.envs.openenv.session import address


@dataclass(frozen=True)
class Fields:
    """The fields that carry text."""

    action: str
    observation: str


def text_fields(config: OpenEnvConfig) -> Fields:
    """Choose the fields by the config, or by the server's `/schema` where the config leaves it open.

    Raises:
        EnvError: the server does not answer, has no such field, or several could be meant.
    """
    schema = read_schema(config.url, config.timeout)
    action = schema["action"]
    required = [name for name in _properties(action) if name in action.get("required", [])]
    fields = _properties(schema["observation"])
    texts = [name for name, field in fields.items() if field.get("type") == "string"]
    return Fields(
        _choose("action", config.action_key, list(_properties(action)), required),
        _choose("observation", config.observation_key, list(fields), texts),
    )


def _properties(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Fields of an environment's own; all actions and observations have the others."""
    common = {"metadata", "done", "reward"}
    return {name: field for name, field in schema.get("properties", {}).items() if name not in common}


def _choose(kind: str, wanted: str | None, names: list[str], likely: list[str]) -> str:
    key = f"env.{kind}_key"
    if wanted is None:
        found = likely if len(likely) == 1 else names
        if len(found) != 1:
            has = ", ".join(names) or "none that its schema tells"
            raise EnvError(f"{key}: expected the {kind} field of the text; the server's {kind} has: {has}")
        return found[0]
    if names and wanted not in names:
        near = difflib.get_close_matches(wanted, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise EnvError(f"{key} = {wanted}: the server's {kind} has no such field, but: {', '.join(names)}{hint}")
    return wanted


@lru_cache
def read_schema(url: str, timeout: float) -> dict[str, dict[str, Any]]:
    """The server's `{"action": <JSON schema>, "observation": <JSON schema>}`."""
    place = address(url, "http", "/schema")
    start = "start the server first (docs/environments.md)"
    try:
        with urllib.request.urlopen(place, timeout=timeout) as response:
            answer = json.load(response)
    except (OSError, http.client.HTTPException) as error:
        raise EnvError(f"env.url = {url}: {place} cannot be read ({error}); {start}") from error
    except ValueError as error:
        raise EnvError(f"env.url = {url}: {place} is no JSON; is it an OpenEnv server?") from error
    kinds = ("action", "observation")
    if not isinstance(answer, dict) or not all(isinstance(answer.get(kind), dict) for kind in kinds):
        raise EnvError(f"env.url = {url}: {place} has no schemas of action and observation; is it an OpenEnv server?")
    return answer
