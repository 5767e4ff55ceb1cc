"""What is wrong with one run."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from analysis.curves import final, peak
from analysis.doctor.commands import command
from analysis.findings import Finding, Severity
from analysis.load.record import RunRecord
from freshper.records.summary import standard_error

RATIO_TOLERANCE = 1e-3
"""How far the mean policy ratio of a fresh batch may be from 1 before its only update."""
MEAN_RATIO_LIMIT = 10.0
"""Mean policy ratio of replayed tokens above which the update is dominated by a few of them."""
CLAMP = 20.0
"""`algorithm.log_ratio_clamp` where a run has no config."""


def check_run(record: RunRecord) -> Iterator[Finding]:
    """All findings about one run, those of loading included."""
    yield from record.findings
    yield from _ending(record)
    yield from _rows(record)
    yield from _values(record)
    yield from _ratios(record)
    yield from _curve(record)


def _finding(record: RunRecord, severity: Severity, kind: str, text: str, *commands: str) -> Finding:
    return Finding(severity, kind, (record.run,), f"{record.run}: {text}", commands)


def _ending(record: RunRecord) -> Iterator[Finding]:
    cause = record.cause or "no cause recorded"
    config = record.settings
    if record.state == "dead":
        episodes = config.get("rollout.episodes")
        changes = {"rollout.episodes": str(2 * episodes)} if isinstance(episodes, int) else {}
        text = f"dead ({cause}). The same config ends the same way; larger batches see rarer successes"
        yield _finding(record, "error", "dead", text, command(record, changes))
    elif record.state == "diverged":
        rate = config.get("algorithm.learning_rate")
        changes = {"algorithm.learning_rate": f"{rate / 2:g}"} if isinstance(rate, float) else {}
        text = f"diverged ({cause}). The same config ends the same way; half the learning rate may not"
        yield _finding(record, "error", "diverged", text, command(record, changes))
    elif record.state in {"failed", "crashed"}:
        text = f"{record.state} ({cause}); the same command goes on from the last checkpoint"
        yield _finding(record, "error", record.state, text, command(record))
    elif record.state == "running":
        yield _finding(record, "note", "running", "still running; its numbers are not counted")
    elif record.state == "unknown" and record.kind == "folder":
        text = f"{record.cause}: it cannot be told how the run ended; the same command goes on or says so"
        yield _finding(record, "error", "unknown", text, command(record))


def _rows(record: RunRecord) -> Iterator[Finding]:
    if record.kind != "folder" or record.state in {"running", "failed", "crashed", "unknown"}:
        return
    again = command(record, {"output.name": f"{record.source.name}-again"})
    iterations = record.columns.iterations
    if not len(iterations):
        text = f"{record.state}, but {record.source / 'metrics.jsonl'} has no row"
        yield _finding(record, "error", "truncated", text, again)
        return
    last, planned = int(iterations[-1]), record.facts.planned_iterations
    if record.state == "finished" and planned is not None and last < planned:
        text = f"finished, but {record.source / 'metrics.jsonl'} ends at iteration {last} of {planned}"
        yield _finding(record, "error", "truncated", text, again)
    missing = sorted(set(range(last + 1)) - set(iterations.tolist()))
    if missing:
        shown = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        text = f"{record.source / 'metrics.jsonl'} lacks the rows of {len(missing)} iterations ({shown})"
        yield _finding(record, "error", "missing rows", text, again)


def _values(record: RunRecord) -> Iterator[Finding]:
    """Recorded values that are not finite."""
    columns = record.columns
    for row, name in enumerate(columns.names):
        bad = columns.present[row] & ~np.isfinite(columns.values[row])
        if bad.any():
            first, value = int(columns.iterations[bad][0]), columns.values[row][bad][0]
            text = f"{name} is {value} in {int(bad.sum())} rows, first at iteration {first}"
            yield _finding(record, "error", "not finite", text)


def _ratios(record: RunRecord) -> Iterator[Finding]:
    config = record.settings
    clamp = float(config.get("algorithm.log_ratio_clamp", CLAMP))
    limit = float(config.get("diagnostics.max_log_ratio", clamp))
    once = config.get("algorithm.epochs", 1) == 1 and config.get("algorithm.minibatches", 1) == 1
    for kind, bound in (("fresh", limit if once else clamp), ("replay", clamp)):
        yield from _explosion(record, f"{kind}/log_ratio_max", bound, "largest |log ratio|")
        if not record.columns.has(f"{kind}/log_ratio_max"):  # other trainers record the ratio itself
            yield from _explosion(record, f"{kind}/ratio_max", math.exp(bound), "largest ratio")
    yield from _explosion(record, "replay/ratio", MEAN_RATIO_LIMIT, "mean ratio")
    x, fresh = record.columns.series("fresh/ratio")
    off = np.abs(fresh - 1) > RATIO_TOLERANCE
    if once and off.any():
        text = (
            f"the mean ratio of fresh data is {fresh[off][0]:.4g} at iteration {x[off][0]:.0f}, expected 1: rollout "
            "and trainer do not compute the same log-probabilities"
        )
        yield _finding(record, "warning", "fresh ratio", text)
    _, replayed = record.columns.series("replay/ratio")
    if len(replayed) >= 5 and record.state != "dead" and np.all(np.abs(replayed - 1) < 1e-9):
        text = (
            "the mean ratio of replayed data is 1 throughout: they are not old, or their log-probabilities are not kept"
        )
        yield _finding(record, "warning", "replay ratio", text)


def _explosion(record: RunRecord, name: str, limit: float, what: str) -> Iterator[Finding]:
    x, values = record.columns.series(name)
    above = values > limit
    if above.any():
        text = (
            f"ratio explosion: {name}, the {what}, exceeds {limit:.4g} in {int(above.sum())} of {len(values)} rows, "
            f"first at iteration {x[above][0]:.0f}, at most {np.nanmax(values):.3g}"
        )
        yield _finding(record, "warning", "ratio explosion", text)


def _curve(record: RunRecord) -> Iterator[Finding]:
    """Curves that show nothing, or lost all they had gained."""
    _, values = record.columns.series("eval/success")
    if len(values) < 3 or record.state in {"running", "dead"}:
        return
    if np.all(values == values[0]):
        yield _finding(record, "warning", "flat", f"eval/success is {values[0]:g} in all {len(values)} evaluations")
        return
    episodes = record.facts.evaluation_episodes
    best, last, first = peak(values), final(values), float(values[0])
    if episodes and 0 <= best <= 1:
        noise = 3 * standard_error(best, episodes)
        if best - first > noise and last <= first:
            text = f"collapsed: eval/success rose from {first:.3f} to {best:.3f} and ended at {last:.3f}"
            yield _finding(record, "warning", "collapse", text)
