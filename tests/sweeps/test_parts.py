"""Fairness, cost, resources, options, statistics, board: what a sweep says before, while and after it runs."""

from __future__ import annotations

import io
import json
import shutil

import pytest
import scipy.stats

from freshper.config.compose import compose_config
from freshper.config.errors import ConfigError
from freshper.config.schema import CONF_DIR
from freshper.records.run_dir import RunDirectory
from freshper.trainers.output_log import BoundedLog
from sweeps.board import Board
from sweeps.cost import Estimate, estimate, read_peers
from sweeps.fairness import unfair
from sweeps.options import AshaOptions, SweepOptions, load_options
from sweeps.plan import composer, make_plan
from sweeps.progress import Display
from sweeps.resources import Request, check_disk, check_machine, slots
from sweeps.store import Standing
from sweeps.student import mean_and_half_width
from sweeps.summary import arm_table, best_table, write_results
from sweeps.trial import MetricsTail, merged


def test_every_option_is_in_the_yaml_with_its_default():
    from omegaconf import OmegaConf

    loaded = OmegaConf.to_container(OmegaConf.load(CONF_DIR / "hydra" / "sweeper" / "ray_tune.yaml"))
    loaded.pop("_target_")
    assert loaded.keys() == SweepOptions.model_fields.keys()
    assert loaded["asha"].keys() == AshaOptions.model_fields.keys()
    assert load_options(loaded) == SweepOptions()


def test_wrong_options_are_told_all_at_once():
    with pytest.raises(ConfigError) as error:
        load_options({"cpus": -1, "retrys": 2, "asha": {"reduction_factor": 1}})
    text = str(error.value)
    assert "hydra.sweeper.cpus" in text and "did you mean hydra.sweeper.retries" in text
    assert "hydra.sweeper.asha.reduction_factor" in text
    with pytest.raises(ConfigError, match="ray://"):
        load_options({"address": "ray://head:10001"})


# --- fairness


def test_shipped_variants_can_be_compared():
    assert unfair(make_plan(["variant=glob(*)", "seed=0,1", "algorithm.learning_rate=1e-3,1e-4"]).cells) == []


def test_arms_that_differ_in_more_than_the_variant_are_named():
    with composer() as make:
        cells = [
            make(["variant=on_policy", "seed=0"]),
            make(["variant=freshper", "seed=0", "rollout.episodes=8", "replay.decay.tau=7"]),
            make(["variant=freshper", "seed=1", "rollout.episodes=8"]),
        ]
    sentences = unfair(cells)
    assert [sentence.split()[0] for sentence in sentences] == ["rollout.episodes", "seed"]
    assert "on_policy: 64" in sentences[0] and "freshper: 8" in sentences[0]


# --- cost


def finished_run(root, seconds, *overrides, state="finished"):
    config = compose_config([f"output.root={root}", *overrides])
    with RunDirectory.open(config) as run:
        run.start({})
        rows = [{"iteration": i, "time/iteration": 2.0 if i == 0 else seconds} for i in range(4)]
        run.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
        run.end(state, iteration=3)


def test_cost_comes_from_the_finished_runs_that_differ_least(tmp_path):
    finished_run(tmp_path, 1.0, "variant=on_policy")
    for seed, seconds in enumerate((4.0, 5.0, 6.0)):
        finished_run(tmp_path, seconds, "variant=freshper", f"seed={seed}")
    finished_run(tmp_path, 99.0, "variant=freshper", "seed=9", state="diverged")
    (tmp_path / "not-a-run").mkdir()
    peers = read_peers(tmp_path)
    assert len(peers) == 4
    found = estimate(compose_config(["variant=freshper", "seed=7", "iterations=10"]), peers)
    assert found is not None and (found.seconds, found.peers, found.differing) == (2.0 + 10 * 5.0, 3, 0)
    near = estimate(compose_config(["variant=freshper", "replay.decay.tau=5"]), peers)
    assert near is not None and near.differing == 1 and near.seconds == 2.0 + 100 * 5.0
    assert estimate(compose_config(["env.name=other"]), peers) is None
    assert estimate(compose_config([]), []) is None and read_peers(tmp_path / "none") == []


# --- resources


