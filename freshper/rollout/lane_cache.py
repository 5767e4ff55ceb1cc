"""A key/value cache for conversations of different lengths that grow turn by turn.

Each lane owns one row, filled without gaps: the slot of a token is its position. Attention to slots up to the query's
own position is then exactly causal attention, whatever lies in later slots, so padding needs no bookkeeping: a padded
write lands beyond the lane's length and is overwritten before it is ever visible.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

_ROOM = 512
"""Slots made at first beyond the prompts; later growth adds half of what is there, so that copying stays rare. On a CPU
memory that is never written costs nothing, hence slots are cleared as they come into sight and not when made."""


class _LaneLayer(CacheLayerMixin):
    """Keys and values [rows, heads, slots, head size] of one attention layer."""

    def __init__(self, owner: LaneCache) -> None:
        super().__init__()
        self.owner = owner

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        shape = (self.owner.rows, key_states.shape[1], self.owner.slots)
        self.keys = key_states.new_empty((*shape, key_states.shape[-1]))
        self.values = value_states.new_empty((*shape, value_states.shape[-1]))
        self.is_initialized = True
        self.clear(0, self.owner.cleared)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.keys is not None and self.values is not None
        owner = self.owner
        if owner.shared:  # one row stands for all lanes: a prompt prefix that they have in common
            width = key_states.shape[2]
            self.keys[:, :, :width] = key_states
            self.values[:, :, :width] = value_states
            return key_states, value_states
        self.keys[owner.row_index, :, owner.positions] = key_states.transpose(1, 2)
        self.values[owner.row_index, :, owner.positions] = value_states.transpose(1, 2)
        live, width = owner.live, owner.width
        return self.keys[:live, :, :width], self.values[:live, :, :width]

    def clear(self, start: int, stop: int) -> None:
        """Zero slots that attention is about to see for the first time: a mask hides numbers, but not NaN."""
        assert self.keys is not None and self.values is not None
        self.keys[: self.owner.live, :, start:stop] = 0
        self.values[: self.owner.live, :, start:stop] = 0

    def resize(self, slots: int) -> None:
        """Make room for `slots` slots, keeping those that were ever in sight."""
        assert self.keys is not None and self.values is not None
        rows, heads, _, size = self.keys.shape
        live, width = self.owner.live, self.owner.cleared
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = old.new_empty((rows, heads, slots, size))
            new[:live, :, :width] = old[:live, :, :width]
            setattr(self, name, new)

    def move_rows(self, source: Tensor, target: Tensor, width: int) -> None:
        """Copy rows `source` over rows `target` (first `width` slots)."""
        assert self.keys is not None and self.values is not None
        self.keys[target, :, :width] = self.keys[source, :, :width]
        self.values[target, :, :width] = self.values[source, :, :width]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.owner.width, 0

    def get_seq_length(self) -> int:
        return self.owner.width

    def get_max_length(self) -> int:
        return -1


class LaneCache(Cache):
    """Cache of all layers; set the fields below with :meth:`place` before each forward pass."""

    def __init__(self, rows: int, layers: int, device: torch.device, longest_prompt: int) -> None:
        """
        Args:
            rows: conversations.
            layers: attention layers of the model.
            device: where the model is.
            longest_prompt: tokens of the longest first prompt, for the size of the first allocation.
        """
        self.rows = rows
        self.live = rows
        self.slots = longest_prompt + _ROOM
        self.width = 0
        self.cleared = 0
        self.shared = False
        self.positions = torch.zeros((rows, 1), dtype=torch.long, device=device)
        self.row_index = torch.arange(rows, device=device)[:, None]
        self.lane_layers = [_LaneLayer(self) for _ in range(layers)]
        super().__init__(layers=list(self.lane_layers))

    def place(self, positions: Tensor, width: int, shared: bool = False) -> None:
        """Say where the next forward pass writes.

        Args:
            positions: [live, q] slot of each new token (ignored if `shared`).
            width: slots that attention may look at: the largest position + 1.
            shared: the pass has one row, which is written to the start of every row.
        """
        self.positions, self.shared = positions, shared
        self.row_index = torch.arange(self.live, device=positions.device)[:, None]
        layers = [layer for layer in self.lane_layers if layer.is_initialized]
        if width > self.slots:
            self.slots = max(width, self.slots + self.slots // 2)
            for layer in layers:
                layer.resize(self.slots)
        if width > self.cleared:
            for layer in layers:
                layer.clear(self.cleared, width)
            self.cleared = width
        self.width = width

    def keep_rows(self, keep: list[int]) -> list[int]:
        """Drop all rows but `keep`; moves only as many rows as are dropped.

        Returns:
            The old row that each of the remaining rows (0 to len(keep) - 1) now holds.
        """
        count = len(keep)
        kept = set(keep)
        holes = [row for row in range(count) if row not in kept]
        movers = [row for row in keep if row >= count]
        if holes:
            device = self.positions.device
            source, target = torch.tensor(movers, device=device), torch.tensor(holes, device=device)
            for layer in self.lane_layers:
                layer.move_rows(source, target, self.width)
        order = list(range(count))
        for hole, mover in zip(holes, movers, strict=True):
            order[hole] = mover
        self.live = count
        return order
