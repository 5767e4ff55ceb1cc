"""Read the action out of a reply: the text inside the first ``<answer>...</answer>``."""

from __future__ import annotations

import re
from collections.abc import Sequence

_OPEN, _CLOSE = re.compile("<answer>", re.IGNORECASE), re.compile("</answer>", re.IGNORECASE)


def extract_answer(text: str) -> str | None:
    """Return what stands inside the first answer tag, whitespace stripped; None without a closed tag."""
    # Two searches: one pattern with a gap in it takes quadratic time on a reply that repeats the opening tag.
    opened = _OPEN.search(text)
    closed = _CLOSE.search(text, opened.end()) if opened else None
    return text[opened.end() : closed.start()].strip() if opened and closed else None


def parse_action(text: str, actions: Sequence[str]) -> str | None:
    """Return the member of `actions` that the reply names, in its own spelling; None if the reply is not valid.

    Only the first tag counts, so a reply cannot list several moves and have the first legal one picked. Tag and
    action are matched without regard to case.
    """
    answer = extract_answer(text)
    if answer is None:
        return None
    wanted = answer.casefold()
    return next((action for action in actions if action.casefold() == wanted), None)
