"""Whole sweeps through `python run.py -m`, with small programs as trainers where training itself is not the point."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import hashlib
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from freshper.records.metrics import read_metrics
from freshper.records.status import read_status

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "run.py"
SMALL = [
    "diagnostics.dead_after=0",  # so few episodes may all end alike
    "iterations=2", "rollout.episodes=4", "evaluation.episodes=4", "env.max_turns=3", "output.figures=false",
]  # fmt: skip
PROGRAM = """
import json, os, sys, time
folder, seed, iterations = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def rows(pause=0.02, score=lambda i: seed / 10 + i / 100):
    path = os.path.join(folder, "metrics.jsonl")
    begun = len(open(path).readlines()) if os.path.exists(path) else 0
    with open(path, "a") as file:
        for i in range(begun, iterations + 1):
            time.sleep(pause)
            file.write(json.dumps({"iteration": i, "eval/success": score(i)}) + "\\n")
            file.flush()
"""


def program(folder, code="rows()"):
    """Overrides that make a Python program the trainer; run folder, seed and iterations are its arguments."""
    (folder / "program.py").write_text(PROGRAM + code)
    argv = f"['{{python}}','{folder / 'program.py'}','{{run_dir}}','{{seed}}','{{iterations}}']"
    return ["trainer=command", f"trainer.command.argv={argv}", "output.figures=false", "iterations=3"]


def command(*overrides):
    return [sys.executable, str(RUN), "-m", *overrides]


def sweep(cwd, *overrides, status=0, env=None, timeout=300):
    done = subprocess.run(
        command(*overrides), cwd=cwd, text=True, capture_output=True, timeout=timeout, env={**os.environ, **(env or {})}
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done


def start(cwd, *overrides):
    return subprocess.Popen(
        command(*overrides), cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def wait_until(condition, process=None, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def runs(cwd):
    """Run folder by seed."""
    return {int(path.name.split("seed")[1].split("-")[0]): path for path in (cwd / "outputs").glob("*-seed*")}


def states(cwd):
    return {seed: read_status(path) and read_status(path).state for seed, path in sorted(runs(cwd).items())}


def digests(folder):
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != ".lock"]
    return {
        str(p.relative_to(folder)): (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns) for p in files
    }


def record(cwd):
    (file,) = (cwd / "outputs" / "sweeps").glob("*/sweep.json")
    return json.loads(file.read_text())


def tool(cwd, *arguments, status=0):
    done = subprocess.run(
        [sys.executable, "-m", "sweeps", *arguments],
        cwd=cwd, text=True, capture_output=True, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


# --- before it starts


def test_a_dry_run_lists_everything_writes_nothing_and_imports_no_ray(tmp_path):
    code = (
        "import os, sys, runpy\n"
        "sys.argv = sys.argv[1:]\n"
        "sys.path.insert(0, os.path.dirname(sys.argv[0]))\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print('IMPORTED', sorted({'ray', 'optuna', 'torch', 'pandas', 'rich'} & set(sys.modules)))\n"
    )
    arguments = ["-m", "variant=on_policy,freshper", "seed=0,1", "replay.decay.tau=5,5.0", "dry_run=true"]
    done = subprocess.run(
        [sys.executable, "-c", code, str(RUN), *arguments], cwd=tmp_path, text=True, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "IMPORTED []" in done.stdout
    assert done.stdout.count(" new ") == 4 and "4 more combinations" in done.stdout
    assert "variant=freshper seed=1" in done.stdout and "To be run: 4" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_one_bad_cell_in_twenty_means_nothing_starts(tmp_path):
    done = sweep(tmp_path, "seed=range(10)", "replay.capacity=100,1", "replay.decay.tau=7", status=2)
    assert "replay.capacity = 1" in done.stderr and "in 10 of 20 runs" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_impossible_resources_fail_within_seconds(tmp_path):
    begun = time.monotonic()
    done = sweep(tmp_path, "seed=0,1", "hydra.sweeper.cpus=1000", status=2)
    assert "hydra.sweeper.cpus = 1000" in done.stderr and "expected at most" in done.stderr
    assert time.monotonic() - begun < 15
    assert list(tmp_path.iterdir()) == []
    done = sweep(tmp_path, "seed=0,1", "hydra.sweeper.min_free_gib=1e9", status=2)
    assert "GiB of free disk" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_impossible_gpus_fail_and_do_not_hang(tmp_path):
    begun = time.monotonic()
    done = sweep(tmp_path, *program(tmp_path), "seed=0,1", "hydra.sweeper.gpus=99", status=2)
    assert "hydra.sweeper.gpus = 99" in done.stderr
    assert time.monotonic() - begun < 120  # most of it Ray's start
    assert runs(tmp_path) == {}


# --- while and after it runs


@pytest.mark.slow
def test_a_sweep_of_real_training(tmp_path):
    """Four runs: their records, the sweep's record, the table; then the same command, then a larger grid."""
    done = sweep(tmp_path, "variant=on_policy,freshper", "seed=0,1", "hydra.sweeper.cpus=1", *SMALL)
    folders = sorted((tmp_path / "outputs").glob("frozenlake-*"))
    assert len(folders) == 4
    for folder in folders:
        assert read_status(folder).state == "finished" and len(read_metrics(folder)) == 3
        facts = json.loads((folder / "provenance.json").read_text())
        assert facts["threads"] == 1 and facts["environment"]["OMP_NUM_THREADS"] == "1"
        assert f"seed={folder.name.split('seed')[1][0]}" in facts["overrides"]
        assert facts["cwd"] == str(tmp_path)
    assert "4 runs: 4 done" in done.stdout
    assert "ray" not in done.stderr.lower() and "warning" not in done.stderr.lower(), done.stderr
    assert done.stderr.count("started") == 4 and done.stderr.count("finished") == 4
    written = record(tmp_path)
    assert written["argv"][1] == "-m" and "seed=0,1" in written["argv"] and written["cwd"] == str(tmp_path)
    assert {run["state"] for run in written["runs"]} == {"finished"} and "commit" in written
    (results,) = (tmp_path / "outputs" / "sweeps").glob("*/results.csv")
    rows = list(csv.DictReader(results.open()))
    assert [row["arm"] for row in rows] == ["variant=on_policy"] * 2 + ["variant=freshper"] * 2
    assert all(float(row["eval/success"]) >= 0 and row["state"] == "finished" for row in rows)
    assert not any(path.name.startswith((".stop", ".lock")) for path in results.parent.iterdir())

    before = {folder: digests(folder) for folder in folders} | {results.parent: digests(results.parent)}
    begun = time.monotonic()
    again = sweep(tmp_path, "variant=on_policy,freshper", "seed=0,1", "hydra.sweeper.cpus=1", *SMALL)
    assert "nothing to do" in again.stdout and time.monotonic() - begun < 30
    assert before == {folder: digests(folder) for folder in before}

    listed = sweep(tmp_path, "variant=on_policy,freshper", "seed=0,1,2", *SMALL, "dry_run=true").stdout
    assert listed.count(" finished ") == 4 and "To be run: 2" in listed and "?" not in listed
    larger = sweep(tmp_path, "variant=on_policy,freshper", "seed=0,1,2", "hydra.sweeper.cpus=1", *SMALL)
    assert larger.stderr.count("started") == 2
    assert all(before[folder] == digests(folder) for folder in folders)


