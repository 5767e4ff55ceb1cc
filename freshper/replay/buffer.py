"""The trajectory buffer: packed records under a priority index (paper Algorithm 1, store and sample).

    buffer = ReplayBuffer(config.replay, np.random.default_rng(0))
    buffer.add(trajectories, None, clock)
    if buffer.ready(batch_size, clock):
        draw = buffer.draw(batch_size, clock, beta)
        buffer.update(draw.keys, new_bases)

A row is what is stored, drawn and evicted as one: a trajectory, or with `replay.unit: group` a whole group of them,
whose base priority is the mean of its members'. One process, one thread: the learner adds, draws and updates in turn,
so there is nothing to lock.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from freshper.config.replay import ReplayConfig
from freshper.replay.correction import importance_weights
from freshper.replay.images import ImageStore, image_bound
from freshper.replay.index import KeyDraw, PriorityIndex, UpdateReport
from freshper.replay.packing import image_keys, pack_row, record_bound, unpack_row
from freshper.replay.priority import base_priorities
from freshper.replay.state import dump_state, load_state
from freshper.replay.trajectory import Trajectory

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Draw:
    """A replay batch of B trajectories, in no order of age. A trajectory may occur more than once.

    Members of a group stand together and share key, probability, weight and age.
    """

    keys: IntArray
    """[B] identify the rows, for ``ReplayBuffer.update``."""
    trajectories: list[Trajectory]
    """[B] unpacked copies."""
    probabilities: FloatArray
    """[B] probability of the row under the sampling distribution over rows."""
    weights: FloatArray
    """[B] importance-sampling weights in (0, 1]; ones when the correction is disabled."""
    ages: IntArray
    """[B] clock now minus clock at insertion, in units of ``replay.age_unit``."""
    duplicates: int
    """B minus the number of distinct trajectories."""


class ReplayBuffer:
    """Prioritised replay of whole episodes. The generator is the buffer's own: it is saved and restored with it."""

    def __init__(self, config: ReplayConfig, rng: np.random.Generator, group_size: int = 1) -> None:
        """
        Args:
            config: `replay.*`; its capacity and batch sizes count trajectories.
            rng: draws.
            group_size: members of a group, read only for `replay.unit: group`.
        """
        self.config = config
        self.rng = rng
        self.width = group_size if config.unit == "group" else 1
        """Trajectories per row."""
        self.index = self._empty_index()
        self.records: list[bytes | None] = []
        """Packed row of every slot; None where nothing lives."""
        self.record_bytes = 0
        self.images = ImageStore()
        """What the rows show; a row itself only names its images."""
        self.evicted = 0
        self.stale_updates = 0

    def __len__(self) -> int:
        return len(self.index) * self.width

    def add(self, trajectories: Sequence[Trajectory], bases: NDArray | None, clock: int) -> IntArray:
        """Store n trajectories collected at ``clock``; returns the keys of their rows, which rise and are never reused.

        ``bases`` [n] are base priorities, epsilon included; None computes them from the trajectories (not possible for
        bases that need a critic or entropies). Under ``initial: max`` rows enter at the largest base alive instead.
        Raises ValueError, storing nothing, on a bad priority, a clock that goes back, more trajectories than the
        capacity, or groups that are not whole and side by side.
        """
        config = self.config.priority
        if bases is None:
            # What enters at the maximum needs no signal of its own yet.
            maximal = config.initial == "max"
            bases = np.ones(len(trajectories)) if maximal else base_priorities(config, trajectories)
        if len(bases) != len(trajectories):
            raise ValueError(f"{len(trajectories)} trajectories but {len(bases)} base priorities")
        rows = self._rows(trajectories)
        records = [pack_row(row) for row in rows]
        added = self.index.add(np.asarray(bases).reshape(len(rows), self.width).mean(1), clock)
        for trajectory in trajectories:  # before any is released: what stays in use must not be freed in between
            self.images.hold(trajectory.images)
        for slot in added.evicted.tolist():
            gone = self._record(slot)
            if self.images:
                self.images.release(image_keys(gone))
            self.record_bytes -= sys.getsizeof(gone)
            self.records[slot] = None
        self.evicted += len(added.evicted)
        self.records.extend([None] * (self.index.slots - len(self.records)))
        for slot, record in zip(added.slots.tolist(), records, strict=True):
            self.records[slot] = record
            self.record_bytes += sys.getsizeof(record)
        return added.keys

    def ready(self, batch_size: int, clock: int) -> bool:
        """Whether ``draw`` can serve: max(warmup, batch_size) rows live, and some of them with sampling mass."""
        return len(self) >= max(self.config.warmup, batch_size) and self.index.sampler.drawable(clock)

    def draw_keys(self, batch_size: int, clock: int) -> KeyDraw:
        """Keys and slots of the rows of a batch, without unpacking. RuntimeError when not ``ready``."""
        if batch_size < 1 or batch_size % self.width:
            raise ValueError(f"batch size must be at least {self.width} and a multiple of it, got {batch_size}")
        needed = max(self.config.warmup, batch_size)
        if len(self) < needed:
            raise RuntimeError(f"replay holds {len(self)} trajectories, fewer than the {needed} that a draw needs")
        return self.index.draw(batch_size // self.width, clock, self.rng)

    def draw(self, batch_size: int, clock: int, beta: float) -> Draw:
        """A stratified batch at ``clock``, by priority and freshness. RuntimeError when not ``ready``.

        ``beta`` is the present exponent of the importance weights, see ``correction.annealed_beta``.
        """
        drawn = self.draw_keys(batch_size, clock)
        probabilities = self.index.probabilities(drawn.slots, clock)
        width = self.width
        return Draw(
            keys=np.repeat(drawn.keys, width),
            trajectories=[t for slot in drawn.slots.tolist() for t in unpack_row(self._record(slot), self.images)],
            probabilities=np.repeat(probabilities, width),
            weights=np.repeat(self.weights(probabilities, clock, beta), width),
            ages=np.repeat(self.index.ages(drawn.slots, clock), width),
            duplicates=batch_size - width * len(np.unique(drawn.keys)),
        )

    def weights(self, probabilities: FloatArray, clock: int, beta: float) -> FloatArray:
        """Importance-sampling weights of a batch as ``config.is_correction`` has them; ones when disabled."""
        correction = self.config.is_correction
        if not correction.enabled:
            return np.ones(len(probabilities))
        whole_buffer = correction.normalise == "buffer"
        return importance_weights(
            probabilities, beta, self.index.sampler.least_probability(clock) if whole_buffer else None
        )

    def update(self, keys: NDArray, bases: NDArray) -> UpdateReport:
        """New base priorities (raw signal plus epsilon) of drawn trajectories, in the order of the draw.

        Of a row given twice the last value stays. Rows evicted since the draw are ignored and counted.
        """
        keys = np.asarray(keys).reshape(-1, self.width)[:, 0]
        bases = np.asarray(bases).reshape(-1, self.width).mean(1)
        report = self.index.update(keys, bases)
        self.stale_updates += report.stale
        return report

    @property
    def nbytes(self) -> int:
        """Bytes of the stored records and images as Python objects, with the list that holds the records."""
        return self.record_bytes + sys.getsizeof(self.records) + self.images.nbytes

    @staticmethod
    def memory_bound(
        capacity: int, tokens: int, turns: int = 16, info_bytes: int = 512, values: bool = False, image_pixels: int = 0
    ) -> int:
        """Most bytes of ``capacity`` trajectories of ``tokens`` tokens, all of them sampled, any vocabulary.

        ``values`` adds those of a critic, ``image_pixels`` an image of so many pixels per turn, no two alike and none
        that can be compressed.
        """
        slot = 8
        images = turns if image_pixels else 0
        record = record_bound(tokens, tokens, turns, info_bytes, values, images)
        return capacity * (record + slot + images * image_bound(image_pixels))

    def metrics(self, clock: int) -> dict[str, float]:
        """What the buffer looks like at ``clock``. Ages in clock units, shares in [0, 1]. O(number of buckets)."""
        table, sampler = self.index.table, self.index.sampler
        order, size = table.order, len(self)
        ages, counts = clock - table.clock[order], table.count[order] * self.width
        shares = sampler.bucket_shares(clock)[order]
        newest = table.clock[order] == table.newest_clock
        images = {}
        if self.images:
            images = {"images": float(len(self.images)), "image_bytes": float(self.images.nbytes)}
        mix = self.config.uniform_mix
        newest_share = (1 - mix) * shares[newest].sum() + mix * counts[newest].sum() / max(size, 1)
        return {
            "size": float(size),
            "fill": size / self.config.capacity,
            "age_mean": float(ages @ counts) / max(size, 1),
            "age_max": float(ages.max(initial=0)),
            "age_drawn_mean": float(ages @ ((1 - mix) * shares + mix * counts / max(size, 1))),
            "newest_share": float(newest_share),
            "effective_size": sampler.effective_sample_size(clock),
            "evicted": float(self.evicted * self.width),
            "stale_updates": float(self.stale_updates),
            "record_bytes": float(self.nbytes - self.images.nbytes),
            "index_bytes": float(table.nbytes),
            **images,
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything, the generator included, as numpy arrays and one JSON string: fit for ``np.savez``, no pickle."""
        slots = self.index.table.live_slots()
        records = [self._record(slot) for slot in slots.tolist()]
        counters = {"evicted": self.evicted, "stale_updates": self.stale_updates}
        return dump_state(self.index, records, self.images, counters, self.rng)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Become the saved buffer: the same draws follow. Raises ValueError, changing nothing, on a bad state."""
        index = self._empty_index()
        records, images, counters = load_state(state, index, self.rng)
        slots = index.table.live_slots().tolist()
        self.index = index
        self.records = [None] * index.slots
        for slot, record in zip(slots, records, strict=True):
            self.records[slot] = record
        self.images = images
        self.record_bytes = sum(sys.getsizeof(r) for r in records)
        self.evicted, self.stale_updates = counters["evicted"], counters["stale_updates"]

    def _empty_index(self) -> PriorityIndex:
        """The index counts rows."""
        return PriorityIndex(self.config.model_copy(update={"capacity": self.config.capacity // self.width}))

    def _rows(self, trajectories: Sequence[Trajectory]) -> list[Sequence[Trajectory]]:
        rows = [trajectories[start : start + self.width] for start in range(0, len(trajectories), self.width)]
        for row in rows:
            if len(row) != self.width or len({t.group_id for t in row}) != 1:
                raise ValueError(
                    f"expected whole groups of {self.width} side by side, got group ids {[t.group_id for t in row]}"
                )
        return rows

    def _record(self, slot: int) -> bytes:
        record = self.records[slot]
        assert record is not None, f"slot {slot} is alive but holds no record"
        return record
