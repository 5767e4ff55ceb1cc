"""The retrieval protocol against servers that behave, and servers that do not."""

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from freshper.envs.search.failures import RetrievalError
from freshper.envs.search.http import HTTPRetriever
from freshper.envs.search.retriever import BM25
from freshper.envs.search.serve import RetrievalServer
from freshper.envs.search.world import make_world

WORLD = make_world(40, (1, 2), 0)
TITLES = [document.title for document in WORLD.documents]


def client(url: str, **changes: Any) -> HTTPRetriever:
    options = {"top_k": 3, "timeout": 5.0, "retries": 2, "batch_size": 64, "sleep": lambda seconds: None, **changes}
    return HTTPRetriever(url, **options)


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    server = RetrievalServer(("127.0.0.1", 0), BM25(WORLD.documents, 100), len(WORLD.documents))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/retrieve"
    server.shutdown()
    server.server_close()


@pytest.fixture
def fake() -> Iterator[Callable[..., tuple[str, list[Any]]]]:
    """Start a server whose answers are given: (status, body) by request, the last one for ever; or a function."""
    servers = []

    def start(*answers: Any, delay: float = 0.0) -> tuple[str, list[Any]]:
        seen: list[Any] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = answers[min(len(seen), len(answers) - 1)]
                seen.append(request)
                time.sleep(delay)
                status, body = answer(request) if callable(answer) else answer
                self.send_response(status)
                self.end_headers()
                try:
                    for part in body if isinstance(body, Iterator) else [body]:
                        self.wfile.write(part)
                        self.wfile.flush()
                except OSError:
                    pass

            def log_message(self, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/retrieve", seen

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def found(*titles: str) -> bytes:
    return json.dumps(
        {"result": [[{"document": {"id": "1", "contents": f'"{t}"\ntext'}, "score": 1}] for t in titles]}
    ).encode()


def test_the_server_finds_what_the_index_finds(served: str) -> None:
    results = client(served, batch_size=7).search(TITLES[:20])
    expected = BM25(WORLD.documents, 3).search(TITLES[:20])
    assert [[h.document for h in hits] for hits in results] == [[h.document for h in hits] for hits in expected]  # type: ignore[union-attr]
    assert results[0][0].score == pytest.approx(expected[0][0].score)  # type: ignore[index]
    assert client(served).search([""]) == [[]]


def test_the_protocol_byte_by_byte(served: str) -> None:
    def post(body: Any, path: str = "") -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(served + path, data), timeout=5) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    status, body = post({"queries": [TITLES[0]], "topk": 1, "return_scores": True})
    (item,) = body["result"][0]
    assert status == 200 and set(item) == {"document", "score"}
    assert item["document"]["contents"].startswith(f'"{TITLES[0]}"\n')
    bare = post({"queries": [TITLES[0]], "topk": None})[1]["result"][0]
    assert bare[0] == item["document"] and len(bare) == 3
    for bad in (
        b"junk",
        {"queries": "x"},
        {"queries": [1]},
        {},
        [],
        {"queries": ["x"], "topk": 0},
        {"queries": [], "topk": "3"},
    ):
        assert post(bad)[0] == 400
    assert post({"queries": ["x"]}, path="x")[0] == 404
    with urllib.request.urlopen(served.replace("/retrieve", "/"), timeout=5) as response:
        assert json.loads(response.read())["documents"] == len(TITLES)


def test_queries_travel_in_batches(fake: Callable[..., tuple[str, list[Any]]]) -> None:
    url, seen = fake(lambda request: (200, found(*request["queries"])))
    results = client(url, batch_size=4, top_k=5).search(list("abcdefghij"))
    assert [hits[0].document.title for hits in results] == list("abcdefghij")  # type: ignore[index]
    assert [len(request["queries"]) for request in seen] == [4, 4, 2]
    assert all(request["topk"] == 5 and request["return_scores"] is True for request in seen)


