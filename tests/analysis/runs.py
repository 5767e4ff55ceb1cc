"""Run folders for tests, written through freshper.records; what training would have measured is made up."""

from __future__ import annotations

import functools
import math
import random

from freshper.config.compose import compose_config
from freshper.config.identity import identity
from freshper.records.jsonl import LineWriter
from freshper.records.metrics import MetricsWriter
from freshper.records.run_dir import RunDirectory

EPISODES = 64


@functools.cache
def composed(*overrides):
    return compose_config(list(overrides))


def config_of(root, variant="freshper", seed=0, overrides=(), name=None, task="frozenlake"):
    config = composed(f"variant={variant}", "iterations=40", *overrides)
    output = config.output.model_copy(update={"root": str(root), "name": name})
    env = config.env.model_copy(update={"name": task})
    return config.model_copy(update={"seed": seed, "output": output, "env": env})


def curve_rows(seed=0, gain=0.3, iterations=40, every=10, replay=True, salt=""):
    """A run that learns by `gain`, evaluated every `every` iterations."""
    noise = random.Random(f"{seed} {gain} {salt}")
    rows = []
    for i in range(iterations + 1):
        row = {"iteration": i, "counts/env_steps": 400 * i, "counts/optimizer_steps": (3 if replay else 1) * i}
        row |= {"counts/episodes": 64 * i, "counts/tokens": 1000 * i}
        if i:
            row |= {"fresh/success": 0.2 + gain * i / iterations, "fresh/entropy": noise.random(), "fresh/ratio": 1.0}
            row |= {
                "fresh/log_ratio_max": 1e-6,
                "fresh/loss": noise.gauss(0, 1),
                "time/iteration": 1.0,
                "time/cpu": 0.75,
            }
            if replay:
                row |= {"replay/ratio": 1 + noise.gauss(0, 0.01), "replay/log_ratio_max": 1.5, "replay/ess": 0.9}
        if i % every == 0:
            level = 0.25 + gain * i / iterations + noise.gauss(0, 0.01)
            row |= {"eval/success": level, "eval/return": level, "eval/success_greedy": level + 0.1}
            row["eval/episodes"] = float(EPISODES)
        rows.append(row)
    return rows


def age_rows(iterations=40):
    for i in range(1, iterations + 1):
        yield {
            "iteration": i, "unit": "optimizer_steps", "from": [1, 2], "to": [2, 4], "count": [10, 20],
            "ess": [1.0, math.exp(-0.1 * i)], "kl": [0.0, 0.1], "clip_fraction": [0.0, 0.05],
        }  # fmt: skip


def provenance(config, variant, seed, overrides=(), **changes):
    own = [f"variant={variant}", *overrides, f"output.root={config.output.root}", f"seed={seed}"]
    if config.output.name is not None:
        own.append(f"output.name={config.output.name}")
    facts = {
        "identity": identity(config),
        "argv": ["run.py", *own],
        "overrides": own,
        "commit": "a" * 40,
        "dirty": False,
    }
    return {**facts, **changes}


def write_run(
    root, variant="freshper", seed=0, rows=None, state="finished", cause=None, overrides=(), name=None,
    task="frozenlake", gain=0.3, ages=True, record=None,
):  # fmt: skip
    """A run folder; `state=None` leaves the status `running` without a living owner, as a kill does."""
    config = config_of(root, variant, seed, overrides, name, task)
    replay = config.replay.enabled
    rows = curve_rows(seed, gain, replay=replay, salt=f"{variant} {overrides} {task}") if rows is None else rows
    with RunDirectory.open(config) as run:
        run.start(provenance(config, variant, seed, overrides, **(record or {})))
        writer = MetricsWriter(run.metrics)
        for row in rows:
            writer.write(row)
        writer.close()
        if replay and ages:
            writer = LineWriter(run.path / "ages.jsonl")
            for row in age_rows():
                writer.write(row)
            writer.close()
        if state is not None:
            run.end(state, cause, rows[-1]["iteration"] if rows else 0)
        return run.path


def write_arms(root, arms=("on_policy", "standard_per", "freshper"), seeds=(0, 1, 2)):
    gains = {"on_policy": 0.2, "standard_per": 0.25, "freshper": 0.4}
    return [write_run(root, arm, seed, gain=gains.get(arm, 0.3)) for arm in arms for seed in seeds]
