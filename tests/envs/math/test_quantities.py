"""Numbers as people write them."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshper.envs.math.quantities import same_number, to_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18", 18), ("$18", 18), (r"\$18", 18), ("18 dollars", 18), ("18.00", 18), ("18.", 18), ("+18", 18),
        ("$18$", 18), ("$18$ dollars", 18), (r"\(18\)", 18), ("**18**", 18), ("x=18", 18), ("x = 18", 18),
        ("1,000", 1000), ("1{,}000", 1000), ("1 000", 1000), ("1,234,567.5", Fraction("1234567.5")),
        ("$1,200.00", 1200),
        ("-3", -3), ("−3", -3), ("-$3", -3), ("$-3", -3), ("1e3", 1000), (r"1.2 \times 10^3", 1200),
        (r"1.2\cdot 10^{3}", 1200), (".5", Fraction(1, 2)), ("1/2", Fraction(1, 2)), ("7 / 2", Fraction(7, 2)),
        (r"\frac{7}{2}", Fraction(7, 2)), (r"\dfrac{7}{2}", Fraction(7, 2)), (r"\frac12", Fraction(1, 2)),
        ("3 1/2", Fraction(7, 2)), ("3 and 1/2", Fraction(7, 2)), (r"3\frac{1}{2}", Fraction(7, 2)),
        ("3½", Fraction(7, 2)), ("½", Fraction(1, 2)), (r"-\frac{1}{2}", Fraction(-1, 2)),
        ("12 km", 12), ("12km", 12), (r"12\text{ km}", 12), (r"12\,\mathrm{cm}^2", 12), ("12 cm^2", 12), ("12 m²", 12),
        ("60 km/h", 60), ("60 miles per hour", 60), ("90°", 90), (r"90^\circ", 90), ("18 eggs.", 18), ("5m", 5),
        ("18 €", 18), ("2 thousand", 2000), ("3 million dollars", 3_000_000), ("2 dozen eggs", 24), ("025", 25),
        ("１８", 18), ("١٨", 18), ("18\n", 18),
    ],
)  # fmt: skip
def test_one_number(text: str, value: int | Fraction) -> None:
    assert to_number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "eighteen", "18 or 19", "17, 18", "1 2 18", "1,2", "12,34", "1,0000", "{17,18}", "[17,18]", "(1,18)",
        "17=18", "9*2", "9+9", "9-2", "2^5", "9**9**9", r"\sqrt{4}", "10:12", "1-12", "≥18", ">17", "18!", "18x", "18i",
        "2 and 3",
        "1/0", "0/0", "+-3", "18 not 19", "18 to 20", "the answer is 18", "1e999", "1.2.3", "3/4/5", "18 and a half",
        "--3", "9" * 100, "nan", "inf", "18 19 eggs", "<answer>18", "18;19", "18 19",
    ],
)  # fmt: skip
def test_not_one_number(text: str) -> None:
    assert to_number(text) is None
    assert same_number(text, "18") is None


@pytest.mark.parametrize(
    ("answer", "gold", "same"),
    [
        ("50%", "50", True), ("50%", "0.5", True), (r"50\%", "1/2", True), ("50 percent", "50", True),
        ("50%", "50%", True), ("0.5", "50", False), ("0.5", "50%", False), ("50", "0.5", False), ("5000%", "50", True),
        ("0.333", "1/3", False), ("1/3", "2/6", True), ("18 thousand", "18", False),
    ],
)  # fmt: skip
def test_percent_and_exactness(answer: str, gold: str, same: bool) -> None:
    assert same_number(answer, gold) is same


@given(st.integers(-(10**12), 10**12), st.integers(0, 4))
def test_any_way_of_writing_a_number_is_the_number(value: int, decimals: int) -> None:
    zeros = "." + "0" * decimals if decimals else ""
    for text in (f"{value}{zeros}", f"{value:,}{zeros}", f"${value}{zeros}$", f" {value}{zeros} apples"):
        assert same_number(text, str(value)) is True
        assert same_number(text, str(value + 1)) is False


@given(st.text(max_size=60), st.text(max_size=20))
def test_any_text_is_read_or_refused(answer: str, gold: str) -> None:
    same = same_number(answer, gold)
    assert (same is None) == (to_number(answer) is None or to_number(gold) is None)


@given(st.text(alphabet="0123456789+-*/^=,. ()!xi<>or$%", max_size=12))
def test_arithmetic_left_undone_is_no_number(text: str) -> None:
    inner = text.strip().strip("$").lstrip("+-$ ")
    if any(sign in inner for sign in "+*^()!<>"):
        assert to_number(text) is None
