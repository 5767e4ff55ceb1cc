"""Named experiments: every cell of every one composes and validates at both scales, holds its controls, and runs."""

from __future__ import annotations

import functools
import math

import pytest

from freshper.config.cli import prepare
from freshper.config.compose import compose_config, compose_sweep
from freshper.config.errors import ConfigError
from freshper.config.experiment import sweep_params
from freshper.config.identity import differing_keys, identity
from freshper.config.report import steps_per_iteration
from freshper.config.schema import CONF_DIR, group_options, resolved
from freshper.trainers import train

RUNS = {
    # distinct runs per seed, seeds
    "main_table": (8, 3),  # of each task: see TASKS
    "tau_sensitivity": (1 + 4, 3),
    "base_priority": (1 + 2 * 6, 3),
    "is_correction": (1 + 3 * 2, 3),
    "replay_ratio": (1 + 3 * 4, 3),
    "alpha_tau": (1 + 3 * 4, 3),
    "seeds": (4, 10),
    "tasks": (1, 2),  # FreshPER alone
}
SCALES = ("cpu", "paper")
TASKS = {("main_table", "paper"): 7, ("tasks", "cpu"): 9, ("tasks", "paper"): 9}
"""Tasks of an experiment, where there are several."""
TINY = (
    "env=frozenlake", "model=tiny", "iterations=1", "rollout.episodes=4", "rollout.max_new_tokens=4", "env.max_turns=2",
    "evaluation.episodes=2", "trainer.threads=1", "trainer.progress=off", "output.figures=false",
    "diagnostics.dead_after=0",  # four episodes of a random policy may all have the same reward
)  # fmt: skip


@functools.cache
def cells(name, scale="cpu", *more):
    """Each run of an experiment once, as the sweep merges them; of one seed unless `more` says otherwise."""
    configs = compose_sweep([f"+experiment={name}", f"scale={scale}", *(more or ["seed=0"])])
    return list({identity(config): config for config in reversed(configs)}.values())[::-1]


def test_every_experiment_is_here():
    assert {*RUNS, "smoke"} == set(group_options()["experiment"])


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", RUNS)
def test_every_setting_composes_and_validates(name, scale):
    configs = cells(name, scale)
    assert {config.experiment.name for config in configs} == {name}
    assert {config.scale.name for config in configs} == {scale}
    assert len(configs) == RUNS[name][0] * TASKS.get((name, scale), 1)
    assert len({config.env.name for config in configs}) == TASKS.get((name, scale), 1)
    assert name == "tasks" or "on_policy" in {config.variant.name for config in configs}
    text = (CONF_DIR / "experiment" / f"{name}.yaml").read_text()
    assert f"python run.py -m +experiment={name} scale=cpu" in text


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", RUNS)
def test_every_cell_composes_and_validates(name, scale):
    configs = compose_sweep([f"+experiment={name}", f"scale={scale}"])
    per_seed, seeds = RUNS[name]
    assert len({config.seed for config in configs}) == seeds
    assert len({identity(config) for config in configs}) == per_seed * seeds * TASKS.get((name, scale), 1)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", ["tau_sensitivity", "alpha_tau"])
def test_the_tau_grid_fits_the_run_and_holds_no_decay(name, scale):
    arms = [config for config in cells(name, scale) if config.variant.name == "freshper"]
    taus = {config.replay.decay.tau for config in arms}
    assert math.inf in taus and compose_config([f"scale={scale}"]).scale.tau in taus
    steps = arms[0].iterations * steps_per_iteration(arms[0])
    if scale == "cpu":
        assert all(tau < steps for tau in taus if math.isfinite(tau))
    else:
        assert taus == {500, 1000, 1500, math.inf}  # the paper's


@pytest.mark.parametrize("name", ["base_priority", "is_correction", "replay_ratio"])
def test_each_setting_has_a_control_that_differs_in_the_decay_alone(name):
    arms = [resolved(config) for config in cells(name)]
    controls = [arm for arm in arms if arm["variant"]["name"] == "per_no_decay"]
    for arm in arms:
        if arm["variant"]["name"] == "freshper":
            differences = [set(differing_keys(arm, control)) for control in controls]
            assert differences.count({"variant.name", "replay.decay.law"}) == 1


def test_replay_ratio_matches_optimiser_steps():
    steps = {
        name: {steps_per_iteration(config) for config in cells("replay_ratio") if config.variant.name == name}
        for name in ("on_policy", "on_policy_epochs", "per_no_decay", "freshper")
    }
    assert steps["on_policy"] == {1}
    assert steps["on_policy_epochs"] == steps["per_no_decay"] == steps["freshper"] == {2, 3, 5, 9}


def test_the_command_line_wins():
    configs = cells("tau_sensitivity", "cpu", "replay.decay.tau=7", "seed=4,5")
    assert {(config.variant.name, config.seed) for config in configs} == {
        (name, seed) for name in ("on_policy", "freshper") for seed in (4, 5)
    }
    assert {config.replay.decay.tau for config in configs} == {7.0}
    params = sweep_params(["+experiment=tau_sensitivity", "+hydra.sweeper.params.iterations='1,2'"])
    assert params["iterations"] == "1,2" and params["seed"] == "0,1,2"
    assert sweep_params(["seed=1"]) == {}


def test_runs_are_shared_between_experiments():
    assert {identity(config) for config in cells("tau_sensitivity")} & {identity(c) for c in cells("main_table")}


def error(*argv):
    with pytest.raises(ConfigError) as caught:
        prepare(argv)
    return {issue.key: issue.expected for issue in caught.value.issues}


def test_without_m_what_is_open_is_named():
    found = error("+experiment=tau_sensitivity", "seed=3")
    assert list(found) == ["variant", "replay.decay.tau"] and all("add -m" in text for text in found.values())
    prepare(["+experiment=tau_sensitivity", "seed=3", "variant=freshper", "replay.decay.tau=30"])
    prepare(["+experiment=smoke"])


def test_what_the_sweeps_of_an_experiment_depend_on_cannot_be_swept():
    assert list(error("-m", "+experiment=seeds,main_table", "scale=cpu,paper")) == ["experiment", "scale"]
    prepare(["-m", "scale=cpu,paper", "model=tiny"])


@pytest.mark.slow
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", RUNS)
def test_one_cell_runs_for_an_iteration(name, scale, tmp_path):
    one = [f"output.root={tmp_path}", "variant=freshper", "seed=0"]
    config = compose_sweep([f"+experiment={name}", f"scale={scale}", *one, *TINY])[-1]
    assert config.variant.name == "freshper"
    assert train(config, ["run.py"]) == 0
