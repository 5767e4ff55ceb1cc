"""What is found out before the first iteration."""

import json
from pathlib import Path

import pytest

from freshper.config.envs.frozen_lake_image import FrozenLakeImageConfig
from freshper.config.envs.math import MathConfig
from freshper.config.envs.search import SearchConfig
from freshper.config.model import ModelConfig
from freshper.config.run import RunConfig
from freshper.envs.errors import EnvError
from freshper.policy.errors import ModelError
from freshper.rollout.preflight import preflight
from tests.models import random_policy
from tests.vision import random_vision_policy

POLICY = random_policy()


def test_embedded_tasks_and_games_pass() -> None:
    for env in (MathConfig(), SearchConfig()):
        preflight(RunConfig(env=env), POLICY)
    preflight(RunConfig(), POLICY)


def test_a_question_longer_than_the_context_is_named(tmp_path: Path) -> None:
    rows = [{"question": "one?", "answer": 1}, {"question": "why " * 2000, "answer": 2}]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "test.jsonl").write_text(json.dumps({"question": "three?", "answer": 3}))
    config = RunConfig(env=MathConfig(source="folder", folder=str(tmp_path)))
    with pytest.raises(
        EnvError, match=r"model.max_length = 2048: the longest question makes a first prompt of \d+ tokens"
    ):
        preflight(config, POLICY)
    short = RunConfig(env=MathConfig(source="folder", folder=str(tmp_path), max_train=1))
    preflight(short, POLICY)


def test_a_retriever_that_is_down_is_named() -> None:
    env = SearchConfig(retriever="http", url="http://127.0.0.1:9/retrieve", retries=0)
    with pytest.raises(EnvError, match="http://127.0.0.1:9/retrieve"):
        preflight(RunConfig(env=env), POLICY)


def test_an_image_longer_than_the_context_is_named() -> None:
    env = FrozenLakeImageConfig(cell_pixels=64)
    preflight(RunConfig(env=env), random_vision_policy())
    with pytest.raises(
        EnvError, match=r"model.max_length = 128: .* first prompt of \d+ tokens \(256 of them its image\)"
    ):
        preflight(RunConfig(env=env, model=ModelConfig(max_length=128)), random_vision_policy())


def test_a_policy_of_text_is_refused_for_images() -> None:
    with pytest.raises(ModelError, match="frozen_lake_image shows images"):
        preflight(RunConfig(env=FrozenLakeImageConfig()), POLICY)
