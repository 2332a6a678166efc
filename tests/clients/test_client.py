"""Both clients, by the same tests: what they ask, when they ask again, what they do not lose."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tightrope.service import AsyncClient, Client, ServiceError, create_key
from tightrope.service.experiment import Experiment
from tightrope.service.http.app import Service
from tightrope.service.http.keys import Keys
from tightrope.service.offline.replay import verify
from tightrope.service.storage.memory import MemoryJournal
from tightrope_client import Conflict, Gone, InvalidInput, InvalidRequest, NotAllowed, NotFound, Unavailable
from waiting import PATIENCE
from workbench import running, ward, write_spec

Connect = Callable[..., Any]
ADULT = {"age": 71, "sex": "f"}


class Waiting:
    """An `AsyncClient` whose calls are waited for, so that a test need not know which of the two it has."""

    def __init__(self, url: str, **settings: Any) -> None:
        self._runner = asyncio.Runner()
        self._client = AsyncClient(url, **settings)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._client, name)
        if not callable(value):
            return value

        async def call(*given: Any, **named: Any) -> Any:
            return await value(*given, **named)

        return lambda *given, **named: self._runner.run(call(*given, **named))

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


@pytest.fixture(params=[Client, Waiting], ids=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    with contextlib.ExitStack() as stack:
        yield lambda url, **settings: stack.enter_context(contextlib.closing(request.param(url, **settings)))


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, MemoryJournal]]:
    """A service, and its journal."""
    journal = MemoryJournal()
    experiment = Experiment(ward(), journal)
    experiment.open()
    with running(Service([experiment])) as web:
        yield str(web.base_url), journal


class Front(ThreadingHTTPServer):
    """Stands before a service and does by a script what networks and proxies do.

    A step is a status to answer with, "lose" (the service does it, and nobody is told), "drop" (nothing gets through), "hang", or
    "pass", which is also what follows the script.
    """

    daemon_threads = True

    def __init__(self, behind: str, *script: int | str) -> None:
        super().__init__(("127.0.0.1", 0), _FrontHandler)
        self.service, self.script = httpx.Client(base_url=behind, timeout=PATIENCE), list(script)
        self.sent: list[bytes] = []
        self.connections = 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.over = threading.Event()

    def handle_error(self, *given: Any) -> None:
        """Callers leave."""

    def server_close(self) -> None:
        super().server_close()
        self.service.close()


class _FrontHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Front

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        front = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        front.sent.append(body)
        step = front.script.pop(0) if front.script else "pass"
        if step in ("pass", "lose"):
            answer = front.service.request(self.command, self.path, content=body)
        if step == "hang":
            front.over.wait(PATIENCE)
        if step in ("drop", "lose", "hang"):
            self.close_connection = True
            return
        status, content = (answer.status_code, answer.content) if step == "pass" else (int(step), b"busy")
        if status == 503 and step != "pass":
            content = b'{"error": {"code": "overloaded", "message": "not now"}}'
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST

    def log_message(self, *given: Any) -> None:
        pass


@pytest.fixture
def front(served: tuple[str, MemoryJournal]) -> Iterator[Callable[..., Front]]:
    """A front before the service, by its script."""
    fronts: list[Front] = []

    def make(*script: int | str) -> Front:
        fronts.append(Front(served[0], *script))
        threading.Thread(target=fronts[-1].serve_forever, args=(0.01,), daemon=True).start()
        return fronts[-1]

    yield make
    for one in fronts:
        one.over.set()
        one.shutdown()
        one.server_close()


# --- what is asked ---


def test_every_call_gets_what_its_route_answers(
    connect: Connect, served: tuple[str, MemoryJournal], request: pytest.FixtureRequest
) -> None:
    client, base = connect(served[0]), request.node.callspec.id
    decision = client.decide(ADULT, explain=True)
    assert decision["name"] == ["icu", "surgery", "other"][decision["action"]]
    assert len(decision["explanation"]["actions"]) == 3
    event_id = decision["event_id"]
    assert client.learn(event_id, 1.0)["awaits"] == ["usage"]
    assert client.learn(event_id, usage={"hours": 0.5})["awaits"] == []
    assert client.decision(event_id)["outcome"] == {"reward": 1.0, "usage": {"hours": 0.5}}
    assert client.decisions(limit=1)["decisions"][0]["event_id"] == event_id
    pending = client.decide({"age": np.float64(3), "sex": "m"}, actions=("icu", np.int64(2)))
    assert pending["name"] in ("icu", "other")
    assert pending["event_id"] in [
        one["event_id"] for one in client.outcomes("pending", limit=1000)["outcomes"]
    ]
    assert client.state()["decisions"] == client.history()["decisions"][-1]
    assert client.rules()["why"]
    assert client.experiments()["experiments"][0]["name"] == "ward"
    taken = client.take_snapshot(f"before {base}")
    assert taken in client.snapshots()["snapshots"]
    assert client.change_mode("shadow", "other") == {"mode": "shadow", "default": "other"}
    assert client.decide(ADULT)["name"] == "other"
    assert client.post("/v1/mode", mode="live")["mode"] == "live"
    assert client.roll_back(taken["position"], "learnt")["restored"] == taken
    corrected = client.correct(event_id, "audit", reward=0.5)
    assert corrected["outcome"] == {"reward": 0.5, "usage": {"hours": 0.5}}
    assert client.correct(event_id, "audit", reward=0.5)["learnt"] is None
    assert client.change(add={f"ward {base}": {"like": "other"}}, check=True)["possible"]
    later = client.change(rules={"hours": {"at_most": 0.5}}, starts=4e9)
    assert [one["position"] for one in client.state()["scheduled"]] == [later["position"]]
    assert client.cancel_change(later["position"]) == {"position": later["position"]}
    assert client.erase(event_id)["erased"] == [event_id]
    assert client.erase([event_id, "nobody"])["unknown"] == ["nobody"]
    assert client.changes()["changes"][0]["kind"] == "erased"
    assert client.get("/v1/outcomes", status="late") == {"outcomes": [], "before": None}
    assert client.unanswered == {}


def test_usage_is_in_the_rules_units(connect: Connect) -> None:
    experiment = Experiment(ward(), MemoryJournal())
    experiment.open()
    with running(Service([experiment])) as web:
        client = connect(str(web.base_url))
        totals = []
        for i in range(2):
            client.decide(ADULT, event_id=str(i))
            client.learn(str(i), 1.0, {"hours": 0.5})
            totals.append(client.state()["constraints"][1]["cumulative_cost"])
        assert totals == pytest.approx([-0.1, -0.2]), "half an hour of at most 0.6, each time"


def test_what_cannot_be_sent_is_refused_by_the_field(
    connect: Connect, served: tuple[str, MemoryJournal]
) -> None:
    client = connect(served[0])
    with pytest.raises(InvalidInput, match=r"context\.age must be finite, but got nan"):
        client.decide({"age": math.nan, "sex": "f"})
    with pytest.raises(InvalidInput, match=r"features\[1\] must be finite, but got inf"):
        client.decide(features=np.array([1.0, np.inf]))
    with pytest.raises(InvalidInput, match="JSON has no form for a complex"):
        client.decide({"age": 1j, "sex": "f"})
    assert client.decide({"age": 1, "sex": "f"}, event_id="a NaN of a kind")["event_id"] == "a NaN of a kind"
    for url in ("ftp://example.org", "example.org", "http://host:port", "http://"):
        with pytest.raises(InvalidInput, match="url must be"):
            connect(url)
    with pytest.raises(InvalidInput, match="timeout must be above 0"):
        connect(served[0], timeout=0.0)
    with pytest.raises(InvalidInput, match="patience must be at least 0"):
        connect(served[0], patience=-1.0)


def test_refusals_are_errors_of_their_own_kinds_at_once(
    connect: Connect, served: tuple[str, MemoryJournal], request: pytest.FixtureRequest
) -> None:
    client, event_id = connect(served[0]), f"a/b?c#d ä {request.node.callspec.id}"
    first = client.decide(ADULT, event_id=event_id)
    assert client.decision(event_id)["sequence"] == first["sequence"]
    for kind, status, code, call in (
        (InvalidRequest, 422, "invalid", lambda: client.decide({"age": 171, "sex": "f"})),
        (NotFound, 404, "unknown", lambda: client.learn("nobody", 1.0)),
        (Conflict, 409, "differs", lambda: client.decide({"age": 1, "sex": "f"}, event_id=event_id)),
        (NotFound, 404, "not-found", lambda: client.get("/v1/nothing")),
    ):
        with pytest.raises(kind) as refused:
            call()
        assert (refused.value.status, refused.value.code) == (status, code)
        assert refused.value.message in str(refused.value)
    client.erase(event_id)
    with pytest.raises(Gone, match="410 erased") as gone:
        client.decide(ADULT, event_id=event_id)
    assert gone.value.event_id == event_id
    assert client.unanswered == {}, "a refusal is an answer"


def test_a_key_is_shown(connect: Connect, tmp_path: Path) -> None:
    experiments = [Experiment(ward(name), MemoryJournal()) for name in ("ward", "annexe")]
    for one in experiments:
        one.open()
    keys = tmp_path / "keys.json"
    secret = create_key(keys, scopes=["decide"])
    with running(Service(experiments, keys=Keys(keys))) as web:
        url = str(web.base_url)
        assert connect(url, key=secret, experiment="annexe").decide(ADULT)["sequence"] == 0
        assert connect(url, key=secret, experiment="ward").decide(ADULT)["sequence"] == 0
        for key, status in ((None, 401), ("tr_0_0", 401), (secret, 403)):
            with pytest.raises(NotAllowed) as refused:
                connect(url, key=key, experiment="ward").learn("x", 1.0)
            assert refused.value.status == status


# --- when it is asked again ---


def test_a_lost_answer_is_asked_for_again_and_decided_once(
    connect: Connect, front: Callable[..., Front], served: tuple[str, MemoryJournal]
) -> None:
    one, decisions = front("lose", "drop", "lose"), verify(served[1]).decisions
    client = connect(one.url)
    decision = client.decide(ADULT)
    assert len(one.sent) == 4
    assert len(set(one.sent)) == 1, "the same event each time"
    assert verify(served[1]).decisions == decisions + 1
    one.script = ["lose"]
    assert client.learn(decision["event_id"], 1.0, usage={"hours": 0.5})["awaits"] == []
    assert client.decision(decision["event_id"])["outcome"]["reward"] == 1.0


def test_it_waits_as_long_as_it_is_told_to(connect: Connect, front: Callable[..., Front]) -> None:
    one = front(429, 503, 502, 504)
    began = time.monotonic()
    assert connect(one.url).decide(ADULT)["name"]
    assert len(one.sent) == 5
    assert time.monotonic() - began >= 1.0, "Retry-After"
    one.script = [429, "pass"]
    with pytest.raises(Unavailable, match="429 unexpected"):
        connect(one.url, patience=0.5).decide(ADULT)
    assert len(one.sent) == 6, "a second attempt would come too late, so there is none"


def test_what_got_no_answer_is_kept_and_can_be_asked_for_again(
    connect: Connect, front: Callable[..., Front], served: tuple[str, MemoryJournal]
) -> None:
    one, decisions = front("lose"), verify(served[1]).decisions
    client = connect(one.url, patience=0.0)
    with pytest.raises(Unavailable) as lost:
        client.decide(ADULT, explain=True)
    assert (lost.value.status, lost.value.code) == (503, "unreachable")
    assert "in 1 attempt" in str(lost.value)
    [(event_id, request)] = client.unanswered.items()
    assert event_id == lost.value.event_id
    decision = client.decide(**request)
    assert decision["event_id"] == event_id
    assert verify(served[1]).decisions == decisions + 1
    assert client.unanswered == {}
    one.script = [503]
    with pytest.raises(Unavailable, match="503 overloaded: not now"):
        client.decide(event_id="later")
    assert list(client.unanswered) == ["later"]


def test_a_slow_service_is_not_waited_for_beyond_timeout_and_deadline(
    connect: Connect, front: Callable[..., Front]
) -> None:
    one = front("hang")
    client = connect(one.url, timeout=0.5)
    assert client.decide(ADULT)["name"], "a later attempt"
    assert len(one.sent) >= 2
    one.script = ["hang"] * 9
    began = time.monotonic()
    with pytest.raises(Unavailable, match="unreachable"):
        connect(one.url).decide(ADULT, deadline=0.2)
    assert 0.1 < time.monotonic() - began < PATIENCE / 2, "much less than the service takes"


def test_a_rollback_that_may_have_been_done_is_not_repeated(
    connect: Connect, front: Callable[..., Front]
) -> None:
    one = front("drop")
    client = connect(one.url)
    with pytest.raises(Unavailable, match="in 1 attempt"):
        client.roll_back(1, "all")
    one.script = [502]
    with pytest.raises(Unavailable, match="502"):
        client.take_snapshot("once")
    assert len(one.sent) == 2
    one.script = [503]
    with pytest.raises(NotFound, match="no snapshot"):
        client.roll_back(1 << 40, "all")
    assert len(one.sent) == 4, "it was turned away at the door, and asked again"


def test_connections_are_kept_and_no_more_than_allowed(connect: Connect, front: Callable[..., Front]) -> None:
    one = front()
    client = connect(one.url, connections=4)
    for _ in range(10):
        client.decide(ADULT)
    assert one.connections == 1
    client.decide_many([{"context": ADULT} for _ in range(40)])
    assert one.connections <= 4


def test_many_at_once_in_the_order_of_the_requests(
    connect: Connect, served: tuple[str, MemoryJournal], request: pytest.FixtureRequest
) -> None:
    client, base = connect(served[0]), request.node.callspec.id
    asked = [{"event_id": f"{base}-{i}", "context": {"age": i, "sex": "f"}} for i in range(200)]
    found = client.decide_many(asked, concurrency=32)
    good, bad = found[:101], found[101:]
    assert [one["event_id"] for one in good] == [one["event_id"] for one in asked[:101]]
    assert len({one["sequence"] for one in good}) == 101
    assert all(isinstance(one, InvalidRequest) for one in bad), "beyond 100 years"
    reported = client.learn_many({"event_id": one["event_id"], "reward": 1.0} for one in good)
    assert not any(isinstance(one, ServiceError) for one in reported)
    assert client.decide_many([]) == []


def test_a_cancelled_call_does_not_lose_its_event_id(
    front: Callable[..., Front], served: tuple[str, MemoryJournal]
) -> None:
    one, decisions = front("hang", 503, "pass"), verify(served[1]).decisions

    async def leave() -> None:
        async with AsyncClient(one.url) as client:
            for sent in (1, 2):
                # While it waits for an answer, and while it pauses after one.
                task = asyncio.create_task(client.decide(ADULT))
                while len(one.sent) < sent:
                    await asyncio.sleep(0.005)
                await asyncio.sleep(0.02)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert len(client.unanswered) == sent
            for event_id, request in client.unanswered.items():
                assert (await client.decide(**request))["event_id"] == event_id
            assert client.unanswered == {}

    asyncio.run(leave())
    assert verify(served[1]).decisions == decisions + 2


# --- processes ---

SERVER = "import sys; from tightrope.service import serve; serve([sys.argv[1]], port=int(sys.argv[2]), data=sys.argv[3])"


def test_a_killed_service_loses_nothing_and_decides_nothing_twice(tmp_path: Path) -> None:
    """Both clients at work while the service is killed and started again: no call fails, no event is decided twice."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = int(one.getsockname()[1])
    command = [sys.executable, "-c", SERVER, str(write_spec(tmp_path)), str(port), str(tmp_path / "data")]
    url, asked = f"http://127.0.0.1:{port}", 40
    found: dict[str, list[Any]] = {}

    def requests(name: str) -> list[dict[str, Any]]:
        return [{"event_id": f"{name}-{i}", "context": {"age": i, "sex": "f"}} for i in range(asked)]

    def play(name: str, connected: Any) -> None:
        with contextlib.closing(connected) as client:
            found[name] = client.decide_many(requests(name), concurrency=4)

    clients = {"sync": Client(url, patience=100.0), "async": Waiting(url, patience=100.0)}
    service = subprocess.Popen(command)
    try:
        # Calls may even come before the service does.
        players = [threading.Thread(target=play, args=pair) for pair in clients.items()]
        for player in players:
            player.start()
        with Client(url, patience=100.0) as watcher:
            while watcher.state()["decisions"] < 10:
                time.sleep(0.005)
            os.kill(service.pid, signal.SIGKILL)
            service.wait()
            service = subprocess.Popen(command)
            for player in players:
                player.join()
            assert watcher.state()["decisions"] == 2 * asked
            for name, answers in found.items():
                assert [one["event_id"] for one in answers] == [one["event_id"] for one in requests(name)]
                assert watcher.decide_many(requests(name)) == answers
    finally:
        service.kill()
        service.wait()
