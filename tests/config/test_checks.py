"""Cross-field checks, each naming its key and what was expected."""

from __future__ import annotations

import importlib.util
import json
import shutil

import pytest

from freshper.config.checks import check
from freshper.config.errors import ConfigError
from freshper.config.load import load_config


def found(**sections):
    """Issues of a config, by key."""
    try:
        load_config(sections)
    except ConfigError as error:
        return {issue.key: issue.expected for issue in error.issues}
    return {}


REPLAY_CASES = [
    ({"enabled": False}, "replay.batches_per_iteration", "replay.enabled"),
    ({"capacity": 100}, "replay.capacity", "rollout.episodes = 128"),
    ({"capacity": 200, "batch_size": 300}, "replay.capacity", "replay.batch_size = 300"),
    ({"capacity": 100, "batch_size": 50}, "replay.capacity", "one rollout batch"),
    ({"warmup": 60_000}, "replay.warmup", "replay.capacity"),
    ({"priority": {"base": "td_error"}}, "replay.priority.base", "critic"),
    ({"decay": {"tau": 0.5}}, "replay.decay.tau", "at least 1"),
    ({"decay": {"law": "window", "tau": 0.5}}, "replay.decay.tau", "at least 1"),
    ({"priority": {"alpha": 0}}, "replay.decay.placement", "outside_alpha"),
    ({"is_correction": {"enabled": True, "beta": 0.9, "beta_final": 0.5}}, "replay.is_correction.beta", "beta_final"),
    ({"placebo": True, "batches_per_iteration": 0}, "replay.placebo", "batches_per_iteration"),
]


@pytest.mark.parametrize(("replay", "key", "expected"), REPLAY_CASES)
def test_replay(replay, key, expected):
    issues = found(replay=replay)
    assert list(issues) == [key]
    assert expected in issues[key]


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"algorithm": {"minibatches": 200}}, "algorithm.minibatches"),
        ({"algorithm": {"clip_low": 1.5}}, "algorithm.clip_low"),
        ({"algorithm": {"behaviour_weight_cap": 2.0}}, "algorithm.behaviour_weight_cap"),
        ({"rollout": {"lock_step": 200}}, "rollout.lock_step"),
        ({"rollout": {"max_new_tokens": 4000}}, "rollout.max_new_tokens"),
        ({"env": {"train_seed": 5, "eval_seed": 10}}, "env.eval_seed"),
        ({"env": {"train_seed": 10**9, "eval_seed": 0}}, "env.eval_seed"),
        ({"model": {"device": "cpu", "attention": "flash_attention_2"}}, "model.attention"),
        ({"model": {"device": "gpu"}}, "model.device"),
        ({"model": {"path": "org/name"}}, "model.path"),
        ({"output": {"name": "a/b"}}, "output.name"),
    ],
)
def test_conflicts(sections, key):
    assert list(found(**sections)) == [key]


def test_the_cap_is_welcome_where_it_acts():
    assert found(algorithm={"ratio_anchor": "proximal", "behaviour_weight_cap": 2.0}) == {}


@pytest.mark.parametrize("package", ["wandb", "tensorboard"])
def test_a_tracker_that_is_not_installed(package, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else real(name))
    value = "offline" if package == "wandb" else True
    issues = found(tracking={package: value})
    assert f"freshper[{package}]" in issues[f"tracking.{package}"]


def test_an_output_root_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    assert "not one" in found(output={"root": str(tmp_path / "file" / "runs")})["output.root"]


def model_folder(tmp_path, *left_out):
    """A complete model folder (empty weights), some files left out."""
    folder = tmp_path / "model"
    folder.mkdir()
    files = {
        "config.json": "{}",
        "model.safetensors": "",
        "tokenizer.json": "{}",
        "tokenizer_config.json": json.dumps({"chat_template": "{{ messages }}"}),
    }
    for name, text in files.items():
        if name not in left_out:
            (folder / name).write_text(text)
    return folder


def hf(path):
    return found(model={"kind": "hf", "path": str(path)}).get("model.path")


def test_a_complete_model_folder_is_accepted(tmp_path):
    assert hf(model_folder(tmp_path)) is None


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("config.json", "no config.json"),
        ("model.safetensors", "no weights"),
        ("tokenizer.json", "no tokenizer"),
        ("tokenizer_config.json", "no chat template"),
    ],
)
def test_an_incomplete_model_folder_is_named(tmp_path, missing, expected):
    assert expected in hf(model_folder(tmp_path, missing))


def test_a_chat_template_file_will_do(tmp_path):
    folder = model_folder(tmp_path, "tokenizer_config.json")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert hf(folder) is None


