"""Compare an answer with gold answers: exact match after SQuAD normalisation, and the released code's looser rule."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from typing import Literal

_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalise(text: str) -> str:
    """SQuAD's normalisation: lower case, no punctuation, no English articles, single spaces; here for all of Unicode.

    Composed and decomposed letters are the same (NFKC), and every kind of quote and dash is punctuation; accents count.
    A text of nothing but articles or punctuation ("The The") keeps them, so that no two answers are equal for being
    empty.
    """
    text = unicodedata.normalize("NFKC", text).casefold()
    text = unicodedata.normalize("NFKC", text)  # casefold may decompose
    bare = "".join(character for character in text if not _is_punctuation(character))
    for candidate in (_ARTICLES.sub(" ", bare), bare, text):
        words = " ".join(candidate.split())
        if words:
            return words
    return ""


def is_match(answer: str, golds: Sequence[str], rule: Literal["exact", "substring"] = "exact") -> bool:
    """Whether an answer is right.

    Args:
        answer: what the policy answered.
        golds: accepted answers, at least one.
        rule: `exact`: equal to one of them after :func:`normalise`; `substring`: contains one or is contained in one,
            lower-cased and without ASCII punctuation, articles kept, as in the released code, where the empty answer
            is therefore right.
    """
    if rule == "substring":
        given = _released(answer)
        return any(given in gold or gold in given for gold in map(_released, golds))
    given = normalise(answer)
    return bool(given) and any(given == normalise(gold) for gold in golds)


def _is_punctuation(character: str) -> bool:
    return character in string.punctuation or unicodedata.category(character)[0] == "P"


def _released(text: str) -> str:
    return " ".join(text.lower().translate(str.maketrans("", "", string.punctuation)).split())
