"""Serve a corpus over Search-R1's `/retrieve` protocol, with BM25:

    python -m freshper.envs.search.serve --corpus passages.jsonl --port 8000
    curl -d '{"queries": ["who wrote Emma"], "topk": 3, "return_scores": true}' http://127.0.0.1:8000/retrieve

Training then runs with `env=nq_search env.url=http://<host>:8000/retrieve env.retriever=http`. `--embedded` serves the
generated articles instead, to try things out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from freshper.config.envs.search import SearchConfig
from freshper.envs.errors import EnvError
from freshper.envs.search.corpus import load_corpus
from freshper.envs.search.items import Hit
from freshper.envs.search.retriever import BM25
from freshper.envs.search.world import world_of

_MOST_BYTES = 4 * 2**20
_MOST_HITS = 100


class BadRequestError(ValueError):
    """A request that does not follow the protocol."""


class RetrievalServer(ThreadingHTTPServer):
    """An HTTP server over one index. Port 0 takes a free one (`server_port`)."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], index: BM25, documents: int) -> None:
        super().__init__(address, _Handler)
        self.index, self.documents = index, documents
        self.lock = threading.Lock()

    def answer(self, request: Any) -> dict[str, Any]:
        """The answer to a request body.

        Raises:
            BadRequestError: no list of texts under `queries`, or `topk` no number from 1 to 100.
        """
        queries = request.get("queries") if isinstance(request, dict) else None
        if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
            raise BadRequestError('expected {"queries": ["...", ...], "topk": 3, "return_scores": true}')
        top_k = request.get("topk")
        top_k = 3 if top_k is None else top_k
        if not isinstance(top_k, int) or isinstance(top_k, bool) or not 1 <= top_k <= _MOST_HITS:
            raise BadRequestError(f"expected topk from 1 to {_MOST_HITS}, got {top_k!r}")
        with self.lock:
            results = self.index.search(queries)
        scores = bool(request.get("return_scores", False))
        return {"result": [[_item(hit, scores) for hit in hits[:top_k]] for hits in results]}  # type: ignore[index, union-attr]


def _item(hit: Hit, score: bool) -> dict[str, Any]:
    document = {"id": hit.document.id, "contents": f'"{hit.document.title}"\n{hit.document.text}'}
    return {"document": document, "score": hit.score} if score else document


class _Handler(BaseHTTPRequestHandler):
    server: RetrievalServer
    timeout = 30  # seconds that a client may keep a thread waiting

    def do_POST(self) -> None:  # noqa: N802
        """Answer `/retrieve`."""
        if self.path.rstrip("/") != "/retrieve":
            self._send(404, {"error": f"no {self.path}; POST to /retrieve"})
            return
        try:
            length = int(self.headers.get("Content-Length", "0"))
            if not 0 < length <= _MOST_BYTES:
                raise BadRequestError(f"expected a body of at most {_MOST_BYTES} bytes")
            self._send(200, self.server.answer(json.loads(self.rfile.read(length))))
        except (ValueError, RecursionError) as error:  # BadRequestError, JSON, Content-Length
            self._send(400, {"error": str(error)})

    def do_GET(self) -> None:  # noqa: N802
        """Say what is served."""
        self._send(200, {"documents": self.server.documents, "retriever": "bm25", "protocol": "POST /retrieve"})

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing about single requests."""


def main() -> int:
    """Command line; exit status 2 for a corpus that cannot be used."""
    parser = argparse.ArgumentParser(
        prog="python -m freshper.envs.search.serve",
        description="Serve a corpus over Search-R1's /retrieve protocol (BM25).",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--corpus", help=".jsonl file, or folder of them: `id` and `contents`, or `title` and `text`")
    source.add_argument("--embedded", action="store_true", help="the generated articles of env=nq_search")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1: this machine only)"
    )
    parser.add_argument("--port", type=int, default=8000, help="port (default 8000; 0 takes a free one)")
    args = parser.parse_args()
    try:
        documents = world_of(SearchConfig()).documents if args.embedded else load_corpus(args.corpus, "--corpus")
        index = BM25(documents, _MOST_HITS)
        server = RetrievalServer((args.host, args.port), index, len(documents))
    except (EnvError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(documents)} documents at http://{args.host}:{server.server_port}/retrieve", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