@pytest.mark.parametrize("first", [(500, b"oops"), (503, b""), (200, b"<html>"), (200, b'{"result": []}')])
def test_a_passing_fault_is_tried_again(fake: Callable[..., tuple[str, list[Any]]], first: Any) -> None:
    url, seen = fake(first, (200, found("x")))
    pauses: list[float] = []
    (hits,) = client(url, sleep=pauses.append).search(["x"])
    assert hits[0].document.title == "x" and len(seen) == 2 and pauses == [0.5]  # type: ignore[index]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "answered no JSON"),
        (b"<html>busy</html>", "answered no JSON"),
        (b"\xff\xfe", "answered no JSON"),
        (b"[" * 100_000, "answered no JSON"),
        (b"[]", 'expected {"result"'),
        (b'{"result": {}}', 'expected {"result"'),
        (b'{"result": [[], []]}', "a list for each of 1 queries"),
        (b'{"result": [[3]]}', "expected a document"),
        (b'{"result": [[{"document": {"contents": "x"}, "score": "high"}]]}', "expected a document"),
        (b'{"result": [[{"document": {"id": 3}, "score": 1}]]}', "a document without text"),
    ],
)
def test_junk_is_an_error_and_not_no_hits(
    fake: Callable[..., tuple[str, list[Any]]], body: bytes, message: str
) -> None:
    url, seen = fake((200, body))
    (result,) = client(url, retries=1).search(["x"])
    assert isinstance(result, RetrievalError) and message in str(result) and url in str(result)
    assert len(seen) == 2


def test_documents_without_scores_are_taken(fake: Callable[..., tuple[str, list[Any]]]) -> None:
    url, _ = fake((200, json.dumps({"result": [[{"id": "9", "contents": '"T"\nbody'}] * 5]}).encode()))
    (hits,) = client(url).search(["x"])
    assert [(hit.document.id, hit.document.title) for hit in hits] == [("9", "T")] * 3  # type: ignore[union-attr]


def test_one_bad_query_does_not_take_the_others_with_it(fake: Callable[..., tuple[str, list[Any]]]) -> None:
    url, seen = fake(lambda r: (500, b"") if "bad" in r["queries"] else (200, found(*r["queries"])))
    queries = ["a", "b", "bad", "c", "d", "e"]
    results = client(url, retries=1).search(queries)
    assert [isinstance(result, RetrievalError) for result in results] == [query == "bad" for query in queries]
    assert "500" in str(results[2]) and "'bad'" in str(results[2])
    assert len(seen) <= 8


def test_a_server_that_is_down_is_given_up_for_all_queries() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/retrieve"  # bound, but nobody listens
        pauses: list[float] = []
        results = client(url, batch_size=1, retries=2, sleep=pauses.append).search(list("abcdef"))
    assert len(results) == 6 and all(isinstance(r, RetrievalError) and "cannot be reached" in str(r) for r in results)
    assert pauses == [0.5, 1.0]


def test_a_slow_server_costs_no_more_than_the_time_out(fake: Callable[..., tuple[str, list[Any]]]) -> None:
    url, _ = fake((200, found("x")), delay=3)
    started = time.monotonic()
    (result,) = client(url, timeout=0.3, retries=0).search(["x"])
    assert time.monotonic() - started < 2
    assert isinstance(result, RetrievalError) and "no answer within 0.3 s" in str(result)


def test_a_trickling_server_too(fake: Callable[..., tuple[str, list[Any]]]) -> None:
    def trickle() -> Iterator[bytes]:
        for _ in range(100):
            time.sleep(0.1)
            yield b" "

    url, _ = fake(lambda request: (200, trickle()))
    started = time.monotonic()
    (result,) = client(url, timeout=0.5, retries=0).search(["x"])
    assert time.monotonic() - started < 3
    assert isinstance(result, RetrievalError) and "no answer within" in str(result)


def test_the_command_serves_and_refuses_bad_corpora(tmp_path: Any) -> None:
    command = [sys.executable, "-m", "freshper.envs.search.serve", "--port", "0"]
    process = subprocess.Popen([*command, "--embedded"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        (hits,) = client(url).search(["town river"])
        assert hits
    finally:
        process.kill()
        process.wait()
    (tmp_path / "a.jsonl").write_text("")
    failed = subprocess.run([*command, "--corpus", str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert failed.returncode == 2 and "the corpus is empty" in failed.stderr and "Traceback" not in failed.stderr
