"""Turn ragged trajectories into micro-batches with little padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from freshper.replay.images import PackedImage
from freshper.replay.trajectory import Trajectory


@dataclass(frozen=True)
class MicroBatch:
    """Some trajectories of an optimiser step, padded on the right. N = response tokens of all rows, row by row."""

    rows: list[int]
    """Index of each row in the optimiser step's batch."""
    token_ids: Tensor
    """[B, T] int64 inputs; nothing after the token before the last response token is fed."""
    states: Tensor
    """[N] index into the flattened [B * T] hidden states: the state that predicts each response token."""
    targets: Tensor
    """[N] response token ids."""
    behaviour: Tensor
    """[N] behaviour log-probs."""
    advantages: Tensor
    """[N] advantages."""
    owner: Tensor
    """[N] position in `rows` of each response token."""
    images: list[tuple[PackedImage, ...]]
    """[B] what each row's image tokens stand for, in order; empty tuples for text."""


def plan(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Group rows of similar length so that rows * longest stays within `budget` tokens (at least one row each).

    Args:
        lengths: tokens of each row.
        budget: `algorithm.micro_batch_tokens`.
    """
    groups: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda r: (-lengths[r], r)):
        # Rows come longest first, so the first row of a group sets its padded length.
        if groups and (len(groups[-1]) + 1) * lengths[groups[-1][0]] <= budget:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def micro_batches(trajectories: Sequence[Trajectory], budget: int, device: torch.device) -> list[MicroBatch]:
    """Micro-batches of one optimiser step."""
    lengths = [int(t.turn_spans[-1, 1]) - 1 for t in trajectories]
    return [_collate(trajectories, rows, lengths, device) for rows in plan(lengths, budget)]


def response_arrays(arrays: Sequence[NDArray[Any]], micro: MicroBatch, dtype: torch.dtype) -> Tensor:
    """[N] from one array [R] of response tokens for each row of a micro-batch, in the micro-batch's order."""
    return torch.as_tensor(np.concatenate(arrays), dtype=dtype, device=micro.owner.device)


def _collate(
    trajectories: Sequence[Trajectory], rows: list[int], lengths: Sequence[int], device: torch.device
) -> MicroBatch:
    width = max(lengths[row] for row in rows)
    token_ids = np.zeros((len(rows), width), dtype=np.int64)
    states, targets, behaviour, advantages, owner = [], [], [], [], []
    for place, row in enumerate(rows):
        trajectory = trajectories[row]
        token_ids[place, : lengths[row]] = trajectory.token_ids[: lengths[row]]
        sampled = np.flatnonzero(trajectory.response_mask)
        states.append(place * width + sampled - 1)
        targets.append(trajectory.token_ids[sampled])
        behaviour.append(trajectory.behaviour_logprobs[sampled])
        advantages.append(trajectory.advantages[sampled])
        owner.append(np.full(len(sampled), place))

    def tensor(parts: list[np.ndarray], dtype: torch.dtype) -> Tensor:
        return torch.as_tensor(np.concatenate(parts), dtype=dtype, device=device)

    return MicroBatch(
        rows=rows,
        token_ids=torch.as_tensor(token_ids, device=device),
        states=tensor(states, torch.long),
        targets=tensor(targets, torch.long),
        behaviour=tensor(behaviour, torch.float32),
        advantages=tensor(advantages, torch.float32),
        owner=tensor(owner, torch.long),
        images=[trajectories[row].images for row in rows],
    )
