"""Exact match after SQuAD normalisation."""

import re
import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshper.envs.search.match import is_match, normalise


def squad(text: str) -> str:
    """The normalisation of SQuAD's evaluation script, as it defines it for ASCII."""
    text = "".join(ch for ch in text.lower() if ch not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


@given(st.text(alphabet=string.printable, max_size=40))
def test_agrees_with_squad_on_ascii(text: str) -> None:
    if squad(text):
        assert normalise(text) == squad(text)


@given(st.text(max_size=40))
def test_is_idempotent_and_knows_every_way_of_composing_letters(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
    assert normalise(unicodedata.normalize("NFD", text)) == normalise(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("answer", "golds"),
    [
        ("The Beatles", ["Beatles"]),
        ("beatles!", ["The Beatles"]),
        ("December 1972", ["14 December 1972 UTC", "December 1972"]),
        ("  South\n Carolina ", ["South Carolina"]),
        ("U.S.", ["US"]),
        ("1914–1918", ["1914-1918"]),
        ("it’s", ["it's"]),
        ("“Emma”", ['"Emma"']),
        ("Röntgen", ["Ro\u0308ntgen"]),
        ("STRASSE", ["straße"]),
        ("東京", ["東京"]),
        ("The The", ["the the"]),
        ("A", ["a"]),
        ("???", ["???"]),
    ],
)
def test_right(answer: str, golds: list[str]) -> None:
    assert is_match(answer, golds)


@pytest.mark.parametrize(
    ("answer", "golds"),
    [
        ("Beatle", ["Beatles"]),
        ("Rontgen", ["Röntgen"]),
        ("The", ["A"]),
        (".", ["Röntgen"]),
        (".", ["The The"]),
        ("", ["x"]),
        ("e", ["Einstein"]),
        ("Bach, Mozart, Wilhelm Conrad Röntgen or Einstein", ["Wilhelm Conrad Röntgen"]),
        ("South Carolina or North Carolina", ["South Carolina"]),
        ("them", ["m"]),
        ("1", ["1.0"]),
    ],
)
def test_wrong(answer: str, golds: list[str]) -> None:
    assert not is_match(answer, golds)


@pytest.mark.parametrize("answer", [".", "e", "Bach, Mozart, Wilhelm Conrad Röntgen or Einstein"])
def test_the_released_rule_takes_guesses_and_nothing(answer: str) -> None:
    golds = ["Wilhelm Conrad Röntgen"]
    assert is_match(answer, golds, "substring") and not is_match(answer, golds, "exact")


def test_the_released_rule_keeps_articles_and_refuses_others() -> None:
    assert not is_match("the x", ["x y"], "substring")
    assert not is_match("Paris", ["London", "Rome"], "substring")
