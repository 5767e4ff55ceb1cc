"""Run folders at any stage, whole trees, and what is said of what cannot be read."""

from __future__ import annotations

import json
import math
import shutil

import pandas as pd
import pytest

from analysis.findings import AnalysisError, DuplicateRunsError
from analysis.load.frame import COLUMNS
from analysis.load.run_folder import read_run_folder
from analysis.load.study import load
from freshper.config.identity import identity
from freshper.records.run_dir import RunDirectory
from tests.analysis.runs import config_of, curve_rows, write_arms, write_run


def test_facts_and_the_tidy_frame_of_a_complete_run(tmp_path):
    folder = write_run(tmp_path, "freshper", seed=3, overrides=("replay.decay.tau=50",))
    study = load([tmp_path])
    (run,) = study.runs.to_dict("records")
    expected = {
        "task": "frozenlake", "algorithm": "reinforce_pp", "variant": "freshper", "arm": "freshper", "seed": 3,
        "tau": 50.0, "alpha": 0.6, "base": "reward",
        "replay_ratio": 2, "state": "finished", "rows": 41, "last_iteration": 40,
        "kind": "folder", "source": str(folder), "run": folder.name, "planned_iterations": 40,
    }  # fmt: skip
    assert {key: run[key] for key in expected} == expected
    assert run["identity"] == identity(config_of(tmp_path, seed=3, overrides=("replay.decay.tau=50",)))
    frame = study.frame(["eval/success"])
    assert tuple(frame.columns) == COLUMNS
    assert frame["iteration"].tolist() == [0, 10, 20, 30, 40]
    assert frame["env_steps"].tolist() == [0, 4000, 8000, 12000, 16000]
    assert frame["optimizer_steps"].tolist() == [0, 30, 60, 90, 120]
    rows = curve_rows(3, salt="freshper ('replay.decay.tau=50',) frozenlake")
    assert frame["value"].tolist() == [row["eval/success"] for row in rows if "eval/success" in row]
    assert set(frame["state"]) == {"finished"} and set(frame["seed"]) == {3}
    assert len(study.frame()) == sum(len(row) - 1 for row in curve_rows())


def test_missing_nan_failed_and_zero_stay_distinct(tmp_path):
    rows = [
        {"iteration": 0, "eval/success": 0.0}, {"iteration": 1}, {"iteration": 2, "eval/success": math.nan},
        {"iteration": 3, "eval/success": 0.5, "fresh/loss": math.inf},
    ]  # fmt: skip
    write_run(tmp_path, "on_policy", rows=rows, state="failed", cause="ValueError: boom")
    frame = load([tmp_path]).frame(["eval/success", "fresh/loss"])
    values = frame[frame["metric"] == "eval/success"]
    assert values["iteration"].tolist() == [0, 2, 3]  # iteration 1 was not measured: no row
    assert values["value"].iloc[0] == 0.0 and math.isnan(values["value"].iloc[1])
    assert frame[frame["metric"] == "fresh/loss"]["value"].tolist() == [math.inf]
    assert set(frame["state"]) == {"failed"}
    assert frame["env_steps"].isna().all() and frame["env_steps"].dtype == "Int64"


def test_a_folder_at_every_stage(tmp_path):
    config = config_of(tmp_path, "on_policy", seed=7)
    with RunDirectory.open(config) as run:
        run.start({"identity": identity(config), "overrides": []})
        assert read_run_folder(run.path).state == "running"
        assert len(load([tmp_path]).frame()) == 0
    assert read_run_folder(run.path).state == "crashed"
    (run.path / "status.json").unlink()
    (run.path / "provenance.json").unlink()
    assert load([tmp_path]).runs["state"].tolist() == ["unknown"]  # killed between its first two files
    (run.path / "status.json").write_text("{")
    study = load([tmp_path])
    assert any("status.json is not a run status" in finding.text for finding in study.findings)


