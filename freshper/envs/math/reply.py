"""Find the final answer in a reply: the first answer tag, else the last \\boxed{}, else, if asked, the last number."""

from __future__ import annotations

import re

from freshper.envs.answer import extract_answer

MAX_CHARACTERS = 300
"""A longer text in the answer's place is no answer."""
_TAIL = 1000
"""Last characters of a reply in which its last number is looked for: bounds the time for any text."""
_MOST_BOXES = 50
"""Boxes looked at, from the last one on, so that a reply full of unclosed ones costs no time."""
# A minus belongs to a number unless it stands between two: 5-3 ends in 3, = -3 in -3.
_NUMBER = re.compile(r"(?<![\w.])[-−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)")


def final_answer(reply: str, last_number: bool = False) -> str | None:
    """The answer as written, without tag and box; None if there is none, it is empty or longer than MAX_CHARACTERS.

    Args:
        reply: the assistant's text.
        last_number: without tag and box, take the last number of the text.
    """
    answer = extract_answer(reply)
    if answer is None:
        answer = last_boxed(reply)
    else:
        boxed = last_boxed(answer)
        answer = answer if boxed is None else boxed
    if answer is None and last_number:
        numbers = _NUMBER.findall(reply[-_TAIL:])
        answer = numbers[-1] if numbers else None
    if answer is None or not answer.strip() or len(answer) > MAX_CHARACTERS:
        return None
    return answer.strip()


def last_boxed(text: str) -> str | None:
    """What stands in the last complete `\\boxed{...}` or `\\fbox{...}`, braces matched; None without one.

    A box of more than MAX_CHARACTERS does not count.
    """
    end = len(text)
    for _ in range(_MOST_BOXES):
        start = max(text.rfind("\\boxed{", 0, end), text.rfind("\\fbox{", 0, end))
        if start < 0:
            return None
        begin = text.index("{", start) + 1
        depth = 1
        for position in range(begin, min(len(text), begin + MAX_CHARACTERS + 1)):
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            if depth == 0:
                return text[begin:position]
        end = start
    return None
