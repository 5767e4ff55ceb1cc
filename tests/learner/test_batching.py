"""Micro-batches cover every response token exactly once, within the token budget."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from freshper.learner.batching import micro_batches, plan
from tests.learner.trajectories import random_trajectory


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(1, 200))
def test_plan_uses_every_row_once_within_the_budget(lengths, budget):
    groups = plan(lengths, budget)
    assert sorted(row for group in groups for row in group) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or len(group) * max(lengths[row] for row in group) <= budget


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 120))
def test_tokens_find_their_states_and_owners(seed, count, budget):
    rng = np.random.default_rng(seed)
    batch = [random_trajectory(rng) for _ in range(count)]
    seen = []
    for micro in micro_batches(batch, budget, torch.device("cpu")):
        width = micro.token_ids.shape[1]
        for state, target, owner, behaviour, advantage in zip(
            micro.states.tolist(), micro.targets.tolist(), micro.owner.tolist(), micro.behaviour, micro.advantages,
            strict=True,
        ):  # fmt: skip
            row, position = divmod(state, width)
            trajectory = batch[micro.rows[owner]]
            assert row == owner
            assert trajectory.response_mask[position + 1] and trajectory.token_ids[position + 1] == target
            assert trajectory.behaviour_logprobs[position + 1] == behaviour
            assert trajectory.advantages[position + 1] == advantage
            assert micro.token_ids[row, : position + 1].tolist() == trajectory.token_ids[: position + 1].tolist()
            seen.append((micro.rows[owner], position + 1))
    expected = [(k, p) for k, t in enumerate(batch) for p in np.flatnonzero(t.response_mask).tolist()]
    assert sorted(seen) == expected
