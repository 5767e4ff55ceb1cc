"""`run.py` as a user meets it: help, dry run, sweep, and bad input with one clear message and nothing written."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

RUN = Path(__file__).resolve().parents[1] / "run.py"


def run(cwd, *arguments, python=()):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *python, str(RUN), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )


def test_help_is_quick_complete_and_imports_no_torch(tmp_path):
    begun = time.perf_counter()
    done = run(tmp_path, "--help", python=("-X", "importtime"))
    seconds = time.perf_counter() - begun
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert done.returncode == 0
    assert not imported & {"torch", "transformers", "ray", "matplotlib", "wandb"}
    assert seconds < 5  # about one on an idle machine
    for word in ("python run.py -m", "standard_per", "replay.decay.tau", "Time constant", "freshper*", "+experiment"):
        assert word in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_dry_run_prints_config_folder_and_report_and_writes_nothing(tmp_path):
    done = run(tmp_path, "dry_run=true", "replay.decay.tau=5e2")
    assert done.returncode == 0, done.stderr
    printed = yaml.safe_load(done.stdout.partition("\nrun       ")[0])
    assert printed["replay"]["decay"]["tau"] == 500.0
    assert "outputs/frozenlake-tiny-reinforce_pp-freshper-seed0-" in done.stdout
    assert "halves at age" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_dry_run_of_a_sweep_writes_nothing_either(tmp_path):
    done = run(tmp_path, "-m", "dry_run=true", "variant=on_policy,freshper")
    assert done.returncode == 0, done.stderr
    assert "dry run: nothing written" in done.stdout and "To be run: 2" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_hydras_own_cfg_flag_works(tmp_path):
    done = run(tmp_path, "--cfg", "job", "seed=3")
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["seed"] == 3
    assert list(tmp_path.iterdir()) == []


BAD_INPUT = {
    "unknown key": (["replay.decay.tua=3"], ["replay.decay.tua", "replay.decay.tau"]),
    "unknown key behind +": (["+replay.age_decy=3"], ["replay.age_decy", "did you mean"]),
    "unknown group": (["varient=freshper"], ["varient", "did you mean variant"]),
    "unknown group value": (["variant=freshpr"], ["variant = freshpr", "did you mean freshper", "on_policy"]),
    "tau 0": (["replay.decay.tau=0"], ["replay.decay.tau = 0", "greater than 0"]),
    "tau negative": (["replay.decay.tau=-5"], ["replay.decay.tau = -5", "greater than 0"]),
    "alpha negative": (["replay.priority.alpha=-1"], ["replay.priority.alpha = -1", "at least 0"]),
    "K without a buffer": (
        ["variant=on_policy", "replay.batches_per_iteration=2"],
        ["replay.batches_per_iteration = 2", "replay.enabled"],
    ),
    "capacity below a batch": (["replay.capacity=63"], ["replay.capacity = 63", "rollout.episodes = 64"]),
    "td_error without a critic": (["replay.priority.base=td_error"], ["replay.priority.base = td_error", "critic"]),
    "missing model folder": (
        ["model=hf", "model.path=/no/such/model"],
        ["model.path = /no/such/model", "no such folder"],
    ),
    "no model path": (["model=hf"], ["model.path", "folder"]),
    "unwritable output": (["output.root=/dev/null/runs"], ["output.root = /dev/null/runs", "/dev/null is not one"]),
    "sweep without -m": (["seed=0,1"], ["seed = 0,1", "-m"]),
    "one bad job of a sweep": (["-m", "replay.decay.tau=100,-1"], ["replay.decay.tau = -1", "in 1 of 2 runs"]),
    "unknown key of the sweeper": (
        ["-m", "hydra.sweeper.retrys=2"],
        ["hydra.sweeper.retrys", "did you mean", "retries"],
    ),
    "wrong value of the sweeper": (["-m", "hydra.sweeper.cpus=0"], ["hydra.sweeper.cpus = 0", "greater than 0"]),
    "a search without n_trials": (["-m", "replay.decay.tau=interval(1,9)"], ["hydra.sweeper.n_trials", "tau"]),
    "broken interpolation": (["output.name=${nope}"], ["output.name", "nope"]),
    "several at once": (
        ["replay.decay.tau=-1", "replay.capacity=1", "iterations=x"],
        ["3 problems", "replay.decay.tau", "replay.capacity", "iterations"],
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input(case, tmp_path):
    arguments, words = BAD_INPUT[case]
    done = run(tmp_path, *arguments)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    for word in words:
        assert word in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_tokenizer_without_chat_template(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        (folder / name).write_text("{}")
    done = run(tmp_path, "model=hf", f"model.path={folder}")
    assert done.returncode == 2
    assert "model.path" in done.stderr and "no chat template" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
