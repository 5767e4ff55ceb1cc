"""Equal science, equal identity, whatever the spelling."""

from __future__ import annotations

import math

import pytest

from freshper.config.compose import compose_config
from freshper.config.identity import canonical_json, differing_keys, digest, identity, run_name, run_path
from freshper.config.load import load_config
from freshper.config.schema import resolved


def test_the_hash_is_pinned():
    # Changing this orphans every run folder that exists.
    values = {"b": [1, 2.5, None, True], "a": {"tau": 500.0, "never": math.inf, "zero": -0.0, "name": "é"}}
    text = '{"a":{"name":"\\u00e9","never":"inf","tau":500.0,"zero":0.0},"b":[1,2.5,null,true]}'
    assert canonical_json(values) == text
    assert digest(values) == "3f55b3c747"


@pytest.mark.parametrize("spelling", ["500", "500.0", "5e2", "+5.0E+2", "'500'"])
def test_one_number_has_one_identity(spelling):
    assert identity(compose_config([f"replay.decay.tau={spelling}"])) == identity(
        compose_config(["replay.decay.tau=500"])
    )


def test_the_order_of_keys_does_not_matter():
    one = load_config({"seed": 3, "replay": {"capacity": 600, "warmup": 2}})
    two = load_config({"replay": {"warmup": 2, "capacity": 600}, "seed": 3})
    assert identity(one) == identity(two)


@pytest.mark.parametrize(
    "override",
    [
        "output.root=elsewhere",
        "trainer.threads=2",
        "tracking.project=x",
        "model.device=cpu",
        "resume=never",
        "checkpoint.every=3",
        "trainer.progress=off",
        "experiment.name=x",
        "scale.name=paper",
        "scale.seeds='1,2'",
    ],
)
def test_where_and_how_a_run_is_made_is_not_part_of_it(override):
    assert identity(compose_config([override])) == identity(compose_config())


@pytest.mark.parametrize("override", ["seed=1", "replay.decay.tau=501", "rollout.episodes=32", "model.dtype=bfloat16"])
def test_what_is_learned_is(override):
    assert identity(compose_config([override])) != identity(compose_config())


@pytest.mark.parametrize(
    ("arm", "override"),
    [
        ("on_policy", "replay.decay.tau=7"),
        ("on_policy", "replay.priority.base=advantage"),
        ("on_policy", "variant.replay_ratio=5"),
        ("on_policy_epochs", "replay.is_correction.enabled=true"),
        ("per_no_decay", "replay.decay.tau=7"),
        ("per_no_decay", "replay.decay.placement=outside_alpha"),
        ("uniform", "scale.tau=7"),
    ],
)
def test_a_setting_that_nothing_reads_makes_no_other_run(arm, override):
    one, other = compose_config([f"variant={arm}"]), compose_config([f"variant={arm}", override])
    assert identity(one) == identity(other)
    assert differing_keys(resolved(one), resolved(other)) == {}


@pytest.mark.parametrize(
    ("arm", "override"),
    [
        ("freshper", "replay.decay.tau=7"),
        ("freshper", "scale.tau=7"),
        ("freshper", "variant.replay_ratio=5"),
        ("on_policy_epochs", "variant.replay_ratio=5"),
        ("per_no_decay", "replay.priority.base=advantage"),
        ("per_no_decay", "replay.decay.law=window"),
        ("on_policy", "replay.enabled=true"),
    ],
)
def test_a_setting_that_something_reads_does(arm, override):
    assert identity(compose_config([f"variant={arm}"])) != identity(compose_config([f"variant={arm}", override]))


def test_run_name_and_folder(tmp_path):
    config = compose_config(["seed=4", "variant=on_policy", f"output.root={tmp_path}"])
    assert run_name(config) == f"frozenlake-tiny-reinforce_pp-on_policy-seed4-{identity(config)}"
    assert len(identity(config)) == 10
    assert run_path(config) == tmp_path / run_name(config)
    named = compose_config(["output.name=mine", f"output.root={tmp_path}"])
    assert run_path(named) == tmp_path / "mine"
    odd = compose_config(["variant.name='my arm/1'"])
    assert "/" not in run_name(odd) and " " not in run_name(odd)
