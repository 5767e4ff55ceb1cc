"""What the README promises, through `python run.py`: training, records, resume after SIGKILL, one owner per folder."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from freshper.records.metrics import read_metrics
from freshper.records.status import read_status
from freshper.records.summary import duration
from tests.models import random_policy

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    "rollout.episodes=16", "evaluation.episodes=16", "evaluation.every=2", "checkpoint.every=2", "trainer.threads=1",
    "env.max_turns=5", "iterations=6", "output.name=run", "replay.is_correction.enabled=true",
]  # fmt: skip


def command(root, *overrides):
    return [sys.executable, str(ROOT / "run.py"), *SMALL, f"output.root={root}", *overrides]


def start(root, *overrides):
    return subprocess.Popen(
        command(root, *overrides), cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def train(root, *overrides, status=0):
    done = subprocess.run(command(root, *overrides), cwd=ROOT, text=True, capture_output=True, timeout=300)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def science(folder):
    """Metrics without the clock."""
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in read_metrics(folder)]


def digests(folder):
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != ".lock"]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One uninterrupted run and what it printed."""
    root = tmp_path_factory.mktemp("finished")
    return root / "run", train(root).stdout


def test_a_run_leaves_a_complete_record(finished):
    folder, printed = finished
    rows = read_metrics(folder)
    assert [row["iteration"] for row in rows] == list(range(7))
    assert {"eval/success", "eval/success_greedy", "eval/return"} <= rows[0].keys()  # the base model is row 0
    assert rows[-1]["counts/optimizer_steps"] == 18 and rows[-1]["counts/episodes"] == 96
    assert rows[-1]["counts/env_steps"] == sum(round(row["fresh/turns"] * 16) for row in rows[1:])
    for row in rows[1:]:
        assert row["fresh/log_ratio_max"] < 1e-4  # behaviour log-probs are the trainer's own
        assert row["replay/log_ratio_max"] > 1e-4  # and replay is off-policy
        assert {"replay/age_mean", "replay/ess", "replay/clip_fraction", "replay/is_weight_mean"} <= row.keys()
    names = {
        "config.yaml",
        "provenance.json",
        "status.json",
        "metrics.jsonl",
        "samples.jsonl",
        "ages.jsonl",
        "curve.png",
    }
    assert names <= {p.name for p in folder.iterdir()}
    status = read_status(folder)
    assert status is not None and (status.state, status.iteration, status.attempts) == ("finished", 6, 1)
    facts = json.loads((folder / "provenance.json").read_text())
    assert facts["threads"] == 1 and facts["packages"]["torch"] and "env.max_turns=5" in facts["overrides"]
    ages = [json.loads(line) for line in (folder / "ages.jsonl").read_text().splitlines()]
    assert len(ages) == 12 and all(sum(a["count"]) == 16 for a in ages)
    assert "success, sampled" in printed and str(folder / "curve.png") in printed
    assert "<answer>" in (folder / "samples.jsonl").read_text()


def test_every_row_has_its_cpu_time(finished):
    folder, printed = finished
    rows = read_metrics(folder)
    spent, whole = (sum(row[name] for row in rows) for name in ("time/cpu", "time/iteration"))
    # One thread computes; a clock tick and Python's other threads make the slack.
    assert all(row["time/cpu"] > 0 for row in rows) and 0.1 * whole < spent <= 1.05 * whole + 0.5
    assert f"({duration(spent)} of CPU time)" in printed


def test_a_checkpoint_is_a_model_folder(finished, tmp_path):
    folder, _ = finished
    policy = folder / "checkpoints" / "000006" / "policy"
    train(tmp_path, "model=hf", f"model.path={policy}", "iterations=1", "variant=on_policy", "rollout.max_new_tokens=6")
    # The same weights, maps and noise give the evaluation that the run ended with.
    assert read_metrics(tmp_path / "run")[0]["eval/success"] == read_metrics(folder)[-1]["eval/success"]


def test_a_finished_run_is_left_alone(finished):
    folder, _ = finished
    before = digests(folder)
    assert "finished already" in train(folder.parent).stdout
    assert digests(folder) == before


def test_killed_and_started_again_ends_like_an_uninterrupted_run(finished, tmp_path):
    folder, _ = finished
    metrics = tmp_path / "run" / "metrics.jsonl"
    for rows_before_kill in (1, 4, 6):  # before the first checkpoint, after it, and after the next one
        process = start(tmp_path)
        deadline = time.monotonic() + 120
        while not metrics.exists() or len(metrics.read_text().splitlines()) < rows_before_kill:
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.communicate()
        status = read_status(tmp_path / "run")
        assert status is not None and status.state == "crashed"
    printed = train(tmp_path).stdout
    assert "resumed after iteration" in printed
    assert science(tmp_path / "run") == science(folder)
    once, again = (sum(row["time/cpu"] for row in read_metrics(run)) for run in (folder, tmp_path / "run"))
    assert 0.4 * once < again < 2.5 * once  # what is in the rows, each iteration once; a process would start again at 0
    for name in ("samples.jsonl", "ages.jsonl"):
        assert (tmp_path / "run" / name).read_text() == (folder / name).read_text()
    status = read_status(tmp_path / "run")
    assert status is not None and (status.state, status.attempts) == ("finished", 4)


