"""Colours, markers and dashes by role: the paper's for its arms, all told apart in grey and by the colour-blind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.lines import Line2D

from analysis.findings import AnalysisError
from analysis.tables.scores import ARM_NAMES, arm_name


@dataclass(frozen=True)
class Style:
    """How a line looks."""

    colour: str
    marker: str
    dashes: Any = "-"
    """A line style of matplotlib's."""

    def line(self, width: float = 1.8) -> dict[str, Any]:
        """Keywords for `Axes.plot`."""
        return {
            "color": self.colour, "marker": self.marker, "linestyle": self.dashes, "linewidth": width,
            "markersize": 4.5, "markeredgecolor": "white", "markeredgewidth": 0.5,
        }  # fmt: skip

    def handle(self) -> Line2D:
        """For a legend."""
        return Line2D([], [], **{**self.line(), "markersize": 6})


LONG, DOT_DASH = (0, (6, 1.5)), (0, (5, 1.5, 1, 1.5))
ROLES = {
    "on_policy": Style("#4285F4", "s", LONG),
    "standard_per": Style("#FBBC04", "^", DOT_DASH),
    "freshper": Style("#EA4335", "o", "-"),
    "per_no_decay": Style("#5F6368", "D", (0, (2, 1))),
    "uniform": Style("#9334E6", "v", (0, (1, 1))),
    "age_window": Style("#00796B", "<", (0, (4, 1, 1, 1, 1, 1))),
    "on_policy_epochs": Style("#174EA6", "p", (0, (3, 1))),
    "placebo": Style("#8D6E63", "X", (0, (1, 2))),
    "freshper_is": Style("#34A853", "P", (0, (7, 1, 2, 1))),
}
"""Variant -> style. On-policy, standard PER, FreshPER and FreshPER + IS have the paper's colours and markers."""
FIXED = {
    "tau_500": ROLES["freshper"],
    "tau_1000": Style("#FF9800", "D", (0, (4, 1, 1, 1))),
    "tau_1500": Style("#9E9E9E", "v", (0, (2, 1))),
    "tau_500_is": ROLES["freshper_is"],
}
"""Roles that only the paper's ablations have."""
LEVELS = (
    *FIXED.values(), Style("#6A1B9A", "<", (0, (1, 1))), Style("#00796B", ">", (0, (6, 1, 1, 1))),
    Style("#8D6E63", "X", (0, (3, 1))), Style("#E91E63", "p", (0, (1, 2))), Style("#0097A7", "h", (0, (5, 2))),
    Style("#827717", "d", (0, (2, 2))), Style("#3E2723", "*", (0, (4, 2, 1, 2))), Style("#37474F", "H", (0, (3, 3))),
)  # fmt: skip
"""Values of one setting, in their order; the first four are the paper's."""
MOST = len(LEVELS)
"""Most lines of one variant in a figure, and most arms."""


def level_styles(count: int) -> list[Style]:
    """Styles of the values of a setting."""
    return list(LEVELS[:count])


def arm_styles(arms: Sequence[str]) -> dict[str, Style]:
    """Arm -> style: its role's; where several arms are of one variant, a style for each that no role has."""
    variants = [arm.partition(" ")[0] for arm in arms]
    taken = {ROLES[variant] for variant in variants if variant in ROLES}
    free = iter([style for style in LEVELS if style not in taken])
    styles: dict[str, Style] = {}
    used: set[str] = set()
    for arm, variant in zip(arms, variants, strict=True):
        own = variant in ROLES and variant not in used
        styles[arm] = ROLES[variant] if own else next(free)
        used.add(variant)
    return styles


def check_number(arms: Sequence[str], label: str) -> None:
    """Raise AnalysisError where there are more arms than a figure can tell apart."""
    if len(arms) > MOST:
        raise AnalysisError(
            f"{label}: {len(arms)} arms do not fit into one figure; choose at most {MOST} with --arms, of "
            f"{', '.join(arms)}"
        )


METRICS = {
    "eval/success": "success on evaluation episodes",
    "eval/success_greedy": "greedy success on evaluation episodes",
    "eval/return": "return of evaluation episodes",
    "eval/return_greedy": "greedy return of evaluation episodes",
}
ROLE_NAMES = {
    **ARM_NAMES, "tau_500": "FreshPER, tau 500", "tau_1000": "FreshPER, tau 1000", "tau_1500": "FreshPER, tau 1500",
    "tau_500_is": "FreshPER, tau 500, + IS",
}  # fmt: skip


def metric_label(metric: str) -> str:
    """As an axis calls it."""
    return METRICS.get(metric, metric)


def role_label(role: str) -> str:
    """As legends of the paper's panels call it."""
    return ROLE_NAMES.get(role) or arm_name(role)


def role_style(role: str) -> Style:
    """Style of a line of the paper's panels."""
    return FIXED.get(role) or ROLES[role]
