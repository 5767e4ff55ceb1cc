"""One iteration: what is stamped, stored and refused."""

import dataclasses

import numpy as np
import pytest

from freshper.config.run import RunConfig
from freshper.learner.learner import Learner
from freshper.learner.optimizer import DivergedError
from freshper.policy.load import load_policy


def learner(**replay):
    config = RunConfig.model_validate(
        {
            "iterations": 5,
            "env": {"family": "frozen_lake", "max_turns": 8},
            "rollout": {"episodes": 32, "max_new_tokens": 6},
            "replay": {"capacity": 80, **replay},
        }
    )
    return Learner(config, load_policy(config.model), None)


@pytest.mark.parametrize(("unit", "ages"), [("optimizer_steps", [1, 2]), ("iterations", [0, 0])])
def test_ages_count_from_the_policy_that_sampled(unit, ages):
    """The fresh batch has been trained on once when it is first replayed."""
    one = learner(age_unit=unit)
    report = one.iterate()
    assert [profile["from"] for profile in report.ages] == [[age] for age in ages]
    assert {t.policy_version for t in report.fresh} == {0} and one.optimizer.steps == 3
    assert {t.policy_version for t in one.iterate().fresh} == {3}


def test_what_is_replayed_is_what_was_collected():
    one = learner()
    fresh = {t.seed: t for t in one.iterate().fresh}
    assert one.buffer is not None
    draw = one.buffer.draw(32, one.clock, 0.4)
    for replayed in draw.trajectories:
        original = fresh[replayed.seed]
        for field in dataclasses.fields(original):
            np.testing.assert_array_equal(getattr(replayed, field.name), getattr(original, field.name))
    assert any(t.advantages.any() for t in draw.trajectories)  # frozen at collection


def test_the_buffer_stays_within_its_capacity():
    one = learner()
    for _ in range(4):
        report = one.iterate()
    assert report.metrics["replay/buffer_size"] == 80 and report.metrics["replay/buffer_evicted"] == 48


def test_behaviour_logprobs_of_another_policy_end_the_run(monkeypatch):
    one = learner()
    collect = one._collect

    def wrong():
        found = collect()
        moved = [
            dataclasses.replace(t, behaviour_logprobs=np.where(t.response_mask, -30, 0).astype("f4"))
            for t in found.kept
        ]
        return dataclasses.replace(found, kept=moved)

    monkeypatch.setattr(one, "_collect", wrong)
    with pytest.raises(DivergedError, match=r"\|log ratio\| of a fresh batch reached (29|30)"):
        one.iterate()
