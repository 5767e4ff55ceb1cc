"""A server that speaks the protocol and misbehaves as told, to see what the client makes of it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from freshper.envs.openenv.schema import read_schema

TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "action": {"properties": {"move": TEXT, "note": TEXT, "metadata": {"type": "object"}}, "required": ["move"]},
    "observation": {"properties": {"text": TEXT, "score": {"type": "integer"}, "done": {}, "reward": {}}},
}


def said(text: Any, reward: Any = 0.0, done: bool = False, **rest: Any) -> str:
    """An observation as the server sends it."""
    return json.dumps(
        {"type": "observation", "data": {"observation": {"text": text}, "reward": reward, "done": done, **rest}}
    )


def error(code: str, message: str = "broken", **rest: Any) -> str:
    """An error as the server sends it."""
    return json.dumps({"type": "error", "data": {"code": code, "message": message, **rest}})


class Fake:
    """What the server is told to do, and what it got."""

    def __init__(self) -> None:
        self.schema: Any = SCHEMA
        self.answer: Callable[[dict[str, Any]], str | None] = lambda message: said(message["data"])
        """The frame to send back for a message; None hangs up."""
        self.greeting: str | None = None
        """A frame sent to everyone who connects, who is then hung up on."""
        self.received: list[dict[str, Any]] = []
        self.connections = 0
        self.url = ""


@contextmanager
def fake_server() -> Iterator[Fake]:
    """A server on a free port of this machine, ended at exit."""
    fake = Fake()

    def handle(connection: ServerConnection) -> None:
        fake.connections += 1
        if fake.greeting is not None:
            connection.send(fake.greeting)
            return
        for text in connection:
            message = json.loads(text)
            fake.received.append(message)
            answer = fake.answer(message)
            if answer is None:
                return
            connection.send(answer)

    def schema(connection: ServerConnection, request: Request) -> Response | None:
        return connection.respond(200, json.dumps(fake.schema)) if request.path == "/schema" else None

    with serve(handle, "127.0.0.1", 0, process_request=schema, close_timeout=1) as server:
        fake.url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        read_schema.cache_clear()  # another server may have had this port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield fake
        finally:
            server.shutdown()
            thread.join()


def late(seconds: float, frame: str) -> Callable[[dict[str, Any]], str]:
    """Answer a step after so many seconds; resets at once."""

    def answer(message: dict[str, Any]) -> str:
        if message["type"] == "step":
            time.sleep(seconds)
        return frame

    return answer
