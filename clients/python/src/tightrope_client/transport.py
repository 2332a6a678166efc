"""How a client's requests reach a service: HTTP/1.1 over connections that are kept, for threads and for asyncio.

Only the standard library is used. Clients send many small requests, and there a general HTTP library costs more than the service
itself: httpx was measured at 1.4 ms of processor time per decision, awaited 2.7 to 10 (growing with the number that wait at once),
against 0.2 to 0.7 here. Both raise `Unsent` if nothing of the request was sent, otherwise `OSError` or `HTTPException`.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import select
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from tightrope_client.endpoints import Request

# The service closes a connection after 5 s of silence: close it first.
_IDLE_SECONDS: Final = 4.0
_HEAD_BYTES: Final = 64 << 10


class Reply(NamedTuple):
    """What came back; names of headers are lower case."""

    status: int
    headers: dict[str, str]
    content: bytes


class Unsent(OSError):
    """There was no connection: nothing of the request was sent."""


@dataclass(frozen=True)
class Origin:
    """Where requests go, with the headers of all of them.

    >>> Origin.of("https://[::1]/tightrope", {})
    Origin(host='::1', port=443, name='[::1]', headers={}, tls=True)
    """

    host: str
    port: int
    name: str
    headers: dict[str, str]
    tls: bool | ssl.SSLContext

    @classmethod
    def of(cls, url: str, headers: dict[str, str], tls: ssl.SSLContext | None = None) -> Origin:
        """The origin of an http or https address."""
        parts = urlsplit(url)
        secure, name = parts.scheme == "https", parts.netloc.rpartition("@")[2]
        port = parts.port or (443 if secure else 80)
        return cls(parts.hostname or "", port, name, headers, secure and (tls or True))


class Pool:
    """Connections for any number of threads: a limited number at once; other threads wait for their turn."""

    def __init__(self, origin: Origin, connections: int) -> None:
        self._origin = origin
        self._turns = threading.BoundedSemaphore(connections)
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []

    def request(self, request: Request[Any], timeout: float, left: float | None = None) -> Reply:
        """Send a request and read the answer; `timeout`: seconds for each wait, `left`: seconds to wait for a turn."""
        if not self._turns.acquire(timeout=left):
            raise Unsent("all connections are in use")
        try:
            connection = self._kept(timeout) or self._new(timeout)
            try:
                connection.request(request.method, request.target, request.content, self._origin.headers)
                response = connection.getresponse()
                body = response.read()
            except BaseException:
                connection.close()
                raise
            if response.will_close:
                connection.close()
            else:
                self._idle.append((connection, time.monotonic()))
        finally:
            self._turns.release()
        return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, body)

    def close(self) -> None:
        """Close what is kept."""
        while self._idle:
            self._idle.pop()[0].close()

    def _kept(self, timeout: float) -> http.client.HTTPConnection | None:
        """The connection that was used last, unless the service has closed it."""
        while True:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                return None
            # If something can be read before anything was asked, it is the end of the connection.
            if time.monotonic() - since < _IDLE_SECONDS and not _readable(connection.sock):
                connection.sock.settimeout(timeout)
                return connection
            connection.close()

    def _new(self, timeout: float) -> http.client.HTTPConnection:
        host, port, tls = self._origin.host, self._origin.port, self._origin.tls
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
        if tls:
            context = None if tls is True else tls
            connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise Unsent(str(error) or type(error).__name__) from error
        return connection


class AsyncPool:
    """The same for the tasks of one event loop."""

    def __init__(self, origin: Origin, connections: int) -> None:
        self._origin = origin
        self._turns = asyncio.Semaphore(connections)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter, float]] = []

    async def request(self, request: Request[Any], timeout: float, left: float | None = None) -> Reply:
        """Send a request and read the answer; `timeout`: seconds for both, `left`: with the wait for a turn."""
        content = request.content
        fields = {"Host": self._origin.name, "Accept-Encoding": "identity", **self._origin.headers}
        if content is not None:
            fields["Content-Length"] = str(len(content))
        named = (f"{name}: {value}" for name, value in fields.items())
        head = "\r\n".join([f"{request.method} {request.target} HTTP/1.1", *named, "", ""])
        async with asyncio.timeout(left), self._turns:
            reader, writer = self._kept() or await self._new(timeout)
            try:
                async with asyncio.timeout(timeout):
                    writer.write(head.encode("latin-1") + (content or b""))
                    await writer.drain()
                    reply, stays = await _read_reply(reader)
            except BaseException as error:
                # An answer that comes later must not be mistaken for the answer to the next request.
                writer.transport.abort()
                if isinstance(error, asyncio.IncompleteReadError | asyncio.LimitOverrunError | ValueError):
                    raise HTTPException(f"no valid answer: {error}") from error
                raise
        if stays:
            self._idle.append((reader, writer, time.monotonic()))
        else:
            writer.close()
        return reply

    async def close(self) -> None:
        """Close what is kept."""
        while self._idle:
            _, writer, _ = self._idle.pop()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _kept(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        while self._idle:
            reader, writer, since = self._idle.pop()
            alive = not reader.at_eof() and reader.exception() is None and not writer.is_closing()
            if alive and time.monotonic() - since < _IDLE_SECONDS:
                return reader, writer
            writer.transport.abort()
        return None

    async def _new(self, timeout: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port, tls = self._origin.host, self._origin.port, self._origin.tls
        try:
            async with asyncio.timeout(timeout):
                return await asyncio.open_connection(host, port, ssl=tls or None, limit=_HEAD_BYTES)
        except OSError as error:
            raise Unsent(str(error) or type(error).__name__) from error


async def _read_reply(reader: asyncio.StreamReader) -> tuple[Reply, bool]:
    """An answer, and whether the connection stays open after it."""
    status = 100
    while status < 200:  # "100 Continue" and its like are not the answer
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head[:-4].split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError(f"not HTTP: {first[:80]!r}")
        status = int(rest[:3])
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    stays = version == "HTTP/1.1" and "close" not in headers.get("connection", "").lower()
    if "chunked" in headers.get("transfer-encoding", "").lower():
        content = await _read_chunks(reader)
    elif "content-length" in headers:
        content = await reader.readexactly(int(headers["content-length"]))
    elif status in (204, 304):
        content = b""
    else:
        content, stays = await reader.read(), False
    return Reply(status, headers, content), stays


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts = []
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass
    return b"".join(parts)


def _readable(sock: socket.socket) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])
