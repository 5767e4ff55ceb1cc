"""The report tells tau in both clocks and the half-life that the sampler really has."""

from __future__ import annotations

from freshper.config.compose import compose_config
from freshper.config.report import report, steps_per_iteration


def test_steps_per_iteration_counts_replay():
    assert steps_per_iteration(compose_config()) == 3
    assert steps_per_iteration(compose_config(["algorithm.epochs=2", "algorithm.minibatches=4"])) == 10
    assert steps_per_iteration(compose_config(["variant=on_policy"])) == 1


def test_tau_in_both_units_and_as_a_share_of_the_run():
    text = report(compose_config(["iterations=100", "replay.decay.tau=500"]))
    assert "tau 500 optimiser steps = 166.7 iterations = 167 % of the run" in text
    assert "halves at age 577.6 optimiser steps" in text  # 500 ln 2 / 0.6
    text = report(
        compose_config(["replay.decay.tau=500", "replay.age_unit=iterations", "replay.decay.placement=outside_alpha"])
    )
    assert "tau 1500 optimiser steps = 500 iterations" in text
    assert "halves at age 1040 optimiser steps = 346.6 iterations" in text


def test_on_policy_and_no_decay_say_so():
    assert "none (on-policy)" in report(compose_config(["variant=on_policy"]))
    assert "age does not change" in report(compose_config(["variant=per_no_decay"]))
    assert "placebo" in report(compose_config(["variant=placebo"]))
