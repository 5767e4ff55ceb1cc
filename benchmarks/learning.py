"""Train several arms on several seeds and compare them at equal environment steps and at equal optimiser steps.

    python benchmarks/learning.py                                   # 4 arms x 5 seeds, resumable, two runs at a time
    python benchmarks/learning.py --arms freshper --seeds 0 1       # fewer
    python benchmarks/learning.py --algorithms reinforce_pp grpo ppo --arms on_policy freshper --seeds 0 1 2
    python benchmarks/learning.py --set replay.decay.tau=50         # overrides for every run
    python benchmarks/learning.py --report                          # only read what is there

Every run is `python run.py algorithm=<algorithm> variant=<arm> seed=<seed>` with one thread; finished ones are not run
again. Prints a Markdown table and draws the curves. Statistic: mean over seeds with a Student t 95 % interval.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from analysis.figures.curves import draw_arms  # noqa: E402
from analysis.figures.drawing import Drawing, canvas, figure_of, heading, legend_below  # noqa: E402
from analysis.figures.options import FigureOptions  # noqa: E402
from analysis.figures.style import Style, arm_styles  # noqa: E402
from analysis.load.run_folder import read_run_folder  # noqa: E402
from analysis.statistics import t_interval  # noqa: E402
from analysis.tables.scores import ALGORITHM_NAMES, arm_name  # noqa: E402
from freshper.records.atomic import write_bytes  # noqa: E402
from freshper.records.metrics import Row, read_metrics, series  # noqa: E402

Arm = tuple[str, str]
"""Algorithm and variant."""
ARMS = ("on_policy", "standard_per", "per_no_decay", "freshper")
CLOCKS = ("counts/env_steps", "counts/optimizer_steps")
TITLE = "Text FrozenLake, small language model"
LINES = {"reinforce_pp": "-", "grpo": (0, (6, 2)), "ppo": (0, (1, 1))}
"""Dashes of an algorithm, where there are several."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), help="variants (files of conf/variant)")
    parser.add_argument("--algorithms", nargs="+", default=["reinforce_pp"], help="files of conf/algorithm")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)), help="run seeds")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--root", type=Path, default=Path("outputs/learning"), help="folder of the run folders")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="overrides for every run")
    parser.add_argument("--figure", type=Path, help="picture to draw, .png or .pdf (default: learning.png in the root)")
    parser.add_argument("--report", action="store_true", help="run nothing")
    options = parser.parse_args()
    arms = [(algorithm, variant) for variant in options.arms for algorithm in options.algorithms]
    cells = [(arm, seed) for seed in options.seeds for arm in arms]
    failed = []
    if not options.report:
        with ThreadPoolExecutor(options.jobs) as pool:
            for (arm, seed), status in zip(cells, pool.map(lambda cell: _run(*cell, options), cells), strict=True):
                print(f"{run_name(arm, seed)}: {'done' if status == 0 else f'exit status {status}'}", flush=True)
                failed += [(arm, seed)] if status else []
    runs = {arm: _load(options.root, arm, options.seeds) for arm in arms}
    if not any(runs.values()):
        sys.exit(f"no runs under {options.root}")
    print("\n" + table(runs))
    for algorithm in options.algorithms:
        print("\n" + differences(runs, algorithm))
    figure = options.figure or options.root / "learning.png"
    draw(options.root, runs, options.seeds, figure)
    print(f"\npicture {figure}")
    return 1 if failed else 0


def run_name(arm: Arm, seed: int) -> str:
    """Name of a run folder."""
    return f"{arm[0]}-{arm[1]}-seed{seed}"


def label(arm: Arm, runs: dict[Arm, list[list[Row]]]) -> str:
    """Name of an arm in tables and figures; the algorithm is named where there are several."""
    several = len({algorithm for algorithm, _ in runs}) > 1
    return f"{ALGORITHM_NAMES.get(arm[0], arm[0])}, {arm_name(arm[1])}" if several else arm_name(arm[1])


def _run(arm: Arm, seed: int, options: argparse.Namespace) -> int:
    command = [sys.executable, str(ROOT / "run.py"), f"algorithm={arm[0]}", f"variant={arm[1]}", f"seed={seed}"]
    command += [
        "trainer.threads=1",
        "trainer.progress=off",
        f"output.root={options.root.absolute()}",
        f"output.name={run_name(arm, seed)}",
        *options.set,
    ]
    options.root.mkdir(parents=True, exist_ok=True)
    with (options.root / f"{run_name(arm, seed)}.log").open("w") as log:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env=environment).returncode


def _load(root: Path, arm: Arm, seeds: list[int]) -> list[list[Row]]:
    found = [read_metrics(root / run_name(arm, seed)) for seed in seeds]
    return [rows for rows in found if rows]


def interval(values: list[float]) -> str:
    """Mean and 95 % interval in percent; `-` for the interval of a single value."""
    found = t_interval(values)
    half = "-" if found.high is None else f"{100 * (found.high - found.value):.1f}"
    return f"{100 * found.value:.1f} ± {half}"


