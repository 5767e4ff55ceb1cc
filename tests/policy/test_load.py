"""Model folders that cannot be used are refused with the reason; those that can come back exactly."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from freshper.config.model import ModelConfig
from freshper.config.model_folder import TINY_FOLDER
from freshper.policy.chat import encode
from freshper.policy.load import ModelError, load_policy, resolve_device


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(TINY_FOLDER, tmp_path / "model")


def load(folder, **changes):
    return load_policy(ModelConfig(kind="hf", path=str(folder), **changes))


def test_the_shipped_model_and_a_copy_of_it_are_one(folder):
    shipped, copy = load_policy(ModelConfig()), load(folder)
    ids = torch.arange(20)[None]
    assert torch.equal(shipped.hidden(ids), copy.hidden(ids))
    assert shipped.parameters == 191_744 and copy.end_ids == {copy.tokenizer.convert_tokens_to_ids("<|end|>")}


def test_the_tokenizer_is_the_one_of_the_files(folder):
    """AutoTokenizer would split this Qwen2 model's text by Qwen's rules."""
    raw = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    assert encode(load(folder).tokenizer, ["row1 col2"]) == [[raw["row1"], raw["Ġcol2"]]]


def edit(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_missing_weight_is_named_not_made_up(folder):
    edit(folder, lambda weights: weights.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(ModelError, match="1 weights are missing.*layers.1.mlp.up_proj"):
        load(folder)


def test_a_truncated_weight_file_is_refused(folder):
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:1000])
    with pytest.raises(ModelError, match=r"model.path=.*cannot be loaded"):
        load(folder)


def test_a_wrong_architecture_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 400}))
    with pytest.raises(ModelError, match="model.path="):
        load(folder)
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 100}))
    with pytest.raises(ModelError, match="model.path="):
        load(folder)


def test_sliding_windows_shorter_than_the_conversation_are_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    kinds = ["sliding_attention", "full_attention", "full_attention"]
    changed = {**config, "use_sliding_window": True, "sliding_window": 64, "layer_types": kinds}
    (folder / "config.json").write_text(json.dumps(changed))
    with pytest.raises(ModelError, match="sliding_attention"):
        load(folder)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_where_there_is_none_is_an_error():
    with pytest.raises(ModelError, match="model.device=cuda:1"):
        resolve_device("cuda:1")


def test_dtype_and_attention_follow_the_config(folder):
    policy = load(folder, dtype="bfloat16", attention="eager")
    assert policy.model.dtype == torch.bfloat16 and policy.model.config._attn_implementation == "eager"
    assert policy.logits(policy.hidden(torch.arange(5)[None])).dtype == torch.float32
