"""Runs as pandas frames: one row per run, and one row per run, iteration and metric."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.load.facts import Facts
from analysis.load.record import RunRecord

COLUMNS = (
    "run", "arm", "task", "seed", "algorithm", "iteration", "env_steps", "optimizer_steps", "metric", "value", "state",
)  # fmt: skip
CLOCKS = {"env_steps": "counts/env_steps", "optimizer_steps": "counts/optimizer_steps"}


def runs_frame(records: Sequence[RunRecord]) -> pd.DataFrame:
    """One row per run: `run`, all fields of `Facts`, `rows`, `last_iteration`, `state`, `cause`, `kind`, `source`."""
    rows = []
    for record in records:
        last = int(record.columns.iterations[-1]) if len(record.columns) else None
        rows.append(
            {
                "run": record.run,
                **dataclasses.asdict(record.facts),
                "rows": len(record.columns),
                "last_iteration": last,
                "state": record.state,
                "cause": record.cause,
                "kind": record.kind,
                "source": str(record.source),
            }
        )
    names = [
        "run",
        *(f.name for f in dataclasses.fields(Facts)),
        "rows",
        "last_iteration",
        "state",
        "cause",
        "kind",
        "source",
    ]
    frame = pd.DataFrame(rows, columns=names)
    whole = ("seed", "replay_ratio", "planned_iterations", "evaluation_episodes", "last_iteration")
    return frame.astype({**dict.fromkeys(whole, "Int64"), **dict.fromkeys(("tau", "alpha", "is_beta"), "float64")})


def tidy_frame(records: Sequence[RunRecord], metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per run, iteration and metric that was recorded there, columns `COLUMNS`.

    A value that was not measured has no row; a recorded NaN has one. `state` is the run's, so that a low value of a
    finished run and one of a failed run stay apart. `env_steps`, `optimizer_steps` and `seed` are <NA> where not known.

    Args:
        records: the runs.
        metrics: names; None takes all (a thousand long runs then need gigabytes).
    """
    wanted = list(dict.fromkeys(metrics)) if metrics is not None else _all_metrics(records)
    code = {name: index for index, name in enumerate(wanted)}
    parts: dict[str, list[np.ndarray]] = {name: [] for name in ("run", "iteration", "metric", "value", *CLOCKS)}
    for index, record in enumerate(records):
        columns = record.columns
        clocks = {}
        for clock, name in CLOCKS.items():
            row = columns.names.index(name) if name in columns.names else None
            clocks[clock] = np.full(len(columns), np.nan) if row is None else columns.values[row]
        for row, name in enumerate(columns.names):
            if name not in code:
                continue
            there = columns.present[row]
            size = int(there.sum())
            parts["run"].append(np.full(size, index, np.int32))
            parts["metric"].append(np.full(size, code[name], np.int32))
            parts["iteration"].append(columns.iterations[there])
            parts["value"].append(columns.values[row, there])
            for clock, values in clocks.items():
                parts[clock].append(values[there])
    kinds = {"run": np.int32, "metric": np.int32, "iteration": np.int64}
    joined = {
        name: np.concatenate(arrays) if arrays else np.empty(0, kinds.get(name, np.float64))
        for name, arrays in parts.items()
    }
    run = joined["run"]
    facts = [record.facts for record in records]
    seeds = np.array([-1 if f.seed is None else f.seed for f in facts], np.int64)
    return pd.DataFrame(
        {
            "run": pd.Categorical.from_codes(run, [record.run for record in records]),
            "arm": _categories([f.arm for f in facts], run),
            "task": _categories([f.task for f in facts], run),
            "seed": pd.arrays.IntegerArray(seeds[run], seeds[run] < 0),
            "algorithm": _categories([f.algorithm for f in facts], run),
            "iteration": joined["iteration"],
            "env_steps": _whole(joined["env_steps"]),
            "optimizer_steps": _whole(joined["optimizer_steps"]),
            "metric": pd.Categorical.from_codes(joined["metric"], wanted),
            "value": joined["value"],
            "state": _categories([record.state for record in records], run),
        }
    )


def _all_metrics(records: Sequence[RunRecord]) -> list[str]:
    return sorted({name for record in records for name in record.columns.names})


def _categories(names: Sequence[str | None], run: np.ndarray) -> pd.Categorical:
    known = list(dict.fromkeys(name for name in names if name is not None))
    codes = np.array([-1 if name is None else known.index(name) for name in names], np.int32)
    return pd.Categorical.from_codes(codes[run], known)


def _whole(values: np.ndarray) -> pd.arrays.IntegerArray:
    missing = np.isnan(values)
    return pd.arrays.IntegerArray(np.where(missing, 0, values).astype(np.int64), missing)
