"""Right or wrong: texts, letters, values within a tolerance."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshper.envs.geo.match import is_right, options_of
from freshper.envs.geo.values import to_value

OPTIONS = "What is angle x? A. 30° B. 45° C. 60° D. 5√3"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("145°", 145),
        ("12 cm", 12),
        ("$3\\frac{1}{2}$", 3.5),
        ("5√3", 5 * math.sqrt(3)),
        ("5\\sqrt{3} cm", 5 * math.sqrt(3)),
        ("\\sqrt{2}", math.sqrt(2)),
        ("-√(2)", -math.sqrt(2)),
        ("\\frac{5\\sqrt{3}}{2}", 2.5 * math.sqrt(3)),
        ("\\frac{\\sqrt{3}}{3}", math.sqrt(3) / 3),
        ("6π", 6 * math.pi),
        ("2\\pi cm^2", 2 * math.pi),
        ("\\frac{3\\pi}{4}", 0.75 * math.pi),
        ("3π/4", 0.75 * math.pi),
        ("1/2 √2", math.sqrt(2) / 2),
        ("2√3π", 2 * math.sqrt(3) * math.pi),
        ("pi", math.pi),
    ],
)
def test_values(text: str, value: float) -> None:
    assert to_value(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["", "A", "x", "30+45", "30 or 45", "√", "3/0", "√2/0", "sqrt", "cm", "3√", "the angle", "9" * 99, "√2+1"]
)
def test_no_value(text: str) -> None:
    assert to_value(text) is None


@pytest.mark.parametrize(
    ("answer", "gold", "question", "right"),
    [
        ("145", "145°", "", True),
        ("145 degrees", "145°", "", True),
        ("Rectangle", "rectangle", "", True),
        ("a rectangle", "rectangle", "", False),
        ("yes", "no", "", False),
        # Within one per cent of the gold value, not of the answer.
        ("101", "100", "", True),
        ("101.1", "100", "", False),
        ("99", "100", "", True),
        ("98.9", "100", "", False),
        ("8.66", "5√3", "", True),
        ("8.5", "5√3", "", False),
        ("0", "0", "", True),
        ("0.001", "0", "", False),
        ("-30", "30", "", False),
        # Arithmetic and lists are no answer.
        ("60+40", "100", "", False),
        ("99, 100", "100", "", False),
        # Letters.
        ("B", "B", OPTIONS, True),
        ("(b)", "B", OPTIONS, True),
        ("B. 45°", "B", OPTIONS, True),
        ("option B", "B", OPTIONS, True),
        ("C", "B", OPTIONS, False),
        ("B or C", "B", OPTIONS, False),
        ("A, B", "B", OPTIONS, False),
        ("45", "B", OPTIONS, True),
        ("45.2", "B", OPTIONS, True),
        ("60", "B", OPTIONS, False),
        ("D", "5√3", OPTIONS, True),
        ("A", "5√3", OPTIONS, False),
        ("45", "B", "no options", False),
        ("B", "45", "no options", False),
    ],
)
def test_right_and_wrong(answer: str, gold: str, question: str, right: bool) -> None:
    assert is_right(answer, gold, question, 0.01) == right


def test_tolerance_is_a_setting() -> None:
    assert not is_right("100.5", "100", "", 0.0) and is_right("100", "100", "", 0.0)
    assert is_right("109", "100", "", 0.1)


@given(st.integers(1, 10**6), st.integers(-(10**4), 10**4))
def test_tolerance_against_exact_arithmetic(gold: int, off: int) -> None:
    answer = gold + off
    if answer >= 0:
        assert is_right(str(answer), str(gold), "", 0.01) == (100 * abs(off) <= gold)


@given(st.text(max_size=100), st.text(max_size=100))
def test_any_texts_can_be_compared(answer: str, gold: str) -> None:
    assert isinstance(is_right(answer, gold, answer + gold, 0.01), bool)
    assert is_right(gold, gold, "", 0.01)


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("Find x. A. 30° B. 45°", {"A": "30°", "B": "45°"}),
        ("Find x. (A) 3 cm; (B) 4 cm; (C) 5 cm", {"A": "3 cm", "B": "4 cm", "C": "5 cm"}),
        ("In triangle ABC, angle B is 30.", {}),
        ("Is it B. or A. that is longer?", {}),
        ("A. only one", {}),
    ],
)
def test_options(question: str, options: dict[str, str]) -> None:
    assert options_of(question) == options