@pytest.mark.slow
def test_on_a_terminal_there_is_one_live_table(tmp_path):
    """In a pseudo-terminal, as a user types it: the table needs the terminal, and Ray must not be given it."""
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    process = subprocess.Popen(
        command("seed=0,1", *program(tmp_path)), cwd=tmp_path, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    shown = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end is closed
        while part := os.read(reader, 65536):
            shown += part
    os.close(reader)
    text = shown.decode()
    assert process.wait(60) == 0, text
    for words in ("time left", "2 done", "seed=0", "seed=1", "running"):
        assert words in text
    assert "2 runs: 2 done" in text.replace("\r", "")


@pytest.mark.slow
def test_killed_after_three_of_six_the_same_command_runs_three(tmp_path):
    arguments = ["seed=range(6)", "hydra.sweeper.concurrency=1", *SMALL]
    process = start(tmp_path, *arguments)
    wait_until(lambda: list(states(tmp_path).values()).count("finished") >= 3, process)
    process.kill()
    process.communicate()
    done = {seed for seed, state in states(tmp_path).items() if state == "finished"}
    before = {seed: digests(path) for seed, path in runs(tmp_path).items() if seed in done}
    assert 3 <= len(done) <= 4
    wait_until(lambda: "running" not in states(tmp_path).values())  # what was at work saves a checkpoint and ends
    done = {seed for seed, state in states(tmp_path).items() if state == "finished"}
    before |= {seed: digests(runs(tmp_path)[seed]) for seed in done - before.keys()}

    again = sweep(tmp_path, *arguments)
    assert again.stderr.count("started") == 6 - len(done)
    assert set(states(tmp_path).values()) == {"finished"} and len(states(tmp_path)) == 6
    assert {seed: digests(runs(tmp_path)[seed]) for seed in done} == before
    after = {seed: digests(path) for seed, path in runs(tmp_path).items()}
    assert "nothing to do" in sweep(tmp_path, *arguments).stdout
    assert {seed: digests(path) for seed, path in runs(tmp_path).items()} == after


@pytest.mark.slow
def test_ctrl_c_saves_checkpoints_and_the_same_command_goes_on(tmp_path):
    arguments = ["seed=0,1,2", *SMALL, "iterations=60", "rollout.episodes=8", "checkpoint.every=1000"]
    process = start(tmp_path, *arguments)
    wait_until(lambda: any(len(read_metrics(path)) > 2 for path in runs(tmp_path).values()), process)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=240)
    assert process.returncode == 130, out + errors
    assert "stopping: runs save a checkpoint" in errors and "the same command goes on" in errors
    assert "interrupted" in out and "not started" in out  # the summary
    stopped = [path for path in runs(tmp_path).values() if (path / "checkpoints").is_dir()]
    assert stopped
    for path in stopped:
        (checkpoint,) = (path / "checkpoints").iterdir()
        assert int(checkpoint.name) == read_metrics(path)[-1]["iteration"]
    listed = sweep(tmp_path, *arguments, "dry_run=true").stdout
    assert listed.count("interrupted") == len(stopped)


