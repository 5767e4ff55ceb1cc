"""Reading the action out of a reply."""

import pytest

from freshper.envs.answer import extract_answer, parse_action

ACTIONS = ("Left", "Down", "Right", "Up")


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("<answer>Left</answer>", "Left"),
        ("I think so.\n<ANSWER>\n dOWN \t</Answer> done", "Down"),
        ("<answer>Up</answer><answer>Left</answer>", "Up"),
        ("<answer>Fly</answer><answer>Left</answer>", None),
        ("<answer>Left", None),
        ("Left", None),
        ("", None),
        ("<answer></answer>", None),
        ("<answer>Left Up</answer>", None),
        ("<answer>0</answer>", None),
    ],
)
def test_parse_action(reply: str, action: str | None) -> None:
    assert parse_action(reply, ACTIONS) == action


def test_extract_answer_keeps_free_text() -> None:
    assert extract_answer("so <answer> 12 / 5 </answer>") == "12 / 5"
    assert extract_answer("12 / 5") is None
