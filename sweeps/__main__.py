"""Look after sweeps that have been started.

    python -m sweeps status outputs                          every sweep under an output root
    python -m sweeps status outputs/sweeps/<id>              every run of one sweep
    python -m sweeps retry outputs/sweeps/<id>               run what failed or crashed again, and nothing else
    python -m sweeps export outputs/sweeps/<id> --out a.csv --metrics b.csv

States are read from the run folders, now. To go on with a whole sweep, give its command again.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from freshper.config.errors import ConfigError
from freshper.records.metrics import read_metrics
from freshper.threads import before_torch
from sweeps.errors import SweepError
from sweeps.folder import RECORD, SUBFOLDER, SweepFolder, read_order
from sweeps.options import SweepOptions
from sweeps.plan import Cell, Plan
from sweeps.session import Session
from sweeps.store import BROKEN, Standing, Store
from sweeps.summary import arm_table, columns, failures, result_row, totals, write_results

EXIT_CONFIG = 2


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0, 1 if a run of the sweep has failed, 2 if there is no such sweep."""
    parser = argparse.ArgumentParser(
        prog="python -m sweeps", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("status", "state of every run, results so far, causes of failures"),
        ("retry", "run failed and crashed runs again"),
        ("export", "results (and metrics) as CSV"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("dir", type=Path, help="a sweep's folder, outputs/sweeps/<id>")
        if name == "export":
            command.add_argument("--out", type=Path, help="one row per run (default: DIR/results.csv)")
            command.add_argument("--metrics", type=Path, help="one row per run and iteration, every metric")
    options = parser.parse_args(argv)
    try:
        folders = find(options.dir)
        if options.command == "status":
            return max(status(folder) for folder in folders)
        if len(folders) > 1:
            listed = "\n".join(f"  {folder.path}" for folder in folders)
            print(f"{options.dir} holds several sweeps; expected one of\n{listed}", file=sys.stderr)
            return EXIT_CONFIG
        if options.command == "retry":
            return retry(folders[0])
        return export(folders[0], options.out, options.metrics)
    except (ConfigError, SweepError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return EXIT_CONFIG


def find(folder: Path) -> list[SweepFolder]:
    """The sweep in a folder, or the sweeps of an output root.

    Raises:
        FileNotFoundError: if there is none.
    """
    folder = folder.absolute()
    if (folder / RECORD).is_file():
        return [SweepFolder(folder)]
    patterns = (f"*/{RECORD}", f"{SUBFOLDER}/*/{RECORD}")
    found = sorted(path.parent for pattern in patterns for path in folder.glob(pattern))
    if not found:
        raise FileNotFoundError(f"no sweep in {folder}: expected a folder with {RECORD}, or an output root")
    return [SweepFolder(path) for path in found]


def load(folder: SweepFolder) -> tuple[dict[str, Any], dict[str, Standing]]:
    """sweep.json, and where each of its runs stands now."""
    record: dict[str, Any] = json.loads(folder.record.read_text(encoding="utf-8"))
    store = Store(folder.read_stopped() if record["options"]["asha"]["enabled"] else {})
    return record, {run["name"]: store.look_at(run["name"], Path(run["folder"])) for run in record["runs"]}


def status(folder: SweepFolder) -> int:
    """Print the state of a sweep."""
    record, standings = load(folder)
    print(f"{folder.path.name}   {totals(list(standings.values()))}")
    print(f"{shlex.join(['python', *record['argv']])}   (in {record['cwd']})\n")
    table = [["run", "state", "iteration", "folder"]]
    for run in record["runs"]:
        standing = standings[run["name"]]
        table.append([run["label"], standing.state, str(standing.iteration), run["folder"]])
    print(columns(table))
    print("\n" + arm_table([result_row(run, standings[run["name"]]) for run in record["runs"]]))
    failed = failures(record["runs"], standings, folder.path / "logs")
    print(f"\nfailed:\n{failed}\n" if failed else "")
    return 1 if failed else 0


def retry(folder: SweepFolder) -> int:
    """Run what is failed or crashed, with the options of the sweep."""
    record, standings = load(folder)
    runs = [run for run in record["runs"] if standings[run["name"]].state in BROKEN]
    if not runs:
        print("nothing has failed")
        return 0
    cells = []
    for run in record["runs"]:
        file = folder.order(run["name"])
        if file.is_file():
            config = read_order(file).config
            cells.append(Cell(tuple(run["overrides"]), config, tuple(run["settings"].items())))
    os.chdir(record["cwd"])
    plan = Plan(tuple(cells), (), 0, folder.path.parent.parent, folder.path.name)
    options = SweepOptions.model_validate(record["options"]).model_copy(update={"n_trials": None})
    session = Session(plan, options, record["argv"], folder)
    session.check()
    return session.run(only=BROKEN)


def export(folder: SweepFolder, out: Path | None, metrics: Path | None) -> int:
    """Write results.csv, and the metrics of all runs in one table if asked for."""
    record, standings = load(folder)
    out = out or folder.results
    write_results([result_row(run, standings[run["name"]]) for run in record["runs"]], out)
    print(out)
    if metrics is not None:
        rows = [
            {"run": run["name"], "arm": run["arm"], "seed": run["seed"], **row}
            for run in record["runs"]
            if Path(run["folder"]).is_dir()
            for row in read_metrics(Path(run["folder"]))
        ]
        names = list(dict.fromkeys(name for row in rows for name in row))
        with metrics.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        print(metrics)
    return 0


if __name__ == "__main__":
    before_torch()
    sys.exit(main())
