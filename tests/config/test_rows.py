"""What a scale says for one environment or model: every row of the paper composes, and what is chosen by hand wins."""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from freshper.config.compose import compose_config, compose_sweep
from freshper.config.errors import ConfigError
from freshper.config.help import groups_text
from freshper.config.identity import identity
from freshper.config.model_folder import TINY_FOLDERS
from freshper.config.schema import CONF_DIR, group_options, resolved

ROOT = CONF_DIR.parent
SMALL, LARGE, VISION = (f"Qwen/Qwen2.5-{name}-Instruct" for name in ("0.5B", "7B", "VL-3B"))
# model, conversation, new tokens, iterations, rollout batch, evaluation every, batch, advantage clip, KL, entropy, tau
PAPER = {
    "nq_search": (LARGE, 12800, 4096, 300, 128, 5, 128, 20, 0.05, 0.01, 500),
    "aime": (LARGE, 4096, 512, 400, 512, 10, 512, 0.2, 0, 0, 1000),
    "sokoban_simple": (SMALL, 2048, 128, 400, 128, 10, 128, 0.2, 0, 0, 500),
    "sokoban_hard": (SMALL, 2048, 128, 400, 128, 10, 128, 0.2, 0, 0, 500),
    "frozenlake": (SMALL, 2048, 128, 400, 128, 10, 128, 0.2, 0, 0, 500),
    "cliffwalking": (SMALL, 2048, 128, 400, 128, 10, 128, 0.2, 0, 0, 500),
    "gsm8k": (LARGE, 4096, 512, 400, 512, 10, 512, 0.2, 0, 0, 500),
    "frozenlake_vlm": (VISION, 4096, 128, 400, 512, 10, 512, 20, 0.05, 0.01, 500),
    "geoqa": (VISION, 4096, 512, 400, 512, 10, 512, 20, 0.05, 0.01, 500),
}
"""Values of the paper's rows, written down a second time."""
TURNS = {
    "nq_search": 5, "aime": 3, "sokoban_simple": 10, "sokoban_hard": 20, "frozenlake": 10, "cliffwalking": 200,
    "gsm8k": 3, "frozenlake_vlm": 10, "geoqa": 3,
}  # fmt: skip
ROWS = [row for row in PAPER if row in group_options()["env"]]
VARIANTS = group_options()["variant"]


@functools.cache
def paper(row, *more):
    return compose_config([f"env={row}", "scale=paper", *more])


def model(row):
    """What a row needs at scale=cpu: nothing, or another model where no small base knows its game."""
    hub = ["model=hf", "model.path=org/name"]
    return [] if compose_config([f"env={row}", *hub]).env.family in TINY_FOLDERS else hub


@pytest.mark.parametrize("row", ROWS)
def test_a_row_has_the_papers_model_and_settings(row):
    config = paper(row)
    algorithm, evaluation = config.algorithm, config.evaluation
    assert PAPER[row] == (
        config.model.path, config.model.max_length, config.rollout.max_new_tokens, config.iterations,
        config.rollout.episodes, evaluation.every, evaluation.episodes, algorithm.advantage_clip,
        algorithm.kl.coefficient, algorithm.entropy_coefficient, config.replay.decay.tau,
    )  # fmt: skip
    assert (algorithm.name, algorithm.learning_rate, algorithm.schedule) == ("reinforce_pp", 1e-6, "cosine")
    assert (algorithm.warmup_steps, algorithm.clip_low, algorithm.clip_high) == (10, 0.2, 0.2)
    assert (config.rollout.temperature, config.rollout.top_p, config.rollout.top_k) == (0.99, 0.99, 100)
    replay = config.replay
    assert (replay.batches_per_iteration, replay.capacity, replay.priority.alpha) == (2, 50000, 0.6)
    assert (config.env.max_turns, config.scale.name, config.env.name) == (TURNS[row], "paper", row)
    assert config.model.kind == "hf" and config.model.gradient_checkpointing


@pytest.mark.parametrize("scale", ["cpu", "paper"])
@pytest.mark.parametrize("row", ROWS)
def test_every_arm_of_every_row_composes_at_both_scales(row, scale):
    needs = model(row) if scale == "cpu" else []
    configs = compose_sweep([f"env={row}", f"variant={','.join(VARIANTS)}", f"scale={scale}", *needs])
    assert [config.variant.name for config in configs] == VARIANTS
    assert {config.model.name for config in configs} == {configs[0].model.name}


@pytest.mark.parametrize("row", ROWS)
def test_what_is_chosen_by_hand_wins(row):
    chosen = paper(row, "model=qwen2_5_3b")
    assert chosen.model.path == "Qwen/Qwen2.5-3B-Instruct"
    own = {"max_length": 0}  # which is the task's, whatever the model
    without_row = compose_config(["model=qwen2_5_3b"]).model
    assert chosen.model.model_copy(update=own) == without_row.model_copy(update=own)
    keys = paper(row, "rollout.episodes=6", "model.max_length=9999", "scale.tau=7", "iterations=5", "env.max_turns=77")
    assert (keys.rollout.episodes, keys.model.max_length, keys.iterations, keys.env.max_turns) == (6, 9999, 5, 77)
    assert keys.replay.decay.tau == 7
    assert paper(row, "scale.tau=7", "replay.decay.tau=8").replay.decay.tau == 8
    assert not paper(row, "variant=on_policy").replay.enabled
    assert paper(row, "algorithm=ppo").algorithm.name == "ppo"
    assert paper(row, "model.path=org/name").model.path == "org/name"


