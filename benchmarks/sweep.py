"""What a sweep costs beyond its runs, how much a second slot brings, and whether the driver's memory grows.

    python benchmarks/sweep.py              # 12 cells with one slot and with two, then 200 trivial trials
    python benchmarks/sweep.py --once       # each way once instead of twice: half the time
    python benchmarks/sweep.py --quick      # smaller: does it work? (the ratios mean little)

One process measures everything, so all numbers are of the same machine in the same hour:

- alone      each run by itself, one after another: a child process without Ray (`python sweeps/child.py ORDER`)
- one slot   the same 12 cells as a sweep with concurrency=1; overhead = one slot / alone - 1 (aim: at most 10 %)
- two slots  the same with concurrency=2; speed-up = one slot / two slots (aim: at least 1.8; needs two idle cores)
- memory     growth of the driver's resident memory (VmRSS) from the 10th trivial trial on (aim: less than 150 MB)

The order is alone, one, two, two, one, alone, so that a drift of the machine's speed cancels; means are taken.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from freshper.records.atomic import write_text  # noqa: E402
from sweeps.folder import Order, write_order  # noqa: E402
from sweeps.plan import make_plan  # noqa: E402
from sweeps.trial import CHILD, thread_variables  # noqa: E402

TRIVIAL = """
import json, sys
with open(sys.argv[1] + "/metrics.jsonl", "w") as file:
    for i in range(3):
        file.write(json.dumps({"iteration": i, "eval/success": 0.5}) + "\\n")
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=25, help="length of a run")
    parser.add_argument("--cells", type=int, default=12, help="runs per sweep")
    parser.add_argument("--trials", type=int, default=200, help="trivial trials")
    parser.add_argument("--part", choices=("all", "slots", "memory"), default="all", help="measure only this")
    parser.add_argument("--once", action="store_true", help="measure each way once: alone, one, two")
    parser.add_argument("--quick", action="store_true", help="2 cells of 3 iterations, 30 trials, each way once")
    options = parser.parse_args()
    if options.quick:
        options.once = True
        options.cells, options.iterations, options.trials = 2, 3, 30
    lines = [""]
    with tempfile.TemporaryDirectory(prefix="freshper-bench-") as scratch:
        if options.part != "memory":
            lines += slots(Path(scratch), options)
        if options.part != "slots":
            growth = memory(Path(scratch), options.trials)
            lines.append(f"driver memory over {options.trials} trials        {growth:+.0f} MB   (aim: less than 150)")
    print("\n".join(lines))
    return 0


def slots(scratch: Path, options: argparse.Namespace) -> list[str]:
    """Time the three ways; the two lines of the result."""
    overrides = [
        f"seed=range({options.cells})", f"iterations={options.iterations}", "evaluation.every=1000",
        "output.figures=false",
    ]  # fmt: skip
    order = ["alone", "one slot", "two slots"]
    seconds: dict[str, list[float]] = {mode: [] for mode in order}
    for index, mode in enumerate(order if options.once else order + order[::-1]):
        folder = scratch / str(index)
        folder.mkdir()
        begun = time.perf_counter()
        if mode == "alone":
            alone(folder, overrides)
        else:
            sweep(folder, [*overrides, f"hydra.sweeper.concurrency={1 if mode == 'one slot' else 2}"])
        seconds[mode].append(time.perf_counter() - begun)
        print(f"{mode:<10} {seconds[mode][-1]:7.1f} s", flush=True)
    base, one, two = (statistics.fmean(seconds[mode]) for mode in order)
    return [
        f"\n{options.cells} cells of {options.iterations} iterations on {os.cpu_count()} cores",
        f"overhead over the runs themselves   {100 * (one / base - 1):.1f} %   (aim: at most 10 %)",
        f"two slots against one               {one / two:.2f} x   (aim: at least 1.8)",
    ]


def alone(folder: Path, overrides: list[str]) -> None:
    """Every run as a plain child process, one after another."""
    environment = {**os.environ, **thread_variables(1)}
    for cell in make_plan(overrides).cells:
        trainer = cell.config.trainer.model_copy(update={"threads": 1})
        file = folder / "order.yaml"
        write_order(file, Order(("run.py", *cell.overrides), cell.config.model_copy(update={"trainer": trainer})))
        with (folder / "log.txt").open("ab") as log:
            subprocess.run(
                [sys.executable, str(CHILD), str(file)], cwd=folder, env=environment, stdout=log, stderr=log, check=True
            )


def sweep(folder: Path, overrides: list[str]) -> None:
    """The same as a sweep."""
    with (folder / "log.txt").open("ab") as log:
        subprocess.run(
            [sys.executable, str(ROOT / "run.py"), "-m", *overrides], cwd=folder, stdout=log, stderr=log, check=True
        )


def memory(scratch: Path, trials: int) -> float:
    """Megabytes that the driver gains between the tenth trial and the last."""
    folder = scratch / "memory"
    folder.mkdir()
    write_text(folder / "trivial.py", TRIVIAL)
    argv = f"['{{python}}','{folder / 'trivial.py'}','{{run_dir}}']"
    overrides = [f"seed=range({trials})", "iterations=2", "trainer=command", f"trainer.command.argv={argv}"]
    command = [sys.executable, str(ROOT / "run.py"), "-m", *overrides, "output.figures=false", "output.samples=0"]
    samples: list[tuple[int, float]] = []
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.5):
                ended = (folder / "log.txt").read_text(errors="replace").count("\nfinished ")
                if ended >= 10:
                    samples.append((ended, resident_megabytes(process.pid)))

        watcher = threading.Thread(target=watch)
        watcher.start()
        status = process.wait()
        done.set()
        watcher.join()
    if status:
        sys.exit((folder / "log.txt").read_text(errors="replace")[-2000:])
    known = [megabytes for _, megabytes in samples if megabytes > 0]
    print(f"driver     {known[0]:7.0f} MB after {samples[0][0]} trials, at most {max(known):.0f} MB later", flush=True)
    return max(known) - known[0]


def resident_megabytes(pid: int) -> float:
    """VmRSS of a process, 0 if it is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1e3
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
