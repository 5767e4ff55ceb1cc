"""Rows survive kills, resumes and numbers that JSON does not know."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshper.records.jsonl import encode, read_lines
from freshper.records.metrics import MetricsWriter, read_metrics, series
from freshper.records.samples import SamplesWriter, read_samples


def write(path, iterations):
    writer = MetricsWriter(path)
    for iteration in iterations:
        writer.write({"iteration": iteration, "fresh/return": iteration / 2})
    writer.close()
    return writer


def test_rows_come_back(tmp_path):
    write(tmp_path / "metrics.jsonl", range(3))
    assert read_metrics(tmp_path) == [{"iteration": i, "fresh/return": i / 2} for i in range(3)]
    assert series(read_metrics(tmp_path), "fresh/return") == ([0, 1, 2], [0.0, 0.5, 1.0])


def test_each_row_is_there_at_once(tmp_path):
    writer = MetricsWriter(tmp_path / "metrics.jsonl")
    writer.write({"iteration": 0})
    assert len(read_metrics(tmp_path)) == 1
    writer.close()


def test_nan_and_infinity_are_words_in_strict_json(tmp_path):
    path = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(path)
    writer.write({"iteration": 1, "a": math.nan, "b": [math.inf, {"c": -math.inf}], "d": None})
    writer.close()
    raw = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert raw == {"iteration": 1, "a": "nan", "b": ["inf", {"c": "-inf"}], "d": None}
    (row,) = read_metrics(path)
    assert math.isnan(row["a"]) and row["b"] == [math.inf, {"c": -math.inf}] and row["d"] is None


def test_resume_from_a_checkpoint_gives_one_row_per_iteration(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write(path, range(8))
    with path.open("a") as file:
        file.write('{"iteration": 8, "fresh/ret')  # killed while writing
    writer = MetricsWriter(path)
    writer.truncate_after(5)
    for iteration in range(6, 10):
        writer.write({"iteration": iteration, "fresh/return": iteration / 2})
    writer.close()
    assert [row["iteration"] for row in read_metrics(path)] == list(range(10))
    assert path.read_bytes().count(b"\n") == 10


def test_truncation_before_the_first_row_and_of_a_missing_file(tmp_path):
    writer = write(tmp_path / "metrics.jsonl", range(3))
    writer.truncate_after(-1)
    assert read_metrics(tmp_path) == []
    MetricsWriter(tmp_path / "none.jsonl").truncate_after(3)
    assert not (tmp_path / "none.jsonl").exists()


def test_truncation_that_drops_nothing_leaves_the_file_untouched(tmp_path):
    path = tmp_path / "metrics.jsonl"
    writer = write(path, range(3))
    before = path.stat().st_ino
    writer.truncate_after(2)
    assert path.stat().st_ino == before


@pytest.mark.parametrize("tail", [b'{"iteration": 3', b"\xff\xfe", b'{"iteration": 3}', b'{"iteration": 3, "x": "\xc3'])
def test_a_torn_last_line_is_no_row(tmp_path, tail):
    path = tmp_path / "metrics.jsonl"
    write(path, range(3))
    path.write_bytes(path.read_bytes() + tail)
    assert len(read_metrics(path)) == 3


def test_a_broken_line_in_the_middle_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"iteration": 0}\n{broken\n{"iteration": 2}\n')
    with pytest.raises(ValueError, match="metrics.jsonl, line 2"):
        read_metrics(path)


def test_a_row_out_of_turn_is_refused(tmp_path):
    writer = write(tmp_path / "metrics.jsonl", range(3))
    with pytest.raises(ValueError, match="iteration 2"):
        writer.write({"iteration": 2})
    with pytest.raises(ValueError, match="iteration"):
        MetricsWriter(tmp_path / "metrics.jsonl").write({"iteration": 1})
    with pytest.raises(ValueError, match="needs the key"):
        writer.write({"fresh/return": 1.0})


def test_only_plain_types_are_written():
    with pytest.raises(TypeError):
        encode({"iteration": 1, "x": object()})


def test_samples_are_cut_with_the_metrics(tmp_path):
    writer = SamplesWriter(tmp_path / "samples.jsonl")
    for iteration in (0, 0, 10, 20):
        writer.write_episode(iteration, "sampled", 7, True, 1.0, [{"role": "user", "content": "nan\nü"}])
    writer.truncate_after(10)
    rows = read_samples(tmp_path)
    assert [row["iteration"] for row in rows] == [0, 0, 10]
    assert rows[0]["messages"][0]["content"] == "nan\nü"  # text stays text


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text().filter(lambda t: t not in {"nan", "inf", "-inf"}),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.text(), values, max_size=4), max_size=4))
def test_any_plain_rows_come_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_bytes(b"".join(encode(row).encode() + b"\n" for row in rows))
    assert read_lines(path) == rows
