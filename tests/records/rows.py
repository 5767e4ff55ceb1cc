"""Synthetic metrics rows of a run that learns."""

from __future__ import annotations

import math
import random


def learning_rows(iterations=60, replay=True):
    """Rows 0 to `iterations` with an evaluation every tenth."""
    noise, span = random.Random(0), max(iterations, 1)
    rows = []
    for i in range(iterations + 1):
        rate = 0.17 + 0.43 / (1 + math.exp(-(i - 0.4 * span) / (0.13 * span)))
        row = {"iteration": i, "counts/env_steps": 768 * i, "counts/episodes": 128 * i}
        row |= {"counts/optimizer_steps": 3 * i, "counts/tokens": 5000 * i}
        if i % 10 == 0:
            row |= {"eval/success": rate + noise.gauss(0, 0.02), "eval/return": rate}
            row["eval/success_greedy"] = 0.25 + 0.2 * i / span
        if i:
            row |= {"fresh/success": rate + noise.gauss(0, 0.04), "fresh/return": rate - 0.05, "learning_rate": 5e-4}
            row |= {"time/rollout": 0.6, "time/update": 0.3, "time/replay_bookkeeping": 0.001, "time/iteration": 1.0}
            row["time/cpu"] = 0.5
            if replay:
                row |= {"replay/age_mean": 1.4 * i, "replay/ess": 1 - 0.4 * i / span}
        rows.append(row)
    return rows