def test_a_killed_run_with_a_torn_last_line(tmp_path):
    folder = write_run(tmp_path, state=None)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 41, "eval/succ')
    record = read_run_folder(folder)
    assert record.state == "crashed" and len(record.columns) == 41
    (finding,) = record.findings
    assert (finding.severity, finding.kind) == ("note", "truncated")


def test_a_torn_line_of_a_finished_run_is_an_error(tmp_path):
    folder = write_run(tmp_path)
    path = folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    record = read_run_folder(folder)
    assert len(record.columns) == 40
    assert record.findings[0].severity == "error" and str(path) in record.findings[0].text


def test_a_last_line_without_its_line_break_is_kept(tmp_path):
    folder = write_run(tmp_path)
    path = folder / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-1])
    assert len(read_run_folder(folder).columns) == 41


def test_damaged_lines_are_named_and_the_rest_is_kept(tmp_path):
    folder = write_run(tmp_path)
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines()
    lines[4], lines[9] = "\0\0\0", '{"no": "iteration"}'
    path.write_text("\n".join(lines) + "\n")
    record = read_run_folder(folder)
    assert len(record.columns) == 39
    (finding,) = [finding for finding in record.findings if finding.kind == "damaged"]
    assert "2 lines 5, 10" in finding.text


def test_a_tree_with_sweeps_trackers_and_other_files(tmp_path):
    write_arms(tmp_path / "a" / "b", arms=("on_policy",), seeds=(0,))
    folder = write_run(tmp_path / "c")
    (tmp_path / "c" / "sweeps" / "x-1" / "orders").mkdir(parents=True)
    (tmp_path / "c" / "sweeps" / "x-1" / "orders" / "run.yaml").write_text("seed: 0")
    (folder / "tensorboard").mkdir()
    (folder / "tensorboard" / "events.out.tfevents.1.host").write_bytes(b"")
    (tmp_path / ".hidden").mkdir()
    shutil.copytree(folder, tmp_path / ".hidden" / "copy")
    lonely = tmp_path / "d"
    lonely.mkdir()
    (lonely / "metrics.jsonl").write_text('{"iteration": 0}\n')
    study = load([tmp_path])
    assert study.runs["arm"].tolist() == ["freshper", "on_policy"]
    assert [finding.text for finding in study.findings] == [
        f"{lonely} has metrics.jsonl but no config.yaml of a run; not loaded"
    ]


def test_the_configs_of_a_checkout_are_no_runs(tmp_path):
    (tmp_path / "config.yaml").write_text(
        "defaults:\n  - variant: freshper\nseed: 0\nvariant:\n  name: x\nreplay: {}\n"
    )
    with pytest.raises(AnalysisError, match="no run among its 1 files"):
        load([tmp_path])


