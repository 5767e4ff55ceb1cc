"""Read the action out of a reply: the text inside the first ``<answer>...</answer>``."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)


def extract_answer(text: str) -> str | None:
    """Return what stands inside the first answer tag, whitespace stripped; None without a closed tag."""
    match = _ANSWER.search(text)
    return match.group(1).strip() if match else None


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
