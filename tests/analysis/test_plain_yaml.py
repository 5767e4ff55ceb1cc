"""The fast reader of configs against PyYAML, on what runs write and on what they do not."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from analysis.load import plain_yaml
from analysis.load.plain_yaml import load_yaml
from freshper.config.compose import compose_config
from freshper.config.schema import resolved

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.dates(), st.datetimes(),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"])),
    st.sampled_from(["yes", "no", "1e3", "1.0e-3", "0x1f", "017", "1_000", "~", "null", "<<", "=", "2001-01-01", "-"]),
)  # fmt: skip
NODES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SCALARS, inner, max_size=4), max_leaves=20
)


@given(NODES, st.sampled_from([None, True, False]))
def test_dumped_values_come_back_as_pyyaml_reads_them(value, flow):
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=flow)
    assert repr(load_yaml(text.encode())) == repr(yaml.safe_load(text))


def test_a_config_is_read_without_pyyamls_constructor(monkeypatch):
    config = resolved(compose_config(["variant=freshper", "replay.decay.law=none"]))
    text = yaml.safe_dump(config, sort_keys=False)
    expected = yaml.safe_load(text)
    monkeypatch.setattr(plain_yaml.yaml, "load", None)
    assert load_yaml(text.encode()) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "# nothing\n", "a: &x 1\nb: *x\n", "a: {b: 1}\nc: {<<: {d: 2}}\n", "a: !!str 1\n", "? [1, 2]\n: 3\n",
        "a: 1\na: 2\n", "- on\n- 1:30\n- 0o7\n- .inf\n- .NaN\n", "a: |\n  text\n  more\n", "--- 1\n", "a: 1e5\n",
    ],
)  # fmt: skip
def test_everything_else_too(text):
    try:
        expected = repr(yaml.safe_load(text))
    except yaml.YAMLError as error:
        with pytest.raises(type(error)):
            load_yaml(text.encode())
    else:
        assert repr(load_yaml(text.encode())) == expected


LINES = st.sampled_from(
    [
        "a: 1", "b:", "  c: 2", "  - 3", "- 4", "# note", "", "a: 'x", "y'", "b: [1,", "2]", "a: |", "  text", "a: >+",
        "...", "---", "%YAML 1.1", "? a", ": 1", "c", " a: 1", "\ta: 1", "a: &x 1", "b: *x", "<<: {d: 1}", '"q": 1',
        "{a: 1,", "b: 2}", "a: x", "  y", "a: b: c", "1: 2", "true: 3", "- a: 1", "\ufeffa: 1", "d: 1\rb: 2",
    ]
)  # fmt: skip


@given(st.lists(LINES, max_size=7))
def test_sections_are_not_taken_apart_where_that_changes_anything(lines):
    text = "\n".join(lines)
    try:
        expected = repr(yaml.load(text.encode(), plain_yaml._LOADER))
    except (yaml.YAMLError, TypeError) as error:  # the latter: a key that cannot be hashed
        with pytest.raises(type(error)):
            load_yaml(text.encode())
    else:
        assert repr(load_yaml(text.encode())) == expected


def test_sections_that_recur_are_read_once(monkeypatch):
    configs = [yaml.safe_dump({"seed": seed, "one": {"a": [1, 2]}, "two": {"b": None}}) for seed in range(30)]
    read = []
    monkeypatch.setattr(plain_yaml, "_plain", lambda data, plain=plain_yaml._plain: read.append(data) or plain(data))
    plain_yaml._section.cache_clear()
    assert [load_yaml(text.encode()) for text in configs] == [yaml.safe_load(text) for text in configs]
    assert len(read) == 30 + 2


@pytest.mark.parametrize("text", ["a: [", "a: b: c", "--- 1\n--- 2\n", "\t", "a: *nowhere"])
def test_what_is_no_document(text):
    with pytest.raises(yaml.YAMLError):
        load_yaml(text.encode())
