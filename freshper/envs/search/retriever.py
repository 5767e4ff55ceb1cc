"""Retrieve passages: BM25 in this process, or a server (`http.py`); results are remembered."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from freshper.config.envs.search import SearchConfig
from freshper.envs.errors import EnvError
from freshper.envs.search.corpus import load_corpus
from freshper.envs.search.failures import RetrievalError
from freshper.envs.search.http import HTTPRetriever
from freshper.envs.search.items import Document, Hit
from freshper.envs.search.world import world_of

_WORD = re.compile(r"\w+")
# Words that say nothing about a passage; a query of nothing else is searched as it is.
_STOP = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "in",
        "into",
        "is",
        "it",
        "its",
        "of",
        "on",
        "or",
        "that",
        "the",
        "their",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "whom",
        "whose",
        "why",
        "will",
        "with",
    ]
)


Result = list[Hit] | RetrievalError


class Backend(Protocol):
    """Answers many queries at once."""

    def search(self, queries: Sequence[str]) -> list[Result]:
        """The hits of each query, best first, or why there are none."""
        ...


class BM25:
    """BM25 (bm25s, Lucene's variant) over documents held in memory."""

    def __init__(self, documents: Sequence[Document], top_k: int) -> None:
        """
        Args:
            documents: at least one; title and text are indexed alike.
            top_k: most hits per query; documents that share no word with a query are no hits.
        """
        try:
            import bm25s
        except ImportError as error:
            raise EnvError("env.retriever=bm25 needs bm25s: pip install 'freshper[search]'") from error
        self._documents = documents
        self._k = min(top_k, len(documents))
        self._index = bm25s.BM25()
        tokens = [words(f"{document.title} {document.text}") for document in documents]
        self._vocabulary = frozenset(word for document in tokens for word in document)
        if not self._vocabulary:
            raise EnvError("the corpus has no words to search for")
        self._index.index(tokens, show_progress=False)

    def search(self, queries: Sequence[str]) -> list[Result]:
        """The hits of each query, best first."""
        known = [[word for word in words(query) if word in self._vocabulary] for query in queries]
        rows = [row for row, query in enumerate(known) if query]
        results: list[Result] = [[] for _ in queries]
        if rows:
            ids, scores = self._index.retrieve([known[row] for row in rows], k=self._k, show_progress=False)
            for row, found, values in zip(rows, ids.tolist(), scores.tolist(), strict=True):
                pairs = zip(found, values, strict=True)
                results[row] = [Hit(self._documents[index], value) for index, value in pairs if value > 0]
        return results


def words(text: str) -> list[str]:
    """Lower-case words without accents and without stop words (unless there is nothing else)."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    every = _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)))
    return [word for word in every if word not in _STOP] or every


class Retriever:
    """A backend with a memory. Not thread-safe."""

    def __init__(self, backend: Backend, cache: int) -> None:
        """
        Args:
            backend: answers what is not remembered.
            cache: most queries remembered, least recently used forgotten first; failures are never remembered.
        """
        self._backend = backend
        self._size = cache
        self._cache: OrderedDict[str, list[Hit]] = OrderedDict()
        self._ready: dict[str, Result] = {}
        self.asked = 0
        """Queries that the backend was asked."""

    def prefetch(self, queries: Sequence[str]) -> None:
        """Search many queries in few requests; until the next call, :meth:`search` answers them without one."""
        wanted = list(dict.fromkeys(queries))
        self._ready = {query: result for query in wanted if (result := self._remembered(query)) is not None}
        missing = [query for query in wanted if query not in self._ready]
        if missing:
            self._ready |= zip(missing, self._ask(missing), strict=True)

    def search(self, query: str) -> list[Hit]:
        """The hits of a query, best first.

        Raises:
            RetrievalError: the backend failed.
        """
        result = self._ready.get(query)
        if result is None:
            result = self._remembered(query)
        if result is None:
            result = self._ask([query])[0]
        if isinstance(result, RetrievalError):
            raise result
        return result

    def _remembered(self, query: str) -> list[Hit] | None:
        if query in self._cache:
            self._cache.move_to_end(query)
        return self._cache.get(query)

    def _ask(self, queries: Sequence[str]) -> list[Result]:
        self.asked += len(queries)
        results = self._backend.search(queries)
        for query, result in zip(queries, results, strict=True):
            if self._size and not isinstance(result, RetrievalError):
                self._cache[query] = result
                if len(self._cache) > self._size:
                    self._cache.popitem(last=False)
        return results


def backend_name(config: SearchConfig) -> str:
    """`bm25` or `http`: what `retriever: auto` means."""
    if config.retriever != "auto":
        return config.retriever
    return "bm25" if config.corpus is not None or config.source == "embedded" else "http"


@functools.lru_cache(maxsize=4)
def shared_retriever(config: SearchConfig) -> Retriever:
    """The retriever of a config, one per process: environments of a batch share index and cache.

    Raises:
        EnvError: no corpus, or one that cannot be read.
    """
    backend: Backend
    if backend_name(config) == "http":
        backend = HTTPRetriever(config.url, config.top_k, config.timeout, config.retries, config.batch_size)
    elif config.corpus is not None:
        backend = BM25(load_corpus(config.corpus), config.top_k)
    elif config.source == "embedded":
        backend = BM25(world_of(config).documents, config.top_k)
    else:
        raise EnvError("env.retriever=bm25 needs env.corpus, a .jsonl file of passages, unless env.source=embedded")
    return Retriever(backend, config.cache)
