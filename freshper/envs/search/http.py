"""The `/retrieve` protocol of Search-R1's retrieval servers, as a client.

POST {"queries": [...], "topk": 3, "return_scores": true} -> {"result": [[{"document": {"id", "contents"}, "score"}]]},
one list per query; documents may come without scores, as `return_scores: false` gives them.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from freshper.envs.errors import EnvError
from freshper.envs.search.corpus import document
from freshper.envs.search.failures import RetrievalError
from freshper.envs.search.items import Hit

_MOST_BYTES = 64 * 2**20
_FIRST_PAUSE = 0.5


class _NoAnswerError(Exception):
    """No usable answer within the time limit: another attempt may help."""


class _RefusedError(Exception):
    """The server answered with an error, perhaps because of one of the queries."""


class HTTPRetriever:
    """Searches by requests to a server, several queries in each."""

    def __init__(
        self,
        url: str,
        top_k: int,
        timeout: float,
        retries: int,
        batch_size: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """
        Args:
            url: full address, `/retrieve` included.
            top_k: documents asked for per query.
            timeout: seconds for one request, from the first byte sent to the last one received.
            retries: further attempts after a failed one, 0.5, 1, 2, ... seconds apart.
            batch_size: most queries in a request.
            sleep: waits between attempts.
        """
        self.url, self.top_k, self.timeout, self.retries, self.batch_size = url, top_k, timeout, retries, batch_size
        self._sleep = sleep

    def search(self, queries: Sequence[str]) -> list[list[Hit] | RetrievalError]:
        """The hits of each query, or why there are none. A server that does not answer is given up for all of them."""
        results: list[list[Hit] | RetrievalError] = []
        down: RetrievalError | None = None
        for first in range(0, len(queries), self.batch_size):
            part = queries[first : first + self.batch_size]
            if down is None:
                try:
                    results += self._batch(part)
                    continue
                except _NoAnswerError as error:
                    down = RetrievalError(f"retriever {self.url}: {error}")
            results += [down] * len(part)
        return results

    def _batch(self, queries: Sequence[str]) -> list[list[Hit] | RetrievalError]:
        """One request, repeated if need be; a batch that the server refuses is halved to find the query at fault."""
        try:
            return list(self._attempts(queries))
        except _RefusedError as error:
            if len(queries) == 1:
                return [RetrievalError(f"retriever {self.url}: {error}, query {queries[0]!r}")]
            middle = len(queries) // 2
            return [*self._batch(queries[:middle]), *self._batch(queries[middle:])]

    def _attempts(self, queries: Sequence[str]) -> list[list[Hit]]:
        for attempt in range(self.retries + 1):
            try:
                return self._request(queries)
            except (_NoAnswerError, _RefusedError) as error:
                final = isinstance(error, _RefusedError) and len(queries) > 1
                if attempt == self.retries or final:
                    raise
            self._sleep(_FIRST_PAUSE * 2**attempt)
        raise AssertionError("unreachable")

    def _request(self, queries: Sequence[str]) -> list[list[Hit]]:
        body = json.dumps({"queries": list(queries), "topk": self.top_k, "return_scores": True}).encode()
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        deadline = time.monotonic() + self.timeout
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as response:
                text = _read_until(response, deadline)
        except urllib.error.HTTPError as error:
            raise _RefusedError(f"answered {error.code} {error.reason}") from error
        except TimeoutError as error:
            raise _NoAnswerError(f"no answer within {self.timeout:g} s") from error
        except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
            reason = getattr(error, "reason", None) or error
            if isinstance(reason, TimeoutError):
                raise _NoAnswerError(f"no answer within {self.timeout:g} s") from error
            raise _NoAnswerError(f"cannot be reached ({reason})") from error
        return self._hits(text, len(queries))

    def _hits(self, text: bytes, count: int) -> list[list[Hit]]:
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _NoAnswerError(f"answered no JSON, but {text[:60]!r}") from error
        lists = answer.get("result") if isinstance(answer, dict) else None
        if not isinstance(lists, list) or len(lists) != count or not all(isinstance(found, list) for found in lists):
            raise _NoAnswerError(
                f'expected {{"result": [...]}} with a list for each of {count} queries, got {text[:60]!r}'
            )
        return [[_hit(item) for item in found[: self.top_k]] for found in lists]


def _hit(item: Any) -> Hit:
    inner = item.get("document", item) if isinstance(item, dict) else item
    score = item.get("score", 0.0) if isinstance(item, dict) else 0.0
    if not isinstance(inner, dict) or isinstance(score, bool) or not isinstance(score, int | float):
        raise _NoAnswerError(f"expected a document with `contents` and its score, got {str(item)[:60]!r}")
    try:
        return Hit(document(inner, "", "result"), float(score))
    except EnvError as error:
        raise _NoAnswerError(f"sent a document without text: {error}") from error


def _read_until(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """The body; a server that trickles is as late as one that says nothing."""
    parts, size = [], 0
    while part := response.read1(2**16):
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            raise TimeoutError
        if size > _MOST_BYTES:
            raise OSError(f"answer longer than {_MOST_BYTES} bytes")
    return b"".join(parts)
