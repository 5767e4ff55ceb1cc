"""Cells that a sweep planned and that never started, from the sweep.json that sweeps write."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest

from analysis.__main__ import main
from analysis.doctor.diagnose import diagnose
from analysis.findings import AnalysisError
from analysis.load.study import load
from freshper.records.lock import FolderLock
from freshper.records.run_dir import RunDirectory
from sweeps.options import load_options
from sweeps.plan import make_plan
from sweeps.points import write_points
from sweeps.session import Session
from tests.analysis.runs import curve_rows, provenance, write_run


def sweep(root, *overrides, options=(), points=()):
    """A sweep that has written its record and started nothing; returns it."""
    overrides = (f"output.root={root}", "iterations=40", *overrides)
    argv = ["run.py", "-m", *overrides]
    session = Session(make_plan(list(overrides)), load_options(dict(options)), argv)
    session.folder.make()
    if points:
        write_points(session.folder, {"all": list(points)})
        session = Session(session.plan, session.options, argv)
    session.write_record(session.look())
    return session


def finish(cell, seed=0, state="finished"):
    """The run of a cell, as if it had been trained."""
    with RunDirectory.open(cell.config) as run:
        run.start(provenance(cell.config, cell.config.variant.name, cell.config.seed))
        (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in curve_rows(seed)))
        run.end(state, None, 40)
        return run.path


def missing(*paths, **options):
    return [f for f in diagnose(load(paths, **options)) if f.kind == "missing cell" and "planned" in f.text]


def test_what_never_started_is_named_with_the_sweeps_command(tmp_path):
    session = sweep(tmp_path, "variant=on_policy,freshper", "seed=0,1")
    first, *others = session.cells.values()
    finish(first)
    (finding,) = missing(tmp_path)
    assert finding.severity == "warning"
    assert f"{session.folder.record}: 3 of 4 planned runs never started" in finding.text
    assert all(cell.label in finding.text for cell in others) and first.label not in finding.text
    assert shlex.split(finding.commands[0])[-4:] == session.argv[-4:] and "run.py -m" in finding.commands[0]
    for seed, cell in enumerate(others, start=1):
        finish(cell, seed, "failed" if seed == 1 else "finished")  # a run that failed did start
    assert missing(tmp_path) == []


def test_a_run_that_is_left_out_or_elsewhere_is_not_called_missing(tmp_path):
    session = sweep(tmp_path / "here", "seed=0,1,2")
    folders = [finish(cell, seed) for seed, cell in enumerate(session.cells.values())]
    assert missing(tmp_path, exclude=[folders[0].name]) == []
    assert missing(tmp_path / "here" / "sweeps", folders[1]) == []
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert missing(tmp_path / "there") == []
    assert len(load([tmp_path / "there" / "sweeps"]).records) == 3  # a sweep stands for its runs
    assert len(load([tmp_path / "there" / "sweeps" / session.folder.path.name / "sweep.json"]).records) == 3


def test_a_sweep_that_is_going_on_is_only_noted(tmp_path):
    session = sweep(tmp_path, "seed=0,1")
    folder = finish(next(iter(session.cells.values())))
    status = folder / "status.json"
    status.write_text(status.read_text().replace("finished", "running"))
    lock = FolderLock(folder)
    (finding,) = missing(tmp_path)
    lock.release()
    assert finding.severity == "note" and "running" in finding.text and not finding.commands


def test_a_search_also_lacks_what_it_has_not_suggested(tmp_path):
    key = "algorithm.learning_rate"
    session = sweep(tmp_path, f"{key}=interval(1e-4,1e-3)", options={"n_trials": 5}, points=[{key: 2e-4}, {key: 3e-4}])
    finish(next(iter(session.cells.values())))
    (finding,) = missing(tmp_path)
    assert "1 of 2 planned runs never started" in finding.text and "3 runs still to suggest" in finding.text


def test_a_sweep_of_which_nothing_started(tmp_path, capsys):
    session = sweep(tmp_path, "seed=0,1")
    with pytest.raises(AnalysisError, match="planned 2 runs, of which none has a folder: .*run.py -m .* starts them"):
        load([tmp_path])
    assert main(["doctor", str(session.folder.path), "--no-cache"]) == 2
    assert "expected" not in capsys.readouterr().err
    finish(next(iter(session.cells.values())))
    with pytest.raises(AnalysisError, match="all runs of the sweeps in it are excluded"):
        load([tmp_path], exclude=["frozenlake-*"])


@pytest.mark.parametrize("text", ["{", "[]", '{"runs": [{}]}', '{"runs": [], "argv": [], "cwd": "/"}'])
def test_a_damaged_record_is_told_and_stops_nothing(tmp_path, text):
    write_run(tmp_path)
    (tmp_path / "sweeps" / "x").mkdir(parents=True)
    (tmp_path / "sweeps" / "x" / "sweep.json").write_text(text)
    (finding,) = load([tmp_path]).findings
    assert finding.kind == "unreadable" and "is no record of a sweep" in finding.text
