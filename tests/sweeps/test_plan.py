"""Overrides to cells: Hydra's sweep grammar, every cell validated, each run once."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from freshper.config.compose import compose_config
from freshper.config.errors import ConfigError
from freshper.config.identity import identity
from sweeps.folder import Order, read_order, write_order
from sweeps.grammar import Interval
from sweeps.plan import composer, label, make_plan


def settings_of(plan, *keys):
    return [tuple(dict(cell.settings).get(key) for key in keys) for cell in plan.cells]


GRAMMAR = {
    "a,b": (["seed=3,1"], [("3",), ("1",)]),
    "range": (["seed=range(0,6,2)"], [("0",), ("2",), ("4",)]),
    "choice": (["seed=choice(1,2)"], [("1",), ("2",)]),
    "tag": (["seed=tag(repetition,choice(1,2))"], [("1",), ("2",)]),
    "sort": (["seed=sort(3,1,2)"], [("1",), ("2",), ("3",)]),
    "cast": (["seed=int(1.0,2.0)"], [("1",), ("2",)]),
    "several spellings": (["replay.decay.tau=500,500.0,5e2,30"], [("500",), ("30",)]),
    "infinity": (["replay.decay.tau=30,inf,INF"], [("30",), ("inf",)]),
    "list": (["algorithm.betas=[0.9,0.99],[0.8,0.9]"], [("[0.9, 0.99]",), ("[0.8, 0.9]",)]),
    "truth values": (["env.slippery=true,false"], [("true",), ("false",)]),
    "null": (["algorithm.dual_clip=null,3"], [("null",), ("3",)]),
    "group": (["variant=on_policy,freshper"], [("on_policy",), ("freshper",)]),
}


@pytest.mark.parametrize("case", GRAMMAR)
def test_grammar(case):
    overrides, expected = GRAMMAR[case]
    assert settings_of(make_plan(overrides), overrides[0].partition("=")[0]) == expected


def test_shuffle_gives_the_same_set_and_the_same_sweep():
    plain, shuffled = make_plan(["seed=range(6)"]), make_plan(["seed=shuffle(range(6))"])
    assert sorted(settings_of(plain, "seed")) == sorted(settings_of(shuffled, "seed"))
    assert plain.id == shuffled.id
    assert make_plan(["seed=range(7)"]).id != plain.id


def test_glob_over_a_group():
    plan = make_plan(["variant=glob(*,exclude=on_*)"])
    chosen = {value for (value,) in settings_of(plan, "variant")}
    assert {"freshper", "standard_per", "uniform"} <= chosen and not any(name.startswith("on_") for name in chosen)


def test_the_grid_is_the_product_in_hydras_order():
    plan = make_plan(["variant=on_policy,uniform", "seed=0,1", "iterations=3"])
    assert settings_of(plan, "variant", "seed") == list(itertools.product(["on_policy", "uniform"], ["0", "1"]))
    assert {cell.config.iterations for cell in plan.cells} == {3}
    assert [cell.arm for cell in plan.cells] == ["variant=on_policy"] * 2 + ["variant=uniform"] * 2


def test_each_cell_is_the_run_of_its_own_command_line():
    for cell in make_plan(["variant=standard_per,freshper", "algorithm.learning_rate=1e-3,0.002"]).cells:
        assert identity(compose_config(cell.overrides)) == cell.identity


def test_what_a_run_does_not_read_makes_no_second_run():
    plan = make_plan(["variant=on_policy,freshper", "replay.decay.tau=10,20"])
    assert settings_of(plan, "variant", "replay.decay.tau") == [
        ("on_policy", None), ("freshper", "10"), ("freshper", "20"),
    ]  # fmt: skip
    assert plan.duplicates == 1
    assert plan.cells[0].label == "variant=on_policy"


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(1, 30), min_size=1, max_size=3))
def test_a_grid_is_a_set_however_its_numbers_are_written(taus):
    spellings = [text for tau in taus for text in (str(tau), f"{tau}.0", f"{tau * 10}e-1")]
    plan = make_plan([f"replay.decay.tau={','.join(spellings)}"])
    assert [value for (value,) in settings_of(plan, "replay.decay.tau") if value] == (
        [str(tau) for tau in dict.fromkeys(taus)] if len(spellings) > 1 else []
    )
    assert plan.duplicates == len(spellings) - len(set(taus))


def test_the_command_line_wins_over_a_file():
    params = {"seed": "0,1,2", "replay.decay.tau": "10,20"}
    plan = make_plan(["seed=7"], params)
    assert settings_of(plan, "replay.decay.tau") == [("10",), ("20",)]
    assert {cell.config.seed for cell in plan.cells} == {7}
    assert len(make_plan(["++seed=7,8"], params).cells) == 4


def test_intervals():
    plan = make_plan(
        ["variant=uniform,freshper", "algorithm.learning_rate=tag(log,interval(1e-5,1e-1))", "seed=interval(0,4)"]
    )
    assert plan.intervals == (
        Interval("algorithm.learning_rate", 1e-5, 1e-1, integer=False, log=True),
        Interval("seed", 0, 4, integer=True, log=False),
    )
    assert [dict(cell.settings)["variant"] for cell in plan.cells] == ["uniform", "freshper"]
    assert plan.cells[0].config.algorithm.learning_rate == pytest.approx(1e-3) and plan.cells[0].config.seed == 2


BAD = {
    "one bad cell of twenty": (
        ["replay.decay.tau=1,2,3,4,5,6,7,8,9,-1", "seed=0,1"],
        ["replay.decay.tau = -1", "in 2 of 20 runs"],
    ),
    "errors of several cells": (
        ["replay.decay.tau=-1,5", "replay.capacity=1,100"],
        ["replay.decay.tau = -1", "replay.capacity = 1"],
    ),
    "unknown option": (["variant=freshper,freshpr"], ["variant = freshpr", "did you mean freshper"]),
    "glob without a match": (["variant=glob(zz*)"], ["variant = glob(zz*)", "no option matches"]),
    "empty interval": (["replay.decay.tau=interval(5,5)"], ["replay.decay.tau", "low < high"]),
    "interval beyond what is allowed": (["replay.priority.alpha=interval(-1,1)"], ["replay.priority.alpha = -1"]),
    "log of zero": (["replay.priority.alpha=tag(log,interval(0,1))"], ["above 0"]),
    "unknown tag": (["replay.priority.alpha=tag(logg,interval(0.1,1))"], ["unknown tag logg"]),
    "interval over a group": (["variant=interval(0,1)"], ["variant"]),
    "one folder for two runs": (["seed=0,1", "output.name=x"], ["output.name", "seed=0 and seed=1"]),
    "unknown key": (["replay.decay.tua=1,2"], ["replay.decay.tua", "replay.decay.tau"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_sweeps_are_told_in_full(case):
    overrides, words = BAD[case]
    with pytest.raises(ConfigError) as error:
        make_plan(overrides)
    for word in words:
        assert word in str(error.value)


NASTY = ["a/b", "100%", "x=y", "a, b", "Grüße 名前", 'say "hi"', "it's", "$HOME", "back\\slash", " spaces ", "{seed}"]


@pytest.mark.parametrize("text", NASTY)
def test_any_text_reaches_the_child_as_it_was(text, tmp_path):
    quoted = "'" + text.replace("\\'", "\\\\'").replace("'", "\\'") + "'"
    (cell,) = make_plan([f"tracking.project={quoted}"]).cells
    assert cell.config.tracking.project == text
    write_order(tmp_path / "order.yaml", Order(("run.py", *cell.overrides), cell.config))
    order = read_order(tmp_path / "order.yaml")
    assert order.config == cell.config and order.argv[1:] == cell.overrides
    # The command in the record means the same run.
    assert compose_config(order.argv[1:]) == cell.config


def test_infinity_and_floats_reach_the_child_exactly(tmp_path):
    (cell,) = make_plan(["replay.decay.tau=inf", "algorithm.learning_rate=1.0000000000000002e-5"]).cells
    write_order(tmp_path / "order.yaml", Order(("run.py",), cell.config))
    assert read_order(tmp_path / "order.yaml").config == cell.config


def test_forty_overrides_make_no_long_name():
    overrides = [
        "env.size=5", "env.max_turns=7", "env.slippery=true", "env.hole_probability=0.123456789",
        "env.format_penalty=-0.1",
        "env.train_seed=1", "env.eval_seed=2000000000", "env.random_start_and_goal=false", "iterations=12",
        "rollout.episodes=8", "rollout.max_new_tokens=9", "rollout.temperature=0.987654321", "rollout.top_p=0.95",
        "rollout.top_k=12", "rollout.lock_step=2", "evaluation.every=3", "evaluation.episodes=5",
        "evaluation.greedy=false",
        "checkpoint.every=4", "checkpoint.keep=1", "algorithm.learning_rate=0.000123", "algorithm.schedule=linear",
        "algorithm.warmup_steps=3", "algorithm.weight_decay=0.01", "algorithm.max_grad_norm=0.5", "algorithm.epochs=2",
        "algorithm.minibatches=2", "algorithm.clip_low=0.1", "algorithm.clip_high=0.3", "algorithm.gamma=0.99",
        "algorithm.entropy_coefficient=0.01", "replay.capacity=4000", "replay.batches_per_iteration=3",
        "replay.priority.alpha=0.55", "replay.priority.epsilon=1e-5", "replay.decay.tau=77",
        "diagnostics.dead_after=20",
        "diagnostics.max_log_ratio=4", "output.samples=1", "seed=0,1,2",
    ]  # fmt: skip
    assert len(overrides) == 40
    plan = make_plan(overrides)
    assert len({cell.name for cell in plan.cells}) == 3
    assert max(len(part.encode()) for cell in plan.cells for part in (cell.name, plan.id, f"{cell.name}.yaml")) <= 64


def test_labels_are_short_but_never_ambiguous():
    assert label([("replay.decay.tau", "5"), ("seed", "1")]) == "tau=5 seed=1"
    assert label([("replay.a.x", "5"), ("algorithm.x", "1")]) == "replay.a.x=5 algorithm.x=1"


def test_composing_leaves_hydra_as_it_was():
    from hydra.core.global_hydra import GlobalHydra

    before = GlobalHydra.instance().hydra
    with composer() as make:
        make(["seed=1"])
    assert GlobalHydra.instance().hydra is before
