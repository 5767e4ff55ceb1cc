"""Training on pictures through `python run.py`: records, resume after SIGKILL, the published architecture."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from freshper.config.model import ModelConfig
from freshper.learner import checkpoint
from freshper.policy.load import load_policy
from freshper.records.metrics import read_metrics
from tests.qwen_vl import write_qwen_vl

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    "env=frozenlake_vlm", "rollout.episodes=12", "evaluation.episodes=8", "evaluation.every=2", "checkpoint.every=1",
    "trainer.threads=1", "env.max_turns=4", "iterations=2", "output.name=run", "checkpoint.keep=3",
]  # fmt: skip


def command(root, *overrides):
    return [sys.executable, str(ROOT / "run.py"), *SMALL, f"output.root={root}", *overrides]


def train(root, *overrides, status=0):
    done = subprocess.run(command(root, *overrides), cwd=ROOT, text=True, capture_output=True, timeout=300)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def science(folder):
    return [{k: v for k, v in row.items() if not k.startswith("time/")} for row in read_metrics(folder)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    root = tmp_path_factory.mktemp("finished")
    return root / "run", train(root).stdout


def test_a_run_on_pictures_leaves_a_complete_record(finished):
    folder, printed = finished
    rows = read_metrics(folder)
    assert [row["iteration"] for row in rows] == [0, 1, 2] and "eval/success_greedy" in rows[0]
    for row in rows[1:]:
        assert row["fresh/log_ratio_max"] < 1e-4 and row["replay/log_ratio_max"] > 1e-4
        assert 0 < row["replay/buffer_images"] <= row["counts/env_steps"]
        assert row["replay/buffer_image_bytes"] < 2500 * row["replay/buffer_images"]  # 12,288 bytes each, raw
    assert rows[-1]["counts/optimizer_steps"] == 6
    assert "images at most" in printed


def test_killed_and_started_again_ends_like_an_uninterrupted_run(finished, tmp_path):
    folder, _ = finished
    process = subprocess.Popen(command(tmp_path), cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    saved, deadline = tmp_path / "run" / "checkpoints" / "000001", time.monotonic() + 120
    while not saved.exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.communicate()
    assert "resumed after iteration 1" in train(tmp_path).stdout
    assert science(tmp_path / "run") == science(folder)
    for name in ("samples.jsonl", "ages.jsonl"):
        assert (tmp_path / "run" / name).read_text() == (folder / name).read_text()
    one, two = (checkpoint.load(root / "checkpoints" / "000002").buffer for root in (folder, tmp_path / "run"))
    assert one is not None and two is not None
    for name in ("image_keys", "image_data", "records"):
        np.testing.assert_array_equal(one[name], two[name])


def test_a_checkpoint_is_a_vision_model_folder(finished, tmp_path):
    folder, _ = finished
    policy = folder / "checkpoints" / "000002" / "policy"
    loaded = load_policy(ModelConfig(kind="hf", path=str(policy)))
    assert loaded.vision is not None and loaded.vision.tokens(64, 64) == 16
    train(tmp_path, "model=hf", f"model.path={policy}", "iterations=1")
    assert read_metrics(tmp_path / "run")[0]["eval/success"] == read_metrics(folder)[-1]["eval/success"]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [["algorithm=ppo"], ["algorithm=grpo", "rollout.group_size=4"]])
def test_other_algorithms_train_on_pictures(settings, tmp_path):
    train(tmp_path, *settings, "iterations=1")
    row = read_metrics(tmp_path / "run")[-1]
    assert row["fresh/log_ratio_max"] < 1e-4 and row["fresh/grad_norm"] > 0


def test_the_published_architecture_trains_one_step(tmp_path):
    """Nothing but the folder and the size differs from `model=qwen2_5_vl_3b`. Random weights earn equal rewards, so the
    run ends as dead; what counts is that it was collected, trained and stored."""
    folder = write_qwen_vl(tmp_path / "model")
    overrides = ["model=qwen2_5_vl_3b", f"model.path={folder}", "iterations=1", "rollout.max_new_tokens=3"]
    train(tmp_path, *overrides, "rollout.episodes=4", "env.cell_pixels=64", "env.max_turns=3", status=4)
    row = read_metrics(tmp_path / "run")[-1]
    assert row["counts/optimizer_steps"] == 3 and np.isfinite(row["fresh/grad_norm"])
    assert row["replay/buffer_images"] >= 4 and row["fresh/tokens"] > 3 * 81


def test_a_model_of_text_is_refused_before_anything_starts(tmp_path):
    done = train(tmp_path, "model.base=frozen_lake", status=2)
    assert "model.base = frozen_lake: is a model of text" in done.stderr and not (tmp_path / "run").exists()
