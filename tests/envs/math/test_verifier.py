"""Right, wrong, and what takes too long."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from freshper.envs.math.quantities import same_number
from freshper.envs.math.reply import final_answer, last_boxed
from freshper.envs.math.verifier import Verifier


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    made = Verifier(time_limit=2.0)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (r"\sqrt{3}/2", r"\frac{\sqrt{3}}{2}"), ("1+x^2", "x^2+1"), ("(1,2)", "(1,2)"), (r"\frac{\pi}{2}", r"0.5\pi"),
        (r"$2\sqrt{2}$", r"\sqrt{8}"), ("1024", "2^{10}"), ("A", "A"), ("18", "18"), ("$18$", "18"), ("1,000", "1000"),
    ],
)  # fmt: skip
def test_equal_expressions(verifier: Verifier, answer: str, gold: str) -> None:
    assert verifier.check(answer, gold) == "right"


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("(2,1)", "(1,2)"), ("B", "A"), (r"\sqrt{2} or \sqrt{3}", r"\sqrt{2}"), (r"\sqrt{3}, \sqrt{2}", r"\sqrt{2}"),
        (r"} \sqrt{2}", r"\sqrt{2}"), (r"\sqrt{3}$ $\boxed{\sqrt{2}}", r"\sqrt{2}"),
        (r"\sqrt{3}} \boxed{\sqrt{2}", r"\sqrt{2}"),
        ("9+9", "18"), ("9*2", "18"), (r"\sqrt{324}", "18"), ("17, 18", "18"), ("17 or 18", "18"), ("17=18", "18"),
        ("not 18", "18"), ("18!", "18"), ("18x", "18"), ("not an answer", r"\sqrt{2}"), ("\x00\ud7ff", r"\sqrt{2}"),
    ],
)  # fmt: skip
def test_other_expressions_guesses_and_undone_arithmetic(verifier: Verifier, answer: str, gold: str) -> None:
    assert verifier.check(answer, gold) == "wrong"


def test_numbers_agree_with_math_verify(verifier: Verifier) -> None:
    for answer, gold in [
        ("18", "18"),
        ("18.00", "18"),
        ("1/2", "0.5"),
        ("-3", "3"),
        ("17", "18"),
        ("36/2", "18"),
        ("025", "25"),
    ]:
        assert (verifier._ask(answer, gold) == "right") is same_number(answer, gold)


def test_an_endless_comparison_is_cut_and_the_next_one_works() -> None:
    verifier = Verifier(time_limit=0.5)
    assert verifier.check(r"\sqrt{4}", r"\sqrt[3]{8}") == "right"
    started = time.monotonic()
    assert verifier.check(r"9^{9^{9^{9}}}", r"\sqrt{2}") == "timeout"
    assert time.monotonic() - started < 5
    assert verifier.timeouts == 1
    assert verifier.check(r"9^{9^{9^{9}}}", r"\sqrt{2}") == "timeout"  # remembered, not waited for again
    assert verifier.timeouts == 1
    verifier.close()


def test_no_code_is_run(verifier: Verifier, tmp_path: Path) -> None:
    target = tmp_path / "made"
    for text in (f"__import__('os').system('touch {target}')", f"open('{target}','w')"):
        assert verifier.check(text, r"\sqrt{2}") == "wrong"
        assert verifier._ask(text, "18") == "wrong"
    assert not target.exists()


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("<answer>18</answer>", "18"),
        ("I think\n<Answer> 18 eggs </ANSWER> so", "18 eggs"),
        (r"so \boxed{18}.", "18"),
        (r"\boxed{17} no, \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"<answer>\boxed{18}</answer>", "18"),
        (r"<answer>17</answer> \boxed{18}", "17"),
        (r"\boxed{17} \boxed{18", "17"),
        ("<answer>17</answer><answer>18</answer>", "17"),
        ("18", None),
        ("<answer>18", None),
        ("<answer> </answer>", None),
        (r"\boxed{}", None),
        ("", None),
        (f"<answer>{'1' * 1000}</answer>", None),
    ],
)
def test_final_answer(reply: str, answer: str | None) -> None:
    assert final_answer(reply) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("4 + 3 = 7", "7"),
        ("The result is 12.", "12"),
        ("5-3", "3"),
        ("8 - 10 = -2", "-2"),
        ("= −2", "−2"),
        ("1,000", "1,000"),
        ("3, 4", "4"),
        ("1,2", "2"),
        ("x3 and 2nd", None),
        ("It is 7.5", "7.5"),
        ("no number", None),
        ("<answer>4</answer> or 5", "4"),
        (r"\boxed{4}, not 5", "4"),
    ],
)
def test_the_last_number_counts_where_it_is_asked_for(reply: str, answer: str | None) -> None:
    assert final_answer(reply, last_number=True) == answer
    if "answer" not in reply and "boxed" not in reply:
        assert final_answer(reply) is None


@pytest.mark.parametrize("reply", ["1," * 100_000, "1,222" * 50_000, "9" * 200_000, "-" * 200_000, "1" * 999 + "x"])
def test_the_last_number_of_any_text_is_found_at_once(reply: str) -> None:
    begun = time.perf_counter()
    final_answer(reply, last_number=True)
    assert time.perf_counter() - begun < 0.5


def test_huge_replies_take_no_time() -> None:
    started = time.monotonic()
    assert last_boxed(r"\boxed{" * 20_000) is None
    assert final_answer("<answer>" * 20_000) is None
    assert final_answer("{" * 200_000) is None
    assert time.monotonic() - started < 2