@pytest.mark.parametrize(
    "path", ["/no/such/folder", "./missing", "missing", "a/b/c", "~/no-such-folder-x", "../org/name"]
)
def test_a_path_that_does_not_exist(path):
    assert "no such folder" in hf(path)


def test_a_hub_name_is_not_looked_up():
    assert hf("Qwen/Qwen2.5-0.5B-Instruct") is None


def test_hf_without_a_path():
    assert "expects a model folder" in found(model={"kind": "hf"})["model.path"]


def test_a_valid_config_has_no_issues():
    assert check(load_config({})) == []


GROUPS_OF_8 = {"episodes": 64, "group_size": 8}


@pytest.mark.parametrize(
    ("sections", "key", "expected"),
    [
        ({"algorithm": {"name": "grpo"}}, "rollout.group_size", "at least 2"),
        ({"rollout": {"episodes": 60, "group_size": 8}}, "rollout.episodes", "a multiple of rollout.group_size = 8"),
        ({"rollout": {"episodes": 3, "group_size": 8}}, "rollout.episodes", "such as 8"),
        ({"algorithm": {"name": "grpo", "gamma": 0.9}, "rollout": GROUPS_OF_8}, "algorithm.gamma", "expected 1"),
        (
            {"algorithm": {"name": "grpo", "group": {"resample_rounds": 5}}, "rollout": GROUPS_OF_8},
            "algorithm.group.resample_rounds", "zero_variance = resample",
        ),
        ({"algorithm": {"group": {"divide_by_std": False}}}, "algorithm.group.divide_by_std", "algorithm = grpo"),
        ({"algorithm": {"gae_lambda": 0.9}}, "algorithm.gae_lambda", "algorithm = ppo"),
        (
            {"algorithm": {"name": "ppo", "gae_over": "turns", "discount_per": "token"}},
            "algorithm.discount_per", "no steps inside a turn",
        ),
        ({"algorithm": {"name": "ppo", "critic": {"path": "a/b"}}}, "algorithm.critic.path", "critic.kind=separate"),
        ({"algorithm": {"name": "ppo", "gamma": 1.01}}, "algorithm.gamma", "at most 1"),
        ({"algorithm": {"name": "ppo", "gae_lambda": -0.01}}, "algorithm.gae_lambda", "at least 0"),
        ({"replay": {"unit": "group"}}, "replay.unit", "rollout.group_size = 1"),
        ({"replay": {"unit": "group", "batch_size": 20}, "rollout": GROUPS_OF_8}, "replay.batch_size", "such as 16"),
        ({"replay": {"unit": "group", "capacity": 1001}, "rollout": GROUPS_OF_8}, "replay.capacity", "such as 1000"),
        ({"replay": {"advantages": "recomputed"}}, "replay.advantages", "algorithm=ppo"),
    ],
)  # fmt: skip
def test_what_an_algorithm_needs(sections, key, expected):
    issues = found(**sections)
    assert list(issues) == [key]
    assert expected in issues[key]


def test_several_problems_of_an_algorithm_come_together():
    issues = found(
        algorithm={"name": "grpo", "gamma": 2, "critic": {"kind": "separate"}},
        rollout={"episodes": 9, "group_size": 1},
        replay={"priority": {"base": "td_error"}, "unit": "group"},
    )
    assert list(issues) == [
        "algorithm.gamma", "algorithm.critic.kind", "replay.priority.base", "rollout.group_size", "replay.unit"
    ]  # fmt: skip


def critic(folder, **model):
    return found(
        algorithm={"name": "ppo", "critic": {"kind": "separate", "path": str(folder)}}, model=model or {"kind": "tiny"}
    ).get("algorithm.critic.path")


def test_a_critic_with_another_tokenizer(tmp_path):
    policy = model_folder(tmp_path)
    assert critic(policy, kind="hf", path=str(policy)) is None
    assert "another tokenizer than the policy" in critic(policy)  # the small model's vocabulary is not empty
    same = shutil.copytree(policy, tmp_path / "same")
    (same / "tokenizer_config.json").unlink()  # a critic never talks, so it needs no chat template
    assert critic(same, kind="hf", path=str(policy)) is None
    (same / "tokenizer.json").write_text('{"added_tokens": [{"id": 0, "content": "<x>"}]}')
    assert "another tokenizer" in critic(same, kind="hf", path=str(policy))


def test_a_critic_that_is_not_there(tmp_path):
    assert "no such folder" in critic(tmp_path / "nothing")
    assert "no weights" in critic(model_folder(tmp_path, "model.safetensors"))
    assert critic("org/name") is None  # compared when it is loaded
