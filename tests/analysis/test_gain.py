"""The table of what training gained over the base model."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from analysis.load.study import load
from analysis.tables.gain import MOST_LISTED, gain_table
from tests.analysis.runs import curve_rows, write_run


def ends(seed, gain=0.3):
    values = [
        row["eval/success"] for row in curve_rows(seed, gain, salt="freshper () frozenlake") if "eval/success" in row
    ]
    return values[0], values[-1]


def cells(found):
    (row,) = found.rows
    return dict(zip(found.header, row, strict=True))


def test_few_seeds_are_listed_one_by_one(tmp_path):
    for seed in (1, 0):
        write_run(tmp_path, seed=seed)
    row = cells(gain_table(load([tmp_path])))
    pairs = [ends(0), ends(1)]
    assert row["base model"].text == ", ".join(f"{first:.3f}" for first, _ in pairs)
    assert row["after training"].text == ", ".join(f"{last:.3f}" for _, last in pairs)
    assert row["greedy, after training"].text == ", ".join(f"{last + 0.1:.3f}" for _, last in pairs)
    gains = [last - first for first, last in pairs]
    low, high = scipy.stats.t.interval(0.95, 1, np.mean(gains), scipy.stats.sem(gains))
    gain = row["gain"]
    assert (gain.value, gain.low, gain.high, gain.n) == (
        pytest.approx(np.mean(gains)), pytest.approx(low), pytest.approx(high), 2,
    )  # fmt: skip
    assert row["environment steps"].text == "16,000, 16,000"
    assert (row["minutes"].text, row["CPU minutes"].text) == ("0.7, 0.7", "0.5, 0.5")


def test_many_seeds_have_an_interval(tmp_path):
    seeds = range(MOST_LISTED + 1)
    for seed in seeds:
        write_run(tmp_path, seed=seed)
    row = cells(gain_table(load([tmp_path])))
    assert row["after training"].value == pytest.approx(np.mean([ends(seed)[1] for seed in seeds]))
    assert row["after training"].n == len(seeds)


def test_runs_that_did_not_finish_are_named_and_not_counted(tmp_path):
    write_run(tmp_path, seed=0)
    write_run(tmp_path, seed=1, state="failed", cause="broken")
    row = cells(gain_table(load([tmp_path])))
    assert row["base model"].text == f"{ends(0)[0]:.3f}; 1 failed"
    assert row["gain"].n == 1


def test_a_run_without_a_base_evaluation_has_no_gain(tmp_path):
    write_run(
        tmp_path,
        rows=[{"iteration": i, "time/iteration": 1.0, **({"eval/success": 0.5} if i == 3 else {})} for i in range(4)],
    )
    row = cells(gain_table(load([tmp_path])))
    assert (row["base model"].text, row["gain"].text, row["after training"].text) == (
        "not measured",
        "not measured",
        "0.500",
    )
