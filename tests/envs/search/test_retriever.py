"""BM25, its corpus, and what is remembered."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from freshper.config.envs.search import SearchConfig
from freshper.envs.errors import EnvError
from freshper.envs.search.corpus import load_corpus
from freshper.envs.search.failures import RetrievalError
from freshper.envs.search.items import Document, Hit
from freshper.envs.search.retriever import BM25, Result, Retriever, shared_retriever, words
from freshper.envs.search.world import make_world

WORLD = make_world(40, (1, 2), 0)


def scores(documents: Sequence[Document], query: str) -> list[float]:
    """Lucene's BM25 (k1 1.5, b 0.75), word by word."""
    bags = [Counter(words(f"{d.title} {d.text}")) for d in documents]
    mean = sum(bag.total() for bag in bags) / len(bags)
    found = []
    for bag in bags:
        total = 0.0
        for word in words(query):
            n = sum(word in other for other in bags)
            idf = math.log(1 + (len(bags) - n + 0.5) / (n + 0.5))
            total += idf * bag[word] / (bag[word] + 1.5 * (0.25 + 0.75 * bag.total() / mean)) if bag[word] else 0
        found.append(total)
    return found


def test_order_is_bm25s() -> None:
    index = BM25(WORLD.documents, 5)
    for question in WORLD.train[:20]:
        expected = sorted(scores(WORLD.documents, question.text), reverse=True)[:5]
        (hits,) = index.search([question.text])
        assert isinstance(hits, list)
        assert [hit.score for hit in hits] == pytest.approx(expected, rel=1e-4)


def test_every_article_is_found_by_its_title_one_by_one_or_in_a_batch() -> None:
    index = BM25(WORLD.documents, 1)
    titles = [document.title for document in WORLD.documents]
    together = index.search(titles)
    assert [hits[0].document.title for hits in together] == titles  # type: ignore[index]
    assert together == [index.search([title])[0] for title in titles]


@pytest.mark.parametrize("query", ["", "   ", "zzz qqq", "!?", "日本", "\x00", "\ud7ff" * 9999])
def test_a_query_without_a_known_word_finds_nothing(query: str) -> None:
    assert BM25(WORLD.documents, 3).search([query, WORLD.documents[0].title])[0] == []


def test_small_corpora_accents_and_stop_words() -> None:
    index = BM25([Document("0", "", "Röntgen found X-rays"), Document("1", "Who", "The Who is a band")], 10)
    (hits,) = index.search(["rontgen"])
    assert [hit.document.id for hit in hits] == ["0"]  # type: ignore[union-attr]
    assert words("The Who") == ["the", "who"] and words("who is the band") == ["band"]
    with pytest.raises(EnvError, match="no words"):
        BM25([Document("0", "", "...")], 3)


class Counting:
    """A backend that fails for queries with `bad` in them and counts what it is asked."""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []

    def search(self, queries: Sequence[str]) -> list[Result]:
        self.requests.append(list(queries))
        return [
            RetrievalError("down") if "bad" in query else [Hit(Document(query, "", query), 1.0)] for query in queries
        ]


def test_results_are_remembered_failures_are_not() -> None:
    backend = Counting()
    retriever = Retriever(backend, cache=2)
    assert retriever.search("a") == retriever.search("a")
    for _ in range(2):
        with pytest.raises(RetrievalError):
            retriever.search("bad")
    assert backend.requests == [["a"], ["bad"], ["bad"]]
    retriever.search("b")
    retriever.search("a")  # most recently used again
    retriever.search("c")  # b is forgotten
    retriever.search("a")
    retriever.search("b")
    assert backend.requests[3:] == [["b"], ["c"], ["b"]]


@pytest.mark.parametrize("cache", [0, 1, 100])
def test_a_batch_is_asked_for_once_and_failures_are_not_asked_again(cache: int) -> None:
    backend = Counting()
    retriever = Retriever(backend, cache)
    retriever.prefetch(["a", "b", "bad", "a"])
    assert backend.requests == [["a", "b", "bad"]]
    assert [retriever.search(query)[0].document.id for query in ("a", "b", "a")] == ["a", "b", "a"]
    with pytest.raises(RetrievalError):
        retriever.search("bad")
    assert len(backend.requests) == 1
    retriever.prefetch([])
    with pytest.raises(RetrievalError):
        retriever.search("bad")
    assert backend.requests[1:] == [["bad"]]  # another turn, another attempt


def test_corpora_with_contents_or_title_and_text(tmp_path: Path) -> None:
    rows = [
        {"id": "w7", "contents": '"Emma"\nA novel by Jane Austen.'},
        {"contents": "no title here"},
        {"title": "Persuasion", "text": "Another novel."},
        {"text": "bare"},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    documents = load_corpus(tmp_path / "a.jsonl")
    assert documents == load_corpus(tmp_path)
    assert documents == [
        Document("w7", "Emma", "A novel by Jane Austen."),
        Document("1", "", "no title here"),
        Document("2", "Persuasion", "Another novel."),
        Document("3", "", "bare"),
    ]
    config = SearchConfig(source="folder", corpus=str(tmp_path))
    assert shared_retriever(config).search("jane austen")[0].document.title == "Emma"
    assert shared_retriever(config) is shared_retriever(config)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (None, "", "no such file or folder"),
        ("a.jsonl", "", "the corpus is empty"),
        ("a.jsonl", "{}", "row 1: expected `contents`"),
        ("a.jsonl", '{"contents": " "}', "row 1: expected `contents`"),
        ("a.jsonl", '{"text": 3}', "row 1: expected `contents`"),
        ("a.jsonl", "id,contents", "line 1: not JSON"),
        ("a.csv", "id,contents", "expected a .jsonl file"),
        ("a.jsonl", "\x80\x81", "cannot be read as text"),
    ],
)
def test_bad_corpora_are_named(tmp_path: Path, name: str | None, text: str, message: str) -> None:
    path = tmp_path / (name or "none.jsonl")
    if name:
        path.write_bytes(text.encode("latin-1"))
    with pytest.raises(EnvError) as caught:
        load_corpus(path)
    assert message in str(caught.value) and str(path) in str(caught.value)
    with pytest.raises(EnvError, match="no .jsonl file in this folder"):
        (tmp_path / "empty").mkdir()
        load_corpus(tmp_path / "empty")


def test_ten_thousand_queries_are_no_wait() -> None:
    import time

    index = BM25(WORLD.documents, 3)
    rng = np.random.default_rng(0)
    queries = [WORLD.documents[int(k)].title for k in rng.integers(len(WORLD.documents), size=2000)]
    started = time.monotonic()
    index.search(queries)
    assert time.monotonic() - started < 4
