"""The command that makes small bases, for every kind of base."""

import json
from pathlib import Path

import pytest

from freshper.config.model import ModelConfig
from freshper.config.model_folder import TINY_FOLDERS, has_vision
from freshper.policy.load import load_policy
from freshper.policy.pretrain import FAMILIES
from freshper.policy.tiny.make_base import make_base
from freshper.policy.tiny.makers import MAKERS, maker_of


def test_every_base_that_ships_can_be_made_and_every_family_ships() -> None:
    assert set(FAMILIES) == set(MAKERS) == set(TINY_FOLDERS) and len(FAMILIES) == len(set(FAMILIES))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_record_that_ships_is_that_of_the_maker(family: str) -> None:
    maker = maker_of(family, seed=0)
    record = json.loads((TINY_FOLDERS[family] / "recipe.json").read_text())
    (entry, tasks), *_ = json.loads(json.dumps(maker.tasks)).items()
    pairs = zip(tasks, record[entry], strict=True) if entry == "envs" else [(tasks, record[entry])]
    # A key that is younger than the base has its default there.
    assert all(now == {**now, **then} for now, then in pairs)
    assert record["recipe"]["steps"] == maker.recipe.steps and record["recipe"]["seed"] == maker.recipe.seed == 0
    assert (maker_of(family, 3, 7).recipe.seed, maker_of(family, 3, 7).recipe.steps) == (3, 7)


@pytest.mark.parametrize(
    "family",
    [
        "frozen_lake",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("math", "search", "frozen_lake_image", "geoqa")),
    ],
)
def test_a_short_making_leaves_a_folder_that_plays(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_base(family, tmp_path, seed=1, steps=4, episodes=3)
    record = json.loads((tmp_path / "recipe.json").read_text())
    shipped = json.loads((TINY_FOLDERS[family] / "recipe.json").read_text())
    assert set(shipped) <= set(record) and record["recipe"]["seed"] == 1 and record["recipe"]["steps"] == 4
    assert f"--family {family} " in record["command"] and record["final_loss"] > 0 and record["cpu_seconds"] > 0
    assert "step 4/4" in capsys.readouterr().out
    policy = load_policy(ModelConfig(kind="hf", path=str(tmp_path), device="cpu"))
    assert policy.parameters == record["parameters"] and has_vision(tmp_path) == (policy.vision is not None)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in TINY_FOLDERS[family].iterdir()}
