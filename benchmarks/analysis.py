"""Time and memory of `python -m analysis` on many runs: the report (everything), then single commands, on one core.

    python benchmarks/analysis.py                              # 1,000 runs x 400 rows
    python benchmarks/analysis.py --runs 100 --rows 400        # fewer
    python benchmarks/analysis.py --folder DIR                 # keep the runs, and use them again

The runs are synthetic in their values only: metrics, config and ages have the names and shapes that `python run.py`
writes (two tasks, five arms of which one at four values of tau, many seeds). Each row is one command as a user types
it, a process of its own, bound to one core: seconds of the clock and of the CPU, and the largest resident memory.
Machine and results: docs/analysis.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

COMMANDS = {
    "report, first time": ("report",),
    "report, from the cache": ("report",),
    "figure all (PNG and PDF), from the cache": ("figure", "all"),
    "table all, from the cache": ("table", "all"),
    "doctor, from the cache": ("doctor",),
}
"""In their order: the first fills the cache."""
EXPECTED = {"report": (0,), "figure": (0,), "table": (0,), "doctor": (0, 1)}
"""Exit status of each; 1 of the doctor says that it found an error."""
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ARMS = ("on_policy", "standard_per", "per_no_decay", "uniform", "freshper")
TAUS = (10.0, 30.0, 100.0, 300.0)
UPDATE = (
    "ratio", "entropy", "kl_behaviour", "ratio_max", "log_ratio_max", "clip_fraction", "loss", "grad_norm", "success",
    "return", "valid_rate", "turns", "tokens", "truncated", "dropped_mass",
)  # fmt: skip
REPLAY = (
    "age_mean", "age_max", "ess", "duplicates", "is_weight_min", "is_weight_mean", "is_lr_factor", "staleness",
    "batches",
    "buffer_size", "buffer_fill", "buffer_age_mean", "buffer_age_max", "buffer_age_drawn_mean", "buffer_newest_share",
    "buffer_effective_size", "buffer_evicted", "buffer_stale_updates", "buffer_record_bytes", "buffer_index_bytes",
)  # fmt: skip
EVALUATION = ("success", "return", "valid_rate", "turns", "tokens", "truncated", "success_greedy", "return_greedy")
TIMES = ("rollout", "update", "replay_update", "replay_bookkeeping", "rest", "iteration", "checkpoint")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="run folders")
    parser.add_argument("--rows", type=int, default=400, help="rows of each metrics.jsonl")
    parser.add_argument("--folder", type=Path, help="where to make the runs; made again only if they are not there")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="freshper-analysis-"))
    try:
        if not folder.is_dir() or not any(folder.iterdir()):
            begun = time.perf_counter()
            make_runs(folder, options.runs, options.rows)
            print(f"made {options.runs} runs of {options.rows} rows in {time.perf_counter() - begun:.0f} s", flush=True)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(f"{len(list(folder.iterdir()))} runs, {size / 2**20:,.0f} MiB")
        print("| command | clock, s | CPU, s | memory, MiB |\n" + "| --- " * 4 + "|")
        with tempfile.TemporaryDirectory() as scratch:
            for name, command in COMMANDS.items():
                print(f"| {name} | {measure(command, folder, Path(scratch))} |", flush=True)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)
    return 0


def measure(command: Sequence[str], folder: Path, scratch: Path) -> str:
    """Run a command over the runs; cells with what it took."""
    words = [sys.executable, "-m", "analysis", *command, str(folder), "--cache", str(scratch / "cache")]
    words += ["--out", str(scratch / ("report.html" if command[0] == "report" else "out"))]
    begun = time.perf_counter()
    with (scratch / "output").open("w+") as told:
        process = subprocess.Popen(
            words, cwd=ROOT, env=os.environ | THREADS, stdout=told, stderr=subprocess.STDOUT, preexec_fn=_bind
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in EXPECTED[command[0]]:
            told.seek(0)
            sys.exit(f"{' '.join(words)} failed:\n{told.read()}")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return f"{seconds:.1f} | {usage.ru_utime + usage.ru_stime:.1f} | {usage.ru_maxrss / unit:,.0f}"


def _bind() -> None:
    """Keep this process on one core, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def make_runs(folder: Path, runs: int, rows: int) -> None:
    """Run folders with random values, the same every time."""
    import numpy as np
    import yaml

    from freshper.config.compose import compose_config
    from freshper.config.schema import resolved

    cells = [(arm, tau) for arm in ARMS for tau in (TAUS if arm == "freshper" else (30.0,))]
    own, configs = {}, {}
    for arm, tau in cells:
        overrides = [
            f"variant={arm}",
            f"iterations={rows - 1}",
            *([f"replay.decay.tau={tau}"] if arm == "freshper" else []),
        ]
        own[arm, tau], configs[arm, tau] = overrides, resolved(compose_config(overrides))
    for index in range(runs):
        arm, tau = cells[index % len(cells)]
        task, seed = ("frozenlake", "lake_two")[index // len(cells) % 2], index // (2 * len(cells))
        rng = np.random.default_rng(index)
        config = {**configs[arm, tau], "seed": seed, "env": {**configs[arm, tau]["env"], "name": task}}
        run = folder / f"{task}-{arm}-tau{tau:g}-seed{seed}"
        run.mkdir(parents=True)
        (run / "config.yaml").write_text(yaml.dump(config, Dumper=yaml.CDumper, sort_keys=False), encoding="utf-8")
        status = {"state": "finished", "started": "2026-01-01T00:00:00+00:00", "updated": "2026-01-01T01:00:00+00:00"}
        (run / "status.json").write_text(json.dumps(status))
        (run / "provenance.json").write_text(
            json.dumps({"overrides": [*own[arm, tau], f"env.name={task}", f"seed={seed}"], "cwd": str(ROOT)})
        )
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _rows(rng, arm, rows)))
        if arm != "on_policy":
            (run / "ages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _ages(rng, rows)))


def _rows(rng: Any, arm: str, rows: int) -> Iterator[dict[str, float]]:
    replay = arm != "on_policy"
    names = [f"fresh/{name}" for name in UPDATE] + ["learning_rate"]
    names += [f"replay/{name}" for name in (*UPDATE, *REPLAY)] if replay else []
    names += [f"time/{name}" for name in TIMES]
    noise = rng.random((rows, len(names)))
    gain = 0.3 + 0.3 * rng.random()
    evaluation = rng.normal(0, 0.03, (rows, len(EVALUATION)))
    for iteration in range(rows):
        row: dict[str, float] = {"iteration": iteration}
        if iteration:
            row |= dict(zip(names, noise[iteration].tolist(), strict=True))
            row |= {"fresh/ratio": 1.0}
        for name, each in (
            ("env_steps", 420),
            ("episodes", 64),
            ("tokens", 1700),
            ("optimizer_steps", 3 if replay else 1),
        ):
            row[f"counts/{name}"] = each * iteration
        if iteration % 10 == 0 or iteration == rows - 1:
            level = 0.25 + gain * iteration / rows
            row |= {f"eval/{name}": level + float(e) for name, e in zip(EVALUATION, evaluation[iteration], strict=True)}
            row["eval/episodes"] = 256.0
        yield row


def _ages(rng: Any, rows: int) -> Iterator[dict[str, Any]]:
    for iteration in range(1, rows):
        for _ in range(2):
            edges = [0, *(2**k for k in range((3 * iteration).bit_length() + 1))]
            bins = len(edges) - 1
            values = rng.random((3, bins))
            yield {
                "iteration": iteration, "unit": "optimizer_steps", "from": edges[:-1], "to": edges[1:],
                "count": rng.integers(1, 20, bins).tolist(), "ess": values[0].tolist(), "kl": values[1].tolist(),
                "clip_fraction": values[2].tolist(),
            }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