def at(rows: list[Row], clock: str, limit: float, name: str = "eval/success") -> float:
    """The last evaluation that used at most `limit` of a clock."""
    steps, values = series(rows, name, clock)
    return [value for step, value in zip(steps, values, strict=True) if step <= limit][-1]


def common(runs: dict[Arm, list[list[Row]]], clock: str) -> float:
    """The largest reading of a clock that every run reached; where runs were evaluated at equal readings, the largest
    of those."""
    everyone = [rows for group in runs.values() for rows in group]
    shared = set.intersection(*(set(series(rows, "eval/success", clock)[0]) for rows in everyone))
    return max(shared) if max(shared) > 0 else min(rows[-1][clock] for rows in everyone)


def table(runs: dict[Arm, list[list[Row]]]) -> str:
    """Success (sampled) of base and trained policies, in percent."""
    env, optimiser = common(runs, "counts/env_steps"), common(runs, "counts/optimizer_steps")
    episodes = next(int(rows[0]["eval/episodes"]) for group in runs.values() for rows in group)
    lines = [
        f"| arm | n | base | at {env:,.0f} environment steps | at {optimiser:,.0f} optimiser steps "
        "| greedy, base → end | at least doubled | peak - end | s per run |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for arm, group in runs.items():
        if not group:
            continue
        base = [rows[0]["eval/success"] for rows in group]
        end = [at(rows, "counts/env_steps", env) for rows in group]
        steps = [at(rows, "counts/optimizer_steps", optimiser) for rows in group]
        greedy = [[row["eval/success_greedy"] for row in (rows[0], rows[-1])] for rows in group]
        doubled = sum(rows[-1]["eval/success"] >= 2 * rows[0]["eval/success"] for rows in group)
        fall = [max(series(rows, "eval/success")[1]) - rows[-1]["eval/success"] for rows in group]
        seconds = [sum(row["time/iteration"] for row in rows) for rows in group]
        lines.append(
            f"| {label(arm, runs)} | {len(group)} | {interval(base)} | {interval(end)} | {interval(steps)} | "
            f"{100 * statistics.mean(g[0] for g in greedy):.1f} → {interval([g[1] for g in greedy])} | "
            f"{doubled} of {len(group)} | {100 * max(fall):.1f} at most | {statistics.mean(seconds):.0f} |"
        )
    lines.append(
        f"\nSampled success in % over {episodes} held-out maps, mean over n seeds ± Student t 95 % interval; "
        "greedy at the end of each run."
    )
    return "\n".join(lines)


def differences(runs: dict[Arm, list[list[Row]]], algorithm: str, variant: str = "freshper") -> str:
    """What an arm has over the others of its algorithm at equal environment steps, in points, seed by seed."""
    arm = (algorithm, variant)
    if not runs.get(arm):
        return ""
    limit = common(runs, "counts/env_steps")
    mine = [at(rows, "counts/env_steps", limit) for rows in runs[arm]]
    lines = []
    for other, group in runs.items():
        if other[0] == algorithm and other != arm and len(group) == len(mine):
            gain = [a - at(rows, "counts/env_steps", limit) for a, rows in zip(mine, group, strict=True)]
            lines.append(f"{label(arm, runs)} minus {label(other, runs)}: {interval(gain)} points")
    return "\n".join(lines)


def draw(root: Path, runs: dict[Arm, list[list[Row]]], seeds: list[int], path: Path) -> None:
    """Success against environment steps and against optimiser steps, as the figures of the analysis draw it."""
    styles = _styles(runs)
    arms = [
        (label(arm, runs), styles[arm], [read_run_folder(f) for s in seeds if (f := root / run_name(arm, s)).is_dir()])
        for arm in runs
    ]
    options = FigureOptions()
    with canvas(2, share_y=True, size=(10, 3.9)) as axes:
        for axis, clock in zip(axes, CLOCKS, strict=True):
            handles, labels = draw_arms(axis, arms, "eval/success", clock, options)
        axes[0].set_ylabel("success on held-out maps, %")
        axes[0].yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}")
        axes[0].set_ylim(0, 1)
        heading(axes, TITLE, options.subtitle())
        legend_below(axes, handles, labels)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing = Drawing(path.stem, TITLE, options.band_text(), figure_of(axes))
    write_bytes(path, drawing.pdf() if path.suffix == ".pdf" else drawing.png())


def _styles(runs: dict[Arm, list[list[Row]]]) -> dict[Arm, Style]:
    """Colours and markers of the variants; with several algorithms the dashes are theirs."""
    variants = arm_styles(list(dict.fromkeys(variant for _, variant in runs)))
    if len({algorithm for algorithm, _ in runs}) == 1:
        return {arm: variants[arm[1]] for arm in runs}
    return {arm: dataclasses.replace(variants[arm[1]], dashes=LINES.get(arm[0], "-")) for arm in runs}


if __name__ == "__main__":
    sys.exit(main())
