"""External trainers, with real small programs: their record, their failures, and that nothing of them survives."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from freshper.config.compose import compose_config
from freshper.records.lock import is_locked
from freshper.records.metrics import read_metrics
from freshper.records.run_dir import RunDirectory
from freshper.records.status import read_status
from freshper.trainers import train

ROOT = Path(__file__).resolve().parents[2]
ROWS = """
import json, os, sys, time
def row(iteration, **values):
    with open(os.path.join(sys.argv[1], "metrics.jsonl"), "a") as file:
        file.write(json.dumps({"iteration": iteration, "eval/success": iteration / 10, **values}) + "\\n")
"""


@pytest.fixture
def program(tmp_path):
    """Config of a run whose trainer is the given Python code; its first argument is the run folder."""

    def make(code, *overrides, iterations=3):
        (tmp_path / "program.py").write_text(ROWS + code)
        return compose_config(
            [
                "trainer=command",
                "trainer.command.argv=['{python}',program.py,'{run_dir}']",
                f"trainer.command.cwd={tmp_path}",
                "trainer.command.grace=2",
                "trainer.progress=off",
                "output.figures=false",
                f"output.root={tmp_path / 'runs'}",
                "output.name=run",
                f"iterations={iterations}",
                *overrides,
            ]
        )

    return make


def outcome(tmp_path):
    status = read_status(tmp_path / "runs/run")
    assert status is not None
    return status


def iterations(tmp_path):
    return [row["iteration"] for row in read_metrics(tmp_path / "runs/run")]


def living(marker):
    """Processes whose command line holds the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            other = entry.name.isdigit() and int(entry.name) != os.getpid()
            if other and str(marker).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def wait_for(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)


def test_a_run_leaves_the_record_of_a_local_one(program, tmp_path, capsys):
    code = "for i in range(4):\n    row(i)\n    print('iteration', i)\n"
    assert train(program(code, "output.figures=true", "seed=5"), ["run.py", "seed=5"]) == 0
    folder = tmp_path / "runs/run"
    names = {path.name for path in folder.iterdir()}
    assert {"config.yaml", "provenance.json", "status.json", "metrics.jsonl", "curve.png", "output.log"} <= names
    status = outcome(tmp_path)
    assert (status.state, status.cause, status.iteration, status.attempts) == ("finished", None, 3, 1)
    assert iterations(tmp_path) == [0, 1, 2, 3]
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["command"]["argv"] == [sys.executable, "program.py", str(folder)]
    assert provenance["overrides"] == ["seed=5"]
    assert "iteration 3" in (folder / "output.log").read_text()
    capsys.readouterr()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert train(program(code, "output.figures=true", "seed=5"), ["run.py"]) == 0
    assert "finished already" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_placeholders_environment_and_folder_reach_the_program(program, tmp_path):
    code = """
import yaml
config = yaml.safe_load(open(sys.argv[2]))
row(3, config_seed=config["seed"], argv=sys.argv[3:], cwd=os.getcwd(), variable=os.environ["A_VARIABLE"])
"""
    arguments = (
        "['{python}',program.py,'{run_dir}','{config}','{seed}','tau={replay.decay.tau}','{output.figures}',"
        "'{variant.name}/{iterations}','{resume}','{{x}}','a b=c, %ü','']"
    )
    config = program(
        code,
        f"trainer.command.argv={arguments}",
        "trainer.command.env.A_VARIABLE='{seed}:x'",
        "seed=7",
        "replay.decay.tau=inf",
    )
    assert train(config, ["run.py"]) == 0
    (row,) = read_metrics(tmp_path / "runs/run")
    assert row["config_seed"] == 7 and row["cwd"] == str(tmp_path) and row["variable"] == "7:x"
    assert row["argv"] == ["7", "tau=inf", "false", "freshper/3", "false", "{x}", "a b=c, %ü", ""]


