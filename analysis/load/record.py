"""One run as the analysis knows it, wherever it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from analysis.findings import Finding
from analysis.load.ages import Ages
from analysis.load.columns import Columns
from analysis.load.facts import Facts

Kind = Literal["folder", "wandb_csv", "wandb_offline", "tensorboard"]

DONE = frozenset({"finished", "diverged", "dead"})
"""States whose numbers count."""
CUT_SHORT = frozenset({"diverged", "dead"})
"""Done, but stopped by a detector: tables show arms with and without such runs."""


@dataclass(frozen=True)
class RunRecord:
    """One run."""

    run: str
    """Name, unique in a study."""
    source: Path
    """Folder or file that it was read from."""
    kind: Kind
    """What kind of source that is."""
    facts: Facts
    """Task, arm, seed and the settings that tables group by."""
    columns: Columns
    """Its metrics."""
    state: str = "unknown"
    """`running finished failed crashed diverged dead`, or `unknown` where the source does not tell."""
    cause: str | None = None
    """Why it is not finished."""
    config: dict[str, Any] | None = None
    """Resolved config; None where the source has none."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The config's scientific part by dotted key (`analysis.load.facts.flat`); empty where the source has none."""
    provenance: dict[str, Any] | None = None
    """provenance.json; None where the source has none."""
    ages: Ages | None = None
    """Staleness by age; None without replay, or unless it was asked for."""
    findings: tuple[Finding, ...] = field(default=())
    """What was noticed while reading."""

    @property
    def counts(self) -> bool:
        """Whether its numbers enter tables: it got to its end. Exports that cannot tell the end are believed."""
        return self.state in DONE or (self.state == "unknown" and self.kind in {"wandb_csv", "tensorboard"})
