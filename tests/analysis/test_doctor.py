"""The doctor: each thing that can be wrong is found, told with its numbers, and answered with a command; sound runs are
left in peace."""

from __future__ import annotations

import math
import shlex
import shutil

import pytest

from analysis.doctor.commands import command
from analysis.doctor.diagnose import diagnose, markdown, report
from analysis.load.study import load
from freshper.config.compose import compose_config, compose_sweep
from tests.analysis.runs import curve_rows, write_arms, write_run


def findings(*paths, **options):
    return diagnose(load(paths, **options))


def of_kind(found, kind):
    return [finding for finding in found if finding.kind == kind]


def changed(rows, start, **metrics):
    return [{**row, **metrics} if row["iteration"] >= start else row for row in rows]


def test_sound_runs_are_left_in_peace(tmp_path):
    write_arms(tmp_path)
    assert findings(tmp_path) == []
    assert report([], 9) == "9 runs, nothing to report"


def test_dead_diverged_failed_and_crashed_runs(tmp_path):
    write_run(tmp_path, "freshper", 0, state="dead", cause="no signal", overrides=("rollout.episodes=32",))
    write_run(tmp_path, "freshper", 1, state="diverged", cause="ratio 9", overrides=("rollout.episodes=32",))
    write_run(tmp_path, "freshper", 2, state="failed", cause="OSError: disk full", overrides=("rollout.episodes=32",))
    write_run(tmp_path, "freshper", 3, state=None, overrides=("rollout.episodes=32",))
    write_run(tmp_path, "freshper", 4, overrides=("rollout.episodes=32",))
    found = findings(tmp_path)
    (dead,), (diverged,), (failed,), (crashed,) = (of_kind(found, k) for k in ("dead", "diverged", "failed", "crashed"))
    assert "no signal" in dead.text and "rollout.episodes=64" in dead.commands[0] and "=32" not in dead.commands[0]
    assert "ratio 9" in diverged.text and "algorithm.learning_rate=0.00025" in diverged.commands[0]
    assert "disk full" in failed.text and "without a final record" in crashed.text
    for finding, seed in ((failed, 2), (crashed, 3)):
        assert finding.severity == "error"
        words = shlex.split(finding.commands[0])
        assert words[:2] == ["python", "run.py"] and f"seed={seed}" in words and f"output.root={tmp_path}" in words


def test_commands_compose_to_the_run_that_they_name(tmp_path):
    write_run(tmp_path, "freshper", 2, state=None, overrides=("replay.decay.tau=50", "iterations=40"))
    (crashed,) = of_kind(findings(tmp_path), "crashed")
    config = compose_config(shlex.split(crashed.commands[0])[2:])
    (record,) = load([tmp_path]).records
    from freshper.config.identity import identity

    assert identity(config) == record.facts.identity


@pytest.mark.parametrize(
    "name, expected",
    [(None, None), ("mine-seed0", "output.name=mine-seed4"), ("mine", None)],
)
def test_another_seed_gets_another_folder(tmp_path, name, expected):
    write_run(tmp_path, "freshper", 0, name=name)
    (record,) = load([tmp_path]).records
    words = shlex.split(command(record, {"seed": "4"}))
    assert "seed=4" in words and "seed=0" not in words
    assert [word for word in words if word.startswith("output.name")] == ([expected] if expected else [])


def test_commands_of_runs_elsewhere_and_without_provenance(tmp_path):
    folder = write_run(tmp_path, "freshper", 0, record={"cwd": "/some where"})
    (record,) = load([tmp_path]).records
    assert command(record).startswith("cd '/some where' && python run.py")
    (folder / "provenance.json").unlink()
    (record,) = load([tmp_path]).records
    assert "variant=freshper seed=0  # no provenance.json" in command(record)


def test_a_ratio_explosion(tmp_path):
    write_arms(tmp_path, seeds=(0, 1))
    rows = changed(curve_rows(2), 30, **{"replay/log_ratio_max": 44.0, "replay/ratio": 1e6})
    write_run(tmp_path, "freshper", 2, rows=rows)
    write_run(tmp_path, "on_policy", 2, rows=changed(curve_rows(2, replay=False), 20, **{"fresh/log_ratio_max": 6.0}))
    write_run(tmp_path, "standard_per", 2)
    found = of_kind(findings(tmp_path), "ratio explosion")
    texts = "\n".join(finding.text for finding in found)
    assert (
        "replay/log_ratio_max, the largest |log ratio|, exceeds 20 in 11 of 40 rows, first at iteration 30, at most 44"
        in texts
    )
    assert "replay/ratio, the mean ratio, exceeds 10" in texts
    assert "fresh/log_ratio_max, the largest |log ratio|, exceeds 5 in 21 of 40 rows" in texts
    assert len(found) == 3


