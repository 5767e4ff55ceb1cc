"""Folders of TensorBoard event files, one run each. Values are single precision, as TensorBoard stores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.findings import AnalysisError, Finding
from analysis.load.columns import from_rows
from analysis.load.names import facts_from_name
from analysis.load.record import RunRecord

GENERIC = frozenset({"tensorboard", "tb", "logs", "runs"})
"""Folder names that say nothing: the run is then named by the folder above."""


def read_tensorboard(path: Path) -> RunRecord:
    """Read the event files of a folder (or one file). Needs the tensorboard package.

    Where files of several attempts log a step again, the later file counts.

    Raises:
        AnalysisError: tensorboard is not installed, or there is no scalar.
    """
    try:
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
        from tensorboard.util import tensor_util
    except ImportError as error:
        raise AnalysisError(f"{path}: event files need the tensorboard package (pip install tensorboard)") from error
    files = [path] if path.is_file() else sorted(path.glob("events.out.tfevents.*"))
    folder = path.parent if path.is_file() else path
    name = folder.parent.name if folder.name in GENERIC else folder.name
    rows: dict[int, dict[str, Any]] = {}
    again = 0
    for file in files:
        fresh: dict[int, dict[str, Any]] = {}
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                if value.HasField("tensor") and value.tensor.dtype in (1, 2) and not value.tensor.tensor_shape.dim:
                    number = float(tensor_util.make_ndarray(value.tensor))
                elif value.HasField("simple_value"):
                    number = value.simple_value
                else:
                    continue
                fresh.setdefault(event.step, {})[value.tag] = number
        if fresh:
            # A later attempt starts from a checkpoint: what an earlier one logged from there on is void.
            void = [step for step in rows if step >= min(fresh)]
            again += len(void)
            for step in void:
                del rows[step]
            rows |= fresh
    if not rows:
        raise AnalysisError(f"{path}: no scalar in {len(files)} event files")
    ordered = [{"iteration": step, **rows[step]} for step in sorted(rows)]
    findings: tuple[Finding, ...] = ()
    if again:
        text = f"{path}: {again} steps were logged by an earlier attempt too; the later one counts"
        findings = (Finding("note", "superseded", (name,), text),)
    return RunRecord(
        run=name, source=path, kind="tensorboard", facts=facts_from_name(name), columns=from_rows(ordered)[0],
        findings=findings,
    )  # fmt: skip