@pytest.mark.slow
def test_failures_are_kept_apart_told_and_retried(tmp_path):
    code = """
if seed == 1: raise RuntimeError("bad luck")
if seed == 2: os.kill(os.getpid(), 9)
rows()
"""
    done = sweep(tmp_path, *program(tmp_path, code), "seed=0,1,2,3", status=1)
    assert states(tmp_path) == {0: "finished", 1: "failed", 2: "failed", 3: "finished"}
    assert "2 done, 2 failed" in done.stdout
    tail = done.stderr.partition("failed:\n")[2]
    assert "seed=1: failed" in tail and "bad luck" in tail and "seed=2: failed" in tail and "SIGKILL" in tail
    assert "bad luck" in (runs(tmp_path)[1] / "error.txt").read_text()
    listed = tool(tmp_path, "status", "outputs", status=1)
    assert "2 done, 2 failed" in listed and "seed=2: failed" in listed

    (tmp_path / "program.py").write_text(PROGRAM + "rows()")  # the cause is removed
    before = {seed: digests(runs(tmp_path)[seed]) for seed in (0, 3)}
    tool(tmp_path, "retry", "outputs")
    assert set(states(tmp_path).values()) == {"finished"}
    assert {seed: digests(runs(tmp_path)[seed]) for seed in (0, 3)} == before
    assert "nothing has failed" in tool(tmp_path, "retry", "outputs")
    tool(tmp_path, "export", "outputs", "--out", "all.csv", "--metrics", "metrics.csv")
    assert len(list(csv.DictReader((tmp_path / "all.csv").open()))) == 4
    assert len(list(csv.DictReader((tmp_path / "metrics.csv").open()))) == 4 * 4
    assert "no sweep in" in subprocess.run(
        [sys.executable, "-m", "sweeps", "status", str(tmp_path / "nowhere")],
        cwd=ROOT, text=True, capture_output=True,
    ).stderr  # fmt: skip


@pytest.mark.slow
def test_retries_and_a_child_that_leaves_no_record(tmp_path):
    code = """
flag = __file__ + ".tried"
if seed == 1 and not os.path.exists(flag):
    open(flag, "w").close()
    sys.exit(7)
rows()
"""
    done = sweep(tmp_path, *program(tmp_path, code), "seed=0,1", "hydra.sweeper.retries=1")
    assert done.stderr.count("retrying") == 1
    assert read_status(runs(tmp_path)[1]).attempts == 2 and read_status(runs(tmp_path)[0]).attempts == 1


@pytest.mark.slow
def test_fail_fast_starts_nothing_more_and_the_next_command_does(tmp_path):
    code = """
if seed == 1 and os.path.exists(os.path.dirname(__file__) + "/bad"): sys.exit("a bug in all of them")
rows(0.2)
"""
    (tmp_path / "bad").touch()
    arguments = [*program(tmp_path, code), "seed=range(6)", "iterations=20"]
    done = sweep(tmp_path, *arguments, "hydra.sweeper.fail_fast=true", status=1)
    assert "fail_fast: seed=1 failed" in done.stderr and "a bug in all of them" in done.stderr
    found = states(tmp_path)
    assert found[1] == "failed" and len(found) < 6 and "not started" in done.stdout
    (tmp_path / "bad").unlink()
    sweep(tmp_path, *arguments, "hydra.sweeper.fail_fast=true")
    assert set(states(tmp_path).values()) == {"finished"}


