"""`python -m analysis` as a user meets it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analysis.__main__ import TABLE_NAMES, main
from analysis.tables.build import TABLES
from tests.analysis.runs import curve_rows, write_arms, write_run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.delenv("FRESHPER_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own-cache"))


def run(*arguments, python=()):
    return subprocess.run(
        [sys.executable, *python, "-m", "analysis", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_help_is_quick_and_imports_next_to_nothing():
    begun = time.perf_counter()
    done = run("--help", python=("-X", "importtime"))
    seconds = time.perf_counter() - begun
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0 and seconds < 5  # a tenth of one on an idle machine
    assert not imported & {"torch", "ray", "pandas", "numpy", "matplotlib", "hydra", "wandb"}
    for word in ("report", "table", "figure", "doctor", "paper", "python -m analysis doctor outputs/", "Exit status"):
        assert word in done.stdout


def test_the_analysis_never_imports_torch_or_ray(tmp_path):
    write_run(tmp_path / "runs")
    for command in ("doctor", "report"):
        done = run(command, tmp_path / "runs", "--out", tmp_path / command, python=("-X", "importtime"))
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "pandas" in imported and not imported & {
            "torch",
            "ray",
            "transformers",
            "wandb",
            "tensorboard",
            "freshper.learner",
        }


def test_tables_are_printed_and_written(tmp_path, capsys):
    write_arms(tmp_path / "runs", seeds=(0, 1))
    assert main(["table", "main", str(tmp_path / "runs"), "--out", str(tmp_path / "out"), "--statistic", "final"]) == 0
    printed = capsys.readouterr().out
    assert "### Main table: last evaluation" in printed and "4 files in" in printed
    assert (tmp_path / "out" / "main_table.md").read_text() in printed + "\n"
    assert list((tmp_path / "own-cache").rglob("*.npz"))
    assert main(["table", "all", str(tmp_path / "runs"), "--no-cache"]) == 0
    told = capsys.readouterr()
    assert "left out: Sensitivity to tau" in told.err and "### Every run" in told.out


@pytest.mark.slow
def test_the_paper_from_its_numbers_alone(tmp_path, capsys):
    assert main(["paper", "--out", str(tmp_path / "paper")]) == 0
    assert len(list((tmp_path / "paper" / "figures").glob("*.png"))) == 12
    assert len(list((tmp_path / "paper" / "all_runs").glob("*.pdf"))) == 12
    files = {path.name for path in (tmp_path / "paper" / "tables").iterdir()}
    assert {"paper_main_table.tex", "paper_all_runs.csv", "paper_full_length.html", "paper_tau.md"} <= files
    assert "differ" in (tmp_path / "paper" / "notes.md").read_text()
    assert "| frozenlake | success | Qwen2.5-0.5B-Instruct | 0.297 | 0.281 | 0.305 | 2.7 |" in capsys.readouterr().out


def test_the_doctors_exit_status(tmp_path, capsys):
    write_arms(tmp_path / "sound", seeds=(0, 1))
    assert main(["doctor", str(tmp_path / "sound")]) == 0
    write_run(tmp_path / "ill", state="dead", cause="no signal")
    assert main(["doctor", str(tmp_path / "ill"), "--out", str(tmp_path / "out")]) == 1
    assert "no signal" in capsys.readouterr().out and "no signal" in (tmp_path / "out" / "doctor.md").read_text()


BAD_INPUT = {
    "no such folder": (["table", "main", "{}/nowhere"], ["nowhere: no such file or folder"]),
    "no run in the folder": (["report", "{}/papers"], ["papers: no run among its 1 files", "expected a run folder"]),
    "no run's file": (["doctor", "{}/papers/a.txt"], ["a.txt: not something to load", "expected a run folder"]),
    "empty folder": (["doctor", "{}/empty"], ["the folder is empty", "expected a run folder"]),
    "unknown statistic": (["table", "main", "{}/runs", "--statistic", "best"], ["'best'", "expected peak, final"]),
    "unknown metric": (["table", "main", "{}/runs", "--metric", "eval/sucess"], ["did you mean eval/success"]),
    "no factor": (["table", "tau", "{}/runs"], ["no two runs differ in replay.decay.tau alone", "python run.py -m"]),
    "no labels file": (["table", "main", "{}/runs", "--labels", "{}/no.csv"], ["no.csv: no such file"]),
    "out is a file": (["table", "main", "{}/runs", "--out", "{}/file"], ["file"]),
    "only an arm without runs": (
        ["report", "{}/runs", "--arms", "uniform"],
        ["no run of the arms uniform"],
    ),
    "csv of another kind": (["table", "main", "{}/other.csv"], ["no wandb export", "a,b"]),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_ends_with_a_message_and_status_two(case, tmp_path, capsys):
    arguments, words = BAD_INPUT[case]
    write_run(tmp_path / "runs")
    (tmp_path / "empty").mkdir()
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "a.txt").write_text("x")
    (tmp_path / "file").write_text("")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    assert main([argument.format(tmp_path) for argument in arguments]) == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    for word in words:
        assert word in told


def test_an_arm_without_runs_and_a_single_seed_are_visible_gaps(tmp_path, capsys):
    write_arms(tmp_path / "runs", arms=("on_policy", "freshper"), seeds=(0,))
    common = [str(tmp_path / "runs"), "--arms", "on_policy", "freshper", "uniform", "--no-cache"]
    assert main(["table", "main", *common]) == 0
    told = capsys.readouterr()
    assert "warning: no run of the arm uniform" in told.err and "no runs" in told.out and "± - (n 1)" in told.out
    assert main(["figure", "learning", *common, "--out", str(tmp_path / "out")]) == 0
    assert main(["report", *common, "--out", str(tmp_path / "report.html")]) == 0
    assert "has one run that counts" in (tmp_path / "report.html").read_text()


def test_a_nan_is_seen_everywhere(tmp_path, capsys):
    write_arms(tmp_path / "runs", arms=("on_policy", "freshper"), seeds=(0, 1))
    rows = curve_rows(2)
    rows[-1]["eval/success"] = math.nan
    write_run(tmp_path / "runs", "freshper", 2, rows=rows)
    common = [str(tmp_path / "runs"), "--no-cache"]
    assert main(["table", "main", *common, "--statistic", "final"]) == 0
    assert "(n 2); 1 nan" in capsys.readouterr().out
    assert main(["doctor", *common]) == 1
    assert "eval/success is nan in 1 rows, first at iteration 40" in capsys.readouterr().out
    assert main(["figure", "all", *common, "--out", str(tmp_path / "out")]) == 0
    assert main(["report", *common, "--out", str(tmp_path / "report.html")]) == 0


def test_every_table_has_a_name_on_the_command_line():
    assert set(TABLE_NAMES) == {"all", *TABLES}


def test_a_wrong_table_name_lists_the_names(capsys):
    with pytest.raises(SystemExit) as error:
        main(["table", "mian", "x"])
    assert error.value.code == 2 and "improvement" in capsys.readouterr().err


@pytest.mark.slow
def test_real_runs_end_to_end(tmp_path):
    """Train two arms for two iterations, then tables and doctor over what they left."""
    small = [
        "iterations=2", "rollout.episodes=4", "evaluation.episodes=4", "evaluation.every=1", "env.max_turns=3",
        "output.figures=false", "trainer.threads=1", f"output.root={tmp_path / 'runs'}", "diagnostics.dead_after=0",
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for variant in ("on_policy", "freshper"):
        subprocess.run(
            [sys.executable, str(ROOT / "run.py"), *small, f"variant={variant}"], cwd=ROOT, check=True, env=environment,
            capture_output=True,
        )  # fmt: skip
    done = run("table", "all", tmp_path / "runs", "--out", tmp_path / "out", "--no-cache")
    assert done.returncode == 0, done.stderr
    assert "| frozenlake | on-policy | 0 | finished | 3 | 2 |" in done.stdout
    assert "and at 2 optimiser steps" in done.stdout
    assert run("doctor", tmp_path / "runs", "--no-cache").returncode == 0


def test_the_cache_lies_where_the_machine_keeps_such_things(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FRESHPER_CACHE", str(tmp_path / "own"))
    write_run(tmp_path / "runs" / "a")
    assert main(["table", "main", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 0
    assert list((tmp_path / "own" / "analysis").glob("*.npz"))
