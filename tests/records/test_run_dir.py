"""A run folder has one writer, one identity and one truth about how it stands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from freshper.config.load import load_config
from freshper.records import atomic
from freshper.records.lock import is_locked
from freshper.records.provenance import collect
from freshper.records.run_dir import RunDirectory, RunDirError, RunInUse
from freshper.records.status import read_status

HOLD = """
import sys, time
from freshper.config.load import load_config
from freshper.records.run_dir import RunDirectory
run = RunDirectory.open(load_config({"output": {"root": sys.argv[1], "name": "run"}}))
run.start({"attempt": 1})
print("held", flush=True)
time.sleep(60)
"""


def config(root, **sections):
    output = {"root": str(root), "name": "run", **sections.pop("output", {})}
    return load_config({"output": output, **sections})


def snapshot(folder):
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(folder.rglob("*")) if path.is_file()}


def hold(root):
    """Another process that has opened and started the run."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_new_run_writes_its_record(tmp_path):
    settings = config(tmp_path, replay={"decay": {"tau": 7}})
    with RunDirectory.open(settings) as run:
        assert run.state == "new" and run.status is None
        run.start(collect(settings, ["run.py", "replay.decay.tau=7"]))
        assert read_status(run.path).state == "running"
        run.end("finished", iteration=150)
    assert yaml.safe_load((run.path / "config.yaml").read_text())["replay"]["decay"]["tau"] == 7.0
    provenance = json.loads((run.path / "provenance.json").read_text())
    assert provenance["overrides"] == ["replay.decay.tau=7"]
    assert provenance["packages"]["torch"] and provenance["hardware"]["cores"] and provenance["seeds"]["run"] == 0
    status = read_status(run.path)
    assert (status.state, status.iteration, status.attempts) == ("finished", 150, 1)


def test_a_second_process_is_told_who_holds_the_folder_and_changes_nothing(tmp_path):
    holder = hold(tmp_path)
    try:
        before = snapshot(tmp_path)
        assert is_locked(tmp_path / "run") and read_status(tmp_path / "run").state == "running"
        with pytest.raises(RunInUse, match=f"process {holder.pid} on "):
            RunDirectory.open(config(tmp_path))
        assert snapshot(tmp_path) == before
    finally:
        holder.kill()
        holder.wait()


def test_a_killed_run_reads_as_crashed_and_is_resumed(tmp_path):
    holder = hold(tmp_path)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert not is_locked(tmp_path / "run")
    status = read_status(tmp_path / "run")
    assert status.state == "crashed" and "without a final record" in status.cause
    with RunDirectory.open(config(tmp_path, resume="must")) as run:
        assert run.state == "resume"
        run.start({"attempt": 2})
        assert run.status.attempts == 2
    assert json.loads((tmp_path / "run" / "provenance.json").read_text()) == {"attempt": 1}
    assert json.loads((tmp_path / "run" / "provenance-2.json").read_text()) == {"attempt": 2}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("finished", "finished"),
        ("diverged", "finished"),
        ("dead", "finished"),
        ("failed", "resume"),
        ("crashed", "resume"),
    ],
)
def test_what_auto_makes_of_each_state(tmp_path, state, expected):
    with RunDirectory.open(config(tmp_path)) as run:
        run.start({})
        run.end(state, cause="why", error="Traceback" if state == "failed" else None)
    assert (run.path / "error.txt").exists() == (state == "failed")
    with RunDirectory.open(config(tmp_path)) as again:
        assert (again.state, again.status.state, again.status.cause) == (expected, state, "why")


def test_never_refuses_a_used_folder_and_must_an_unused_one(tmp_path):
    with pytest.raises(RunDirError, match="resume = must"):
        RunDirectory.open(config(tmp_path, resume="must"))
    assert list(tmp_path.iterdir()) == []
    with RunDirectory.open(config(tmp_path, resume="never")) as run:
        run.start({})
    before = snapshot(tmp_path)
    with pytest.raises(RunDirError, match="resume = never"):
        RunDirectory.open(config(tmp_path, resume="never"))
    assert snapshot(tmp_path) == before


def test_a_folder_of_another_run_names_the_keys_that_differ(tmp_path):
    with RunDirectory.open(config(tmp_path)) as run:
        run.start({})
    before = snapshot(tmp_path)
    with pytest.raises(RunDirError) as caught:
        RunDirectory.open(config(tmp_path, seed=3, replay={"decay": {"tau": 9}}))
    assert "seed = 3: there 0" in str(caught.value) and "replay.decay.tau = 9.0: there 500.0" in str(caught.value)
    assert snapshot(tmp_path) == before
    with RunDirectory.open(config(tmp_path, trainer={"threads": 2})) as run:  # not part of the identity
        assert run.state == "resume"


def test_a_folder_that_is_no_run_is_left_alone(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("do not touch")
    with pytest.raises(RunDirError, match="not a run folder"):
        RunDirectory.open(config(tmp_path))
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.txt"]


def test_leftovers_of_a_start_that_was_killed_do_not_count(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").write_text("")
    (tmp_path / "run" / ".tmp-abc-config.yaml").write_text("half")
    with RunDirectory.open(config(tmp_path, resume="never")) as run:
        assert run.state == "new"


def test_a_folder_in_which_nothing_was_written_goes_again(tmp_path):
    with RunDirectory.open(config(tmp_path)):
        assert (tmp_path / "run").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path):
    settings = config(tmp_path / "later")
    (tmp_path / "later").write_text("in the way")
    with pytest.raises(RunDirError, match="output.root = .*later"):
        RunDirectory.open(settings)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"state": "running", "surprise": 1}'])
def test_a_corrupt_status_is_named(tmp_path, text):
    with RunDirectory.open(config(tmp_path)) as run:
        run.start({})
    (tmp_path / "run" / "status.json").write_text(text)
    with pytest.raises(RunDirError, match=r"status.json"):
        RunDirectory.open(config(tmp_path))
    assert not is_locked(tmp_path / "run")


def test_many_processes_start_at_once_and_one_wins(tmp_path):
    script = HOLD.replace("time.sleep(60)", "time.sleep(2)")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    outputs = [process.communicate() for process in processes]
    assert sorted(out for out, _ in outputs) == ["", "", "held\n"]
    assert sum("RunInUse" in error for _, error in outputs) == 2


def test_atomic_write_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "status.json"
    atomic.write_json(path, {"a": 1})
    with pytest.raises(ValueError):
        atomic.write_json(path, {"a": float("nan")})

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        atomic.write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["status.json"]


def test_a_reader_never_disturbs_a_starting_run(tmp_path):
    """Readers take the lock for an instant; a run that starts meanwhile must not be told that the folder is in use."""
    script = (
        "import sys, time; from pathlib import Path; from freshper.records.lock import is_locked\n"
        "end = time.time() + 2\n"
        "while time.time() < end: is_locked(Path(sys.argv[1]))"
    )
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").write_text("")
    reader = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "run")])
    end = time.time() + 1.5
    while time.time() < end:
        with RunDirectory.open(config(tmp_path)):
            (tmp_path / "run" / ".tmp-keep").write_text("")
    reader.wait()
