"""ESS and age profiles against their definitions."""

import dataclasses

import numpy as np
import pytest

from freshper.config.run import DiagnosticsConfig
from freshper.diagnostics.ages import age_edges, age_profile, effective_sample_size
from freshper.diagnostics.detectors import DeadRunDetector, DeadRunError
from tests.learner.trajectories import random_trajectory


def test_ess_limits():
    assert effective_sample_size(np.zeros(7)) == pytest.approx(1.0)
    assert effective_sample_size(np.array([0.0, -800.0, -900.0])) == pytest.approx(1 / 3)
    w = np.array([0.5, 1.0, 2.0])
    assert effective_sample_size(np.log(w) + 500) == pytest.approx(w.sum() ** 2 / (3 * (w**2).sum()))


@pytest.mark.parametrize("largest", [0, 1, 2, 3, 4, 7, 8, 100])
def test_edges_cover_every_age(largest):
    edges = age_edges(largest)
    assert edges[0] == 0 and edges[-1] > largest
    assert (np.diff(edges) > 0).all()


def test_profile_by_brute_force():
    rng = np.random.default_rng(0)
    ages = rng.integers(0, 40, 300)
    total, mean, clipped = rng.normal(size=300), rng.normal(size=300), rng.random(300)
    profile = age_profile(ages, total, mean, clipped)
    assert sum(profile["count"]) == 300
    for k, (low, high) in enumerate(zip(profile["from"], profile["to"], strict=True)):
        inside = (ages >= low) & (ages < high)
        w = np.exp(total[inside])
        assert profile["count"][k] == inside.sum()
        assert profile["ess"][k] == pytest.approx(w.sum() ** 2 / (len(w) * (w**2).sum()))
        assert profile["kl"][k] == pytest.approx(-mean[inside].mean())
        assert profile["clip_fraction"][k] == pytest.approx(clipped[inside].mean())


def test_dead_run_is_named_after_enough_silent_iterations():
    rng = np.random.default_rng(0)
    failed = [random_trajectory(rng, success=0) for _ in range(3)]
    silent = [dataclasses.replace(t, turn_penalties=np.full(t.n_turns, -0.3 / t.n_turns, "f4")) for t in failed]
    alive = [*silent[:2], random_trajectory(rng, success=1)]
    detector = DeadRunDetector(DiagnosticsConfig(dead_after=3))
    solved = [random_trajectory(rng, success=1) for _ in range(3)]
    for batch in (silent, silent, alive, silent, silent, solved, silent, silent):
        detector.observe(batch)
    with pytest.raises(DeadRunError, match="3 consecutive iterations"):
        detector.observe(silent)


def test_a_whole_run_of_equal_rewards_is_dead_even_if_it_always_succeeds():
    rng = np.random.default_rng(0)
    plain = [random_trajectory(rng, turns=1, success=1) for _ in range(4)]
    solved = [dataclasses.replace(t, turn_penalties=np.zeros(1, "f4")) for t in plain]
    detector = DeadRunDetector(DiagnosticsConfig(dead_after=3))
    for _ in range(5):
        detector.observe(solved)
    with pytest.raises(DeadRunError, match="every episode had the training reward 1"):
        detector.finish()
    again = DeadRunDetector(DiagnosticsConfig(dead_after=3))
    again.load_state_dict(detector.state_dict())
    again.observe([random_trajectory(rng, turns=1, success=0)])
    again.finish()  # the resumed run has seen two rewards
    off = DeadRunDetector(DiagnosticsConfig(dead_after=0))
    off.observe(solved)
    off.finish()