def test_one_folder_named_twice_is_one_run(tmp_path):
    folder = write_run(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    assert len(load([tmp_path, folder, tmp_path / "link", folder / "metrics.jsonl"]).records) == 1


def test_two_folders_of_one_run_are_an_error_that_names_both(tmp_path):
    folder = write_run(tmp_path / "a")
    shutil.copytree(folder, tmp_path / "b" / folder.name)
    with pytest.raises(DuplicateRunsError) as error:
        load([tmp_path])
    assert str(folder) in str(error.value) and str(tmp_path / "b" / folder.name) in str(error.value)
    assert len(load([tmp_path], exclude=["b"]).records) == 1
    study = load([tmp_path], allow_duplicates=True)
    assert study.runs["run"].tolist() == [f"a/{folder.name}", f"b/{folder.name}"]


def test_arms_are_never_pooled_over_settings(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path, "on_policy", seed)
        for tau in (30, 100):
            write_run(tmp_path, "freshper", seed, overrides=(f"replay.decay.tau={tau}",))
    write_run(tmp_path, "freshper", 0, overrides=("replay.decay.tau=30", "algorithm.learning_rate=1e-3"))
    arms = load([tmp_path]).runs.groupby("arm")["seed"].apply(list).to_dict()
    assert arms == {
        "freshper tau=100 lr=0.0005": [0, 1],
        "freshper tau=30 lr=0.0005": [0, 1],
        "freshper tau=30 lr=0.001": [0],
        "on_policy": [0, 1],
    }


def test_arms_that_differ_in_many_settings_have_different_labels(tmp_path):
    many = ("replay.decay.tau=9", "replay.priority.base=success", "replay.priority.alpha=1", "replay.capacity=900")
    write_run(tmp_path, overrides=(*many, "algorithm.clip_low=0.1"))
    write_run(tmp_path, overrides=(*many, "algorithm.clip_low=0.3"))
    write_run(tmp_path)
    assert load([tmp_path]).runs["arm"].nunique() == 3


def test_an_unreadable_config_is_told_and_the_run_kept(tmp_path):
    folder = write_run(tmp_path)
    (folder / "config.yaml").write_text("seed: [")
    study = load([tmp_path])
    assert len(study.records) == 1 and len(study.records[0].columns) == 41
    assert any("config.yaml is not YAML" in finding.text for finding in study.findings)


def test_a_config_without_some_keys_is_told(tmp_path):
    folder = write_run(tmp_path)
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("\n    tau: 30.0\n", "\n"))
    study = load([tmp_path])
    assert any("lacks replay.decay.tau" in finding.text for finding in study.findings)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda root: (root / "none").mkdir(), ["the folder is empty", "expected a run folder"]),
        (lambda root: (root / "none").write_text("x"), ["not something to load"]),
        (lambda root: None, ["no such file or folder"]),
        (
            lambda root: ((root / "none").mkdir(), (root / "none" / "a.csv").write_text("x")),
            ["no run among its 1 files", "*.csv"],
        ),
    ],
)
def test_nothing_to_load(tmp_path, make, words):
    make(tmp_path)
    with pytest.raises(AnalysisError) as error:
        load([tmp_path / "none"])
    for word in [*words, str(tmp_path / "none")]:
        assert word in str(error.value)


def test_a_mistyped_path_gets_a_suggestion_and_all_are_told_at_once(tmp_path):
    write_run(tmp_path / "outputs")
    with pytest.raises(AnalysisError) as error:
        load([tmp_path / "output", tmp_path / "outputs", tmp_path / "nowhere"])
    assert f"did you mean {tmp_path / 'outputs'}?" in str(error.value) and "nowhere" in str(error.value)


def test_an_unknown_metric_gets_the_nearest_names(tmp_path):
    write_run(tmp_path)
    with pytest.raises(AnalysisError, match="eval/succes; did you mean eval/success"):
        load([tmp_path]).frame(["eval/succes"])


def test_labels_say_what_runs_are(tmp_path):
    folder = write_run(tmp_path)
    labels = tmp_path / "labels.csv"
    labels.write_text(f"run,arm,seed\n{folder.name},mine,9\n")
    assert load([folder], labels=labels).runs[["arm", "seed"]].values.tolist() == [["mine", 9]]
    labels.write_text("run,arm,sead\nx,mine,9\n")
    with pytest.raises(AnalysisError, match="sead"):
        load([folder], labels=labels)
    labels.write_text(f"run,seed\n{folder.name[:-1]},1\n{folder.name},one\n")
    with pytest.raises(AnalysisError) as error:
        load([folder], labels=labels)
    assert f"did you mean {folder.name}" in str(error.value) and "seed = one; expected a number" in str(error.value)


def test_frames_work_with_pandas(tmp_path):
    write_arms(tmp_path, seeds=(0, 1))
    frame = load([tmp_path]).frame(["eval/success"])
    last = frame[frame["iteration"] == 40].groupby("arm", observed=True)["value"].mean()
    assert last["freshper"] > last["on_policy"]
    assert isinstance(frame["arm"].dtype, pd.CategoricalDtype)
    json.dumps(frame["env_steps"].astype("float64").tolist(), allow_nan=False)
