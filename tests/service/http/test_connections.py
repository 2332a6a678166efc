"""Connections: what is bounded before anyone has shown a key."""

from __future__ import annotations

import ast
import contextlib
import gc
import inspect
import json
import re
import resource
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from uvicorn.protocols.http import httptools_impl

from tightrope.service.experiment import Experiment
from tightrope.service.http import connections
from tightrope.service.http.app import Service
from tightrope.service.http.connections import ConnectionLimits, Gate
from tightrope.service.http.server import _affordable
from tightrope.service.requests import Limits
from tightrope.service.storage.memory import MemoryJournal
from waiting import PATIENCE, until
from workbench import running, visit, ward, write_spec

Many = Callable[[httpx.Client, int], list[socket.socket]]
HEAD = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\n"


@contextlib.contextmanager
def served(
    limits: ConnectionLimits | None = None, keep_alive: int = 1000, **options: int
) -> Iterator[httpx.Client]:
    experiment = Experiment(ward(), MemoryJournal())
    experiment.open()
    settings: dict[str, Any] = {"timeout_keep_alive": keep_alive}
    if limits is not None:
        settings["http"] = Gate(limits)
    with running(Service([experiment], limits=Limits(**options)), **settings) as web:
        yield web


@pytest.fixture
def many() -> Iterator[Many]:
    """Makes connections, which are closed at the end whatever has happened."""
    with contextlib.ExitStack() as stack:
        yield lambda web, count: [stack.enter_context(connected(web)) for _ in range(count)]


def connected(web: httpx.Client) -> socket.socket:
    one = socket.create_connection((web.base_url.host, web.base_url.port or 80))
    one.settimeout(PATIENCE)
    return one


def sent(one: socket.socket, data: bytes, times: int = 1) -> int:
    """How many times `data` went out before the other side closed."""
    for i in range(times):
        try:
            one.sendall(data)
        except OSError:
            return i
    return times


