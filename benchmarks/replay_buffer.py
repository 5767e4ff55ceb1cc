"""Cost of prioritised replay with freshness, beside the prioritised buffers of cpprb and tianshou.

    python benchmarks/replay_buffer.py --sizes 1e3,1e4,1e5,1e6

Peers are optional: `pip install cpprb==11.0.0 tianshou==2.0.1`. One thread. At every size all buffers are filled, then
each operation is timed call by call, taking turns between the buffers so that a busy machine slows all alike; the
tables show medians. `ratio` is peer / ours: above 1, ours is faster.

Index cost only: rows carry no trajectory here and one float in the peers, the least they accept. The last table shows
the whole buffer with real trajectories. What an operation covers:

    fill             N rows, 128 at a time
    draw             128 rows by priority, nothing changed since the last draw. Ours: keys.
                     cpprb: `sample`, which cannot leave out weights and payload. tianshou: `sample_indices`
    draw + weights   draw, then IS weights normalised by the batch: what all three can do
    draw, changed    the same after a push of 128 and an update of 128 (not timed), so that no cache is warm
    IS weights       of a drawn batch, normalised by the batch (tianshou: `get_weight`; cpprb: part of draw)
    IS, buffer max   ours only: normalised over all rows
    update           new priorities for 128 random rows
    push             128 rows into a full buffer (tianshou: `update` from a small buffer; it has no batched `add`)
    iteration        push, then twice draw, IS weights and update: one learner iteration at K = 2
    refresh          let all priorities age by one step. Ours has nothing to do: the next draw is exact. The peers have
                     no decay; it means setting all N priorities anew
    refresh + draw   128 rows by priority *and* freshness: like with like. Ours: a draw at the next clock

The last line sums up the largest N.
"""

from __future__ import annotations

import argparse
import functools
import importlib.metadata
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402

from freshper.config.replay import DecayConfig, PriorityConfig, ReplayConfig  # noqa: E402
from freshper.replay.buffer import ReplayBuffer  # noqa: E402
from freshper.replay.correction import importance_weights  # noqa: E402
from freshper.replay.index import PriorityIndex  # noqa: E402
from freshper.replay.trajectory import Trajectory  # noqa: E402

B, ALPHA, BETA, TAU = 128, 0.6, 0.4, 500.0


