"""Random ragged trajectories for tests."""

import numpy as np

from freshper.replay.trajectory import Trajectory


def random_trajectory(rng, vocabulary=50, turns=None, iteration=0, policy_version=0, success=None):
    """A trajectory of random shape whose advantages and log-probs are random at response tokens."""
    turns = turns or int(rng.integers(1, 5))
    mask, spans = [], []
    for _ in range(turns):
        mask += [False] * int(rng.integers(1, 8))
        start = len(mask)
        mask += [True] * int(rng.integers(1, 5))
        spans.append((start, len(mask)))
    mask = np.array(mask)
    rewards = (
        rng.integers(0, 2, turns).astype(np.float32)
        if success is None
        else np.eye(turns, dtype=np.float32)[-1] * success
    )
    return Trajectory(
        token_ids=rng.integers(1, vocabulary, len(mask)).astype(np.int32),
        response_mask=mask,
        behaviour_logprobs=np.where(mask, -rng.exponential(1, len(mask)), 0).astype(np.float32),
        turn_spans=np.array(spans, dtype=np.int32),
        turn_rewards=rewards,
        turn_penalties=np.where(rng.random(turns) < 0.3, -0.15, 0).astype(np.float32),
        advantages=np.where(mask, rng.normal(size=len(mask)), 0).astype(np.float32),
        episode_return=float(rewards.sum()),
        group_id=0,
        seed=int(rng.integers(1 << 30)),
        policy_version=policy_version,
        iteration=iteration,
        info={"success": bool(rewards.sum() > 0), "valid_rate": 1.0, "truncated": ""},
    )
