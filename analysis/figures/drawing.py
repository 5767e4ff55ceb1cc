"""A figure with its caption, and its bytes: the same data give the same PNG and PDF in every process.

Neither pyplot nor a user's matplotlibrc plays a part. Fonts are matplotlib's own, embedded as TrueType; no LaTeX.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from analysis.figures.pictures import Picture, write_picture

SINGLE, DOUBLE = (5.2, 3.9), (7.8, 4.0)
"""Width and height in inches of figures with one and with two panels."""
DPI = 160
PNG_LEVEL = 3
"""Of zlib's 1 to 9."""
ROW = 0.17
"""Height in inches that a row of a legend adds to a figure."""
CHARACTER, HANDLE = 0.062, 0.7
"""Width in inches of a character of a legend's text, and of the mark before it."""
FONT = 9.0
OWN: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": FONT,
    "axes.titlesize": FONT,
    "axes.titlelocation": "left",
    "axes.labelsize": FONT,
    "legend.fontsize": 8.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "pdf.fonttype": 42,
    "text.usetex": False,
    "svg.hashsalt": "freshper",
    "hatch.linewidth": 0.5,
}
_DEFAULTS: dict[Any, Any] = {
    key: value for key, value in matplotlib.rcParamsDefault.items() if not key.startswith("backend")
}


@contextmanager
def settings() -> Iterator[None]:
    """matplotlib with its own defaults and ours, whatever the user's configuration says; for drawing and for saving."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", matplotlib.MatplotlibDeprecationWarning)  # of defaults that are set, not used
        with matplotlib.rc_context({**_DEFAULTS, **OWN}):
            yield


@dataclass(frozen=True)
class Drawing:
    """One figure."""

    name: str
    """File name without ending."""
    title: str
    """Heading, without a full stop."""
    caption: str
    """What is drawn: statistic, interval, n, what was done to the data."""
    figure: Figure

    def png(self) -> bytes:
        """As PNG."""
        return self._bytes("png", metadata={"Software": None}, pil_kwargs={"compress_level": PNG_LEVEL})

    def pdf(self) -> bytes:
        """As PDF, fonts embedded as TrueType."""
        return self._bytes("pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})

    def _bytes(self, kind: str, **how: Any) -> bytes:
        buffer = io.BytesIO()
        with settings():
            layout = self.figure.get_layout_engine()
            if layout is not None:  # laid out once for all formats; `savefig` would draw the figure for it each time
                layout.execute(self.figure)
                self.figure.set_layout_engine(None)
            self.figure.savefig(buffer, format=kind, dpi=DPI, **how)
        return buffer.getvalue()

    def picture(self, pdf: bool) -> Picture:
        """Finished: as PNG, and as PDF if asked for."""
        wide = len(self.figure.axes) > 1 and float(self.figure.get_figwidth()) > 7
        return Picture(self.name, self.title, self.caption, wide, self.png(), self.pdf() if pdf else None)

    def _repr_png_(self) -> bytes:
        """Shown by notebooks."""
        return self.png()


@contextmanager
def canvas(panels: int = 1, share_y: bool = False, size: tuple[float, float] | None = None) -> Iterator[list[Axes]]:
    """Empty panels beside one another, to be drawn on inside the `with`; `axes[0].figure` is the figure."""
    with settings():
        figure = Figure(figsize=size or (SINGLE if panels == 1 else DOUBLE), layout="constrained")
        axes = figure.subplots(1, panels, sharey=share_y, squeeze=False)
        yield list(axes[0])


def figure_of(axes: Sequence[Axes]) -> Figure:
    """The figure that some panels are in."""
    figure = axes[0].figure
    assert isinstance(figure, Figure)
    return figure


def heading(axes: Sequence[Axes], title: str, subtitle: str = "") -> None:
    """Title above all panels, left, and a line below it that says what the marks are."""
    text = title if not subtitle else f"{title}\n{subtitle}"
    figure_of(axes).suptitle(text, x=0.01, ha="left", fontsize=FONT, linespacing=1.4)


def legend_below(axes: Sequence[Axes], handles: Sequence[Artist], labels: Sequence[str]) -> None:
    """One legend for all panels, below them, so that it covers no data; the figure grows by its rows."""
    if handles:
        figure = figure_of(axes)
        labels, columns, rows = _legend_grid(labels, figure.get_figwidth())
        figure.set_figheight(figure.get_figheight() + ROW * (rows - 1))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def legends_below(axes: Sequence[Axes], entries: Sequence[tuple[Sequence[Artist], Sequence[str]]]) -> None:
    """A legend of its own below each panel and its axis label. The figure grows by them."""
    figure = figure_of(axes)
    rows = 0
    for axis, (handles, labels) in zip(axes, entries, strict=True):
        if handles:
            labels, columns, own = _legend_grid(labels, figure.get_figwidth() / len(axes) - 0.4)
            rows = max(rows, own)
            below = axis.transAxes + ScaledTranslation(0, -34 / 72, figure.dpi_scale_trans)  # tick and axis labels
            axis.legend(
                handles, labels, loc="upper center", bbox_to_anchor=(0.5, 0), bbox_transform=below, borderaxespad=0,
                ncols=columns,
            )  # fmt: skip
    figure.set_figheight(figure.get_figheight() + ROW * max(0, rows - 1))


def _legend_grid(labels: Sequence[str], width: float) -> tuple[list[str], int, int]:
    """Labels of 8 points broken to fit into a width in inches; columns that fit side by side; lines of the legend."""
    broken = ["\n".join(textwrap.wrap(label, int((width - HANDLE) / CHARACTER))) for label in labels]
    longest = max(len(line) for label in broken for line in label.splitlines())
    columns = max(1, min(len(broken), int(width / (CHARACTER * longest + HANDLE))))
    columns = math.ceil(len(broken) / math.ceil(len(broken) / columns))  # even rows
    return broken, columns, math.ceil(sum(label.count("\n") + 1 for label in broken) / columns)


def write_drawing(drawing: Drawing, folder: Path) -> list[Path]:
    """Write `<folder>/<name>.png`, `.pdf` and `.txt` (title and caption); returns the files."""
    return write_picture(drawing.picture(pdf=True), folder)
