"""Every option of every group composes and validates, and the layers override one another in the promised order."""

from __future__ import annotations

import json

import pytest

from freshper.config.compose import compose_config, compose_sweep
from freshper.config.errors import ConfigError
from freshper.config.identity import differing_keys
from freshper.config.run import RunConfig
from freshper.config.schema import CONF_DIR, default_groups, group_options, resolved

ALL_OPTIONS = [(group, option) for group, options in group_options().items() for option in options]
NEEDS = {
    ("model", "hf"): ["model.path=org/name"],
    ("model", "smollm2_135m"): ["model.path=org/name"],  # its package need not be installed
    ("trainer", "command"): ["trainer.command.argv=['{python}']"],
}
"""What an option does not work without."""


@pytest.mark.parametrize(("group", "option"), ALL_OPTIONS)
def test_every_group_option_composes_and_validates(group, option):
    needs = {
        **NEEDS,
        # A small base model exists for some families only, so the others are composed with another model.
        **{
            ("env", name): ["model=hf", "model.path=org/name"]
            for name in group_options()["env"]
            if name != "frozenlake"
        },
        ("env", "gym"): ["model=hf", "model.path=org/name", "env.id=tests.envs.test_gym:FreshperTestsEcho-v0"],
    }
    plus = "" if group in default_groups() else "+"
    config = compose_config([f"{plus}{group}={option}", *needs.get((group, option), [])])
    assert isinstance(config, RunConfig)
    json.dumps(resolved(config))  # plain containers only


@pytest.mark.parametrize("variant", group_options()["variant"])
def test_a_variant_is_named_after_its_file(variant):
    assert compose_config([f"variant={variant}"]).variant.name == variant


@pytest.mark.parametrize("path", sorted(CONF_DIR.rglob("*.yaml")), ids=lambda path: str(path.relative_to(CONF_DIR)))
def test_every_yaml_opens_with_what_it_is_how_to_run_it_and_the_paper_section(path):
    lines = path.read_text().splitlines()
    header = []
    for line in lines:
        if not line.startswith("#"):
            break
        header.append(line)
    text = "\n".join(header)
    assert "run.py" in text
    assert "section" in text or "Not from the paper" in text or "Not in the paper" in text


def test_the_default_run_is_freshper_as_published():
    config = compose_config()
    replay = config.replay
    assert (config.env.family, config.model.kind, config.scale.name) == ("frozen_lake", "tiny", "cpu")
    assert (replay.batches_per_iteration, replay.capacity, replay.eviction) == (2, 50_000, "fifo")
    assert (replay.priority.base, replay.priority.alpha, replay.priority.epsilon) == ("reward", 0.6, 1e-6)
    assert (replay.decay.law, replay.decay.tau, replay.decay.placement) == ("exponential", 30.0, "inside_alpha")
    assert (replay.priority.initial, replay.is_correction.enabled) == ("base", False)


def test_standard_per_is_as_published():
    replay = compose_config(["variant=standard_per"]).replay
    assert (replay.priority.base, replay.priority.alpha, replay.priority.initial) == ("reward", 0.6, "max")
    assert replay.decay.law == "none"
    correction = replay.is_correction
    assert (correction.enabled, correction.beta, correction.beta_final) == (True, 0.4, 1.0)


def test_the_decay_control_differs_from_freshper_in_the_decay_law_only():
    freshper, control = (resolved(compose_config([f"variant={name}"])) for name in ("freshper", "per_no_decay"))
    assert set(differing_keys(freshper, control)) == {"replay.decay.law", "variant.name"}


def test_the_placebo_differs_from_freshper_in_the_placebo_only():
    freshper, placebo = (resolved(compose_config([f"variant={name}"])) for name in ("freshper", "placebo"))
    assert set(differing_keys(freshper, placebo)) == {"replay.placebo", "variant.name"}


def test_on_policy_arms_keep_no_buffer_and_epochs_match_replays_steps():
    plain, epochs = compose_config(["variant=on_policy"]), compose_config(["variant=on_policy_epochs"])
    assert not plain.replay.enabled and not epochs.replay.enabled
    assert epochs.algorithm.epochs == 1 + compose_config(["variant=freshper"]).replay.batches_per_iteration


def test_age_window_is_uniform_inside_its_window():
    replay = compose_config(["variant=age_window"]).replay
    assert (replay.priority.base, replay.priority.alpha, replay.decay.law) == ("uniform", 0.0, "window")


def test_precedence_schema_group_variant_command_line():
    schema = RunConfig()
    assert compose_config(["scale=paper"]).algorithm.learning_rate == 1e-6  # group over schema
    assert schema.algorithm.epochs == 1
    # The algorithm group says 1 epoch, the scale says 1, the variant says 3.
    assert compose_config(["scale=paper", "variant=on_policy_epochs"]).algorithm.epochs == 3
    assert compose_config(["variant=on_policy_epochs", "algorithm.epochs=5"]).algorithm.epochs == 5
    assert compose_config(["scale=paper", "model=tiny"]).model.kind == "tiny"  # a choice made by hand stands


def test_an_arm_means_the_same_at_every_scale():
    cpu, paper = (compose_config([f"scale={scale}", "variant=standard_per"]).replay for scale in ("cpu", "paper"))
    assert cpu == paper


def test_interpolations_resolve_to_plain_values():
    assert compose_config(["replay.decay.tau=${iterations}"]).replay.decay.tau == 100.0


def test_a_sweep_is_expanded_and_every_job_checked():
    configs = compose_sweep(["variant=on_policy,freshper", "seed=range(0,3)"])
    assert [(c.variant.name, c.seed) for c in configs] == [(v, s) for v in ("on_policy", "freshper") for s in range(3)]
    with pytest.raises(ConfigError) as caught:
        compose_sweep(["replay.decay.tau=5,-1,-2"])
    assert [issue.value for issue in caught.value.issues] == [-1, -2]
