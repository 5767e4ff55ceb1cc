"""YAML files that are plain mappings, as runs write their configs, in a fraction of PyYAML's time.

libyaml takes the text apart; each plain scalar is resolved by PyYAML, once per spelling, since a thousand configs hold
the same few hundred. Whatever is not plain (anchors, tags, merge keys) is left to PyYAML whole.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import yaml

_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_MERGE = "tag:yaml.org,2002:merge"


class _NotPlainError(Exception):
    """Something that only PyYAML's own constructor knows."""


def load_yaml(data: bytes) -> Any:
    """The document in `data`, exactly as `yaml.safe_load` has it.

    Raises:
        yaml.YAMLError: the text is no YAML document.
    """
    events = yaml.parse(data, Loader=_LOADER)
    try:
        _expect(next(events), yaml.StreamStartEvent)
        _expect(next(events), yaml.DocumentStartEvent)
        value = _value(next(events), events)
        _expect(next(events), yaml.DocumentEndEvent)
        _expect(next(events), yaml.StreamEndEvent)
        return value
    except _NotPlainError:
        return yaml.load(data, _LOADER)  # noqa: S506  # a safe loader


def _expect(event: Any, kind: type) -> None:
    if type(event) is not kind:
        raise _NotPlainError


def _value(event: Any, events: Iterator[Any]) -> Any:
    kind = type(event)
    if kind is yaml.AliasEvent or event.anchor is not None or event.tag is not None:
        raise _NotPlainError
    if kind is yaml.ScalarEvent:
        return _scalar(event.value) if event.implicit[0] else event.value
    if kind is yaml.SequenceStartEvent:
        items = []
        while type(item := next(events)) is not yaml.SequenceEndEvent:
            items.append(_value(item, events))
        return items
    mapping = {}
    while type(item := next(events)) is not yaml.MappingEndEvent:
        _expect(item, yaml.ScalarEvent)  # no list or mapping as a key
        key = _value(item, events)
        mapping[key] = _value(next(events), events)
    return mapping


@functools.lru_cache(maxsize=10_000)
def _scalar(text: str) -> Any:
    """What PyYAML makes of a plain scalar."""
    loader = yaml.SafeLoader("")
    tag = loader.resolve(yaml.ScalarNode, text, (True, False))
    if tag == _MERGE:
        raise _NotPlainError
    return loader.construct_object(yaml.ScalarNode(tag, text))
