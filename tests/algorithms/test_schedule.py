"""Learning-rate schedules."""

import pytest

from freshper.algorithms.schedule import learning_rate_factor
from freshper.config.algorithm import AlgorithmConfig
from freshper.config.report import steps_per_iteration
from freshper.config.run import RunConfig


def curve(schedule, total=100, warmup=10):
    config = AlgorithmConfig(schedule=schedule, warmup_steps=warmup)
    return [learning_rate_factor(step, total, config) for step in range(total)]


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_rises_over_warm_up_and_never_again(schedule):
    factors = curve(schedule)
    assert factors[:10] == sorted(factors[:10]) and 0 < factors[0] < 1
    assert factors[10] == 1.0
    assert factors[10:] == sorted(factors[10:], reverse=True)


def test_endings():
    assert curve("constant")[-1] == 1.0
    assert curve("linear")[-1] == pytest.approx(1 / 90)
    assert curve("cosine")[55] == pytest.approx(0.5)


def test_the_schedule_spans_replay_steps_too():
    config = RunConfig(iterations=10)
    assert steps_per_iteration(config) == 3
