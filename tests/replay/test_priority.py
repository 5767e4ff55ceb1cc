"""Base priorities, and the refusal of values that are none."""

import dataclasses

import numpy as np
import pytest

from freshper.config.replay import PriorityConfig
from freshper.replay.priority import Signals, base_priorities, changes_with_training, checked_bases
from tests.replay.helpers import make_trajectory


def test_reward_is_the_absolute_score_plus_epsilon():
    trajectories = [make_trajectory(episode_return=r) for r in (-2.0, 0.0, 0.5)]
    config = PriorityConfig(base="reward", epsilon=0.125)
    assert base_priorities(config, trajectories).tolist() == [2.125, 0.125, 0.625]


def test_format_penalties_do_not_count():
    trajectory = dataclasses.replace(make_trajectory(episode_return=1.0), turn_penalties=np.array([-9.0], np.float32))
    assert base_priorities(PriorityConfig(epsilon=0), [trajectory]).tolist() == [1.0]


def test_advantage_averages_over_response_tokens_only():
    trajectory = make_trajectory(tokens=6)
    trajectory.advantages[-2:] = [-3.0, 1.0]
    assert base_priorities(PriorityConfig(base="advantage", epsilon=0), [trajectory]).tolist() == [2.0]


def test_td_error_averages_the_absolute_error_of_response_tokens():
    config = PriorityConfig(base="td_error", epsilon=0.25)
    signals = Signals(td_errors=[np.array([-1.0, 3.0])])
    assert base_priorities(config, [make_trajectory(tokens=6)], signals).tolist() == [2.25]


def test_td_error_needs_matching_errors():
    config = PriorityConfig(base="td_error")
    with pytest.raises(ValueError, match="one array of TD errors per trajectory"):
        base_priorities(config, [make_trajectory()])
    with pytest.raises(ValueError, match=r"entry 1 have shape \(6,\), expected \(2,\)"):
        base_priorities(config, [make_trajectory(), make_trajectory()], Signals([np.ones(2), np.ones(6)]))


def test_neighbours_replay_successes_only():
    rows = [dataclasses.replace(make_trajectory(), info={"success": won}) for won in (True, False, True)]
    signals = Signals(entropies=np.array([0.0, 0.0, np.log(4.0)]))
    assert base_priorities(PriorityConfig(base="success", epsilon=0), rows).tolist() == [1.0, 0.0, 1.0]
    found = base_priorities(PriorityConfig(base="low_entropy", epsilon=0.5), rows, signals)
    np.testing.assert_allclose(found, [1.5, 0.5, 0.75])
    with pytest.raises(ValueError, match="low_entropy needs one entropy per trajectory"):
        base_priorities(PriorityConfig(base="low_entropy"), rows)


@pytest.mark.parametrize(
    ("base", "critic", "changes"),
    [("reward", True, False), ("success", True, False), ("uniform", True, False), ("advantage", False, False),
     ("advantage", True, True), ("td_error", True, True), ("low_entropy", False, True)],
)  # fmt: skip
def test_which_bases_go_stale(base, critic, changes):
    assert changes_with_training(base, critic) is changes


def test_uniform_is_one_and_a_trajectory_without_samples_has_epsilon():
    silent = dataclasses.replace(
        make_trajectory(), response_mask=np.zeros(6, np.bool_), advantages=np.zeros(6, np.float32)
    )
    assert base_priorities(PriorityConfig(base="uniform"), [silent]).tolist() == [1.0]
    assert base_priorities(PriorityConfig(base="advantage", epsilon=0.5), [silent]).tolist() == [0.5]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1e-300])
def test_bad_priorities_name_their_entry(bad):
    with pytest.raises(ValueError, match=r"entry 2 \(key 12\) is"):
        checked_bases([1.0, 0.0, bad, 3.0], np.array([10, 11, 12, 13]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_return_that_is_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match="entry 1 is"):
        base_priorities(PriorityConfig(), [make_trajectory(), make_trajectory(episode_return=bad)])


def test_bases_are_copied():
    mine = np.ones(3)
    checked_bases(mine)[0] = 5
    assert mine[0] == 1
