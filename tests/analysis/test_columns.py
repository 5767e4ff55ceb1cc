"""metrics.jsonl and ages.jsonl as columns, against the plain reader of the records."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.load.ages import read_ages
from analysis.load.columns import read_columns
from analysis.load.run_folder import read_run_folder
from analysis.load.study import load
from freshper.diagnostics.ages import effective_sample_size
from freshper.records.jsonl import encode, read_lines
from tests.analysis.runs import age_rows, write_run


def test_a_row_torn_and_written_over_two_lines_is_not_joined():
    columns, damage = read_columns(b'{"iteration": 0, "a": 1}\n{"iteration": 1\n"b": 2}\n{"iteration": 2, "a": 3}\n')
    assert columns.iterations.tolist() == [0, 2] and damage.lines == (2, 3)


def test_repeated_iterations_count_once_the_later_attempt(tmp_path):
    """A trainer that does not cut its file back: 0..6, then again from 4."""
    rows = [{"iteration": i, "eval/success": 0.1} for i in range(7)]
    rows += [{"iteration": i, "eval/success": 0.2} for i in (4, 5)]
    columns, damage = read_columns("".join(encode(row) + "\n" for row in rows).encode())
    assert columns.iterations.tolist() == [0, 1, 2, 3, 4, 5]
    assert columns.series("eval/success")[1].tolist() == [0.1] * 4 + [0.2] * 2
    assert damage.superseded == 3


NUMBERS = st.one_of(st.floats(), st.integers(-(2**53), 2**53), st.booleans())


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abcdef"), st.one_of(NUMBERS, st.none()), max_size=5), max_size=12))
def test_columns_are_what_the_records_say(tmp_path_factory, rows):
    """Against the plain reader of freshper.records, value by value."""
    path = tmp_path_factory.mktemp("rows") / "metrics.jsonl"
    path.write_text("".join(encode({"iteration": i, **row}) + "\n" for i, row in enumerate(rows)))
    columns, damage = read_columns(path.read_bytes())
    expected = [{k: v for k, v in row.items() if v is not None} for row in read_lines(path)]
    assert damage.lines == () and not damage.torn
    assert columns.iterations.tolist() == [row.pop("iteration") for row in expected]
    for name in "abcdef":
        x, values = columns.series(name)
        pairs = [(i, float(row[name])) for i, row in enumerate(expected) if name in row]
        assert x.tolist() == [i for i, _ in pairs]
        np.testing.assert_array_equal(values, [value for _, value in pairs])


def test_mixed_logging_intervals():
    rows = [{"iteration": i, **({"a": i} if i % 2 else {}), **({"b": -i} if i % 3 == 0 else {})} for i in range(12)]
    columns, _ = read_columns("".join(encode(row) + "\n" for row in rows).encode())
    assert columns.series("a")[0].tolist() == [1, 3, 5, 7, 9, 11]
    assert columns.series("b", x="a")[0].tolist() == [3, 9]
    assert columns.series("b", x="a")[1].tolist() == [-3, -9]


def test_lists_and_texts_among_the_metrics_are_told():
    columns, damage = read_columns(b'{"iteration": 0, "a": [1], "b": "word", "c": 1}\n{"iteration": 1, "c": 2}\n')
    assert columns.names == ("c",) and damage.ignored == ("a", "b")


def test_ages_are_pooled_by_bin_and_weighted_by_count(tmp_path):
    folder = write_run(tmp_path)
    ages = read_run_folder(folder).ages
    assert ages.unit == "optimizer_steps"
    np.testing.assert_array_equal(ages.table[:, :3], [[1, 2, 400], [2, 4, 800]])
    variance = sum(20 * (math.exp(0.1 * i) - 1) for i in range(1, 41)) / (40 * 19)
    np.testing.assert_allclose(ages.table[:, 3], [1, 1 / (1 + variance)])
    np.testing.assert_allclose(ages.table[:, 4:], [[0, 0], [0.1, 0.05]])
    assert (ages.pooled, ages.batches) == (40, 40)


@pytest.mark.parametrize("few, tolerance", [(3, 0.12), (12, 0.05), (40, 0.02)])
def test_a_few_trajectories_at_a_time_say_nearly_what_many_say(few, tolerance):
    """The share of n of a handful is near 1 whatever the ratios; pooled it comes far closer to that of the whole."""
    log_ratios = np.random.default_rng(0).normal(0, 0.7, (12000 // few, few))
    rows = [
        {"iteration": i, "unit": "iterations", "from": [4], "to": [8], "count": [few], "kl": [0.0],
         "clip_fraction": [0.0], "ess": [effective_sample_size(batch)]}
        for i, batch in enumerate(log_ratios)
    ]  # fmt: skip
    data = "".join(encode(row) + "\n" for row in rows).encode()
    whole, mean = effective_sample_size(log_ratios.ravel()), np.mean([row["ess"][0] for row in rows])
    pooled = read_ages(data, limit=4000).ages.table[0, 3]
    assert whole - 0.02 < pooled < mean and pooled == pytest.approx(whole, abs=tolerance)


def test_single_trajectories_have_no_effective_sample_size():
    row = {**next(age_rows()), "count": [1, 5], "ess": [1.0, 0.8]}
    table = read_ages((encode(row) + "\n").encode()).ages.table
    assert math.isnan(table[0, 3]) and table[1, 3] == pytest.approx(1 / (1 + 5 * 0.25 / 4))


def test_of_very_many_replay_batches_evenly_spread_ones_are_pooled_and_counted():
    data = "".join(encode(row) + "\n" for row in age_rows(1000)).encode()
    few, whole = read_ages(data).ages, read_ages(data, limit=1000).ages
    assert (few.pooled, few.batches, whole.pooled) == (200, 1000, 1000)
    np.testing.assert_allclose(few.table[:, 3:], whole.table[:, 3:], atol=0.01)


def test_damage_in_ages(tmp_path):
    folder = write_run(tmp_path)
    path = folder / "ages.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(["{", *lines[1:], '{"iter']))
    (finding,) = load([tmp_path], ages=True).findings
    assert f"{path}: 2 lines cannot be read" in finding.text
    assert load([tmp_path]).findings == ()


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1e300", "9007199254740993", "-Infinity", "NaN"])
def test_an_iteration_beyond_all_counting_is_damage(value):
    columns, damage = read_columns(b'{"iteration": 1, "a": 2}\n{"iteration": %b, "a": 3}\n' % value.encode())
    assert columns.iterations.tolist() == [1]
    assert damage.lines == (2,)
