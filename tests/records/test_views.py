"""What a person sees of a run: curve, summary, progress, trackers."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from freshper.config.compose import compose_config
from freshper.config.identity import identity
from freshper.records.curve import draw
from freshper.records.jsonl import encode
from freshper.records.progress import Progress
from freshper.records.summary import cpu_seconds, duration, success, summary, time_split
from freshper.records.trackers import TensorBoardTracker, log_all, make_trackers, wandb_group
from tests.records.rows import learning_rows


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_equal_rows_give_equal_pictures(tmp_path, suffix):
    rows = learning_rows()
    (tmp_path / "metrics.jsonl").write_text("".join(encode(row) + "\n" for row in rows))
    one = draw(rows, tmp_path / f"one.{suffix}", title="run", episodes=128)
    two = draw(tmp_path / "metrics.jsonl", tmp_path / f"two.{suffix}", title="run", episodes=128)
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize(
    "rows",
    [[], learning_rows(0), learning_rows(1), learning_rows(replay=False), [{"iteration": 0, "eval/success": 0.2}]],
)
def test_a_curve_of_little(tmp_path, rows):
    assert draw(rows, tmp_path / "curve.png", variant="on_policy").stat().st_size > 1000


def test_a_curve_with_nan(tmp_path):
    rows = learning_rows()
    rows[30]["eval/success"] = rows[31]["fresh/success"] = float("nan")
    assert draw(rows, tmp_path / "curve.png", episodes=10).exists()


def test_summary_tells_base_final_best_cost_time_and_place():
    rows = learning_rows()
    text = summary(rows, 128, Path("outputs/x"), Path("outputs/x/curve.png"))
    found = success(rows)
    assert f"base {100 * found.base:.1f} ±" in text and f"final {100 * found.final:.1f} ±" in text
    for words in (
        "greedy",
        "128 held-out",
        "46,080 environment steps",
        "180 optimiser steps",
        "1 min 00 s (30.0 s of CPU time): ",
        "rollout 60 %",
        "curve.png",
    ):
        assert words in text
    assert "replay bookkeeping below 1 %" in text
    assert sum(time_split(rows).values()) == pytest.approx(60)  # CPU time is no part of the time on the clock
    del rows[7]["time/cpu"]
    assert cpu_seconds(rows) is None and "CPU" not in summary(rows, 128, Path("outputs/x"))


def test_summary_of_nothing():
    assert "run folder" in summary([], 128, Path("x"))


def test_durations():
    assert [duration(s) for s in (3.21, 245, 7800)] == ["3.2 s", "4 min 05 s", "2 h 10 min"]


def test_lines_elsewhere_than_on_a_terminal():
    stream = io.StringIO()
    progress = Progress(60, "auto", stream=stream, every_seconds=1e9)
    for row in learning_rows():
        progress.update(row)
    progress.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 7  # evaluations only
    assert lines[-1].startswith("iteration 60/60") and "reward" in lines[-1] and "age 84" in lines[-1]
    assert "left" in lines[3]


def test_a_bar_shows_the_same():
    stream = io.StringIO()
    progress = Progress(60, "bar", done=50, stream=stream)
    for row in learning_rows()[51:]:
        progress.update(row)
    progress.close()
    assert "60/60" in stream.getvalue() and "reward=" in stream.getvalue()


def test_off_is_silent():
    stream = io.StringIO()
    progress = Progress(3, "off", stream=stream)
    progress.update({"iteration": 1})
    progress.close()
    assert stream.getvalue() == ""


def test_tensorboard_gets_numbers(tmp_path):
    pytest.importorskip("tensorboard")
    tracker = TensorBoardTracker(tmp_path)
    log_all([tracker], {"iteration": 1, "eval/success": 0.5, "ages": [1, 2], "bad": float("nan")})
    tracker.finish()
    (events,) = (tmp_path / "tensorboard").iterdir()
    assert b"eval/success" in events.read_bytes() and b"ages" not in events.read_bytes()


def test_wandb_offline_writes_into_the_run_folder(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    # A proxy that does not exist: whoever tried the network would fail.
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    config = compose_config(["tracking=wandb"])
    trackers = make_trackers(config, tmp_path)
    for row in learning_rows(3):
        log_all(trackers, row)
    for tracker in trackers:
        tracker.finish()
    assert list((tmp_path / "wandb").glob(f"offline-run-*/run-{identity(config)}.wandb"))


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_wandb_gets_one_run_per_trial_under_its_identity_grouped_by_experiment(mode, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    begun, ended = [], []
    fake = SimpleNamespace(finish=lambda exit_code: ended.append(exit_code))
    monkeypatch.setattr(wandb, "init", lambda **given: begun.append(given) or fake)
    overrides = ["tracking=wandb", f"tracking.wandb={mode}", "+experiment=smoke"]
    configs = [compose_config([*overrides, f"variant={name}", "seed=1"]) for name in ("uniform", "freshper")]
    configs.append(compose_config([*overrides, "variant=freshper", "seed=1", "output.name='by hand-2'"]))
    for config in configs:
        (tracker,) = make_trackers(config, tmp_path)
        tracker.finish(failed=config is configs[1])
    assert ended == [0, 1, 0]
    first, second, named = begun
    assert [first["id"], second["id"]] == [identity(config) for config in configs[:2]]
    assert named["id"] == f"{second['id']}-by_hand-2"  # the same run once more, on purpose
    assert {given["group"] for given in begun} == {"smoke"}
    assert [given["job_type"] for given in begun] == ["uniform", "freshper", "freshper"]
    assert {given["mode"] for given in begun} == {mode}
    assert {given["resume"] for given in begun} == {"allow" if mode == "online" else None}
    assert json.dumps(first["config"])


def test_wandb_groups_by_hand_or_by_task():
    assert wandb_group(compose_config()) == "frozenlake-tiny"
    assert wandb_group(compose_config(["+experiment=smoke", "tracking.group=mine"])) == "mine"


def test_no_tracker_by_default(tmp_path):
    assert make_trackers(compose_config(), tmp_path) == []


def test_records_import_neither_torch_nor_matplotlib():
    modules = "atomic cpu_time curve jsonl lock metrics progress provenance run_dir samples status summary trackers"
    code = "import sys\n" + "\n".join(f"import freshper.records.{name}" for name in modules.split())
    code += "\nprint(sorted({'torch', 'transformers', 'ray', 'matplotlib', 'wandb', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
