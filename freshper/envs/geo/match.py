"""Whether an answer to a question about a picture is right: as a text, as a choice, as a number within a tolerance."""

from __future__ import annotations

import re
import unicodedata

from freshper.envs.geo.values import to_value

_LETTER = re.compile(r"\(?\s*(?P<letter>[A-Ea-e])\s*(?:[).:]\s*(?P<text>.*))?", re.DOTALL)
_NAMED = re.compile(r"(?:option|choice|answer)\s*:?\s+(?=\(?[A-E]\b)", re.IGNORECASE)
_OPTION = re.compile(r"(?:^|[\s(;,])([A-E])\s*[.):、]\s*")


def is_right(answer: str, gold: str, question: str, tolerance: float) -> bool:
    """Compare an answer with the gold one (paper section 3: text, then letter, then number).

    Args:
        answer: what the reply gave as its answer.
        gold: the right answer: a value, words, or the letter of an option.
        question: its text, which may list options (`A. 30 B. 45 ...`): an option's letter and its value are then the
            same answer.
        tolerance: largest relative error of a number.
    """
    if same_text(answer) == same_text(gold):
        return True
    options = options_of(question)
    chosen, wanted = _letter(answer), _letter(gold)
    if chosen is not None and wanted is not None:
        return chosen == wanted
    if wanted is not None:
        return wanted in options and _same_value(answer, options[wanted], tolerance)
    if chosen is not None:
        return chosen in options and _same_value(options[chosen], gold, tolerance)
    return _same_value(answer, gold, tolerance)


def same_text(text: str) -> str:
    """A text as it is compared: case, width, spaces and a final full stop do not count."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return "".join(plain.split()).rstrip(".")


def options_of(question: str) -> dict[str, str]:
    """Letter -> text of the options that a question lists, in order from A on; empty if it lists none."""
    found = list(_OPTION.finditer(question))
    options = {}
    for number, match in enumerate(found):
        if match[1] != "ABCDE"[number : number + 1]:
            return {}
        end = found[number + 1].start() if number + 1 < len(found) else len(question)
        options[match[1]] = question[match.end() : end].strip(" \n\t;,")
    return options if len(options) > 1 else {}


def _letter(text: str) -> str | None:
    """The option that a text names and no other: `B`, `(B)`, `b.`, `B. 35`, `option B`."""
    plain = _NAMED.sub("", text.strip())
    match = _LETTER.fullmatch(plain)
    if match is None:
        return None
    behind = match["text"] or ""
    return None if re.search(r"\b[A-E]\b", behind) else match["letter"].upper()


def _same_value(answer: str, gold: str, tolerance: float) -> bool:
    if same_text(answer) == same_text(gold):
        return True
    value, wanted = to_value(answer), to_value(gold)
    return value is not None and wanted is not None and abs(value - wanted) <= tolerance * abs(wanted)
