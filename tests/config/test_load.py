"""The border between composed YAML and the schema: everything wrong is told at once, by full key."""

from __future__ import annotations

import math

import pytest
from omegaconf import OmegaConf

from freshper.config.errors import ConfigError, nearest
from freshper.config.load import load_config
from freshper.config.schema import schema_fields


def problems(composed):
    with pytest.raises(ConfigError) as caught:
        load_config(OmegaConf.create(composed))
    return {issue.key: issue.expected for issue in caught.value.issues}


def test_missing_values_are_reported_together():
    found = problems({"seed": "???", "replay": {"decay": {"tau": "???"}}, "model": {"name": "x"}})
    assert set(found) == {"seed", "replay.decay.tau"}


def test_a_broken_interpolation_names_its_full_key():
    found = problems({"replay": {"decay": {"tau": "${nowhere.tau}"}}, "env": {"name": "${oc.env:NO_SUCH_VARIABLE_X}"}})
    assert set(found) == {"replay.decay.tau", "env.name"}
    assert "nowhere.tau" in found["replay.decay.tau"]


def test_unknown_keys_get_the_nearest_names():
    found = problems({"replay": {"decay": {"tua": 3}, "age_decy": 1}, "sed": 1})
    assert "replay.decay.tau" in found["replay.decay.tua"]
    assert "replay.decay" in found["replay.age_decy"]
    assert "seed" in found["sed"]


def test_schema_and_cross_field_problems_come_together():
    found = problems({"iterations": -1, "replay": {"capacity": 3, "decay": {"tau": -5}}})
    assert set(found) == {"iterations", "replay.capacity", "replay.decay.tau"}


def test_a_conflict_with_a_wrong_value_is_not_reported_twice():
    assert set(problems({"replay": {"enabled": "perhaps", "batches_per_iteration": 2}})) == {"replay.enabled"}


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"replay": {"decay": {"tau": 0}}}, "greater than 0"),
        ({"replay": {"decay": {"tau": math.nan}}}, "greater than 0"),
        ({"replay": {"priority": {"alpha": -0.1}}}, "at least 0"),
        ({"replay": {"priority": {"alpha": math.inf}}}, "finite"),
        ({"replay": {"priority": {"epsilon": math.nan}}}, "number"),
        ({"replay": {"is_correction": {"beta": 1.5}}}, "at most 1"),
        ({"algorithm": {"betas": [0.9, 1.5]}}, "less than 1"),
        ({"algorithm": {"betas": [0.9]}}, "required"),
        ({"seed": True}, "truth value"),
        ({"iterations": 1.5}, "whole number"),
        ({"replay": 3}, "section"),
        ({"resume": "maybe"}, "'auto', 'never' or 'must'"),
    ],
)
def test_wrong_values_say_what_was_expected(section, expected):
    ((_, text),) = problems(section).items()
    assert expected in text


def test_infinity_is_a_time_constant():
    assert load_config({"replay": {"decay": {"tau": math.inf}}}).replay.decay.tau == math.inf


def test_integers_may_be_written_as_whole_floats():
    assert load_config({"iterations": 5e1}).iterations == 50


def test_nearest_looks_at_the_whole_and_at_the_last_part():
    keys = list(schema_fields())
    assert set(nearest("tau", keys)[:2]) == {"replay.decay.tau", "scale.tau"}
    assert nearest("replay.decay.tua", keys)[0] == "replay.decay.tau"
    assert nearest("zzzzzz", keys) == []


def test_every_key_has_a_doc():
    assert [key for key, field in schema_fields().items() if not field.description] == []
