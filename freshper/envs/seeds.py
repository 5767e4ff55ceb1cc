"""Environment seeds: training and evaluation never share one."""

from __future__ import annotations

import numpy as np

from freshper.config.env import EnvConfig


def train_seed(config: EnvConfig, run_seed: int, index: int) -> int:
    """Return the environment seed of training episode `index` of the run with `run_seed`.

    Always in [config.train_seed, config.eval_seed), so below every evaluation seed. Hashing both numbers gives runs
    unrelated maps (run_seed + index would make run 1 a shifted copy of run 0); two episodes share a seed by chance
    about once in the width of that range.
    """
    width = config.eval_seed - config.train_seed
    if width <= 0:
        raise ValueError(f"env.train_seed={config.train_seed} must be below env.eval_seed={config.eval_seed}")
    drawn = np.random.SeedSequence([run_seed, index]).generate_state(1, np.uint64)[0]
    return config.train_seed + int(drawn) % width


def eval_seed(config: EnvConfig, index: int) -> int:
    """Return the environment seed of evaluation episode `index`: the same maps for every run and variant."""
    return config.eval_seed + index