def test_a_chosen_small_model_keeps_nothing_of_the_rows_model():
    model = paper("frozenlake", "model=tiny").model
    assert (model.kind, model.path, model.gradient_checkpointing, model.autocast) == ("tiny", None, False, "none")


def test_an_environment_without_a_row_takes_what_all_share():
    config = compose_config(["env=arithmetic", "scale=paper"])
    assert config.model.path == SMALL
    assert {**resolved(config), "env": None} == {**resolved(paper("frozenlake")), "env": None}


def test_sokoban_in_pictures_is_no_row_and_takes_the_settings_of_the_lakes():
    ours, lakes = paper("sokoban_vlm"), paper("frozenlake_vlm")
    assert {**resolved(ours), "env": None} == {**resolved(lakes), "env": None}
    assert 0.9 < ours.env.image_pixels() / lakes.env.image_pixels() <= 1


def test_a_row_means_nothing_at_the_other_scale():
    for row in ROWS:
        config = compose_config([f"env={row}", "model=hf", "model.path=org/name"])
        algorithm = config.algorithm
        assert (algorithm.advantage_clip, algorithm.kl.coefficient, algorithm.schedule) == (None, 0, "constant")
        assert config.model.max_length == 2048
        if row == "sokoban_hard":
            assert (config.env.board, paper(row).env.board) == ("first_turn", "every_turn")


def test_a_models_own_settings_hold_for_it_alone():
    def settings(*overrides):
        config = compose_config(["env=gsm8k", *overrides])
        return config.algorithm.learning_rate, config.rollout.episodes, config.iterations

    mine = settings("model=smollm2_135m", "model.path=org/name")
    assert mine != settings() == settings("model=hf", "model.path=org/name")
    assert settings("model=smollm2_135m", "model.path=org/name", "rollout.episodes=6", "iterations=3")[1:] == (6, 3)
    at_paper = settings("scale=paper", "model=smollm2_135m", "model.path=org/name")
    assert at_paper == settings("scale=paper")


def test_rows_in_a_sweep_each_get_their_own():
    configs = compose_sweep(["env=gsm8k,frozenlake", "scale=paper", "seed=42,43"])
    assert [(c.env.name, c.model.path, c.rollout.episodes) for c in configs] == [
        ("gsm8k", LARGE, 512), ("gsm8k", LARGE, 512), ("frozenlake", SMALL, 128), ("frozenlake", SMALL, 128)
    ]  # fmt: skip


def test_identity_is_that_of_the_settings_not_of_where_they_stand():
    same = ["model=qwen2_5_7b", "rollout.episodes=512", "model.max_length=4096", "replay.decay.tau=500.0"]
    assert identity(paper("gsm8k")) == identity(paper("gsm8k", *same))
    assert identity(paper("gsm8k")) != identity(paper("gsm8k", "model=qwen2_5_0_5b"))


def test_files_of_rows_are_named_after_what_they_are_for():
    scales = set(group_options()["scale"])
    for group, names in {"for_env": {*group_options()["env"], *PAPER}, "for_model": group_options()["model"]}.items():
        files = list((CONF_DIR / "scale" / group).rglob("*.yaml"))
        assert files
        assert {file.parent.name for file in files} <= scales and {file.stem for file in files} <= set(names)
    # config.yaml does not know the model that the paper's scale chooses, so a file for it would be left out in silence.
    assert not (CONF_DIR / "scale" / "for_model" / "paper").exists()
    assert {file.stem for file in (CONF_DIR / "scale" / "for_env" / "paper").glob("*.yaml")} == {*PAPER, "sokoban_vlm"}


def test_rows_are_no_options():
    assert group_options()["scale"] == ["cpu", "paper"]
    assert "for_env" not in groups_text() and "paper" in groups_text()
    for override in ("scale=paper/gsm8k", "scale/for_env=paper/gsm8k", "+for_env=x"):
        with pytest.raises(ConfigError) as caught:
            compose_config([override])
        assert "unknown" in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        compose_config(["scale=paper", "env=gsm8"])
    assert "did you mean gsm8k" in str(caught.value)


def test_a_dry_run_of_a_row_prints_it_and_imports_no_torch(tmp_path):
    command = [sys.executable, "-X", "importtime", str(ROOT / "run.py"), "env=aime", "scale=paper", "dry_run=true"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "path: Qwen/Qwen2.5-7B-Instruct" in done.stdout and "x 512 episodes" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not imported & {"torch", "transformers", "ray"}
    assert list(tmp_path.iterdir()) == []


def load_script():
    spec = importlib.util.spec_from_file_location("paper_settings", ROOT / "docs" / "paper_settings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_settings_is_up_to_date():
    script = load_script()
    text = script.page()
    assert Path(script.PAGE).read_text() == text, "run: python docs/paper_settings.py"
    assert list(script.TITLES) and set(script.TITLES) == set(PAPER)
    for row in ROWS:
        assert f"`python run.py env={row} scale=paper`" in text
