"""Groups that teach nothing are counted, kept, left out or replaced, as asked."""

import dataclasses

import numpy as np
import pytest

from freshper.config.run import RunConfig
from freshper.learner.collection import collect_batch
from tests.learner.trajectories import random_trajectory


def config(rule, algorithm="grpo", **more):
    return RunConfig.model_validate(
        {
            "algorithm": {"name": algorithm, "whiten": False, "group": {"zero_variance": rule, **more}},
            "rollout": {"episodes": 12, "group_size": 3},
        }
    )


class Games:
    """Plays groups of three; groups listed as silent have equal returns."""

    def __init__(self, silent):
        self.silent, self.calls = set(silent), []

    def __call__(self, before, count):
        self.calls.append((before, count))
        rng, played = np.random.default_rng(before), []
        for group in range(before, before + count):
            for k in range(3):
                won = 1 if group in self.silent or k == 0 else 0
                t = random_trajectory(rng, turns=1, success=won)
                played.append(dataclasses.replace(t, group_id=group, turn_penalties=np.zeros(1, "f4")))
        return played


def ids(trajectories):
    return [t.group_id for t in trajectories[::3]]


def test_silent_groups_are_counted_and_kept_by_default():
    games = Games([1, 2])
    found = collect_batch(games, config("keep"))
    assert ids(found.kept) == [0, 1, 2, 3] and found.kept == found.played
    assert found.metrics == {
        "groups": 4, "groups_zero_variance": 2, "groups_left_out": 0, "resample_rounds": 0, "update_skipped": 0
    }  # fmt: skip


def test_silent_groups_are_left_out():
    found = collect_batch(Games([1, 2]), config("drop"))
    assert ids(found.kept) == [0, 3] and ids(found.played) == [0, 1, 2, 3]
    assert found.metrics["groups_left_out"] == 2


def test_further_instances_take_the_place_of_silent_groups():
    games = Games([1, 2, 4])
    found = collect_batch(games, config("resample"))
    assert games.calls == [(0, 4), (4, 2), (6, 1)]
    assert ids(found.kept) == [0, 3, 5, 6] and len(found.played) == 21
    assert found.metrics["groups"] == 7 and found.metrics["resample_rounds"] == 2
    assert found.metrics["groups_zero_variance"] == 3 and found.metrics["groups_left_out"] == 3


def test_resampling_ends_and_says_that_nothing_was_left():
    games = Games(range(100))
    found = collect_batch(games, config("resample", resample_rounds=2))
    assert len(games.calls) == 3 and not found.kept
    assert found.metrics["update_skipped"] == 1 and found.metrics["groups"] == 12


@pytest.mark.parametrize("algorithm", ["reinforce_pp", "ppo"])
def test_other_algorithms_take_what_comes(algorithm):
    found = collect_batch(Games(range(100)), RunConfig.model_validate(
        {"algorithm": {"name": algorithm}, "rollout": {"episodes": 12, "group_size": 3}}
    ))  # fmt: skip
    assert found.kept == found.played and found.metrics == {}