def test_a_median_that_is_fine_hides_no_maximum(tmp_path):
    """One row of forty, ratio 1e19."""
    rows = curve_rows(0)
    for row in rows:
        row.pop("replay/log_ratio_max", None)
        row["replay/ratio_max"] = 1e19 if row["iteration"] == 17 else 1.0
    write_run(tmp_path, rows=rows)
    (finding,) = of_kind(findings(tmp_path), "ratio explosion")
    assert "in 1 of 41 rows, first at iteration 17, at most 1e+19" in finding.text


def test_ratios_that_cannot_be_right(tmp_path):
    write_run(tmp_path, "freshper", 0, rows=changed(curve_rows(0), 1, **{"fresh/ratio": 1.02}))
    write_run(tmp_path, "freshper", 1, rows=changed(curve_rows(1), 1, **{"replay/ratio": 1.0}))
    found = findings(tmp_path)
    assert "1.02 at iteration 1, expected 1" in of_kind(found, "fresh ratio")[0].text
    assert "1 throughout" in of_kind(found, "replay ratio")[0].text


def test_values_that_are_not_finite(tmp_path):
    write_run(tmp_path, rows=changed(curve_rows(0), 35, **{"fresh/loss": math.nan, "fresh/grad_norm": math.inf}))
    texts = [finding.text for finding in of_kind(findings(tmp_path), "not finite")]
    assert len(texts) == 2 and all("in 6 rows, first at iteration 35" in text for text in texts)


def test_flat_and_collapsed_curves(tmp_path):
    flat = [{**row, **({"eval/success": 0.0} if "eval/success" in row else {})} for row in curve_rows(0)]
    write_run(tmp_path, "freshper", 0, rows=flat)
    levels = iter([0.25, 0.7, 0.6, 0.3, 0.1])
    fallen = [{**row, **({"eval/success": next(levels)} if "eval/success" in row else {})} for row in curve_rows(1)]
    write_run(tmp_path, "freshper", 1, rows=fallen)
    found = findings(tmp_path)
    assert "0 in all 5 evaluations" in of_kind(found, "flat")[0].text
    assert "rose from 0.250 to 0.700 and ended at 0.100" in of_kind(found, "collapse")[0].text


def test_identical_curves_in_different_arms(tmp_path):
    """A setting without effect: two taus, one curve."""
    rows = curve_rows(0)
    for tau in (30, 100, 300):
        write_run(tmp_path, overrides=(f"replay.decay.tau={tau}",), rows=rows if tau > 30 else None)
    (finding,) = of_kind(findings(tmp_path), "identical curves")
    assert finding.severity == "error" and len(finding.runs) == 2
    assert (
        "freshper tau=100, freshper tau=300" in finding.text and "replay.decay.tau, which had no effect" in finding.text
    )


def test_identical_curves_for_different_seeds(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path, "on_policy", seed, rows=curve_rows(0, replay=False))
    (finding,) = of_kind(findings(tmp_path), "identical curves")
    assert "seeds 0, 1" in finding.text


def test_short_or_constant_curves_are_not_called_identical(tmp_path):
    rows = [{"iteration": i, "eval/success": 0.0, "fresh/success": 0.0, "fresh/loss": 0.0} for i in range(41)]
    for seed in (0, 1):
        write_run(tmp_path, "on_policy", seed, rows=rows)
    assert of_kind(findings(tmp_path), "identical curves") == []


def test_missing_cells_come_with_the_commands_that_fill_them(tmp_path):
    write_arms(tmp_path, arms=("on_policy",), seeds=(0, 1, 2))
    write_arms(tmp_path, arms=("freshper",), seeds=(1,))
    found = findings(tmp_path)
    (missing,) = of_kind(found, "missing cell")
    assert "freshper has no run of seed 0, 2" in missing.text
    (line,) = missing.commands
    assert shlex.split(line)[:3] == ["python", "run.py", "-m"] and shlex.split(line)[-1] == "seed=0,2"
    assert len(compose_sweep(shlex.split(line)[3:])) == 2
    (single,) = of_kind(found, "one run")
    assert "freshper has one run" in single.text