@pytest.mark.slow
def test_nothing_leaks_from_one_run_to_the_next_nor_from_ray(tmp_path):
    code = """
seen = {k: v for k, v in os.environ.items() if k.startswith(("RAY_", "TUNE_", "LEAK", "OMP_"))}
seen |= {"cwd": os.getcwd(), "nice": os.nice(0), "files": len(os.listdir("/proc/self/fd"))}
json.dump(seen, open(os.path.join(folder, "seen.json"), "w"))
os.environ["LEAK"] = "1"; os.chdir("/")
rows()
"""
    sweep(tmp_path, *program(tmp_path, code), "seed=0,1,2", "hydra.sweeper.concurrency=1", "hydra.sweeper.cpus=1")
    for path in runs(tmp_path).values():
        seen = json.loads((path / "seen.json").read_text())
        assert "LEAK" not in seen and seen["cwd"] == str(tmp_path) and seen["nice"] == os.nice(0)
        assert not [name for name in seen if name.startswith(("RAY_", "TUNE_")) and name != "RAY_TMPDIR"], seen
        assert seen["OMP_NUM_THREADS"] == "1" and seen["files"] <= 6


@pytest.mark.slow
def test_a_run_may_start_ray_itself(tmp_path):
    code = """
import ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
answer = ray.get(ray.remote(num_cpus=1)(lambda: 42).remote())
assert answer == 42
rows()
"""
    sweep(tmp_path, *program(tmp_path, code), "seed=0", timeout=280)
    assert states(tmp_path) == {0: "finished"}


@pytest.mark.slow
def test_two_sweeps_at_once_share_the_work(tmp_path):
    arguments = [*program(tmp_path, "rows(0.3)"), "seed=range(6)", "iterations=10", "hydra.sweeper.concurrency=1"]
    first = start(tmp_path, *arguments)
    wait_until(lambda: "running" in states(tmp_path).values(), first)
    second = start(tmp_path, *arguments)
    outs = [process.communicate(timeout=280) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0], outs
    assert set(states(tmp_path).values()) == {"finished"} and len(states(tmp_path)) == 6
    assert all(read_status(path).attempts == 1 for path in runs(tmp_path).values())
    assert all(len(read_metrics(path)) == 11 for path in runs(tmp_path).values())
    begun = [errors.count("started ") for _, errors in outs]
    assert sum(begun) >= 6 and min(begun) >= 1


@pytest.mark.slow
def test_a_search_is_seeded_resumable_and_ends_at_n_trials(tmp_path):
    code = """
rate = float(sys.argv[4])
rows(score=lambda i: 1 - abs(rate - 0.003) * 100)
"""
    arguments = program(tmp_path, code)
    arguments[1] = arguments[1].replace("'{iterations}'", "'{iterations}','{algorithm.learning_rate}'")
    arguments += ["algorithm.learning_rate=tag(log,interval(1e-5,1e-1))", "variant=uniform,freshper"]
    sweep(tmp_path, *arguments, "hydra.sweeper.n_trials=2", "hydra.sweeper.concurrency=1")
    (trials,) = (tmp_path / "outputs" / "sweeps").glob("*/trials.json")
    points = json.loads(trials.read_text())
    assert {name: len(values) for name, values in points.items()} == {"variant=uniform": 2, "variant=freshper": 2}
    assert "nothing to do" in sweep(tmp_path, *arguments, "hydra.sweeper.n_trials=2").stdout
    done = sweep(tmp_path, *arguments, "hydra.sweeper.n_trials=3", "hydra.sweeper.storage=sqlite:///study.db")
    more = json.loads(trials.read_text())
    assert all(more[name][:2] == points[name] and len(more[name]) == 3 for name in points)
    assert len({value["algorithm.learning_rate"] for values in more.values() for value in values}) == 6
    assert "6 runs: 6 done" in done.stdout and (tmp_path / "study.db").is_file()
    (tmp_path / "other").mkdir()
    sweep(tmp_path / "other", *arguments, "hydra.sweeper.n_trials=2", "hydra.sweeper.concurrency=1")
    (again,) = (tmp_path / "other" / "outputs" / "sweeps").glob("*/trials.json")
    assert json.loads(again.read_text()) == points


@pytest.mark.slow
def test_early_stopping_ends_bad_runs_and_remembers_it(tmp_path):
    code = "rows(0.3, score=lambda i: seed / 10)"
    arguments = [*program(tmp_path, code), "seed=5,4,3,2,1,0", "iterations=12", "hydra.sweeper.concurrency=2"]
    asha = [
        "hydra.sweeper.asha.enabled=true",
        "hydra.sweeper.asha.grace_iterations=2",
        "hydra.sweeper.asha.reduction_factor=2",
    ]
    done = sweep(tmp_path, *arguments, *asha)
    assert "stopped early after iteration" in done.stderr
    found = states(tmp_path)
    assert found[5] == "finished" and "failed" in found.values()  # a stopped run was told to stop
    assert "nothing to do" in sweep(tmp_path, *arguments, *asha).stdout
    sweep(tmp_path, *arguments)
    assert set(states(tmp_path).values()) == {"finished"}
