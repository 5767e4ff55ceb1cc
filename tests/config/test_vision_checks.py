"""Image tasks and models of text are kept apart before anything starts."""

import json

import pytest

from freshper.config.compose import compose_config
from freshper.config.errors import ConfigError
from freshper.config.identity import identity
from freshper.config.report import report


def problems(*overrides):
    with pytest.raises(ConfigError) as caught:
        compose_config(list(overrides))
    return {issue.key: str(issue) for issue in caught.value.issues}


@pytest.fixture
def folder(tmp_path):
    def make(name, config):
        path = tmp_path / name
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
        (path / "model.safetensors").write_bytes(b"")
        (path / "tokenizer.json").write_text("{}")
        (path / "chat_template.jinja").write_text("{}")
        return str(path)

    return make


@pytest.mark.parametrize("model", ["tiny", "tiny_vl"])
def test_an_image_task_takes_its_vision_base(model):
    config = compose_config(["env=frozenlake_vlm", f"model={model}"])
    assert (config.model.kind, config.model.base, config.model.name) == ("tiny", "frozen_lake_image", model)


def test_a_small_base_of_text_is_refused_and_the_others_are_named():
    found = problems("env=frozenlake_vlm", "model.base=frozen_lake", "seed=-1")
    assert "is a model of text" in found["model.base"] and "frozen_lake_image" in found["model.base"]
    assert "env.family = frozen_lake_image" in found["model.base"] and "seed" in found  # all at once


def test_a_folder_of_text_is_refused_and_one_with_vision_is_not(folder):
    text = folder("text", {"model_type": "qwen2"})
    found = problems("env=frozenlake_vlm", "model=hf", f"model.path={text}")
    assert set(found) == {"model.path"} and "no vision_config" in found["model.path"]
    sees = folder("sees", {"model_type": "qwen2_5_vl", "vision_config": {}})
    compose_config(["env=frozenlake_vlm", "model=hf", f"model.path={sees}", "model.max_pixels=10000"])
    compose_config(["model=hf", f"model.path={sees}"])  # a task of text is fine for it


def test_max_pixels_of_a_model_of_text_is_refused(folder):
    assert "model.max_pixels" in problems("model.max_pixels=10000")
    text = folder("text", {"model_type": "qwen2"})
    assert "model.max_pixels" in problems("model=hf", f"model.path={text}", "model.max_pixels=10000")


def test_the_real_model_needs_no_folder_to_be_checked():
    config = compose_config(["env=frozenlake_vlm", "model=qwen2_5_vl_3b"])
    assert config.model.path == "Qwen/Qwen2.5-VL-3B-Instruct" and config.model.max_length == 4096
    config = compose_config(["env=frozenlake_vlm", "model=qwen2_5_vl_3b", "scale=paper"])
    assert config.model.max_length == 4096 and config.model.name == "qwen2.5-vl-3b"
    assert compose_config(["scale=paper"]).model.max_length == 2048


def test_max_pixels_is_part_of_a_run_only_where_it_is_set():
    plain = compose_config(["env=frozenlake_vlm"])
    assert identity(plain) != identity(compose_config(["env=frozenlake_vlm", "model.max_pixels=2048"]))


def test_the_report_counts_images():
    assert "images at most" in report(compose_config(["env=frozenlake_vlm"]))
    assert "images at most" not in report(compose_config([]))
