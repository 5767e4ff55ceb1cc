"""YAML files that are plain mappings, as runs write their configs, in a fraction of PyYAML's time.

A thousand configs differ in a few sections, so each spelling of a section (a key at the left margin with what belongs
to it) is read once. libyaml takes it apart; each plain scalar is resolved by PyYAML, once per spelling too. Whatever is
not plain (anchors, tags, merge keys, several documents) is left to PyYAML whole.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import yaml

_LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_MERGE = "tag:yaml.org,2002:merge"
_SECTION = re.compile(rb"^(?=\w)", re.MULTILINE)
"""Where a key at the left margin begins."""
_NO_SECTION = re.compile(rb"^[^\w\s#-]|\A\W", re.MULTILINE)
"""A line at the left margin that is no such key, no list item and no comment; or a text that does not begin with a key.
Such texts are not taken apart by sections."""


class _NotPlainError(Exception):
    """Something that only PyYAML's own constructor knows."""


def load_yaml(data: bytes) -> Any:
    """The document in `data`, equal to what `yaml.safe_load` has. Documents share their values: change none.

    Raises:
        yaml.YAMLError: the text is no YAML document.
    """
    if not data or _NO_SECTION.search(data):
        return _whole(data)
    try:
        sections = [_section(text) for text in _SECTION.split(data) if text]
    except (_NotPlainError, yaml.YAMLError):  # of a section alone; the whole may be right, and tells the right place
        return _whole(data)
    return {key: value for section in sections for key, value in section.items()}


@functools.lru_cache(maxsize=10_000)
def _section(text: bytes) -> dict[Any, Any]:
    value = _plain(text)
    if type(value) is not dict:
        raise _NotPlainError
    return value


def _whole(data: bytes) -> Any:
    try:
        return _plain(data)
    except _NotPlainError:
        return yaml.load(data, _LOADER)  # noqa: S506  # a safe loader


def _plain(data: bytes) -> Any:
    events = yaml.parse(data, Loader=_LOADER)
    _expect(next(events), yaml.StreamStartEvent)
    _expect(next(events), yaml.DocumentStartEvent)
    value = _value(next(events), events)
    _expect(next(events), yaml.DocumentEndEvent)
    _expect(next(events), yaml.StreamEndEvent)
    return value


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
