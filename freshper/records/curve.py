"""curve.png: how one run learned, drawn from its metrics. matplotlib is imported when something is drawn.

Redraw: `python -c "from freshper.records.curve import draw; draw('outputs/RUN/metrics.jsonl', 'curve.png')"`
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from freshper.records.metrics import Row, read_metrics, series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = {"on_policy": "#4285F4", "standard_per": "#FBBC04", "freshper": "#EA4335"}
"""Roles of the paper's figures; they differ in lightness too."""
OTHER_ARM = "#34A853"
GREY = "#5F6368"

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9AA0A6",
    "axes.labelcolor": "#3C4043",
    "xtick.color": "#3C4043",
    "ytick.color": "#3C4043",
    "axes.grid": True,
    "grid.color": "#E8EAED",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "freshper",
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
}

SIDE_PANELS = (
    ("fresh/success", "training success (rolling mean)"),
    ("replay/age_mean", "mean age of replayed trajectories"),
    ("replay/ess", "effective sample size of replay, share of batch"),
    ("fresh/entropy", "policy entropy per token"),
    ("learning_rate", "learning rate"),
)
"""Metric and title of the small panels, in order of interest; the first three that the run has are drawn."""


def draw(
    metrics: Sequence[Row] | str | Path,
    path: str | Path,
    title: str = "",
    variant: str = "freshper",
    episodes: int | None = None,
) -> Path:
    """Draw the curve of one run; the same rows give the same bytes.

    Args:
        metrics: rows, or a metrics.jsonl.
        path: picture to write (.png, .pdf, .svg).
        title: heading.
        variant: chooses the colour.
        episodes: episodes per evaluation; if given, a band of one standard error is drawn.
    Returns:
        The path written.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = read_metrics(Path(metrics)) if isinstance(metrics, str | Path) else list(metrics)
    panels = [(name, text) for name, text in SIDE_PANELS if len(series(rows, name)[0]) > 1][:3]
    colour = PALETTE.get(variant, OTHER_ARM)
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(9.6, 4.4) if panels else (6.4, 4.4), dpi=130, layout="constrained")
        FigureCanvasAgg(figure)
        if panels:
            grid = figure.add_gridspec(len(panels), 2, width_ratios=(1.75, 1))
            main = figure.add_subplot(grid[:, 0])
            for index, (name, text) in enumerate(panels):
                side = figure.add_subplot(grid[index, 1])
                _side_panel(side, rows, name, text, colour, last=index == len(panels) - 1)
        else:
            main = figure.add_subplot()
        _success_panel(main, rows, colour, episodes)
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold", color="#202124")
        path = Path(path)
        # No program name and no date in the file: equal rows, equal bytes.
        metadata: dict[str, Any] = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
        figure.savefig(path, metadata=metadata.get(path.suffix[1:]))
    return path


def _success_panel(axes: Axes, rows: Sequence[Row], colour: str, episodes: int | None) -> None:
    steps, sampled = series(rows, "eval/success", "counts/env_steps")
    axes.set_title("success on held-out maps")
    axes.set_xlabel("environment steps in training")
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.xaxis.set_major_formatter(lambda value, _: _thousands(value))
    if not sampled:
        axes.text(0.5, 0.5, "no evaluation yet", transform=axes.transAxes, ha="center", color=GREY)
        return
    if episodes:
        errors = [(p * (1 - p) / episodes) ** 0.5 for p in sampled]
        low = [p - e for p, e in zip(sampled, errors, strict=True)]
        high = [p + e for p, e in zip(sampled, errors, strict=True)]
        axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(steps, sampled, color=colour, linewidth=2.2, marker="o", markersize=4, label="sampled")
    greedy_steps, greedy = series(rows, "eval/success_greedy", "counts/env_steps")
    if greedy:
        axes.plot(
            greedy_steps, greedy, color=GREY, linewidth=1.3, linestyle=(0, (4, 1.5)), marker="s", markersize=3.2,
            markerfacecolor="white", label="greedy",
        )  # fmt: skip
    axes.axhline(sampled[0], color="#202124", linewidth=1, linestyle=":", zorder=1)
    axes.annotate(
        f"base model, sampled: {100 * sampled[0]:.0f} %", (1, sampled[0]), xycoords=("axes fraction", "data"),
        xytext=(0, -3), textcoords="offset points", ha="right", va="top", fontsize=8, color="#202124",
    )  # fmt: skip
    top = max(max(sampled), max(greedy, default=0.0))
    axes.set_ylim(0, min(1.0, max(0.2, 1.2 * top)))
    axes.legend(loc="upper left")


def _side_panel(axes: Axes, rows: Sequence[Row], name: str, text: str, colour: str, last: bool) -> None:
    iterations, values = series(rows, name)
    axes.set_title(text)
    if name == "fresh/success":
        axes.plot(iterations, values, color=colour, linewidth=0.7, alpha=0.3)
        values = _rolling(values, max(1, len(values) // 15))
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.plot(iterations, values, color=colour, linewidth=1.6)
    if min(values) >= 0:
        axes.set_ylim(bottom=0)
    if last:
        axes.set_xlabel("iteration")
    else:
        axes.tick_params(labelbottom=False)


def _rolling(values: Sequence[float], width: int) -> list[float]:
    """Mean over the last `width` values (fewer at the start)."""
    means = []
    for end in range(1, len(values) + 1):
        window = values[max(0, end - width) : end]
        means.append(sum(window) / len(window))
    return means


def _thousands(value: float) -> str:
    if abs(value) >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if abs(value) >= 1e3 else f"{value:g}"