@pytest.mark.parametrize(
    ("request_", "expected"),
    [(Request(1, 0, 0), 4), (Request(0.5, 0, 0), 8), (Request(1, 0.25, 0), 4), (Request(1, 0, 3 * 2**30), 2)],
)
def test_slots_follow_from_the_scarcest_resource(request_, expected):
    assert request_.fits({"CPU": 4.0, "GPU": 1.0, "memory": 8.0 * 2**30}) == expected


def test_what_cannot_be_had_is_an_error_and_not_a_wait():
    nodes = [{"CPU": 2.0, "memory": 2.0**33}, {"CPU": 8.0, "GPU": 1.0, "memory": 2.0**33}]
    assert slots(SweepOptions(cpus=2), nodes) == 5
    assert slots(SweepOptions(cpus=2, concurrency=3), nodes) == 3
    for options, words in (
        (SweepOptions(gpus=99), ["hydra.sweeper.gpus = 99", "at most 1"]),
        (SweepOptions(cpus=9), ["hydra.sweeper.cpus = 9", "at most 8"]),
        (SweepOptions(memory_gib=100), ["hydra.sweeper.memory_gib", "at most 8"]),
        (SweepOptions(concurrency=11), ["hydra.sweeper.concurrency = 11", "at most 10"]),
    ):
        with pytest.raises(ConfigError) as error:
            slots(options, nodes)
        assert all(word in str(error.value) for word in words)
    assert check_machine(SweepOptions(cpus=100_000)) and not check_machine(SweepOptions(cpus=100_000, address="auto"))


def test_free_disk_is_checked(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    root = tmp_path / "not" / "yet"
    assert check_disk(root, SweepOptions(), 10, 2.0**20) == []
    (issue,) = check_disk(root, SweepOptions(min_free_gib=free / 2**30 + 5), 1, None)
    assert "GiB of free disk" in str(issue)
    assert check_disk(root, SweepOptions(min_free_gib=0), 3, free / 2)
    assert not root.exists()


def test_logs_are_bounded(tmp_path):
    log = BoundedLog(tmp_path, 1000)
    for number in range(500):
        log.write(b"line %d\n" % number)
    log.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1000
    assert log.tail(1) == "line 499"


# --- metrics of a run at work


def test_metrics_are_followed_through_a_resume(tmp_path):
    file = tmp_path / "metrics.jsonl"

    def write(mode, *rows):
        with file.open(mode) as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)

    write("w", {"iteration": 0}, {"iteration": 1})
    tail = MetricsTail(file)
    assert tail.read() == []  # an earlier attempt's
    write("a", {"iteration": 2, "eval/success": 0.5}, {"iteration": 3})
    rows = tail.read()
    assert [row["iteration"] for row in rows] == [2, 3] and merged(rows) == {"iteration": 3, "eval/success": 0.5}
    file.unlink()
    write("w", {"iteration": 0}, {"iteration": 1}, {"iteration": 2}, {"iteration": 3}, {"iteration": 4})
    assert [row["iteration"] for row in tail.read()] == [4]
    file.unlink()
    write("w", {"iteration": 0}, {"iteration": 1})
    assert [row["iteration"] for row in tail.read()] == [1]  # where it is now
    with file.open("a") as out:
        out.write('{"iteration": 2')
    assert tail.read() == []


# --- statistics


def test_an_interval_needs_two_values():
    assert mean_and_half_width([0.4]) == (0.4, None)
    mean, half = mean_and_half_width([0.1, 0.2, 0.4])
    low, high = scipy.stats.t.interval(0.95, 2, loc=mean, scale=scipy.stats.sem([0.1, 0.2, 0.4]))
    assert (mean - half, mean + half) == pytest.approx((low, high))


def row(arm, state, success, seed=0):
    return {
        "arm": arm,
        "seed": seed,
        "state": state,
        "eval/success": success,
        "eval/success at start": 0.2,
        "seconds": 3.0,
    }


def test_the_table_counts_finished_runs_only_and_shows_what_is_missing(tmp_path):
    rows = [
        row("a", "finished", 0.5),
        row("a", "finished", 0.7, 1),
        row("a", "failed", 0.1, 2),
        row("b", "finished", 0.3),
    ]
    table = arm_table(rows)
    lines = [line.split("  ") for line in table.splitlines()]
    assert "60.0 ± 127.1" in table and "1 failed" in table
    assert any(line[0] == "b" and "30.0 ± -" in " ".join(line) for line in lines)
    write_results(rows + [row("c", "new", None)], tmp_path / "results.csv")
    assert (tmp_path / "results.csv").read_text().splitlines()[-1] == "c,0,new,,0.2,3.0"