def heard(one: socket.socket) -> bytes:
    """What comes until the other side closes."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := one.recv(1 << 16):
            found += part
    return found


def closed(one: socket.socket) -> bool:
    """Whether the other side has closed it by now."""
    one.setblocking(False)
    try:
        while one.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    finally:
        one.settimeout(PATIENCE)
    return True


def test_a_head_without_end_is_cut_off() -> None:
    many = b"".join(b"X-%d: %s\r\n" % (i, b"a" * 90) for i in range(1000))
    with served() as web:
        for start, rest in [
            (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", many),
            (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", b"a" * 100_000),
            (b"GET /", b"a" * 100_000),
            # After a body, where the parser takes headers once more.
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: ", b"a" * 100_000),
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;", b"a" * 100_000),
        ]:
            with connected(web) as one:
                one.sendall(start)
                assert sent(one, rest, 300) < 300, start
        with connected(web) as one:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 40_000)
            assert heard(one).startswith(b"HTTP/1.1 431 ")
        with connected(web) as one:
            # Whole, within what the server reads at once.
            sent(one, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 40_000 + b"\r\n\r\n")
            assert heard(one).startswith(b"HTTP/1.1 431 ")
        long = web.get("/healthz", headers={"X": "a" * 30_000})
        assert long.status_code == 200


def test_memory_stays_where_it_is_under_300_mb_of_headers(tmp_path: Path) -> None:
    code = "import sys; from tightrope.service import serve; serve([sys.argv[1]], port=int(sys.argv[2]), data=sys.argv[3])"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = [sys.executable, "-c", code, str(write_spec(tmp_path)), str(port), str(tmp_path / "data")]
    process = subprocess.Popen(arguments)

    def resident() -> int:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024

    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as web:

            def ready() -> bool:
                with contextlib.suppress(httpx.HTTPError):
                    return web.get("/readyz").status_code == 200
                return False

            until(ready, "the service is ready")
            before = resident()
            with connected(web) as one:
                one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
                sent(one, b"".join(b"X-%d: %s\r\n" % (i, b"a" * 990) for i in range(1000)), 300)
                assert resident() < before + 50
            assert web.get("/healthz").status_code == 200
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)


def test_silent_and_slow_sockets_are_closed(many: Many) -> None:
    limits = ConnectionLimits(head_seconds=1.0)
    with served(limits, keep_alive=1) as web:
        silent, slow = many(web, 20), many(web, 20)
        # Empty lines between requests are no request.
        blank = many(web, 5)
        for one in blank:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for one in slow:
            one.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        still_open = {*silent, *slow, *blank}

        def all_closed() -> bool:
            for one in slow:
                sent(one, b"x")
            for one in blank:
                sent(one, b"\r\n")
            still_open.difference_update([one for one in still_open if closed(one)])
            return not still_open

        until(all_closed, "every one is closed, whatever it goes on sending", every=0.1)
        assert web.get("/healthz").status_code == 200


def test_one_connection_too_many_takes_the_place_of_an_idle_one(many: Many) -> None:
    with served(ConnectionLimits(connections=20, head_seconds=1e6)) as web:
        silent = many(web, 60)
        # Three of these answers come over connections of their own.
        for _ in range(3):
            with httpx.Client(base_url=web.base_url) as other:
                assert other.post("/v1/decisions", content=visit(1)).status_code == 200
        until(lambda: closed(silent[0]), "the first to come is the first to go")


def test_where_none_is_idle_one_more_is_told_so(many: Many) -> None:
    with served(ConnectionLimits(connections=4)) as web:
        busy = many(web, 4)
        for one in busy:
            one.sendall(HEAD + b"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n")
        for one in busy:
            assert one.recv(100).startswith(b"HTTP/1.1 100 "), "the service waits for its body"
        with connected(web) as late:
            answer = heard(late)
        for one in busy:
            one.close()  # or the service would wait for them to finish
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "overloaded"


def test_a_refused_body_is_cut_short() -> None:
    with served(body_bytes=1000) as web:
        for start in (HEAD, HEAD.replace(b"localhost", b"elsewhere")):
            with connected(web) as one:
                one.sendall(start + b"Content-Length: 1000000000\r\n\r\n")
                assert sent(one, b"a" * 100_000, 1000) < 1000
        # A short one is let pass, so that its sender reads the answer and goes on with the connection.
        with connected(web) as one:
            one.sendall(HEAD + b"Content-Length: 20000\r\n\r\n")
            time.sleep(0.1)
            one.sendall(
                b"a" * 20_000 + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            )
            assert re.findall(rb"HTTP/1.1 (\d+)", heard(one)) == [b"413", b"200"]


def test_requests_sent_ahead_are_counted() -> None:
    ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served() as web:
        with connected(web) as one:
            one.sendall(ask * 10)
            found = b""
            while found.count(b"HTTP/1.1 200") < 10:
                found += one.recv(1 << 16)
        with connected(web) as one:
            sent(one, ask * 5000)
            assert heard(one).count(b"HTTP/1.1 200") < 100


def test_an_answer_that_nobody_reads_holds_nothing_up() -> None:
    with served(ConnectionLimits(unread_seconds=0.5)) as web:
        for i in range(40):
            web.post("/v1/decisions", content=visit(i))
        ask = b"GET /v1/decisions?limit=40 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for _ in range(4):
            with socket.socket() as one:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                one.connect((web.base_url.host, web.base_url.port or 80))
                one.settimeout(0.2)

                def asked_in_vain(one: socket.socket = one) -> bool:
                    try:
                        one.sendall(ask)
                    except TimeoutError:
                        return False
                    except ConnectionError:
                        return True
                    return False

                until(asked_in_vain, "it is closed", every=0.0)
        assert web.post("/v1/decisions", content=visit(99)).status_code == 200


def test_connections_leave_descriptors_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: set_to.append(limits))
    for limits, wanted, most in [
        ((1024, 1024), 1000, 944),
        ((1024, 4096), 1000, 1000),
        ((20_000, 20_000), 1000, 1000),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 5000, 5000),
    ]:
        monkeypatch.setattr(resource, "getrlimit", lambda which, limits=limits: limits)
        assert _affordable(wanted, 1) == most
    assert set_to == [(1024, 1024), (1080, 4096)]


def test_a_request_leaves_nothing_to_the_garbage_collector() -> None:
    """Circles are freed by the collector alone, which stops everything; at thousands of requests a second that is felt."""
    with served() as web, connected(web) as one:

        def ask(serial: int) -> bool:
            body = visit(serial)
            one.sendall(HEAD + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            return one.recv(1 << 16).startswith(b"HTTP/1.1 200 ")

        assert all(ask(i) for i in range(50))
        gc.collect()
        gc.disable()
        try:
            assert all(ask(i) for i in range(50, 250))
            assert gc.collect() < 200, "less than one object a request"
        finally:
            gc.enable()


# --- what is used of Uvicorn's insides, which may change with any release (`scripts/check-uvicorn` tries others) ---


def test_uvicorn_has_what_the_protocol_builds_upon() -> None:
    ours = ast.parse(inspect.getsource(connections))
    protocol, exchange = (
        next(one for one in ours.body if isinstance(one, ast.ClassDef) and one.name == name)
        for name in ("BoundedHttp", "Exchange")
    )
    inherited = attributes(protocol, "self") - defined(protocol)
    assert inherited >= {"pipeline", "cycle", "_start_asgi_task"}
    assert inherited <= insides(httptools_impl.HttpToolsProtocol) | {"url"}
    extended = {
        one.func.attr
        for one in ast.walk(protocol)
        if isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and ast.unparse(one.func.value) == "super()"
    }
    assert extended <= insides(httptools_impl.HttpToolsProtocol)
    overridden = {one.name for one in protocol.body if isinstance(one, ast.FunctionDef)}
    assert overridden >= {"on_response_complete", "data_received", "connection_lost"}
    assert overridden - insides(httptools_impl.HttpToolsProtocol) == {"idle", "overdue", "_refuse_head"}
    used = attributes(exchange, "cycle") | attributes(protocol, "cycle")
    assert used >= {"response_complete", "default_headers", "on_response"}
    assert used <= insides(httptools_impl.RequestResponseCycle)
    parameters = [*inspect.signature(httptools_impl.HttpToolsProtocol.__init__).parameters]
    assert parameters == ["self", "config", "server_state", "app_state", "_loop"]
    assert httptools_impl.STATUS_LINE[503].startswith(b"HTTP/1.1 503")


def attributes(tree: ast.AST, name: str) -> set[str]:
    """The attributes of a variable that some code reads or sets."""
    return {
        one.attr
        for one in ast.walk(tree)
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == name
    }


def defined(tree: ast.ClassDef) -> set[str]:
    """What a class defines itself: its methods, and the attributes that its constructor adds."""
    methods = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    added = {
        target.attr
        for one in ast.walk(methods["__init__"])
        if isinstance(one, ast.Assign | ast.AnnAssign)
        for target in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(target, ast.Attribute)
    }
    return {*methods} | added


def insides(kind: type) -> set[str]:
    """What a class of Uvicorn's has: methods, and the attributes that its instances get."""
    source = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    return attributes(source, "self") | {*vars(kind)}