def test_a_program_that_fails_says_why_and_is_resumed(program, tmp_path, capsys):
    code = """
if "--resume" in sys.argv:
    assert sys.argv[2:] == ["true", "--resume", "yes"]
    row(1, again=True), row(2), row(3)
else:
    row(0), row(1)
    print("about to fail")
    sys.exit("no more memory")
"""
    overrides = [
        "trainer.command.argv=['{python}',program.py,'{run_dir}','{resume}']",
        "trainer.command.resume_argv=[--resume,yes]",
    ]
    assert train(program(code, *overrides), ["run.py"]) == 1
    status = outcome(tmp_path)
    assert (status.state, status.iteration, status.attempts) == ("failed", 1, 1)
    assert status.cause is not None and "exit status 1" in status.cause and "no more memory" in status.cause
    error = (tmp_path / "runs/run/error.txt").read_text()
    assert "about to fail" in error and "program.py" in error
    assert iterations(tmp_path) == [0, 1]
    assert "no more memory" in capsys.readouterr().err

    assert train(program(code, *overrides), ["run.py"]) == 0
    status = outcome(tmp_path)
    assert (status.state, status.attempts) == ("finished", 2)
    rows = read_metrics(tmp_path / "runs/run")
    assert [row["iteration"] for row in rows] == [0, 1, 2, 3] and rows[1]["again"]
    assert (tmp_path / "runs/run/provenance-2.json").is_file()


def test_a_torn_row_is_waited_for(program, tmp_path):
    code = """
with open(os.path.join(sys.argv[1], "metrics.jsonl"), "a") as file:
    for i in range(4):
        text = json.dumps({"iteration": i, "note": "é" * 50})
        file.write(text[:20]), file.flush(), time.sleep(0.4)
        file.write(text[20:] + "\\n"), file.flush()
"""
    assert train(program(code), ["run.py"]) == 0
    assert iterations(tmp_path) == [0, 1, 2, 3]