def test_the_best_runs_of_a_search_come_first():
    rows = [row(f"tau={n}", "finished", n / 10) for n in (3, 9, 1)]
    assert [line.split()[0] for line in best_table(rows, "eval/success", "max").splitlines()[2:]] == [
        "tau=9",
        "tau=3",
        "tau=1",
    ]
    assert best_table(rows, "eval/success", "min").splitlines()[2].startswith("tau=1 ")


# --- board and display


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(scope="module")
def six():
    return make_plan(["seed=range(6)", "iterations=10"]).cells


@pytest.fixture
def board(monkeypatch, six):
    clock = Clock()
    monkeypatch.setattr("sweeps.board.time.monotonic", clock)
    board = Board()
    board.slots, board.clock = 2, clock
    for cell in six:
        board.add(cell, Standing("new"), None)
    return board


def names(board):
    return list(board.lines)


def test_counts_and_time_left(board):
    first, second, third, *_ = names(board)
    assert board.eta() is None
    board.start(first), board.start(second)
    assert board.count() == {"done": 0, "failed": 0, "running": 2, "elsewhere": 0, "left": 4}
    board.clock.now = 10.0
    board.news(first, {"state": "running", "iteration": 5, "eval/success": 0.25})
    board.news(second, {"state": "running", "iteration": 1})
    assert board.seconds_left(board.lines[first]) == pytest.approx(10.0)
    assert board.eta() is None  # nothing is known of those that have not begun
    board.clock.now = 20.0
    board.end(first, Standing("finished", None, 10))
    board.end(second, Standing("failed", "ValueError: x\nmore", 1))
    board.end(third, Standing("running", "held by process 1 on other"))
    assert board.count() == {"done": 1, "failed": 1, "running": 0, "elsewhere": 1, "left": 3}
    assert board.eta() == pytest.approx(3 * 20.0 / 2)


def test_estimates_of_peers_count_until_a_run_tells_better(board, six):
    board.lines.clear()
    cells = six[:2]
    for cell in cells:
        board.add(cell, Standing("new"), Estimate(50.0, 0.0, 1, 0))
    assert board.eta() == 50.0
    board.start(cells[0].name)
    board.clock.now = 2.0
    board.news(cells[0].name, {"state": "running", "iteration": 5})
    assert board.seconds_left(board.lines[cells[0].name]) == pytest.approx(2.0)
    board.start(cells[1].name)
    board.clock.now = 12.0  # most of it the start of the process
    board.news(cells[1].name, {"state": "running", "iteration": 1})
    assert board.seconds_left(board.lines[cells[1].name]) == pytest.approx(45.0)


def test_plain_lines_where_there_is_no_terminal(board):
    out = io.StringIO()
    display = Display(board, "auto", out)
    with display:
        first = names(board)[0]
        display.started(board.start(first))
        board.news(first, {"state": "running", "iteration": 3, "eval/success": 0.25})
        display.ended(board.end(first, Standing("failed", "ValueError: x\nmore", 3)))
    assert out.getvalue().splitlines() == [
        "started   seed=0",
        "failed    seed=0  success 25.0 %  0.0 s  ValueError: x   [0 done, 1 failed, 5 left]",
    ]


def test_one_table_on_a_terminal(board):
    from rich.console import Console

    board.start(names(board)[2])
    board.news(names(board)[2], {"state": "running", "iteration": 3, "eval/success": 0.25})
    console = Console(file=io.StringIO(), width=100)
    console.print(Display(board, "table", io.StringIO()).table())
    lines = console.file.getvalue().splitlines()
    assert "0 done, 1 running, 5 left" in lines[0]
    assert lines[2].split()[:4] == ["seed=2", "running", "3/10", "25.0"]


def test_off_is_silent(board):
    out = io.StringIO()
    with Display(board, "off", out) as display:
        display.started(board.start(names(board)[0]))
    assert out.getvalue() == ""
