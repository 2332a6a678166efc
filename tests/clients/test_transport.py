"""Answers as they come over a wire: whole, in chunks, cut short; and over TLS."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tightrope_client.endpoints import Request
from tightrope_client.transport import AsyncPool, Origin, Pool, Reply, Unsent


def asked(wire: bytes, *, times: int = 1) -> tuple[list[Reply], list[bytes]]:
    """What an `AsyncPool` reads from a server that sends these bytes, and what it had sent."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(1 << 16):
            heads.append(head)
            writer.write(wire)
            if b"keep" not in wire:
                break
        writer.close()

    async def ask() -> list[Reply]:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            pool = AsyncPool(Origin.of(f"http://127.0.0.1:{port}", {"X-Key": "k"}), 1)
            try:
                return [await pool.request(Request("POST", "/v1", b"{}"), 5) for _ in range(times)]
            finally:
                await pool.close()

    return asyncio.run(ask()), heads


@pytest.mark.parametrize(
    ("wire", "status", "content"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, b"abc"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", 404, b""),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nT: 1\r\n\r\n",
            200,
            b"abc",
        ),
        (b"HTTP/1.0 503 Not now\r\nRetry-After: 7\r\n\r\nuntil the end", 503, b"until the end"),
        (b"HTTP/1.1 204 None\r\n\r\n", 204, b""),
    ],
)
def test_answers_are_read_as_they_come(wire: bytes, status: int, content: bytes) -> None:
    [reply], [head] = asked(wire)
    assert (reply.status, reply.content) == (status, content)
    assert reply.headers.get("retry-after") == ("7" if status == 503 else None)
    assert head.startswith(b"POST /v1 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"X-Key: k\r\n" in head
    assert head.endswith(b"Content-Length: 2\r\n\r\n{}")


def test_a_connection_is_used_again_only_while_both_sides_keep_it() -> None:
    replies, heads = asked(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nkeep", times=3)
    assert [one.content for one in replies] == [b"keep"] * 3
    assert len(heads) == 3
    replies, _ = asked(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", times=2)
    assert len(replies) == 2


@pytest.mark.parametrize(
    "wire",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: nine\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    ],
)
def test_what_is_no_whole_answer_is_an_error(wire: bytes) -> None:
    with pytest.raises(HTTPException, match="no valid answer"):
        asked(wire)


def test_without_a_connection_nothing_was_sent() -> None:
    origin = Origin.of("http://127.0.0.1:9", {})
    with pytest.raises(Unsent):
        Pool(origin, 1).request(Request("GET", "/"), 1.0)
    with pytest.raises(Unsent):
        asyncio.run(AsyncPool(origin, 1).request(Request("GET", "/"), 1.0))


class _Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *given: object) -> None:
        pass


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, ssl.SSLContext]]:
    """A server with a certificate of its own, and a context that trusts it."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl, to make a certificate")
    files = ["-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"]
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        *files,
    ]
    subprocess.run(
        [*made, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True,
        capture_output=True,
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hello)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *given: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    yield f"https://localhost:{server.server_address[1]}", trusting
    server.shutdown()
    server.server_close()


def test_tls_asks_for_a_certificate_that_is_trusted(secure: tuple[str, ssl.SSLContext]) -> None:
    url, trusting = secure
    origin = Origin.of(url, {}, trusting)
    assert Pool(origin, 1).request(Request("GET", "/"), 5).content == b"hello"
    assert asyncio.run(AsyncPool(origin, 1).request(Request("GET", "/"), 5)).content == b"hello"
    stranger = Origin.of(url, {})
    with pytest.raises(Unsent, match="certificate"):
        Pool(stranger, 1).request(Request("GET", "/"), 5)
    with pytest.raises(Unsent, match="certificate"):
        asyncio.run(AsyncPool(stranger, 1).request(Request("GET", "/"), 5))
