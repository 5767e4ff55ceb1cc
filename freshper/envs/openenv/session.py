"""The protocol of OpenEnv's servers, as a client: a session is a WebSocket, and every message on it has one answer.

Sent: `{"type": "reset", "data": {"seed": 1}}`, `{"type": "step", "data": <action>}`. Received: `{"type": "observation",
"data": {"observation": {...}, "reward": 0.5, "done": false}}` or `{"type": "error", "data": {"code", "message"}}`.
Checked with openenv 0.10.0. Its own client comes with some hundred packages, one of which excludes current Pillow
(docs/environments.md).
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

_MOST_BYTES = 64 * 2**20


class NoAnswerError(Exception):
    """The server cannot be reached, is late, failed inside, or does not speak the protocol: the episode is lost."""


class CapacityError(NoAnswerError):
    """The server plays as many sessions as it may."""


class RefusedActionError(Exception):
    """The action does not fit the server's schema. The environment did not move."""


@dataclass(frozen=True)
class Answer:
    """What the server says after a reset or a step."""

    observation: dict[str, Any]
    metadata: dict[str, Any]
    reward: float
    done: bool


class Session:
    """One environment on the server. Connects at the first reset, and again at a reset after a failure."""

    def __init__(self, url: str, timeout: float) -> None:
        """
        Args:
            url: http(s) or ws(s) address of the server, without `/ws`.
            timeout: seconds for the connection, and for each answer.
        """
        self.address = address(url, "ws", "/ws")
        self.timeout = timeout
        self._socket: Any = None
        self._turn = asyncio.Lock()

    def reset(self, arguments: dict[str, Any]) -> Answer:
        """Begin an episode.

        Raises:
            NoAnswerError: there is no answer, or an error.
        """
        try:
            return self._begin("reset", arguments).result()
        except RefusedActionError as error:
            raise NoAnswerError(f"refused the reset: {error}") from error

    def step(self, action: dict[str, Any]) -> Future[Answer]:
        """Send an action at once; the result may raise NoAnswerError or RefusedActionError."""
        return self._begin("step", action)

    def close(self) -> None:
        """End the session."""
        asyncio.run_coroutine_threadsafe(self._drop(), _loop()).result()

    def _begin(self, kind: str, data: dict[str, Any]) -> Future[Answer]:
        return asyncio.run_coroutine_threadsafe(self._exchange(kind, data), _loop())

    async def _exchange(self, kind: str, data: dict[str, Any]) -> Answer:
        async with self._turn:
            return await self._ask(kind, data)

    async def _ask(self, kind: str, data: dict[str, Any]) -> Answer:
        from websockets.exceptions import ConnectionClosed, WebSocketException

        try:
            if self._socket is None:
                if kind != "reset":
                    raise NoAnswerError("the session was lost")
                self._socket = await self._connect()
            # A server that is full says so and hangs up, perhaps before this is sent; what it said is read below.
            with suppress(ConnectionClosed):
                await self._socket.send(json.dumps({"type": kind, "data": data}))
            text = await asyncio.wait_for(self._socket.recv(), self.timeout)
            return _read(text)
        except (TimeoutError, asyncio.TimeoutError) as error:  # two classes before Python 3.11
            await self._drop()  # a late answer must not pass for that of the next message
            raise NoAnswerError(f"no answer within {self.timeout:g} s") from error
        except (OSError, WebSocketException) as error:
            await self._drop()
            raise NoAnswerError(f"cannot be reached ({error})") from error
        except NoAnswerError:
            await self._drop()
            raise

    async def _connect(self) -> Any:
        from websockets.asyncio.client import connect

        return await connect(self.address, open_timeout=self.timeout, max_size=_MOST_BYTES, close_timeout=1)

    async def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()


def address(url: str, scheme: str, path: str) -> str:
    """The address of a path on the server, for `scheme` http or ws; with TLS if `url` has it."""
    return scheme + url.rstrip("/").removeprefix("http").removeprefix("ws") + path


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of all sessions, in a thread of its own: it answers pings while the policy writes."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="openenv-sessions", daemon=True).start()
    return loop


def _read(text: str | bytes) -> Answer:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoAnswerError(f"answered no JSON, but {text[:60]!r}") from error
    data = message.get("data") if isinstance(message, dict) else None
    if not isinstance(data, dict) or message.get("type") not in ("observation", "error"):
        raise NoAnswerError(f"expected an observation or an error, got {text[:60]!r}")
    if message["type"] == "error":
        raise _error(data)
    observation, reward = data.get("observation"), data.get("reward")
    if not isinstance(observation, dict):
        raise NoAnswerError(f"expected an observation with fields, got {str(observation)[:60]!r}")
    if reward is not None and not (isinstance(reward, int | float) and math.isfinite(reward)):
        raise NoAnswerError(f"expected a finite reward or null, got {str(reward)[:60]!r}")
    metadata = data.get("metadata") or observation.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return Answer(observation, metadata, float(reward or 0), bool(data.get("done")))


def _error(data: dict[str, Any]) -> Exception:
    code, message = data.get("code"), str(data.get("message", "no message"))
    if code == "VALIDATION_ERROR":
        details = data.get("errors")
        first = details[0] if isinstance(details, list) and details else None
        return RefusedActionError(str(first.get("msg", message)) if isinstance(first, dict) else message)
    if code == "CAPACITY_REACHED":
        return CapacityError(message)
    return NoAnswerError(f"{message} ({code})")
