"""Each Qwen2.5-Instruct architecture, at a tiny size, through the public path: compose, load, one optimiser step."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

from freshper.config.compose import compose_config
from freshper.policy.chat import encode
from freshper.policy.load import load_policy
from freshper.records.metrics import read_metrics
from freshper.trainers import train
from tests.qwen import PUBLISHED, SYSTEM, qwen_folder

OPTIONS = list(PUBLISHED)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("qwen")
    return {option: qwen_folder(root / option, option) for option in OPTIONS}


def run(option, folder, tmp_path, *more):
    return compose_config(
        [
            f"model={option}", f"model.path={folder}", "iterations=1", "rollout.episodes=4", "rollout.max_new_tokens=4",
            "env.max_turns=2", "evaluation.episodes=2", "trainer.threads=1", "trainer.progress=off",
            "output.figures=false", "diagnostics.dead_after=0", "model.device=cpu", "output.name=run",
            f"output.root={tmp_path}", *more,
        ]
    )  # fmt: skip


@pytest.mark.parametrize("option", OPTIONS)
def test_the_architecture_is_the_published_one(option, folders):
    written = json.loads((folders[option] / "config.json").read_text())
    published = PUBLISHED[option]
    ratio = written["num_attention_heads"] / written["num_key_value_heads"]
    assert ratio == published["heads"] / published["key_value_heads"]
    assert written["tie_word_embeddings"] is published["tied"]
    assert ("lm_head.weight" in load_file(folders[option] / "model.safetensors")) is not published["tied"]
    assert written["rope_parameters"]["rope_theta"] == 1e6 and written["model_type"] == "qwen2"


@pytest.mark.parametrize("option", OPTIONS)
def test_it_loads_with_the_settings_of_its_file(option, folders, tmp_path):
    config = run(option, folders[option], tmp_path).model
    assert (config.dtype, config.autocast, config.gradient_checkpointing) == ("float32", "bfloat16", True)
    policy = load_policy(config)
    names = ("<|im_end|>", "<|endoftext|>")
    assert policy.end_ids == {policy.tokenizer.convert_tokens_to_ids(name) for name in names}
    assert policy.chat.first_prompt("S", "U") == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"
    )
    assert policy.chat.next_prompt("V") == "<|im_end|>\n<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"
    assert SYSTEM not in policy.chat.first_prompt("S", "U")
    # Every special token is one id, and the model has a row for each.
    (ids,) = encode(policy.tokenizer, [policy.chat.first_prompt("S", "U")])
    assert ids.count(policy.tokenizer.convert_tokens_to_ids("<|im_start|>")) == 3
    assert max(ids) < policy.model.config.vocab_size
    with torch.no_grad():
        assert policy.logits(policy.hidden(torch.tensor([ids]))).shape == (1, len(ids), policy.model.config.vocab_size)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("scale", ["cpu", "paper"])
def test_it_trains_one_iteration(option, scale, folders, tmp_path):
    rate = ["algorithm.learning_rate=1e-3", "algorithm.warmup_steps=0", "checkpoint.every=1"]
    config = run(option, folders[option], tmp_path, f"scale={scale}", *rate)
    assert train(config, ["run.py"]) == 0
    last = read_metrics(tmp_path / "run")[-1]
    assert last["counts/optimizer_steps"] == 3 and last["fresh/grad_norm"] >= 0
    (saved,) = (tmp_path / "run" / "checkpoints").glob("*/policy")
    before, after = (load_file(place / "model.safetensors") for place in (folders[option], saved))
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
