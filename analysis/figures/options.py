"""How figures of runs are made, and what their captions say about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from analysis.curves import Statistic
from analysis.figures.bands import BAND_FROM
from analysis.load.study import Study
from analysis.tables.scores import Block, blocks

BANDS = {"t": "Student t 95 % interval", "bootstrap": "95 % percentile interval of a bootstrap over runs"}


@dataclass(frozen=True)
class FigureOptions:
    """How figures are made."""

    metric: str | None = None
    """Metric of curves; None takes the paper's for each task."""
    statistic: Statistic | None = None
    """Statistic of each run in `tau` and `tau_alpha`; None takes each figure's own."""
    interval: Literal["t", "bootstrap"] = "t"
    """Bands and error bars."""
    arms: tuple[str, ...] = ()
    """Arms or variants to show, in this order; none shows all."""
    smoothing: float | None = None
    """Weight of the newest value in an exponential moving average over each run's curve; None: none."""

    def band_text(self) -> str:
        """What captions say of bands."""
        return f"{BANDS[self.interval]} over the runs of an arm (none below {BAND_FROM} runs)"

    def smoothing_text(self) -> str:
        """What captions say of smoothing."""
        if self.smoothing is None:
            return "Nothing is smoothed, padded or rescaled."
        return f"Every curve is smoothed: exponential moving average, weight {self.smoothing:g} on the newest value."

    def subtitle(self, what: str = "mean") -> str:
        """Short form of both, for the picture itself."""
        smoothed = f"; smoothed (weight {self.smoothing:g})" if self.smoothing is not None else ""
        name = "95 % t interval" if self.interval == "t" else "95 % bootstrap interval"
        return f"{what}, {name} from {BAND_FROM} runs on; faint: each run{smoothed}"


def file_name(*parts: str) -> str:
    """`learning`, `frozenlake (GRPO)` -> `learning_frozenlake_grpo`."""
    words = [re.sub(r"[^a-z0-9]+", "_", part.lower()).strip("_") for part in parts]
    return "_".join(word for word in words if word)


def blocks_of(study: Study, options: FigureOptions) -> list[Block]:
    """The blocks that figures are made of, one figure each.

    Raises:
        AnalysisError: see `analysis.tables.scores.blocks`.
    """
    return blocks(study, options.metric, options.arms)
