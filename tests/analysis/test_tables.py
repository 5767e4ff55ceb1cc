"""Tables: what a cell says, with and without stopped runs, equal clocks, one setting at a time, four formats."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats

from analysis.curves import statistic
from analysis.findings import AnalysisError
from analysis.load.study import load
from analysis.tables.build import TABLES, TableOptions, build_tables
from analysis.tables.clocks import clock_table
from analysis.tables.factors import FACTORS, factor_table
from analysis.tables.main import improvement_table, main_table, runs_table
from analysis.tables.paper import side_by_side
from analysis.tables.render import markdown
from tests.analysis.runs import curve_rows, write_arms, write_run


def rows_of(found):
    return {tuple(cell.text for cell in row if cell.value is None): row for row in found.rows}


def column(found, name):
    return found.header.index(name)


def peaks(arm, seeds=(0, 1, 2)):
    gain = {"on_policy": 0.2, "standard_per": 0.25, "freshper": 0.4}[arm]
    rows = [curve_rows(seed, gain, replay=arm != "on_policy", salt=f"{arm} () frozenlake") for seed in seeds]
    return [max(row["eval/success"] for row in run if "eval/success" in row) for run in rows]


def test_the_main_table(tmp_path):
    write_arms(tmp_path)
    found = main_table(load([tmp_path]))
    assert found.header == ("task", "metric", "runs", "on-policy", "standard PER", "FreshPER")
    (row,) = found.rows
    for cell, arm in zip(row[3:], ("on_policy", "standard_per", "freshper"), strict=True):
        values = peaks(arm)
        low, high = scipy.stats.t.interval(0.95, 2, np.mean(values), scipy.stats.sem(values))
        assert (cell.value, cell.low, cell.high, cell.n) == (
            pytest.approx(np.mean(values)), pytest.approx(low), pytest.approx(high), 3,
        )  # fmt: skip
    assert "Peak over the run" in found.caption and "Student t 95 %" in found.caption


def test_the_statistic_is_named_in_title_and_caption(tmp_path):
    write_arms(tmp_path, arms=("on_policy",))
    study = load([tmp_path])
    for name, words in (("final", "last evaluation"), ("last:2", "mean of the last 2"), ("auc", "mean height")):
        found = main_table(study, statistic(name))
        assert words in found.title and words[1:] in found.caption
    found = main_table(study, kind="bootstrap", centre="iqm")
    assert "iqm over n runs" in found.caption and "bootstrap" in found.caption


def test_marks_of_what_is_not_a_number(tmp_path):
    write_run(tmp_path, "on_policy")
    write_run(tmp_path, "standard_per", state="failed", cause="x")
    write_run(tmp_path, "standard_per", 1, state=None)
    write_run(tmp_path, "uniform", rows=[{"iteration": 0, "fresh/loss": 1.0}])
    write_run(tmp_path, "placebo", rows=[{"iteration": 0, "eval/success": math.nan}])
    write_run(tmp_path, "per_no_decay", rows=[{"iteration": 0, "eval/success": 0.0}])
    write_run(tmp_path, "freshper")
    write_run(tmp_path, "freshper", 1, state="failed", cause="x")
    write_run(tmp_path, "freshper", 0, task="lake_two")
    found = main_table(load([tmp_path]))
    row = {name: cell.shown() for name, cell in zip(found.header, found.rows[0], strict=True)}
    assert row["on-policy"].endswith("± - (n 1)")
    assert row["standard PER"] == "1 crashed, 1 failed"
    assert row["uniform replay"] == "not measured"
    assert row["placebo replay"] == "1 nan"
    assert row["FreshPER without decay"] == "0.000 ± - (n 1)"
    assert row["FreshPER"].endswith("± - (n 1); 1 failed")
    assert found.rows[1][column(found, "on-policy")].shown() == "no runs"


def test_stopped_runs_are_shown_with_and_without(tmp_path):
    write_run(tmp_path, "freshper", 0)
    write_run(tmp_path, "freshper", 1)
    low = [{"iteration": 0, "eval/success": 0.25}, {"iteration": 1, "eval/success": 0.01}]
    write_run(tmp_path, "freshper", 2, rows=low, state="diverged", cause="ratio")
    write_run(tmp_path, "on_policy", 0, rows=low, state="dead", cause="no signal")
    found = main_table(load([tmp_path]), statistic("final"))
    both, finished = found.rows
    fresh, reference = column(found, "FreshPER"), column(found, "on-policy")
    assert (both[fresh].n, finished[fresh].n) == (3, 2)
    assert both[fresh].value < finished[fresh].value
    assert finished[reference].shown() == "none finished (1 cut short)"
    assert any("FreshPER: 1 of 3 diverged" in note and "on-policy: 1 of 1 dead" in note for note in found.notes)


def test_aggregates_over_tasks(tmp_path):
    for task in ("frozenlake", "lake_two"):
        for seed in (0, 1, 2):
            write_run(tmp_path, "freshper", seed, task=task)
    write_run(tmp_path, "on_policy", 0)
    found = main_table(load([tmp_path]))
    rows = {row[0].text: row for row in found.rows}
    fresh, reference = column(found, "FreshPER"), column(found, "on-policy")
    singles = [rows[task][fresh].value for task in ("frozenlake", "lake_two")]
    assert rows["2 tasks, mean"][fresh].value == pytest.approx(np.mean(singles))
    assert rows["2 tasks, iqm"][fresh].n == 6
    assert rows["2 tasks, median"][reference].text == "not on all tasks"


def test_improvement_over_on_policy(tmp_path):
    write_arms(tmp_path, arms=("on_policy", "freshper"))
    write_run(tmp_path, "standard_per", 5)
    found = improvement_table(load([tmp_path]))
    rows = {row[1].text: row for row in found.rows}
    gains = np.subtract(peaks("freshper"), peaks("on_policy"))
    cell = rows["FreshPER"][column(found, "difference")]
    low, high = scipy.stats.t.interval(0.95, 2, gains.mean(), scipy.stats.sem(gains))
    assert (cell.value, cell.low, cell.high) == (pytest.approx(gains.mean()), pytest.approx(low), pytest.approx(high))
    assert rows["FreshPER"][column(found, "compared")].text == "seed by seed"
    assert rows["FreshPER"][column(found, "P(better)")].value == 1.0
    assert rows["FreshPER"][column(found, "relative, %")].value == pytest.approx(
        100 * gains.mean() / np.mean(peaks("on_policy"))
    )
    assert rows["standard PER"][column(found, "compared")].text == "unpaired"


def test_improvement_without_on_policy_runs_says_so(tmp_path):
    write_run(tmp_path, "freshper")
    found = improvement_table(load([tmp_path]))
    assert found.rows[0][column(found, "on-policy mean")].text == "no runs"
    assert "no on-policy run counts" in found.notes[0]


def test_equal_environment_steps_and_equal_optimiser_steps(tmp_path):
    """On-policy has 40 optimiser steps in all, replay 120 and is evaluated at 0, 30, 60, ...: compared at 30."""
    write_arms(tmp_path, arms=("on_policy", "freshper"), seeds=(0, 1))
    for arm in ("on_policy", "freshper"):
        for seed in (0, 1):
            rows = curve_rows(seed, every=10, replay=arm == "freshper")
            assert rows[10]["counts/optimizer_steps"] == (30 if arm == "freshper" else 10)
    extra = [
        {**row, **({"eval/success": 0.9} if row["iteration"] == 30 else {})} for row in curve_rows(2, replay=False)
    ]
    write_run(tmp_path, "on_policy", 2, rows=extra)
    found = clock_table(load([tmp_path]))
    assert "at 16,000 environment steps and at 30 optimiser steps" in found.notes[0]
    rows = {row[1].text: row for row in found.rows}
    at = column(found, "at equal optimiser steps")
    fresh = [curve_rows(s, 0.4, salt="freshper () frozenlake")[10]["eval/success"] for s in (0, 1)]
    assert rows["FreshPER"][at].value == pytest.approx(np.mean(fresh))
    policy = [curve_rows(s, 0.2, replay=False, salt="on_policy () frozenlake")[30]["eval/success"] for s in (0, 1)]
    assert rows["on-policy"][at].value == pytest.approx(np.mean([*policy, 0.9]))
    assert rows["on-policy"][column(found, "base model")].n == 3


def test_clocks_that_were_not_recorded(tmp_path):
    write_run(tmp_path, "freshper", rows=[{"iteration": 0, "eval/success": 0.1}, {"iteration": 5, "eval/success": 0.2}])
    (row,) = clock_table(load([tmp_path])).rows
    assert [cell.shown() for cell in row[3:]] == ["not recorded", "", "not recorded", ""]


FACTOR = {factor.name: factor for factor in FACTORS}


def test_tau_sensitivity_compares_what_differs_in_tau_alone(tmp_path):
    write_arms(tmp_path, arms=("on_policy", "per_no_decay"), seeds=(0, 1))
    for seed in (0, 1):
        for tau in (30, 100):
            write_run(tmp_path, "freshper", seed, overrides=(f"replay.decay.tau={tau}",))
    write_run(tmp_path, "freshper", 0, overrides=("replay.decay.tau=300", "replay.priority.base=success"))
    found = factor_table(load([tmp_path]), FACTOR["tau"])
    assert [row[1].shown() for row in found.rows] == ["30", "100", "∞ (no decay)", "on-policy"]
    half = column(found, "sampling weight halves at age")
    assert found.rows[0][half].value == pytest.approx(30 * math.log(2) / 0.6)
    assert found.rows[0][column(found, "share of the run, %")].value == pytest.approx(100 * 30 / 120)
    assert found.rows[2][half].text == "never"
    assert found.rows[0][column(found, "peak over the run")].n == 2
    assert "1 other runs with replay" in found.notes[-1]


def test_sets_that_differ_in_something_else_are_apart_and_say_in_what(tmp_path):
    for base in ("reward", "success"):
        for tau in (30, 100):
            write_run(tmp_path, "freshper", overrides=(f"replay.decay.tau={tau}", f"replay.priority.base={base}"))
    study = load([tmp_path])
    found = factor_table(study, FACTOR["tau"])
    assert [row[0].text for row in found.rows] == ["frozenlake, set 1"] * 2 + ["frozenlake, set 2"] * 2
    assert {note.partition(": ")[2] for note in found.notes} == {
        "replay.priority.base = reward.", "replay.priority.base = success.",
    }  # fmt: skip
    assert [row[1].text for row in factor_table(study, FACTOR["base"]).rows] == ["reward", "success"] * 2


def test_correction_and_replay_ratio(tmp_path):
    write_run(tmp_path)
    write_run(tmp_path, overrides=("replay.is_correction.enabled=true",))
    write_run(tmp_path, overrides=("replay.batches_per_iteration=4",))
    write_run(tmp_path, "on_policy")
    study = load([tmp_path])
    correction = factor_table(study, FACTOR["is"])
    assert [row[1].text for row in correction.rows] == ["off", "beta 0.4 → 1, largest of the batch = 1", "on-policy"]
    assert [row[1].text for row in factor_table(study, FACTOR["ratio"]).rows] == ["2", "4", "on-policy"]


def test_a_factor_without_runs_says_how_to_make_some(tmp_path):
    write_run(tmp_path)
    with pytest.raises(AnalysisError) as error:
        factor_table(load([tmp_path]), FACTOR["tau"])
    for words in ("no two runs differ in replay.decay.tau alone", "found: 30", "python run.py -m"):
        assert words in str(error.value)


def test_the_papers_numbers_beside_ours(tmp_path):
    write_arms(tmp_path, arms=("on_policy", "freshper"))
    write_run(tmp_path, "freshper", task="lake_two")
    found = side_by_side(load([tmp_path]))
    rows = {row[1].text: row for row in found.rows}
    assert len(found.rows) == 3 and rows["standard PER"][3].text == "no runs"
    ours = rows["FreshPER"][3]
    assert rows["FreshPER"][2].value == 0.305 and ours.n == 3
    assert rows["FreshPER"][4].value == pytest.approx(ours.value - 0.305)
    assert rows["FreshPER"][5].text == ("yes" if ours.low <= 0.305 <= ours.high else "no") == "no"
    assert any("tiny" in note and "Qwen2.5-0.5B-Instruct" in note for note in found.notes)
    assert "lake_two is not in the paper's main table." in found.notes
    wide = [{"iteration": 0, "eval/success": 0.25}, {"iteration": 1, "eval/success": 0.36}]
    for seed, peak in enumerate((0.25, 0.36, 0.30)):
        write_run(tmp_path / "wide", "freshper", seed, rows=[wide[0], {"iteration": 1, "eval/success": peak}])
    assert side_by_side(load([tmp_path / "wide"])).rows[2][5].text == "yes"
    write_run(tmp_path / "other", "freshper", task="lake_two")
    with pytest.raises(AnalysisError, match="the runs are of lake_two"):
        side_by_side(load([tmp_path / "other"]))


def test_one_seed_has_a_dash_for_its_interval_everywhere(tmp_path):
    write_arms(tmp_path, seeds=(0,))
    tables, skipped = build_tables(load([tmp_path]), ["all"], TableOptions())
    assert len(skipped) == 4  # no factor varies
    text = "\n".join(map(markdown, tables))
    assert "± - (n 1)" in text and "±  " not in text and "nan" not in text


def test_every_run_is_in_the_runs_table(tmp_path):
    write_arms(tmp_path, arms=("freshper",))
    write_run(tmp_path, "freshper", 9, rows=[], state="failed", cause="x")
    found = runs_table(load([tmp_path]))
    assert [row[column(found, "seed")].value for row in found.rows] == [0, 1, 2, 9]
    assert found.rows[3][column(found, "peak")].text == "not measured"


def test_an_unknown_metric_in_a_table(tmp_path):
    write_run(tmp_path)
    with pytest.raises(AnalysisError, match="did you mean eval/return"):
        build_tables(load([tmp_path]), ["main"], TableOptions(metric="eval/retrun"))


@pytest.mark.slow
def test_two_processes_write_the_same_bytes(tmp_path):
    write_arms(tmp_path / "runs")
    for name, hash_seed in (("one", "1"), ("two", "2")):
        command = [sys.executable, "-m", "analysis", "table", "all", str(tmp_path / "runs"), "--no-cache"]
        subprocess.run(
            [*command, "--out", str(tmp_path / name), "--interval", "bootstrap"], check=True, capture_output=True,
            env={"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin"},
        )  # fmt: skip
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) >= 4 * 5
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_names_of_tables_are_those_of_the_command_line():
    from analysis.__main__ import TABLE_NAMES

    assert set(TABLE_NAMES) == {*TABLES, "all"}


def test_arms_that_were_asked_for_and_have_no_runs_are_a_gap(tmp_path):
    write_arms(tmp_path, arms=("on_policy", "freshper"), seeds=(0, 1))
    study = load([tmp_path])
    options = TableOptions(arms=("freshper", "uniform", "on_policy"))
    tables, _ = build_tables(study, ["all"], options)
    found = tables[0]
    assert found.header[3:] == ("FreshPER", "uniform replay", "on-policy")
    assert found.rows[0][4].shown() == "no runs"
    for one in tables[1:3]:
        assert any(cell.text == "no runs" for row in one.rows if row[1].text == "uniform replay" for cell in row)
    with pytest.raises(AnalysisError, match="no run of the arms unifrm; there are on_policy, freshper"):
        build_tables(study, ["main"], TableOptions(arms=("unifrm",)))


def test_evaluations_that_coincide_by_chance_do_not_set_the_clock(tmp_path):
    """Environment steps differ from seed to seed; that all runs were evaluated at 2 says nothing."""
    for seed, last in ((0, 100), (1, 90)):
        clock = [0, 2, 55 + seed, last]
        rows = [{"iteration": i, "eval/success": 0.1 * i, "counts/env_steps": steps} for i, steps in enumerate(clock)]
        write_run(tmp_path, "on_policy", seed, rows=rows)
    found = clock_table(load([tmp_path]))
    assert "at 90 environment steps" in found.notes[0]
    assert found.rows[0][column(found, "at equal environment steps")].value == pytest.approx((0.2 + 0.3) / 2)
