"""The paper's numbers beside ours, and the paper's tables from the public runs alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.curves import final, peak, peak_at, statistic
from analysis.findings import AnalysisError
from analysis.load.study import Study
from analysis.paper import reported
from analysis.tables.scores import ARM_NAMES, PAPER_METRICS, arm_name, blocks, cell_of
from analysis.tables.table import NO_INTERVAL, Cell, Table, plain, table

ARMS = ("on_policy", "standard_per", "freshper")
SOURCE = "arXiv 2604.16918"


def side_by_side(study: Study, metric: str | None = None, arms: Sequence[str] = ()) -> Table:
    """The reported peak, ours, the difference, and whether the reported value lies in our interval.

    Raises:
        AnalysisError: no run is of a task in the paper's main table.
    """
    chosen = statistic("peak")
    rows: list[list[Cell | str]] = []
    notes = []
    for block in blocks(study, metric, arms):
        if block.task not in reported.tasks():
            notes.append(f"{block.label} is not in the paper's main table.")
            continue
        theirs = PAPER_METRICS[reported.metric(block.task)]
        if block.metric != theirs:
            notes.append(f"{block.label}: ours is {block.metric}, the paper's {theirs}.")
        models = {record.facts.model for runs in block.arms.values() for record in runs} - {None}
        notes.append(
            f"{block.label}: ours is the model {', '.join(sorted(map(str, models))) or '(not known)'}, the paper's "
            f"{reported.model(block.task)}."
        )
        for variant in [arm for arm in ARMS if not arms or arm in {one.partition(" ")[0] for one in arms}]:
            value = reported.value(block.task, variant)
            mine = {arm: runs for arm, runs in block.arms.items() if arm.partition(" ")[0] == variant}
            for arm, runs in (mine or {variant: ()}).items():
                cell = cell_of(runs, block.metric, chosen)
                rows.append([block.label, arm_name(arm), plain(value), cell, *_verdict(value, cell)])
    if not rows:
        there = sorted({record.facts.task for record in study.records})
        raise AnalysisError(
            f"no run is of a task in the paper's main table ({', '.join(reported.tasks())}); the runs are of "
            f"{', '.join(there)}"
        )
    return table(
        "paper_side_by_side",
        "The paper's numbers beside ours",
        f"Peak over the run. Reported: one run ({SOURCE}, Table 1). Ours: mean over n done runs ± Student t 95 % "
        "interval, - for the interval of a single run. The last column says whether the reported value lies inside "
        "our interval.",
        ["task", "arm", "reported", "ours", "ours minus reported", "inside our interval"],
        rows,
        notes,
    )


def _verdict(value: float | None, cell: Cell) -> list[Cell | str]:
    if value is None or cell.value is None:
        return ["", ""]
    gap = plain(cell.value - value)
    if cell.low is None or cell.high is None:
        return [gap, NO_INTERVAL]
    return [gap, "yes" if cell.low <= value <= cell.high else "no"]


def reported_table() -> Table:
    """The main table as reported."""
    rows: list[list[Cell | str]] = []
    for task in reported.tasks():
        values = [reported.value(task, arm) for arm in ARMS]
        base, fresh = values[0], values[2]
        change = 100 * (fresh - base) / abs(base) if base and fresh is not None else None
        rows.append([task, reported.metric(task), reported.model(task), *map(plain, values), plain(change, 1)])
    return table(
        "paper_main_table",
        "The main table as reported",
        f"Peak validation value over training, one run with one seed per cell ({SOURCE}, Table 1). The last column is "
        "computed here: (FreshPER - on-policy) / |on-policy|.",
        ["task", "metric", "model", *(arm_name(arm) for arm in ARMS), "change, %"],
        rows,
    )


def recomputed_table() -> Table:
    """The main table beside the peaks of the public runs that the figures draw."""
    rows: list[list[Cell | str]] = []
    for panel in reported.figures():
        if not panel.name.startswith(("3", "4")):
            continue
        for line in panel.lines:
            x, values = line.iterations, line.values
            shown = x <= panel.x_to
            value = reported.value(panel.task, line.role)
            within, whole = peak(values[shown]), peak(values)
            rows.append(
                [
                    panel.task, arm_name(line.role), plain(value), plain(within),
                    plain(peak_at(x[shown], values[shown]), 0),
                    plain(None if value is None else within - value), plain(whole), plain(peak_at(x, values), 0),
                    plain(final(values)), plain(float(x[-1]), 0),
                ]
            )  # fmt: skip
    return table(
        "paper_recomputed",
        "Reported peaks and the public runs that the figures draw",
        "Peak within the iterations that the figure shows, peak over the full length of the same run, and its last "
        "value. One run each.",
        [
            "task", "arm", "reported", "peak shown", "reached at", "minus reported", "peak, full length",
            "reached at iteration", "last", "ends at",
        ],
        rows,
    )  # fmt: skip


def all_runs_table() -> Table:
    """Every public run at full length."""
    rows: list[list[Cell | str]] = []
    for run in reported.all_runs().itertuples():
        for name in ("success", "score"):
            x, values = reported.series(run.run, name)
            if not len(x):
                continue
            rows.append(
                [
                    run.task, name, _public_arm(run.arm, run.algorithm), 
                    plain(None if np.isnan(run.tau) else run.tau, 0, "not stated"),
                    "yes" if run.plotted else "no", plain(values[0]), plain(peak(values)), plain(peak_at(x, values), 0),
                    plain(final(values)), plain(float(x[-1]), 0), run.run,
                ]
            )  # fmt: skip
    return table(
        "paper_all_runs",
        "All public runs at full length",
        "First, largest and last validation of every public run; one run per row, nothing smoothed, padded or cut.",
        ["task", "metric", "arm", "tau", "in a figure", "first", "peak", "reached at", "last", "ends at", "run"],
        rows,
    )


def _public_arm(arm: str, algorithm: str) -> str:
    name = ARM_NAMES.get(arm, arm)
    return f"{name} (PPO)" if algorithm == "ppo" and arm == "on_policy" else name


def full_length_table() -> Table:
    """Task x arm over all public runs at full length, whichever a figure draws."""
    runs = reported.all_runs()
    runs = runs[runs["algorithm"] != "ppo"]
    rows: list[list[Cell | str]] = []
    for task in reported.tasks():
        row: list[Cell | str] = [task, reported.metric(task)]
        for arm in ARMS:
            chosen = runs[(runs["task"] == task) & (runs["arm"] == arm)]
            peaks = [
                peak(values) for run in chosen["run"] if len(values := reported.series(run, reported.metric(task))[1])
            ]
            row += [plain(max(peaks)), plain(float(np.mean(peaks))), plain(len(peaks), 0)]
        rows.append(row)
    header = [f"{arm_name(arm)}: {part}" for arm in ARMS for part in ("highest peak", "mean peak", "runs")]
    return table(
        "paper_full_length",
        "Main table over all public runs, full length",
        "Peak of each public run over its full length: the highest and the mean over runs. Runs of one arm may differ "
        "in settings (see all public runs); the PPO baseline of NQ Search is left out. No interval: hardly any cell "
        "has runs of equal settings.",
        ["task", "metric", *header],
        rows,
    )


def ablation_table(name: str) -> Table:
    """Peak and last value of the lines of some figures: `tau`, `is` or `controls`."""
    panels, title = ABLATIONS[name]
    rows: list[list[Cell | str]] = []
    for panel in map(reported.figure, panels):
        for line in panel.lines:
            rows.append(
                [
                    panel.name, panel.task, panel.metric, _role(line.role), plain(peak(line.values)),
                    plain(peak_at(line.iterations, line.values), 0), plain(final(line.values)),
                    plain(float(line.iterations[-1]), 0),
                ]
            )  # fmt: skip
    return table(
        f"paper_{name}",
        title,
        "Peak and last validation value of the public run that the figure draws, unsmoothed; one run each.",
        ["figure", "task", "metric", "arm", "peak", "reached at", "last", "ends at"],
        rows,
    )


ABLATIONS = {
    "tau": (("5a", "5b"), "Tau ablation (Figure 5)"),
    "is": (("7",), "Importance-sampling ablation (Figure 7)"),
    "controls": (("6a", "6b"), "Controls (Figure 6)"),
}


def _role(role: str) -> str:
    kind, _, tau = role.partition("_")
    if kind != "tau":
        return arm_name(role)
    tau, _, correction = tau.partition("_")
    return f"FreshPER tau={tau}" + (" + IS" if correction else "")


def paper_tables() -> list[Table]:
    """Every table of the paper, from its data alone."""
    return [
        reported_table(), recomputed_table(), *(ablation_table(name) for name in ABLATIONS), full_length_table(),
        all_runs_table(),
    ]  # fmt: skip
