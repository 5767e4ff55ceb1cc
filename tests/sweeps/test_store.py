"""States of runs, read from folders that are as a real run leaves them."""

from __future__ import annotations

import pytest

from freshper.config.compose import compose_config
from freshper.config.schema import resolved
from freshper.records.atomic import write_yaml
from freshper.records.lock import FolderLock
from freshper.records.run_dir import RunDirectory
from freshper.records.status import RunStatus, write_status
from freshper.trainers.local import INTERRUPTED
from sweeps.plan import make_plan
from sweeps.store import Store, check_folders, look


@pytest.fixture
def folder(tmp_path):
    config = compose_config([f"output.root={tmp_path}", "output.name=run"])
    (tmp_path / "run").mkdir()
    write_yaml(tmp_path / "run" / "config.yaml", resolved(config))
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("status", "state", "todo"),
    [
        (RunStatus("finished", iteration=5), "finished", False),
        (RunStatus("diverged", "nan"), "diverged", False),
        (RunStatus("dead", "no signal"), "dead", False),
        (RunStatus("failed", "ValueError: x"), "failed", True),
        (RunStatus("failed", INTERRUPTED, iteration=3), "interrupted", True),
        (RunStatus("running"), "crashed", True),  # nobody holds its lock
    ],
)
def test_states(folder, status, state, todo):
    write_status(folder, status)
    standing = look(folder)
    assert (standing.state, standing.todo, standing.iteration) == (state, todo, status.iteration or 0)


def test_nothing_there_is_new(tmp_path):
    assert look(tmp_path / "none").state == "new"
    (tmp_path / "empty").mkdir()
    assert look(tmp_path / "empty").todo
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_locked_run_is_its_owners(folder):
    write_status(folder, RunStatus("running"))
    lock = FolderLock(folder)
    lock.name_holder()
    standing = look(folder)
    assert standing.state == "running" and not standing.todo and "process" in str(standing.cause)
    lock.release()
    assert look(folder).state == "crashed"


def test_a_run_that_was_stopped_early_is_not_run_again_unless_early_stopping_is_off(tmp_path):
    (cell,) = make_plan([f"output.root={tmp_path}"]).cells
    with RunDirectory.open(cell.config) as run:
        run.start({})
        run.end("failed", INTERRUPTED, 7)
    assert Store({cell.name: 7}).look(cell).state == "stopped"
    assert not Store({cell.name: 7}).look(cell).todo
    assert Store({}).look(cell).state == "interrupted"


def issues(*overrides):
    return [str(issue) for issue in check_folders(make_plan(overrides).cells)]


def test_folders_that_cannot_be_used_are_found_before_anything_starts(tmp_path, folder):
    root = f"output.root={tmp_path}"
    assert issues(root, "output.name=run") == []
    (text,) = issues(root, "output.name=run", "seed=4")
    assert "holds another run (seed)" in text
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").touch()
    (text,) = issues(root, "output.name=other")
    assert "not a run folder" in text
    (text,) = issues(root, "output.name=unused", "resume=must")
    assert "no run to go on from" in text
    (text,) = issues(root, "output.name=run", "resume=never")
    assert "holds a run already" in text
    (folder / "status.json").write_text("{")
    (text,) = issues(root, "output.name=run")
    assert "status.json" in text
