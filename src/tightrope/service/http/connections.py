"""Connections: limits on their size, time and number before anyone has shown a key.

Uvicorn bounds none of this with httptools: the bytes and the time of a request's head, sockets that stay silent, how many there
are, requests sent ahead of their answers, answers that nobody reads, what is left of a body after its refusal. (h11, its other
parser, which is slower, bounds the bytes of a head alone.) So the protocol is Uvicorn's own with limits.

Nothing else knows Uvicorn's insides. The server takes a `Gate`, the application an `Exchange`. `scripts/check-uvicorn` tries both
with the newest release, and with the oldest that `pyproject.toml` allows.
"""
# The documentation of asyncio, httptools and Uvicorn says when the methods of a protocol are called.

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from tightrope.service.answer import Refusal

# Where a request's `scope["extensions"]` has its `Exchange`.
EXCHANGE: Final = "tightrope.exchange"

_SWEEP_SECONDS: Final = 0.5


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """The limits of one connection, apart from its requests, and how many connections there may be."""

    # How many may be open at once. One more replaces the one that has kept the server waiting longest, or else gets a 503.
    connections: int = 1_000
    # Bytes of a request's line and headers, and of everything else but its body.
    head_bytes: int = 32 << 10
    # Seconds from the connection, or from the head's first byte, to its last; after an answer, Uvicorn's `timeout_keep_alive` of 5
    # s.
    head_seconds: float = 10.0
    # Requests that may be sent ahead of the answer to the first.
    ahead: int = 32
    # How much of a refused body is still read, so that its sender gets the reason.
    unread_bytes: int = 64 << 10
    # How long an answer may lie in the buffer, and how long the rest of a refused body may take.
    unread_seconds: float = 20.0


class Exchange:
    """A request and its answer, each in one piece: a body mostly comes with its head, and an answer mostly goes out at once."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    def body(self) -> bytes | None:
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue:
            return None
        return bytes(cycle.body)

    def write(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Write head and body with one system call if possible; otherwise return False and write nothing."""
        cycle = self._cycle
        if cycle.disconnected or not cycle.keep_alive or cycle.flow.write_paused or cycle.access_log:
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        parts = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers):
            parts += name, b": ", value, b"\r\n"
        cycle.transport.write(b"".join((*parts, b"\r\n", body)))
        cycle.message_event.set()
        cycle.on_response()
        return True


class Gate:
    """Uvicorn calls it for each new connection (`http=`); it closes those that keep the server waiting."""

    def __init__(self, limits: ConnectionLimits | None = None) -> None:
        self.limits = limits or ConnectionLimits()
        self._watched: set[ServerState] = set()
        self.serials = itertools.count()

    def __call__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> BoundedHttp:
        return BoundedHttp(config, server_state, app_state, _loop, gate=self)

    def entered(self, one: BoundedHttp) -> bool:
        """Whether there is room for a new connection; another one may be closed for it."""
        if one.server_state not in self._watched:
            self._watched.add(one.server_state)
            self._sweep(one.loop, one.server_state)
        if len(one.connections) <= self.limits.connections:
            return True
        idle = [other for other in _bounded(one.server_state) if other is not one and other.idle]
        if not idle:
            return False
        # Many may come within one tick of the loop's clock: then the first of them goes.
        min(idle, key=lambda other: (other.waiting_since or 0.0, other.serial)).transport.abort()
        return True

    def _sweep(self, loop: asyncio.AbstractEventLoop, state: ServerState) -> None:
        now = loop.time()
        for one in _bounded(state):
            if one.overdue(now):
                one.transport.abort()
        if state.connections:
            loop.call_later(_SWEEP_SECONDS, self._sweep, loop, state)
        else:
            self._watched.discard(state)