@pytest.mark.parametrize(
    "settings",
    [
        ["algorithm=ppo", "replay.priority.base=td_error", "algorithm.critic.kind=separate"],
        pytest.param(
            ["algorithm=ppo", "replay.priority.base=advantage", "replay.advantages=recomputed", "algorithm.epochs=2"],
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["algorithm=grpo", "replay.unit=group", "algorithm.group.zero_variance=resample"], marks=pytest.mark.slow
        ),
    ],
)
def test_other_algorithms_resume_where_they_were_killed(settings, tmp_path):
    """Critic, its optimiser state, groups and priorities survive: the metrics are those of an uninterrupted run."""
    train(tmp_path / "whole", *settings)
    process = start(tmp_path / "torn", *settings)
    checkpoint, deadline = tmp_path / "torn" / "run" / "checkpoints" / "000004", time.monotonic() + 120
    while not checkpoint.exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.communicate()
    assert "resumed after iteration 4" in train(tmp_path / "torn", *settings).stdout
    assert science(tmp_path / "torn" / "run") == science(tmp_path / "whole" / "run")


def test_seed_changes_everything_and_equal_seeds_nothing(finished, tmp_path):
    folder, _ = finished
    train(tmp_path, "seed=1", "iterations=1")
    other, same = read_metrics(tmp_path / "run"), read_metrics(folder)
    assert other[1]["fresh/tokens"] != same[1]["fresh/tokens"]  # other maps
    assert other[0]["eval/turns"] != same[0]["eval/turns"]  # other sampling noise on the same evaluation maps


def test_a_folder_has_one_owner(tmp_path):
    process = start(tmp_path, "iterations=500")
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "run" / "status.json").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        second = train(tmp_path, "iterations=500", status=2)
        assert str(process.pid) in second.stderr
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and "interrupted by the user" in errors
    status = read_status(tmp_path / "run")
    assert status is not None and status.state == "failed"


def test_a_corrupt_checkpoint_is_named_and_nothing_is_lost(tmp_path):
    process = start(tmp_path, "iterations=500")
    checkpoint = tmp_path / "run" / "checkpoints" / "000002"
    deadline = time.monotonic() + 60
    while not checkpoint.exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.communicate()
    newest = sorted((tmp_path / "run" / "checkpoints").glob("[0-9]*"))[-1]
    weights = newest / "policy" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    before = digests(tmp_path / "run")
    done = train(tmp_path, "iterations=500", status=2)
    assert "model.safetensors is corrupt" in done.stderr and "Traceback" not in done.stderr
    assert digests(tmp_path / "run") == before


@pytest.mark.slow  # test_combinations trains every arm, in one process
@pytest.mark.parametrize("variant", ["on_policy", "standard_per", "placebo", "age_window"])
def test_other_arms_train(variant, tmp_path):
    train(tmp_path, f"variant={variant}", "iterations=2")
    row = read_metrics(tmp_path / "run")[-1]
    assert row["counts/optimizer_steps"] == (2 if variant == "on_policy" else 6)
    if variant == "placebo":
        assert row["replay/grad_norm"] == 0


def test_a_run_without_signal_ends_as_dead(tmp_path):
    """An untrained model never answers in format: every episode has the same training reward."""
    policy = random_policy()
    policy.model.save_pretrained(tmp_path / "model")
    policy.tokenizer.save_pretrained(tmp_path / "model")
    model = ["model=hf", f"model.path={tmp_path / 'model'}", "rollout.max_new_tokens=4", "diagnostics.dead_after=2"]
    done = train(tmp_path, *model, "iterations=500", status=4)
    assert "no learning signal in 2 consecutive iterations" in done.stderr
    short = train(tmp_path, *model, "iterations=1", "output.name=short", status=4)
    assert "no learning signal in the whole run" in short.stderr
    status = read_status(tmp_path / "run")
    assert status is not None and status.state == "dead" and "no learning signal" in str(status.cause)


def test_a_run_that_blows_up_ends_as_diverged(tmp_path):
    settings = ["algorithm.learning_rate=1e18", "algorithm.warmup_steps=0", "iterations=500"]
    train(tmp_path, *settings, status=3)
    status = read_status(tmp_path / "run")
    assert status is not None and status.state == "diverged" and "nan" in str(status.cause)
    assert "diverged already" in train(tmp_path, *settings, status=3).stdout