def test_arms_that_are_missing_on_a_task(tmp_path):
    write_arms(tmp_path, arms=("on_policy", "freshper"), seeds=(0,))
    write_run(tmp_path, "freshper", task="lake_two")
    texts = [finding.text for finding in of_kind(findings(tmp_path), "missing cell")]
    assert texts == ["lake_two: no run of on_policy, which frozenlake has"]


def test_unequal_configs_between_arms(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path, "on_policy", seed)
        write_run(tmp_path, "freshper", seed, overrides=("algorithm.learning_rate=1e-3", "evaluation.episodes=512"))
        write_run(tmp_path, "standard_per", seed, overrides=("replay.batches_per_iteration=4",))
    texts = "\n".join(finding.text for finding in of_kind(findings(tmp_path), "unequal configs"))
    assert "algorithm.learning_rate = 0.001, there 0.0005" in texts and "evaluation.episodes = 512, there 256" in texts
    assert "arms with replay differ in replay.batches_per_iteration (standard_per: 4, freshper: 2)" in texts
    assert "replay.priority" not in texts


def test_the_arm_of_more_epochs_is_meant_to_differ(tmp_path):
    write_arms(tmp_path, arms=("on_policy", "on_policy_epochs"), seeds=(0, 1))
    assert of_kind(findings(tmp_path), "unequal configs") == []


def test_unequal_code(tmp_path):
    write_run(tmp_path, "on_policy", 0, record={"commit": "b" * 40, "dirty": True})
    write_run(tmp_path, "on_policy", 1)
    found = findings(tmp_path)
    assert "bbbbbbbbbb (1 runs)" in of_kind(found, "unequal code")[0].text
    assert "1 runs come from a working tree" in of_kind(found, "uncommitted code")[0].text


def test_truncated_files(tmp_path):
    short = write_run(tmp_path, "freshper", 0, rows=curve_rows(0)[:30])
    torn = write_run(tmp_path, "freshper", 1)
    path = torn / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    gap = write_run(tmp_path, "freshper", 2, rows=[row for row in curve_rows(2) if row["iteration"] not in (7, 8)])
    empty = write_run(tmp_path, "freshper", 3, rows=[])
    (write_run(tmp_path, "freshper", 4) / "metrics.jsonl").unlink()
    found = findings(tmp_path)
    texts = "\n".join(f"{finding.severity} {finding.text}" for finding in found)
    assert f"error {short.name}: finished, but {short / 'metrics.jsonl'} ends at iteration 29 of 40" in texts
    assert (
        f"{path}: the last line breaks off" in texts
        and f"{torn.name}: finished, but {path} ends at iteration 39" in texts
    )
    assert f"{gap / 'metrics.jsonl'} lacks the rows of 2 iterations (7, 8)" in texts
    assert f"{empty / 'metrics.jsonl'} has no row" in texts
    assert len(of_kind(found, "truncated")) == 5
    again = [line for finding in of_kind(found, "truncated") for line in finding.commands]
    assert any(f"output.name={short.name}-again" in line for line in again)


def test_a_run_without_status(tmp_path):
    (write_run(tmp_path) / "status.json").unlink()
    found = findings(tmp_path)
    assert "no status.json" in of_kind(found, "unknown")[0].text
    assert "freshper has 1 runs and none that counts" in of_kind(found, "no run counts")[0].text


def test_copies_of_a_run(tmp_path):
    folder = write_run(tmp_path / "a")
    shutil.copytree(folder, tmp_path / "b" / folder.name)
    (finding,) = of_kind(findings(tmp_path, allow_duplicates=True), "duplicate")
    assert str(folder) in finding.text


def test_reports_are_sorted_and_complete(tmp_path):
    write_run(tmp_path, "freshper", 0, state="dead", cause="no signal")
    write_run(tmp_path, "on_policy", 1)
    found = findings(tmp_path)
    order = [finding.severity for finding in found]
    assert order == sorted(order, key=["error", "warning", "note"].index) and len(set(order)) == 3
    text, page = report(found, 2), markdown(found, 2)
    assert text.startswith("2 runs: 1 error, 2 warnings, 2 notes")
    for finding in found:
        assert finding.text in text and finding.text in page
        assert all(line in text and line in page for line in finding.commands)
