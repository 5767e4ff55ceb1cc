"""Runs from elsewhere: wandb's CSV exports, wandb offline folders, TensorBoard event files."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from analysis.findings import AnalysisError, DuplicateRunsError
from analysis.load.study import load
from analysis.load.wandb_csv import read_wandb_csv
from analysis.load.wandb_offline import BLOCK, read_wandb_offline
from freshper.records.trackers import log_all, make_trackers
from tests.analysis.runs import config_of, curve_rows

OWN = "frozenlake-tiny-reinforce_pp-freshper-seed3-0123456789"


def export(path, columns, rows, before=""):
    """A file as the wandb page writes it: everything quoted, each metric with its bounds."""
    header = ["Step"]
    for name in columns:
        header += [name, f"{name}__MIN", f"{name}__MAX"]
    lines = [",".join(f'"{name}"' for name in header)]
    for step, *values in rows:
        cells = [str(step)]
        for value in values:
            cells += [str(value)] * 3 if not isinstance(value, tuple) else [str(part) for part in value]
        lines.append(",".join(f'"{cell}"' for cell in cells))
    path.write_text(before + "\n".join(lines) + "\n")
    return path


def test_an_export_of_several_runs(tmp_path):
    path = export(
        tmp_path / "success.csv",
        ["a run - eval/success", f"{OWN} - eval/success"],
        [(5, 0.25, ""), (10, "", 0.5), (15, "NaN", "Infinity"), (20, "", "")],
        before="exported by me\n\n",
    )
    study = load([path])
    first, second = study.records
    assert (second.run, second.columns.iterations.tolist()) == ("a run", [5, 15])
    assert math.isnan(second.columns.series("eval/success")[1][1])
    assert first.columns.series("eval/success")[1].tolist() == [0.5, math.inf]
    facts = first.facts
    assert (facts.task, facts.arm, facts.seed, facts.algorithm) == ("frozenlake", "freshper", 3, "reinforce_pp")
    assert set(study.runs["state"]) == {"unknown"}
    assert any("--labels" in finding.text and "a run" in finding.text for finding in study.findings)


def test_metrics_of_a_run_from_several_files_and_a_name_with_the_separator(tmp_path):
    one = export(tmp_path / "1.csv", ["my - run - eval/success"], [(0, 0.1), (10, 0.2)])
    two = export(tmp_path / "2.csv", ["my - run - counts/env_steps"], [(0, 0), (10, 4000)])
    (record,) = read_wandb_csv([one, two])
    assert record.run == "my - run"
    assert record.columns.series("eval/success", "counts/env_steps")[0].tolist() == [0, 4000]


def test_an_export_without_bounds(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text('"Step","r - eval/success"\n"0","0.5"\n')
    assert read_wandb_csv([path])[0].columns.series("eval/success")[1].tolist() == [0.5]


def test_oddities_of_the_page(tmp_path):
    """A line break and a comma in a run's name, wandb's own clocks, a byte order mark, Windows line ends."""
    path = tmp_path / "odd.csv"
    names = ['"Step"', '"a,\nb - loss"', '"a,\nb - loss__MIN"', '"a,\nb - loss__MAX"', '"a,\nb - _runtime"']
    path.write_bytes(("\ufeff" + ",".join(names) + "\r\n3,0.5,0.5,0.5,7\r\n4,,,,8\r\n").encode())
    (record,) = read_wandb_csv([path])
    assert (record.run, record.columns.names) == ("a,\nb", ("loss",))
    assert [list(part) for part in record.columns.series("loss")] == [[3], [0.5]]


def test_a_run_without_a_value(tmp_path):
    path = export(tmp_path / "x.csv", ["r - loss", "empty - loss"], [(0, 1, ""), (1, 2, "")])
    lengths = {record.run: len(record.columns) for record in load([path]).records}
    assert lengths == {"r": 2, "empty": 0}


def test_bucket_means_are_refused_unless_allowed_and_then_flagged(tmp_path):
    path = export(tmp_path / "x.csv", ["r - eval/success"], [(0, (0.2, 0.1, 0.3)), (10, 0.5)])
    with pytest.raises(AnalysisError, match="means over several steps or runs"):
        load([path])
    study = load([path], allow_sampled=True)
    assert [finding.kind for finding in study.findings if finding.kind == "sampled"] == ["sampled"]


def test_as_many_points_as_the_page_samples_are_flagged(tmp_path):
    path = export(tmp_path / "x.csv", ["r - loss"], [(step, 0.1) for step in range(500)])
    assert any("exactly 500 points" in finding.text for finding in load([path]).findings)


def test_two_runs_of_one_name_are_an_error(tmp_path):
    path = export(tmp_path / "x.csv", ["r - eval/success", "r - eval/success"], [(0, 1, 2)])
    with pytest.raises(DuplicateRunsError, match="r - eval/success"):
        load([path])
    one = export(tmp_path / "1.csv", ["r - eval/success"], [(0, 1)])
    two = export(tmp_path / "2.csv", ["r - eval/success"], [(0, 2)])
    with pytest.raises(DuplicateRunsError) as error:
        load([one, two])
    assert str(one) in str(error.value) and str(two) in str(error.value)


@pytest.mark.parametrize(
    "text, words",
    [
        ("", ["the file is empty", "expected a header"]),
        ("task,metric,value\naime,success,0.1\n", ["no wandb export", "task,metric,value"]),
        ('"Relative Time (Process)","r - x"\n"0.5","1"\n', ["Relative Time", "expected Step"]),
        ('"Step","r - x"\n"0"\n', ["line 2", "1 cells; expected 2"]),
        ('"Step","r - x"\n"0.5","1"\n', ["step 0.5", "whole number"]),
        ('"Step","r - x"\n"zero","1"\n', ["step 'zero'"]),
        ('"Step","r - x"\n"0","one"\n', ["'one'", "expected a number"]),
        ('"Step","r - x"\n"0","1"\n"0","2"\n', ["step 0 comes twice"]),
    ],
)
def test_a_csv_of_another_kind(tmp_path, text, words):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(AnalysisError) as error:
        load([path])
    for word in [*words, str(path)]:
        assert word in str(error.value)


@pytest.fixture
def tracked(tmp_path):
    """A run as its trackers saw it."""
    config = config_of(tmp_path, "freshper", seed=2)
    tracking = config.tracking.model_copy(update={"wandb": "offline", "tensorboard": True})
    config = config.model_copy(update={"tracking": tracking})
    rows = curve_rows(2)
    rows[7]["fresh/loss"] = math.nan

    def make(kind, part=slice(None)):
        only = tracking.model_copy(update={"wandb": "off"} if kind == "tensorboard" else {"tensorboard": False})
        trackers = make_trackers(config.model_copy(update={"tracking": only}), tmp_path / kind / "run one")
        for row in rows[part]:
            log_all(trackers, row)
        for tracker in trackers:
            tracker.finish()
        if kind == "wandb":  # its service goes on writing for a moment
            (file,) = (tmp_path / kind).rglob("*.wandb")
            deadline = time.monotonic() + 30
            while read_wandb_offline(file).state == "unknown" and time.monotonic() < deadline:
                time.sleep(0.05)
        return tmp_path / kind

    return make, rows


def test_a_wandb_offline_folder(tracked):
    pytest.importorskip("wandb")
    make, rows = tracked
    (record,) = load([make("wandb")]).records
    assert (record.facts.arm, record.facts.seed, record.facts.tau) == ("freshper", 2, 30.0)
    assert record.state == "finished" and record.columns.iterations.tolist() == list(range(41))
    for name in ("eval/success", "fresh/loss", "replay/ess"):
        pairs = [(row["iteration"], row[name]) for row in rows if name in row and not math.isnan(row[name])]
        x, values = record.columns.series(name)
        assert list(zip(x, values, strict=True)) == pairs  # exactly; the tracker leaves NaN out


def test_a_wandb_log_that_breaks_off(tracked):
    pytest.importorskip("wandb")
    make, _ = tracked
    (file,) = make("wandb").rglob("*.wandb")
    whole = file.read_bytes()
    assert len(whole) > BLOCK / 2
    file.write_bytes(whole[: len(whole) * 2 // 3])
    study = load([file])
    assert 3 < len(study.records[0].columns) < 41
    assert [finding.kind for finding in study.findings] == ["truncated"]
    file.write_bytes(whole[:BLOCK])  # where a record may happen to end
    study = load([file])
    assert study.records[0].state == "unknown" and len(study.findings) == 1
    file.write_bytes(b"x" + whole)
    with pytest.raises(AnalysisError, match="no wandb log"):
        load([file])


def test_tensorboard_event_files_also_of_two_attempts(tracked):
    pytest.importorskip("tensorboard")
    make, rows = tracked
    make("tensorboard", slice(0, 25))
    (record,) = load([make("tensorboard", slice(20, 41))]).records
    assert record.run == "run one"
    x, values = record.columns.series("eval/success")
    assert x.tolist() == [0, 10, 20, 30, 40]
    np.testing.assert_allclose(values, [row["eval/success"] for row in rows if "eval/success" in row], rtol=1e-6)
    assert any("5 steps were logged by an earlier attempt" in finding.text for finding in record.findings)


def test_an_event_file_without_scalars(tmp_path):
    pytest.importorskip("tensorboard")
    (tmp_path / "events.out.tfevents.1.host").write_bytes(b"")
    with pytest.raises(AnalysisError, match="no scalar"):
        load([tmp_path])