class BoundedHttp(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        gate: Gate,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._gate = gate
        self._limits = gate.limits
        self.serial = next(gate.serials)
        # Since when the server waits for the head of a request; None while it answers one.
        self.waiting_since: float | None = self.loop.time()
        self._patience = self._limits.head_seconds
        # Since when it waits for the rest of a body that it has refused, or for an answer to be read.
        self._draining_since: float | None = None
        self._stalled_since: float | None = None
        self._drained = 0
        # Of the current request: bytes of chunks that brought no body and ended no request.
        self._overhead = 0
        self._chunk = 0
        self._progress = False
        self._refusal: Refusal | None = None
        # The request that is being answered; `cycle` is the last that was read.
        self._running: RequestResponseCycle | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost but the caller's time."""
        return self.waiting_since is not None and (self.cycle is None or self.cycle.response_complete)

    def overdue(self, now: float) -> bool:
        limits = self._limits
        waits = (
            (None if self.flow.read_paused else self.waiting_since, self._patience),
            (self._draining_since, limits.unread_seconds),
            (self._stalled_since, limits.unread_seconds),
        )
        return any(since is not None and now - since > most for since, most in waits)

    # What asyncio calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._gate.entered(self):
            self._refusal = Refusal(503, "overloaded", "too many connections are open", retry_after=1)
            self.send_400_response("")

    def connection_lost(self, exc: Exception | None) -> None:
        """The caller is gone: requests that it sent ahead are not answered."""
        for cycle in (self._running, *(one for one, _ in self.pipeline)):
            if cycle is not None:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._progress = False
        self._chunk = len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if not self._progress:
            self._overhead += len(data)
            if self._overhead > self._limits.head_bytes:
                self._refuse_head()
                self.send_400_response("")
        elif self._draining_since is not None:
            self._drained += len(data)
            if self._drained > self._limits.unread_bytes:
                self.transport.close()

    def pause_writing(self) -> None:
        self._stalled_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stalled_since = None
        super().resume_writing()

    # What the parser calls

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.waiting_since, self._patience = self.loop.time(), self._limits.head_seconds
        self._overhead = 0

    def on_headers_complete(self) -> None:
        if self._chunk > self._limits.head_bytes:
            head = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if head > self._limits.head_bytes:
                self._refuse_head()
                raise ValueError
        if len(self.pipeline) >= self._limits.ahead:
            words = f"at most {self._limits.ahead} requests may be sent ahead of their answers"
            self._refusal = Refusal(400, "malformed", words)
            raise ValueError
        self.waiting_since = None
        super().on_headers_complete()
        if not self.pipeline:
            self._running = self.cycle
        self.scope["extensions"] = {EXCHANGE: Exchange(self.cycle)}  # type: ignore[dict-item]

    def on_body(self, body: bytes) -> None:
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._progress = True
        if self._draining_since is not None:
            self._draining_since, self.waiting_since = None, self.loop.time()
        super().on_message_complete()

    # What Uvicorn calls

    def on_response_complete(self) -> None:
        """An answer is sent: on to the next request, the end of this one's body, or a wait, whose end needs no timer here."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        now = self.loop.time()
        if self.pipeline:
            self._running, app = self.pipeline.pop()
            self._start_asgi_task(self._running, app)
            if self.waiting_since is not None:
                # The next head has begun, and was not read on while this answer was made.
                self.waiting_since = now
        elif self.cycle.more_body:
            self._draining_since, self._drained = now, 0
        elif self.waiting_since is None:
            self.waiting_since, self._patience = now, self.timeout_keep_alive
        else:
            self.waiting_since = now

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser or a limit refused in the usual form, then close the connection."""
        refusal = self._refusal or Refusal(400, "malformed", "the request is not valid HTTP/1.1")
        answer = refusal.answer()
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n" % len(
            answer.body
        )
        if answer.retry_after is not None:
            head += b"retry-after: %d\r\n" % answer.retry_after
        self.transport.write(STATUS_LINE[answer.status] + head + b"\r\n" + answer.body)
        self.transport.close()

    def _refuse_head(self) -> None:
        most = self._limits.head_bytes
        words = f"the line and headers of a request must have at most {most} bytes"
        self._refusal = Refusal(431, "too-large", words)


def _bounded(state: ServerState) -> list[BoundedHttp]:
    return [one for one in state.connections if isinstance(one, BoundedHttp)]
