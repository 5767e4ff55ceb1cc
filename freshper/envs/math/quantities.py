"""Read a number as people write it: 1,000 · $18 · 3 1/2 · \\frac{7}{2} · 12 km · 50% · 2 thousand."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

_MAX_CHARACTERS = 80

# LaTeX that only arranges: \left, \text{km} -> km, thin spaces, and the comma in braces of 1{,}000.
_WRAPPED = re.compile(r"\\(?:text|mathrm|mathbf|textbf|mbox|operatorname)\s*\{([^{}]*)\}")
_NOISE = re.compile(r"\\left|\\right|\\displaystyle|\\!|\\,|\\;|\\:")
_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{\s*(\d+)\s*\}|(\d))\s*(?:\{\s*(\d+)\s*\}|(\d))")
_DEGREE = re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)|\\degree|°")
_NAMED = re.compile(r"[A-Za-z]\w?\s*=\s*(?=\S)")
_DASHES = dict.fromkeys(map(ord, "−–‒—﹣"), "-")

_DIGITS = r"\d{1,3}(?:,\d{3})+|\d{1,3}(?:[ ]\d{3})+|\d+"
_VALUE = re.compile(
    rf"""(?P<sign>[+-]?)\s*(?P<currency>[$€£¥]?)\s*(?P<inner>[+-]?)
    (?:(?P<whole>\d+)(?:\s+(?:and\s+)?|\s*(?=\\))(?P<mixed>\d+\s*/\s*\d+)
      |(?P<top>{_DIGITS})\s*/\s*(?P<bottom>{_DIGITS})
      |(?P<decimal>(?:{_DIGITS})?\.\d+|(?:{_DIGITS})\.?)(?:[eE](?P<exponent>[+-]?\d{{1,2}})|\s*(?:\*|x|×|\\times|\\cdot)
        \s*10\s*\^\s*\{{?\s*(?P<power>[+-]?\d{{1,2}})\s*\}}?)?
    )(?P<rest>.*)""",
    re.VERBOSE | re.DOTALL,
)
_SCALE = {
    "dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
# Words that make what follows a number more than its unit.
_NO_UNIT = frozenset(
    [
        "or",
        "and",
        "not",
        "nor",
        "to",
        "vs",
        "versus",
        "minus",
        "plus",
        "times",
        "over",
        "through",
        "but",
        "except",
        "point",
        "half",
        "quarter",
    ]
)
# One letter that touches a number is a unit only if it is a common one: 18x and 18i are no numbers.
_LETTERS = frozenset("mgslhLVWNJKCFA")
_UNIT = re.compile(r"(?:[A-Za-zµΩ€£¥$]+\.?(?:\^\{?-?\d\}?|[23])?|/|per|·|\*)(?:\s*(?:/|\*|·)\s*|\s+|$)")


def to_number(text: str) -> Fraction | None:
    """The exact value of a text that is one number with at most a currency sign, a unit, a name (`x = 3`) or a percent.

    A percent sign is left to :func:`same_number`. None for everything else: several numbers, arithmetic that is still
    to be done (`3 + 4`, `2^5`), words.
    """
    found = _parse(text)
    return None if found is None else found[0]


def same_number(answer: str, gold: str) -> bool | None:
    """Whether two numbers are equal, exactly; None if either text is not a number.

    `50%` is equal to 50 and to 1/2, since questions ask for both.
    """
    one, other = _parse(answer), _parse(gold)
    if one is None or other is None:
        return None
    (value, percent), (wanted, gold_percent) = one, other
    return value == wanted or (percent and not gold_percent and value / 100 == wanted)


def _parse(text: str) -> tuple[Fraction, bool] | None:
    text = _plain(text)
    if not text or len(text) > _MAX_CHARACTERS:
        return None
    match = _VALUE.fullmatch(text)
    if match is None or (match["sign"] and match["inner"]):
        return None
    value = _value(match)
    rest = _unit_of(match["rest"])
    if value is None or rest is None:
        return None
    scale, percent = rest
    return (-1 if "-" in (match["sign"], match["inner"]) else 1) * value * scale, percent


def _plain(text: str) -> str:
    text = "".join(f" {c}" if unicodedata.decomposition(c).startswith("<fraction>") else c for c in text)  # 3½
    text = unicodedata.normalize("NFKC", text.translate(_DASHES)).replace("⁄", "/").translate(_DASHES)
    text = text.strip().replace("{,}", ",").replace("\\$", "$").replace("\\%", "%")
    for opening, closing in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("**", "**")):
        if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
            text = text[len(opening) : -len(closing)].strip()
    text = _DEGREE.sub(" degrees", _NOISE.sub("", _WRAPPED.sub(r" \1 ", text)))
    text = _FRACTION.sub(lambda m: f" {m[1] or m[2]}/{m[3] or m[4]}", text)
    text = re.sub(r"\s*\^", "^", re.sub(r"\s+", " ", text)).strip()
    text = _NAMED.sub("", text, count=1) if _NAMED.match(text) else text
    return text[:-1] if text.endswith(".") else text


def _value(match: re.Match[str]) -> Fraction | None:
    def whole(digits: str) -> int:
        return int(digits.replace(",", "").replace(" ", ""))

    if match["mixed"]:
        top, bottom = map(int, match["mixed"].split("/"))
        return Fraction(top, bottom) + int(match["whole"]) if bottom else None
    if match["top"]:
        bottom = whole(match["bottom"])
        return Fraction(whole(match["top"]), bottom) if bottom else None
    digits = match["decimal"].replace(",", "").replace(" ", "")
    power = int(match["exponent"] or match["power"] or 0)
    return Fraction(digits if digits[-1] != "." else digits[:-1]) * Fraction(10) ** power


def _unit_of(rest: str) -> tuple[int, bool] | None:
    """What follows the digits: (factor, is a percentage), or None if it is more than a unit."""
    glued, rest = bool(rest) and not rest[0].isspace(), rest.strip()
    if not rest:
        return 1, False
    if rest == "%" or rest.casefold() in ("percent", "per cent", "percentage points"):
        return 1, True
    if glued and rest[0].isalpha() and (len(rest) == 1 or not rest[1].isalpha()) and rest[0] not in _LETTERS:
        return None
    words = re.findall(r"[A-Za-z]+", rest)
    if rest.startswith(("/", "*", "·")) or _NO_UNIT & {word.casefold() for word in words}:
        return None
    if not re.fullmatch(rf"(?:{_UNIT.pattern})+", rest):
        return None
    factor = 1
    while words and words[0].casefold() in _SCALE:
        factor *= _SCALE[words.pop(0).casefold()]
    return factor, False