class Ours:
    """The priority index, with exponential decay on."""

    name = "freshper"

    def __init__(self, size: int) -> None:
        config = ReplayConfig(capacity=size, priority=PriorityConfig(alpha=ALPHA), decay=DecayConfig(tau=TAU))
        self.index = PriorityIndex(config)
        self.rng = np.random.default_rng(0)
        self.clock = 0

    def push(self, priorities: np.ndarray) -> None:
        self.clock += 1
        self.index.add(priorities, self.clock)

    def draw(self) -> Any:
        return self.index.draw(B, self.clock, self.rng)

    def weights(self, drawn: Any) -> np.ndarray:
        return importance_weights(self.index.probabilities(drawn.slots, self.clock), BETA)

    def weights_by_buffer(self, drawn: Any) -> np.ndarray:
        probabilities = self.index.probabilities(drawn.slots, self.clock)
        return importance_weights(probabilities, BETA, self.index.sampler.least_probability(self.clock))

    def ids(self, drawn: Any) -> np.ndarray:
        return drawn.keys

    def random_ids(self, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(self.index.table.next_key - len(self.index), self.index.table.next_key, B)

    def update(self, ids: np.ndarray, priorities: np.ndarray) -> None:
        self.index.update(ids, priorities)

    def refresh(self) -> None:
        self.clock += 1


class Cpprb:
    """cpprb's segment trees in C++."""

    name = "cpprb"

    def __init__(self, size: int) -> None:
        from cpprb import PrioritizedReplayBuffer

        self.size = size
        self.buffer = PrioritizedReplayBuffer(size, {"x": {"shape": 1}}, alpha=ALPHA)
        self.payload = np.zeros((B, 1), dtype=np.float32)

    def push(self, priorities: np.ndarray) -> None:
        self.buffer.add(x=self.payload[: len(priorities)], priorities=priorities)

    def draw(self) -> Any:
        return self.buffer.sample(B, BETA)

    def weights(self, drawn: Any) -> np.ndarray:
        return drawn["weights"]

    def ids(self, drawn: Any) -> np.ndarray:
        return drawn["indexes"]

    def random_ids(self, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(0, self.size, B)

    def update(self, ids: np.ndarray, priorities: np.ndarray) -> None:
        self.buffer.update_priorities(ids, priorities)

    def refresh(self) -> None:
        self.buffer.update_priorities(np.arange(self.size), np.full(self.size, 0.5))


class Tianshou:
    """tianshou's segment tree in numba."""

    name = "tianshou"

    def __init__(self, size: int) -> None:
        from tianshou.data import Batch, PrioritizedReplayBuffer
        from tianshou.data import ReplayBuffer as PlainBuffer

        self.size = size
        self.buffer = PrioritizedReplayBuffer(size, alpha=ALPHA, beta=BETA)
        zero = np.zeros(1, dtype=np.float32)
        self.sources = {}
        for n in {B, size % B} - {0}:
            self.sources[n] = PlainBuffer(n)
            for _ in range(n):
                row = Batch(obs=zero, act=0, rew=0.0, terminated=True, truncated=False, obs_next=zero, info={})
                self.sources[n].add(row)

    def push(self, priorities: np.ndarray) -> None:
        slots = self.buffer.update(self.sources[len(priorities)])
        self.buffer.update_weight(slots, priorities)

    def draw(self) -> Any:
        return self.buffer.sample_indices(B)

    def weights(self, drawn: Any) -> np.ndarray:
        weights = self.buffer.get_weight(drawn)
        return weights / weights.max()

    def ids(self, drawn: Any) -> np.ndarray:
        return drawn

    def random_ids(self, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(0, self.size, B)

    def update(self, ids: np.ndarray, priorities: np.ndarray) -> None:
        self.buffer.update_weight(ids, priorities)

    def refresh(self) -> None:
        self.buffer.update_weight(np.arange(self.size), np.full(self.size, 0.5))


def timed(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def fill_up(buffer: Any, priorities: np.ndarray) -> None:
    """Push all rows, B at a time."""
    for start in range(0, len(priorities), B):
        buffer.push(priorities[start : start + B])


def measure(
    buffers: list[Any], operations: Mapping[str, Callable[[Any], float]], repeats: int
) -> dict[str, list[float]]:
    """Median seconds per operation and buffer, taking turns; NaN where a buffer lacks the operation."""
    table = {}
    for name, run in operations.items():
        times = np.array([[run(buffer) for buffer in buffers] for _ in range(repeats)])
        table[name] = np.median(times[1:], axis=0).tolist()
    return table


def bench_index(size: int, kinds: list[Any], repeats: int) -> dict[str, list[float]]:
    """All operations at one size."""
    rng = np.random.default_rng(1)
    buffers, fill = [], []
    priorities = rng.random(size) + 1e-3
    for kind in kinds:
        buffer = kind(size)
        buffers.append(buffer)
        fill.append(timed(functools.partial(fill_up, buffer, priorities)))

    def change(buffer: Any) -> None:
        buffer.push(rng.random(B) + 1e-3)
        buffer.update(buffer.random_ids(rng), rng.random(B) + 1e-3)

    def draw_changed(buffer: Any) -> float:
        change(buffer)
        return timed(buffer.draw)

    def weights(buffer: Any) -> float:
        drawn = buffer.draw()
        return float("nan") if buffer.name == "cpprb" else timed(lambda: buffer.weights(drawn))

    def weights_by_buffer(buffer: Any) -> float:
        if buffer.name != "freshper":
            return float("nan")
        change(buffer)
        drawn = buffer.draw()
        return timed(lambda: buffer.weights_by_buffer(drawn))

    def update(buffer: Any) -> float:
        ids, values = buffer.random_ids(rng), rng.random(B) + 1e-3
        return timed(lambda: buffer.update(ids, values))

    def push(buffer: Any) -> float:
        values = rng.random(B) + 1e-3
        return timed(lambda: buffer.push(values))

    def iteration(buffer: Any) -> float:
        values = rng.random((3, B)) + 1e-3

        def run() -> None:
            buffer.push(values[0])
            for k in (1, 2):
                drawn = buffer.draw()
                buffer.weights(drawn)
                buffer.update(buffer.ids(drawn), values[k])

        return timed(run)

    small = {
        "draw": lambda buffer: timed(buffer.draw),
        "draw + weights": lambda buffer: timed(lambda: buffer.weights(buffer.draw())),
        "draw, changed": draw_changed,
        "IS weights": weights,
        "IS, buffer max": weights_by_buffer,
        "update": update,
        "push": push,
        "iteration": iteration,
    }
    table = {"fill": fill, **measure(buffers, small, repeats)}

    def refresh_and_draw(buffer: Any) -> float:
        def run() -> None:
            buffer.refresh()
            buffer.draw()

        return timed(run)

    # Few repeats: the peers take up to a second.
    slow = {"refresh": lambda buffer: timed(buffer.refresh), "refresh + draw": refresh_and_draw}
    table.update(measure(buffers, slow, 6))
    return table


def verdict(size: int, names: list[str], table: Mapping[str, list[float]]) -> str:
    """One line: our draw at this size, and how the peers' compare."""
    parts = []
    for operation in ("draw", "draw, changed", "refresh + draw"):
        ours, *peers = table[operation]
        ratios = ", ".join(f"{peer / ours:.2f}x {name}" for name, peer in zip(names[1:], peers, strict=True))
        parts.append(f"{operation} {ours * 1e3:.3f} ms" + (f" ({ratios})" if ratios else ""))
    return f"N = {size:,}, speed relative to peers, above 1 ours is faster: " + "; ".join(parts)


def text_trajectory(rng: np.random.Generator, tokens: int, turns: int, response: int) -> Trajectory:
    """A text episode of ``tokens`` tokens whose ``turns`` answers have ``response`` tokens each."""
    mask = np.zeros(tokens, dtype=np.bool_)
    starts = np.arange(turns) * (tokens // turns) + tokens // turns - response
    spans = np.stack([starts, starts + response], axis=1).astype(np.int32)
    for start, end in spans:
        mask[start:end] = True
    return Trajectory(
        token_ids=rng.integers(0, 50_000, tokens).astype(np.int32),
        response_mask=mask,
        behaviour_logprobs=np.where(mask, -rng.random(tokens), 0).astype(np.float32),
        turn_spans=spans,
        turn_rewards=rng.random(turns).astype(np.float32),
        turn_penalties=np.zeros(turns, dtype=np.float32),
        advantages=np.where(mask, rng.normal(size=tokens), 0).astype(np.float32),
        episode_return=float(rng.random()),
        group_id=0,
        seed=0,
        policy_version=0,
        iteration=0,
        info={"success": True, "valid_rate": 1.0, "truncated": False},
    )


def bench_buffer(size: int, repeats: int) -> list[str]:
    """Lines about the whole buffer: time and memory with real trajectories, packed and unpacked."""
    rng = np.random.default_rng(2)
    lines = []
    for response in (4, 12):
        lines.append(bench_trajectories(rng, size, response, repeats))
    return lines


def bench_trajectories(rng: np.random.Generator, size: int, response: int, repeats: int) -> str:
    """One such line."""
    batch = [text_trajectory(rng, 400, 8, response) for _ in range(B)]
    buffer = ReplayBuffer(ReplayConfig(capacity=size), rng)
    clock = 0
    for clock in range(size // B + 2):
        buffer.add(batch, None, clock)
    push = np.median([timed(lambda: buffer.add(batch, None, clock)) for _ in range(repeats)])
    draw = np.median([timed(lambda: buffer.draw(B, clock, BETA)) for _ in range(repeats)])
    return (
        f"{size:>9,} trajectories of 400 tokens, 8 turns of {response:>2} sampled tokens: "
        f"push 128 {push * 1e3:.2f} ms, draw 128 {draw * 1e3:.2f} ms, "
        f"{buffer.nbytes / len(buffer):,.0f} bytes each stored, index {buffer.index.table.nbytes / len(buffer):.0f}"
    )


def describe_machine() -> str:
    """Processor, Python and package versions."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{model}, {os.cpu_count()} cores{load}, Python {platform.python_version()}, numpy {np.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1e3,1e4,1e5,1e6", help="rows, comma-separated")
    parser.add_argument("--repeats", type=int, default=201, help="calls per operation")
    args = parser.parse_args()
    sizes = [int(float(text)) for text in args.sizes.split(",")]

    kinds: list[Any] = [Ours]
    print(describe_machine())
    for kind in (Cpprb, Tianshou):
        if importlib.util.find_spec(kind.name) is None:
            print(f"{kind.name} is NOT installed: left out")
        else:
            kinds.append(kind)
            print(f"{kind.name} {importlib.metadata.version(kind.name)}")
    print(
        f"{B} rows per operation, alpha {ALPHA}, exponential decay with tau {TAU:g} (ours); medians of {args.repeats}"
    )
    print("index cost: rows carry no trajectory (ours) or one float (peers)\n")
    header = f"{'N':>9}  {'operation':<15}{'freshper':>14}"
    print(header + "".join(f"{kind.name:>14}{'ratio':>8}" for kind in kinds[1:]))
    tables = {}
    for size in sizes:
        tables[size] = bench_index(size, kinds, args.repeats)
        for name, seconds in tables[size].items():
            ours = seconds[0]
            line = f"{size:>9,}  {name:<15}" + (f"{'none':>14}" if name == "refresh" else f"{ours * 1e6:>11.1f} us")
            for peer in seconds[1:]:
                if np.isnan(peer):
                    line += f"{'-':>14}{'-':>8}"
                else:
                    ratio = "-" if name == "refresh" else f"{peer / ours:.2f}"
                    line += f"{peer * 1e6:>11.1f} us{ratio:>8}"
            print(line, flush=True)
        print()
    for line in bench_buffer(10_000, 9):
        print(line)
    print()
    print(verdict(max(sizes), [kind.name for kind in kinds], tables[max(sizes)]))


if __name__ == "__main__":
    main()
