"""Checkpoints are complete, verified, and prune themselves."""

import numpy as np
import pytest
import torch

from freshper.config.model import ModelConfig
from freshper.learner import checkpoint
from freshper.policy.load import load_policy
from tests.models import random_policy


@pytest.fixture
def saved(tmp_path):
    policy = random_policy()
    training = {"step": 3, "moments": {0: torch.arange(4.0)}}
    buffer = {"records": np.arange(5), "meta": "text"}
    folder = checkpoint.save(tmp_path, 3, policy, training, buffer)
    return policy, folder


def test_round_trip(saved, tmp_path):
    policy, folder = saved
    loaded = checkpoint.load(folder)
    assert checkpoint.latest(tmp_path) == folder
    assert loaded.training["step"] == 3 and torch.equal(loaded.training["moments"][0], torch.arange(4.0))
    assert loaded.buffer is not None
    assert loaded.buffer["records"].tolist() == list(range(5)) and loaded.buffer["meta"] == "text"
    again = load_policy(ModelConfig(kind="hf", path=loaded.policy))
    for name, value in policy.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name])
    assert again.chat == policy.chat


@pytest.mark.parametrize("name", ["training.pt", "buffer.npz", "policy/model.safetensors", "manifest.json"])
def test_damage_is_named(saved, name):
    _, folder = saved
    path = folder / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(checkpoint.CheckpointError, match=name):
        checkpoint.load(folder)


def test_missing_file_is_named(saved):
    _, folder = saved
    (folder / "training.pt").unlink()
    with pytest.raises(checkpoint.CheckpointError, match="training.pt is missing"):
        checkpoint.load(folder)


def test_prune_keeps_the_newest_and_removes_leftovers(tmp_path):
    policy = random_policy()
    for iteration in (1, 2, 10):
        checkpoint.save(tmp_path, iteration, policy, {}, None)
    (tmp_path / ".partial-000011").mkdir()
    checkpoint.prune(tmp_path, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000002", "000010"]
    assert checkpoint.load(tmp_path / "000010").buffer is None
