"""Steps a second of every task, rooms a second of Sokoban, and the share of training time that tasks take.

    python benchmarks/environments.py             # all of them, one thread, three minutes
    python benchmarks/environments.py --share     # also train three iterations of each, small models, `scale=cpu`

A step is a reply read, played and answered with the next observation, picture included; resets are part of it, as in
training. Replies are legal moves at random, to questions a wrong number, and to `nq_search` a search for the question,
none remembered, one at a time. `frozenlake_vlm_64` has gymnasium's own pixels, `frozenlake_gymnasium` is its game and
renderer (pygame); `geoqa_256` has pictures as large as public runs have, `sokoban_vlm_42` those of `scale=paper`.
Rooms: `uncached` makes a layout and its starts for each room; `disk` reads whole layouts from a warm cache (each has up
to 256 rooms, counted as one); `memory` is `reset(seed)` as training calls it, the first observation included.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.environment_share import measure  # noqa: E402
from freshper.threads import before_torch  # noqa: E402

TASKS = (
    "frozenlake", "frozenlake_vlm", "sokoban_simple", "sokoban_hard", "cliffwalking", "gsm8k", "aime", "nq_search",
    "geoqa", "arithmetic", "easy_vqa", "sokoban_vlm",
)  # fmt: skip
LARGE = {
    "frozenlake_vlm_64": ["env=frozenlake_vlm", "env.cell_pixels=64"],
    "sokoban_vlm_42": ["env=sokoban_vlm", "env.cell_pixels=42"],
    "geoqa_256": ["env=geoqa", "env.image_size=256"],
}
PEER = "frozenlake_gymnasium"
ANY_MODEL = ["model=hf", "model.path=org/name"]
"""None is loaded: a config has to name one."""
ROOMS = ("sokoban_simple", "sokoban_hard")
WARM_UP = 2000
"""Resets before Sokoban is measured: rooms come into memory."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--env", nargs="+", default=[*TASKS, *LARGE, PEER], choices=[*TASKS, *LARGE, PEER], help="what to measure"
    )
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each of five repeats (default 1)")
    parser.add_argument("--share", action="store_true", help="also train, and show the share of an iteration")
    parser.add_argument("--cpu-time", action="store_true", help="count CPU time, for machines with other work")
    options = parser.parse_args()
    meter = _Meter(options.seconds, time.process_time if options.cpu_time else time.perf_counter)
    before_torch()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FRESHPER_CACHE"] = folder  # rooms are made here, whatever the machine has already
        for name in [name for name in options.env if name in ROOMS]:
            rates = _rooms(name, meter)
            print(
                f"{name:<22}rooms/s   uncached {rates[0]:,.0f}   disk {rates[1]:,.0f}   memory {rates[2]:,.0f}",
                flush=True,
            )
        for name in options.env:
            steps, resets = _peer(meter) if name == PEER else _steps(name, meter)
            print(
                f"{name:<22}steps/s   {steps:,.0f}   ({1e6 / steps:.0f} us a step, {resets:,.0f} episodes/s)",
                flush=True,
            )
        for name in [name for name in options.env if name in TASKS] if options.share else []:
            share = measure(name, meter.clock)
            searches = f"   searches {share.asking / share.iteration:.2%}" if share.asking else ""
            print(
                f"{name:<22}share     {share.playing / share.iteration:.2%} of an iteration "
                f"({1000 * share.playing:.1f} ms of {share.iteration:.2f} s){searches}",
                flush=True,
            )


@dataclass(frozen=True)
class _Meter:
    """Five repeats of so many seconds, by a clock."""

    seconds: float
    clock: Callable[[], float]

    def rate(self, work: Callable[[], int]) -> float:
        """Median over the repeats of units of work a second."""
        rates = []
        for _ in range(5):
            began, done = self.clock(), 0
            while (passed := self.clock() - began) < self.seconds:
                done += work()
            rates.append(done / passed)
        return statistics.median(rates)


def _rooms(name: str, meter: _Meter) -> tuple[float, float, float]:
    from freshper.config.compose import compose_config
    from freshper.config.envs.sokoban import SokobanConfig
    from freshper.envs import sokoban_cache
    from freshper.envs.sokoban import SokobanText
    from freshper.envs.sokoban_layouts import draw_starts

    config = compose_config([f"env={name}", *ANY_MODEL]).env
    assert isinstance(config, SokobanConfig)
    index = iter(range(1_000_000))

    def make() -> int:
        draw_starts(config, False, next(index))
        return 1

    made = meter.rate(make)
    for first in range(0, config.layouts, sokoban_cache.CHUNK):
        sokoban_cache.load_layout(config, False, first)

    def read() -> int:
        sokoban_cache._chunk.cache_clear()
        first = next(index) * sokoban_cache.CHUNK % config.layouts
        return sum(sokoban_cache.load_layout(config, False, first + k) is not None for k in range(sokoban_cache.CHUNK))

    disk = meter.rate(read)
    env = SokobanText(config)

    def reset() -> int:
        env.reset(seed=next(index))
        return 1

    reset()
    return made, disk, meter.rate(reset)


def _steps(name: str, meter: _Meter) -> tuple[float, float]:
    import numpy as np

    from freshper.config.compose import compose_config
    from freshper.config.envs.dataset import DatasetSection
    from freshper.config.envs.sokoban import RoomSection
    from freshper.envs.make import make_env

    unremembered = ["env.cache=0"] if name == "nq_search" else []
    config = compose_config([*LARGE.get(name, [f"env={name}"]), *unremembered, *ANY_MODEL]).env
    env: Any = make_env(config)
    answers = ["99999"] * 4 if isinstance(config, DatasetSection) else env.actions
    replies = [f"<answer>{answer}</answer>" for answer in answers]
    rng = np.random.default_rng(0)
    choices = iter(rng.integers(4, size=20_000_000).tolist())
    seeds = iter(range(1_000_000))
    episodes = [0]

    def episode() -> int:
        env.reset(seed=next(seeds))
        episodes[0] += 1
        turns = 0
        while True:
            reply = f"<search>{env.question.text}</search>" if unremembered else replies[next(choices)]
            _, _, terminated, truncated, _ = env.step(reply)
            turns += 1
            if terminated or truncated:
                return turns

    for _ in range(WARM_UP if isinstance(config, RoomSection) else 1):
        env.reset(seed=next(seeds))
    began = meter.clock()
    rate = meter.rate(episode)
    return rate, episodes[0] / (meter.clock() - began)


def _peer(meter: _Meter) -> tuple[float, float]:
    """gymnasium's FrozenLake on random maps of its own, drawn after each step; at most ten steps an episode."""
    import numpy as np
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv, generate_random_map

    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    choices = iter(np.random.default_rng(0).integers(4, size=20_000_000).tolist())
    maps = [generate_random_map(4, seed=seed) for seed in range(200)]
    env = FrozenLakeEnv(desc=maps[0], is_slippery=False, render_mode="rgb_array")
    episodes = [0]

    def episode() -> int:
        env.desc = np.asarray(maps[episodes[0] % len(maps)], dtype="c")
        env.reset()
        episodes[0] += 1
        env.render()
        turns, terminated = 0, False
        while turns < 10 and not terminated:
            _, _, terminated, _, _ = env.step(next(choices))
            env.render()
            turns += 1
        return turns

    began = meter.clock()
    rate = meter.rate(episode)
    return rate, episodes[0] / (meter.clock() - began)


if __name__ == "__main__":
    main()
