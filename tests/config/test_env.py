"""The environment section: one family at a time, and keys that belong to another one."""

from __future__ import annotations

import pytest

from freshper.config.compose import compose_config, compose_sweep
from freshper.config.envs.frozen_lake import FrozenLakeConfig
from freshper.config.envs.sokoban import SokobanConfig
from freshper.config.errors import ConfigError
from freshper.config.load import load_config
from freshper.config.schema import family_keys


def problems(function, argument):
    with pytest.raises(ConfigError) as caught:
        function(argument)
    return {issue.key: issue.expected for issue in caught.value.issues}


@pytest.mark.parametrize("prefix", ["", "++"])
def test_a_key_of_another_family_says_whose_it_is(prefix):
    found = problems(
        compose_config, ["env=sokoban_simple", f"{prefix}env.slippery=true", f"{prefix}env.random_start=true"]
    )
    assert set(found) == {"env.slippery", "env.random_start"}
    assert found["env.slippery"].startswith(
        "belongs to env.family = frozen_lake and frozen_lake_image; the chosen sokoban has: "
    )
    assert "cliff_walking" in found["env.random_start"]


def test_jobs_of_a_sweep_over_families_are_checked_each():
    found = problems(compose_sweep, ["env=frozenlake,sokoban_simple", "env.boxes=1,2"])
    assert set(found) == {"env.boxes"} and "frozen_lake has" in found["env.boxes"]
    configs = compose_sweep(["env=frozenlake,sokoban_simple", "env.max_turns=9,12"])
    assert [config.env.max_turns for config in configs] == [9, 12, 9, 12]


def test_plain_data_is_checked_in_the_same_way():
    assert "frozen_lake" in problems(load_config, {"env": {"family": "sokoban", "slippery": True}})["env.slippery"]
    found = problems(load_config, {"env": {"family": "sokobn", "boxs": 1}, "seed": -1})
    assert found["env.family"].startswith("expected one of frozen_lake, frozen_lake_image, sokoban") and "seed" in found
    assert "env.boxes" in problems(load_config, {"env": {"family": "sokoban", "boxs": 1}})["env.boxs"]
    assert set(problems(load_config, {"env": {"family": "sokoban", "boxes": 9, "size": "x"}})) == {
        "env.boxes",
        "env.size",
    }


def test_without_a_family_it_is_frozen_lake():
    assert isinstance(load_config({"env": {"size": 5}}).env, FrozenLakeConfig)
    assert load_config({}).env == FrozenLakeConfig()


def test_the_family_comes_with_the_environment():
    assert "sokoban_simple" in problems(compose_config, ["env.family=sokoban"])["env.family"]


def test_rooms_must_be_solvable_in_time():
    found = problems(compose_config, ["env=sokoban_hard", "env.max_turns=10", "env.min_moves=17"])
    assert set(found) == {"env.min_moves", "env.max_moves"} and "env.max_turns = 10" in found["env.max_moves"]


def test_task_rows_of_the_paper():
    simple, hard = (compose_config([f"env=sokoban_{name}"]).env for name in ("simple", "hard"))
    assert isinstance(simple, SokobanConfig) and isinstance(hard, SokobanConfig)
    assert (simple.size, simple.boxes, simple.max_turns) == (6, 1, 10)
    assert (hard.size, hard.boxes, hard.max_turns) == (8, 2, 20)
    cliff = compose_config(["env=cliffwalking"]).env
    assert (cliff.max_turns, cliff.invalid_turn, cliff.random_start) == (200, "step", False)


def test_the_small_model_is_that_of_the_games_family():
    assert compose_config(["env=sokoban_simple"]).model.base == "sokoban"
    assert compose_config(["env=sokoban_hard"]).model.base == "sokoban_hard"  # its rooms need a base of their own
    assert compose_config(["env=sokoban_hard", "model.base=sokoban"]).model.base == "sokoban"
    assert compose_config([]).model.base == "frozen_lake"
    assert compose_config(["env=cliffwalking", "model.base=sokoban"]).model.base == "sokoban"
    assert compose_config(["env=sokoban_hard", "scale=paper"]).model.base is None
    found = problems(compose_config, ["env=gym", "env.id=tests.envs.test_gym:FreshperTestsEcho-v0"])
    assert set(found) == {"model.base"} and "frozen_lake" in found["model.base"]


def test_every_family_has_the_common_keys():
    common = {"family", "name", "max_turns", "format_penalty", "train_seed", "eval_seed"}
    assert all({f"env.{key}" for key in common} <= keys for keys in family_keys().values())