FAILURES = {
    "malformed": ("row(0); print('{}', file=open(sys.argv[1] + '/metrics.jsonl', 'a')); time.sleep(60)", "line 2"),
    "out of turn": ("row(0); row(2); time.sleep(.5); row(1); time.sleep(60)", "line 3: iteration 1 comes after"),
    "torn at the end": ("row(3); open(sys.argv[1] + '/metrics.jsonl', 'a').write('{')", "line 2 has no end"),
    "no rows": ("", "left no row of metrics in"),
    "too few": ("row(0), row(2)", "after iteration 2 of 3"),
    "killed": ("row(3); os.kill(os.getpid(), 9)", "killed by SIGKILL"),
    "percent": ("row(3, **{'eval/success': 50})", "expected a rate between 0 and 1"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failures(case, program, tmp_path):
    code, word = FAILURES[case]
    begun = time.monotonic()
    assert train(program(code), ["run.py"]) == 1
    assert time.monotonic() - begun < 20  # nobody waits for a program whose rows cannot be used
    status = outcome(tmp_path)
    assert status.state == "failed" and status.cause is not None and word in status.cause
    assert word in (tmp_path / "runs/run/error.txt").read_text()
    read_metrics(tmp_path / "runs/run")  # the record stays readable
    assert living(tmp_path / "runs") == []


def test_a_program_that_cannot_be_started(program, tmp_path):
    (tmp_path / "tool").write_text("#!/no/such/interpreter\n")
    (tmp_path / "tool").chmod(0o755)
    assert train(program("", "trainer.command.argv=[./tool]"), ["run.py"]) == 1
    status = outcome(tmp_path)
    assert status.cause is not None and "./tool cannot be started: No such file" in status.cause


def test_an_early_end_can_be_accepted(program, tmp_path):
    assert train(program("row(0), row(2)", "trainer.command.early_end=true"), ["run.py"]) == 0
    assert outcome(tmp_path).state == "finished"


def test_a_named_file_is_copied_row_by_row_and_old_rows_in_it_are_not_ours(program, tmp_path):
    file = tmp_path / "theirs.jsonl"
    file.write_text('{"iteration": 99}\n')
    code = """
file = open("theirs.jsonl", "w" if len(sys.argv) > 2 else "a")
file.writelines(json.dumps({"iteration": i}) + "\\n" for i in range({}))
"""
    overrides = ["trainer.command.file=theirs.jsonl", "trainer.command.resume_argv=[again]"]
    assert train(program(code.replace("{}", "2"), *overrides), ["run.py"]) == 1
    assert iterations(tmp_path) == [0, 1]
    assert train(program(code.replace("{}", "4"), *overrides), ["run.py"]) == 0  # from its start again, file and all
    assert iterations(tmp_path) == [0, 1, 2, 3]


@pytest.mark.parametrize("file", [None, "train.log"])
def test_a_log_becomes_rows(file, program, tmp_path):
    code = """
out = open("train.log", "w", buffering=1) if {} else sys.stdout
print("base success 12.5 %", file=out)
for i in range(1, 4):
    print(f"\\rprogress {i}", end="", file=out)
    print(f"\\n[info] step={i} loss={1 / i}", file=out)
    print(f"success {25.0 * i} %", file=out, end="\\n" if i < 3 else "")
""".replace("{}", str(bool(file)))
    config = program(
        code,
        "trainer.command.metrics=log",
        r"trainer.command.step='step=(\d+)'",
        r"trainer.command.patterns={eval/success:'success ([\d.]+)',loss:'loss=(\S+)'}",
        "trainer.command.percent=[eval/success]",
        *([f"trainer.command.file={file}"] if file else []),
    )
    assert train(config, ["run.py"]) == 0
    rows = read_metrics(tmp_path / "runs/run")
    assert [row["iteration"] for row in rows] == [0, 1, 2, 3]
    assert [row["eval/success"] for row in rows] == [0.125, 0.25, 0.5, 0.75]
    assert rows[3]["loss"] == 1 / 3


def test_a_line_of_the_log_that_cannot_be_read_is_named(program, tmp_path):
    config = program(
        "print('hello')\nprint('step=1 success=none')",
        "trainer.command.metrics=log",
        r"trainer.command.step='step=(\d+)'",
        r"trainer.command.patterns={eval/success:'success=(\S+)'}",
    )
    assert train(config, ["run.py"]) == 1
    assert outcome(tmp_path).cause == "line 2 of its output: eval/success is 'none'; expected a number"


def test_output_is_bounded(program, tmp_path):
    code = "for i in range(40_000): print('x' * 99)\nrow(3)\nprint('end')"
    assert train(program(code, "trainer.command.log_mib=0.5"), ["run.py"]) == 0
    logs = list((tmp_path / "runs/run").glob("output.log*"))
    assert sum(path.stat().st_size for path in logs) <= 2**19
    assert (tmp_path / "runs/run/output.log").read_text().endswith("end\n")


CHILDREN = """
import subprocess
if os.fork() == 0:
    os.setsid()                      # a daemon: another session, orphaned
    if os.fork() == 0:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(300)", sys.argv[1], "daemon"])
    os._exit(0)
subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(300)",
                  sys.argv[1], "stubborn"])
"""


def test_children_left_behind_by_a_program_that_ended_are_gone(program, tmp_path):
    assert train(program(CHILDREN + "time.sleep(0.5); row(3)"), ["run.py"]) == 0
    assert living(tmp_path / "runs") == []


@pytest.fixture
def launched(tmp_path):
    """Trains in a process of its own, which can be signalled."""
    started = []

    def launch(config):
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump(json.loads(config.model_dump_json())))
        code = (
            "import sys, yaml; from freshper.config.load import load_config; from freshper.trainers import train;"
            f"sys.exit(train(load_config(yaml.safe_load(open({str(file)!r}))), ['run.py']))"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_until_up(tmp_path, words=("daemon", "stubborn")):
    wait_for(lambda: all(any(word in cmdline(pid) for pid in living(tmp_path / "runs")) for word in words))
    wait_for(lambda: iterations(tmp_path) == [0])


def cmdline(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancelled_program_may_save_and_leaves_no_child(number, program, launched, tmp_path):
    code = CHILDREN + "row(0)\ntry:\n    time.sleep(300)\nexcept KeyboardInterrupt:\n    row(1); print('saved')\n"
    process = launched(program(code))
    wait_until_up(tmp_path)
    process.send_signal(number)
    assert process.wait(20) == 1
    assert living(tmp_path / "runs") == []
    status = outcome(tmp_path)
    assert status.state == "failed" and status.cause is not None and "interrupted" in status.cause
    assert iterations(tmp_path) == [0, 1]
    assert "saved" in (tmp_path / "runs/run/output.log").read_text()


def test_a_program_that_ignores_signals_is_killed(program, launched, tmp_path):
    code = "import signal\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\n" + CHILDREN + "row(0)\ntime.sleep(300)"
    process = launched(program(code, "trainer.command.grace=0.5"))
    wait_until_up(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 1
    assert living(tmp_path / "runs") == []


def test_a_second_interrupt_does_not_wait(program, launched, tmp_path):
    code = "import signal\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\nrow(0)\ntime.sleep(300)"
    process = launched(program(code, "trainer.command.grace=200"))
    wait_until_up(tmp_path, words=())
    process.send_signal(signal.SIGINT)
    assert "stopping the program" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 1
    assert living(tmp_path / "runs") == []


def test_when_we_are_killed_the_program_goes_too_and_the_folder_is_taken_until_then(program, launched, tmp_path):
    code = CHILDREN + "row(0)\ntry:\n    time.sleep(300)\nexcept KeyboardInterrupt:\n    time.sleep(1)\n"
    config = program(code)
    process = launched(config)
    wait_until_up(tmp_path)
    process.kill()
    process.wait()
    folder = tmp_path / "runs/run"
    assert is_locked(folder)  # the program is still saving
    wait_for(lambda: living(tmp_path / "runs") == [])
    wait_for(lambda: not is_locked(folder))
    assert outcome(tmp_path).state == "crashed"
    with RunDirectory.open(config) as run:
        assert run.state == "resume"


@pytest.mark.slow
def test_run_py_starts_it_alone_and_in_a_sweep(tmp_path):
    (tmp_path / "program.py").write_text(ROWS + "row(0), row(int(sys.argv[2]), seed=sys.argv[3])")
    overrides = [
        "trainer=command",
        "trainer.command.argv=['{python}',program.py,'{run_dir}','{iterations}','{seed}']",
        f"trainer.command.cwd={tmp_path}",
        f"output.root={tmp_path}/runs",
        "output.figures=false",
        "iterations=4",
    ]
    for more, seeds in ((["seed=7"], {"7"}), (["-m", "seed=7,8"], {"7", "8"})):
        command = [sys.executable, str(ROOT / "run.py"), *more, *overrides]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        rows = [read_metrics(folder)[-1] for folder in (tmp_path / "runs").glob("frozenlake-*")]
        assert {row["seed"] for row in rows} == seeds
        assert {row["iteration"] for row in rows} == {4}


def test_a_second_owner_is_refused_while_the_program_runs(program, launched, tmp_path, capsys):
    config = program("row(0)\ntime.sleep(300)")
    launched(config)
    wait_until_up(tmp_path, words=())
    assert train(config, ["run.py"]) == 2
    assert "in use" in capsys.readouterr().err


def test_rays_variables_do_not_reach_the_program(program, tmp_path, monkeypatch):
    for name in ("RAY_ADDRESS", "RAY_JOB_ID", "_RAY_X", "TUNE_X", "WANDB_SERVICE"):
        monkeypatch.setenv(name, "x")
    code = "row(3, names=[n for n in os.environ if n.startswith(('RAY', '_RAY', 'TUNE', 'WANDB_SERVICE'))])"
    assert train(program(code, "trainer.command.env.RAY_DEDUP_LOGS=0"), ["run.py"]) == 0
    (row,) = read_metrics(tmp_path / "runs/run")
    assert sorted(row["names"]) == ["RAY_DEDUP_LOGS", "RAY_TMPDIR"]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray")
def test_a_program_may_start_a_ray_of_its_own(program, tmp_path, monkeypatch):
    code = """
import ray
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
@ray.remote
def double(x):
    return 2 * x
row(3, four=ray.get(double.remote(2)), session=ray.get_runtime_context().gcs_address)
open("temporary", "w").write(os.environ["RAY_TMPDIR"])
os._exit(0)      # without ray.shutdown(): its daemons stay behind
"""
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # the sweep's, which the program must not join
    begun = time.monotonic()
    # A token would be written into the home folder.
    assert train(program(code, "trainer.command.env.RAY_AUTH_MODE=disabled"), ["run.py"]) == 0
    assert time.monotonic() - begun < 60
    assert read_metrics(tmp_path / "runs/run")[0]["four"] == 4
    temporary = (tmp_path / "temporary").read_text()
    assert living(temporary) == [] and not Path(temporary).exists()
