"""Training on questions about pictures through `python run.py`: generated, of a package, from files; broken files."""

import io
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image as Pillow

from freshper.records.metrics import read_metrics

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    "rollout.episodes=8", "evaluation.episodes=8", "trainer.threads=1", "iterations=1", "output.name=run",
    "output.figures=false", "diagnostics.dead_after=0",
]  # fmt: skip


def train(root, *overrides):
    command = [sys.executable, str(ROOT / "run.py"), *SMALL, f"output.root={root}", *overrides]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, timeout=300)


def write_rows(folder, broken=()):
    def png(number):
        buffer = io.BytesIO()
        Pillow.new("RGB", (40, 30), (number, 0, 0)).save(buffer, "PNG")
        return buffer.getvalue()

    rows = [
        {"image": b"?" if n in broken else png(n), "problem": f"What is x in {n}?", "solution": f"<answer>{n}</answer>"}
        for n in range(30)
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "geo.parquet")
    return [
        "env=geoqa",
        "env.source=folder",
        f"env.folder={folder}",
        "env.train_files=*.parquet",
        "env.eval_files=null",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("row", ["geoqa", "easy_vqa", "files"])
def test_a_run(tmp_path, row):
    settings = write_rows(tmp_path) if row == "files" else [f"env={row}"]
    done = train(tmp_path / "out", *settings)
    assert done.returncode == 0, done.stdout + done.stderr
    last = read_metrics(tmp_path / "out" / "run")[-1]
    assert last["iteration"] == 1 and last["fresh/log_ratio_max"] < 1e-4


def test_broken_pictures_stop_a_run_before_it_starts(tmp_path):
    done = train(tmp_path / "out", *write_rows(tmp_path, broken=(3, 7)), "env.holdout=0.5")
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert "2 pictures (env.image_key) cannot be decoded" in done.stderr
    assert "geo.parquet, row 4: not a picture" in done.stderr and "row 8" in done.stderr
