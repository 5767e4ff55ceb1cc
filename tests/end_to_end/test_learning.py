"""The promise of `make run`: the small language model learns FrozenLake, whatever the arm and the algorithm."""

import subprocess
import sys
from pathlib import Path

import pytest

from freshper.records.metrics import read_metrics, series

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "variant", "seed"),
    [("reinforce_pp", "freshper", 11), ("reinforce_pp", "on_policy", 12), ("grpo", "freshper", 13),
     ("ppo", "freshper", 14)],
)  # fmt: skip
def test_success_at_least_doubles_in_forty_iterations(algorithm, variant, seed, tmp_path):
    command = [sys.executable, str(ROOT / "run.py"), f"algorithm={algorithm}", f"variant={variant}", f"seed={seed}"]
    command += ["iterations=40"]
    command += ["evaluation.every=20", "trainer.progress=off", f"output.root={tmp_path}", "output.name=run"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    rows = read_metrics(tmp_path / "run")
    _, success = series(rows, "eval/success")
    assert 0.10 <= success[0] <= 0.30  # the base model plays a little
    assert success[-1] >= 2 * success[0]
    assert min(row["fresh/valid_rate"] for row in rows[1:]) > 0.9
