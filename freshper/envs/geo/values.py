"""Read a value as geometry has them: numbers with units (`math.quantities`), roots and multiples of pi (5√3, 2π/3)."""

from __future__ import annotations

import math
import re

from freshper.envs.math.quantities import to_number

_MAX_CHARACTERS = 80
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}\s*\{\s*(\d+)\s*\}")
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_SURD = re.compile(
    rf"""(?P<sign>-?)\s*(?P<factor>{_NUMBER}(?:\s*/\s*\d{{1,9}})?)?\s*(?:\*|·|\\cdot|\\times)?\s*
    (?:(?:√|\\sqrt)\s*(?:\{{\s*(?P<braced>{_NUMBER})\s*\}}|\(\s*(?P<bracket>{_NUMBER})\s*\)|(?P<bare>{_NUMBER})))?\s*
    (?P<pi>π|\\pi|pi)?\s*
    (?:/\s*(?P<bottom>\d{{1,9}}))?\s*
    (?:(?:cm|mm|dm|km|m|units?|square\ units?|square\ cm)(?:\^?\{{?[23²³]\}}?)?)?""",
    re.VERBOSE,
)


def to_value(text: str) -> float | None:
    """The value of a text that is one quantity; None for words, several values, and arithmetic still to be done."""
    if len(text) > _MAX_CHARACTERS:
        return None
    number = to_number(text)
    if number is not None:
        return float(number)
    plain = _FRACTION.sub(r"\1/\2", text.strip().strip("$").strip().rstrip("."))
    match = _SURD.fullmatch(plain)
    if match is None:
        return None
    root = match["braced"] or match["bracket"] or match["bare"]
    if root is None and match["pi"] is None:
        return None
    value = math.sqrt(float(root)) if root else 1.0
    value *= math.pi if match["pi"] else 1.0
    if match["factor"]:
        top, _, bottom = match["factor"].partition("/")
        if bottom and int(bottom) == 0:
            return None
        value *= float(top) / (int(bottom) if bottom else 1)
    if match["bottom"]:
        if int(match["bottom"]) == 0:
            return None
        value /= int(match["bottom"])
    return -value if match["sign"] else value
