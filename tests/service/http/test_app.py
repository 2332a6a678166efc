"""The service over real HTTP: routes, keys, limits, overload, durability before the answer, and what kill -9 leaves."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tightrope.errors import InvalidInput
from tightrope.service import Client, create_key, revoke_key, serve
from tightrope.service.experiment import Experiment
from tightrope.service.http.admission import Rates
from tightrope.service.http.app import Service
from tightrope.service.http.keys import SCOPES, Keys
from tightrope.service.http.server import make_service
from tightrope.service.journal import JournalLocked
from tightrope.service.offline.replay import verify
from tightrope.service.requests import Limits
from tightrope.service.storage.memory import MemoryJournal
from tightrope.service.storage.sqlite import SqliteJournal
from waiting import PATIENCE, until
from workbench import SlowJournal, arms, measured, metrics, running, visit, ward, write_spec


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    service = make_service([ward(), measured()], data=tmp_path_factory.mktemp("data"), max_body_bytes=5000)
    with running(service) as client:
        yield client


WARD = {"experiment": "ward"}


def test_a_decision_and_its_outcome(web: httpx.Client) -> None:
    answer = web.post("/v1/decisions", params=WARD, content=visit(1, explain=True))
    assert answer.status_code == 200
    decision = answer.json()
    assert decision["event_id"] == "visit-1"
    assert decision["name"] == ["icu", "surgery", "other"][decision["action"]]
    assert [row["action"] for row in decision["explanation"]["actions"]] == ["icu", "surgery", "other"]
    outcome = {"event_id": "visit-1", "reward": 1, "usage": {"hours": 0.5}}
    assert web.post("/v1/outcomes", params=WARD, json=outcome).json()["awaits"] == []
    assert web.post("/v1/outcomes", params=WARD, json={**outcome, "reward": 0}).status_code == 409
    assert web.post("/v1/outcomes", params=WARD, json={**outcome, "event_id": "?"}).status_code == 404
    stored = web.get("/v1/decisions/visit-1", params=WARD).json()
    assert stored["outcome"] == {"reward": 1.0, "usage": {"hours": 0.5}}
    assert stored["request"]["context"] == {"age": 37.0, "sex": "m"}
    assert not stored["pending"]
    assert web.get("/v1/decisions/visit-77", params=WARD).status_code == 404
    state = web.get("/v1/state", params=WARD).json()
    assert state["decisions"] == sum(action["decisions"] for action in state["actions"])
    assert state["constraints"][0]["rule"] == "icu: at most 40% of decisions"
    rejected = web.get("/v1/outcomes", params={**WARD, "status": "rejected"}).json()["outcomes"]
    assert {one["reason"] for one in rejected} == {"differs", "unknown"}


def test_experiments_are_apart(web: httpx.Client) -> None:
    names = [one["name"] for one in web.get("/v1/experiments").json()["experiments"]]
    assert names == ["ward", "measured"]
    answer = web.post("/v1/decisions", content=visit(5))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "experiment")
    assert web.post("/v1/decisions?experiment=attic", content=visit(5)).status_code == 404
    before = web.get("/v1/state", params=WARD).json()["decisions"]
    assert web.post("/v1/decisions?experiment=measured", content=visit(1)).status_code == 200
    assert web.get("/v1/state", params=WARD).json()["decisions"] == before


def test_event_ids_may_hold_any_printable_text(web: httpx.Client) -> None:
    for event_id in ("a/b?c#d", "ä ö %41", "visit 1\u2028"):
        body = {"event_id": event_id, "context": {"age": 1, "sex": "f"}}
        first = web.post("/v1/decisions", params=WARD, json=body)
        assert first.json()["event_id"] == event_id
        path = f"/v1/decisions/{httpx.QueryParams({'x': event_id})!s}".replace("x=", "").replace("+", "%20")
        assert web.get(path, params=WARD).json()["sequence"] == first.json()["sequence"]
    assert web.get("/v1/decisions/a%00b", params=WARD).status_code == 404
    assert web.get("/v1/decisions/%ff", params=WARD).status_code == 404


def test_slater_is_measured_in_the_background(web: httpx.Client) -> None:
    for i in range(40):
        web.post("/v1/decisions?experiment=measured", content=visit(i))
    until(
        lambda: web.get("/v1/state?experiment=measured").json()["slater"] >= 0.3,
        "it is measured on what was seen",
    )


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("GET", "/v1/decision", "there is no route /v1/decision; GET /docs lists all of them"),
        ("GET", "/v1/d%C3%A9", "there is no route /v1/d\\xe9; GET /docs lists all of them"),
        ("PUT", "/v1/decisions", "/v1/decisions takes GET, POST, but this request is a PUT"),
        ("GET", "/v1/outcomes/batch", "/v1/outcomes/batch takes POST, but this request is a GET"),
        (
            "GET",
            "/v1/outcomes",
            'status is missing: it must be "late" or "rejected" or "missing" or "pending"',
        ),
    ],
)
def test_a_wrong_address_is_answered_with_what_would_be_right(
    web: httpx.Client, method: str, path: str, words: str
) -> None:
    assert web.request(method, path, params=WARD).json()["error"]["message"] == words


def test_wrong_requests_get_4xx_in_json(web: httpx.Client) -> None:
    big = b'{"event_id": "' + b"x" * 6000 + b'"}'
    parts = [b'{"event_id": "' + b"x" * 3000, b"x" * 3000, b'"}']
    for request, status in [
        (web.build_request("POST", "/v1/decisions", params=WARD, content=b"{"), 400),
        (web.build_request("POST", "/v1/decisions", params=WARD, content=b'{"context": {"age": true}}'), 422),
        (web.build_request("POST", "/v1/decisions", params=WARD, content=big), 413),
        (web.build_request("POST", "/v1/decisions", params=WARD, content=iter(parts)), 413),
        (web.build_request("PUT", "/v1/decisions", params=WARD, content=b"{}"), 405),
        (web.build_request("GET", "/v1/nothing", params=WARD), 404),
        (web.build_request("GET", "/v1/decisions", params={**WARD, "limit": "x"}), 422),
        (web.build_request("GET", "/v1/decisions", params={**WARD, "limit": "99999"}), 422),
        (web.build_request("GET", "/v1/decisions", params={**WARD, "before": "-1"}), 422),
        (web.build_request("GET", "/v1/decisions", params={**WARD, "before": "null"}), 422),
        (web.build_request("GET", "/v1/outcomes", params=WARD), 422),
        (web.build_request("POST", "/v1/mode", params=WARD, json={"mode": "off"}), 422),
        (web.build_request("POST", "/v1/mode", params=WARD, json={"mode": "live", "default": "icu"}), 422),
        (web.build_request("POST", "/v1/rollback", params=WARD, json={"position": 1}), 422),
        (web.build_request("POST", "/v1/snapshots", params=WARD, json={}), 422),
    ]:
        answer = web.send(request)
        assert answer.status_code == status, answer.text
        assert answer.json()["error"]["message"]


def test_admin_routes(web: httpx.Client) -> None:
    taken = web.post("/v1/snapshots", params=WARD, json={"label": "before"}).json()
    assert taken in web.get("/v1/snapshots", params=WARD).json()["snapshots"]
    assert web.post("/v1/mode", params=WARD, json={"mode": "shadow", "default": "other"}).status_code == 200
    assert web.post("/v1/decisions", params=WARD, content=visit(900)).json()["name"] == "other"
    assert web.post("/v1/mode", params=WARD, json={"mode": "paused"}).status_code == 200
    paused = web.post("/v1/decisions", params=WARD, content=visit(901))
    assert paused.status_code == 503
    assert int(paused.headers["retry-after"]) > 0
    assert web.post("/v1/mode", params=WARD, json={"mode": "live"}).status_code == 200
    rolled = web.post("/v1/rollback", params=WARD, json={"position": taken["position"], "restore": "learnt"})
    assert rolled.json()["restored"] == taken
    kinds = [one["kind"] for one in web.get("/v1/changes", params=WARD).json()["changes"]]
    assert kinds == ["rolled back", "mode", "mode", "mode", "started"]
    history = web.get("/v1/history", params=WARD).json()
    assert len(history["decisions"]) == len(history["cumulative_costs"]["hours"])


def test_health_metrics_and_documents_need_no_outside_host(web: httpx.Client) -> None:
    assert web.get("/healthz").json() == {"status": "alive"}
    assert web.get("/readyz").json()["ready"]
    text = web.get("/metrics").text
    values: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            assert name not in values
            values[name] = float(value)
    decisions = web.get("/v1/state", params=WARD).json()["decisions"]
    by_action = [
        v for name, v in values.items() if name.startswith('tightrope_decisions_total{experiment="ward"')
    ]
    assert sum(by_action) == decisions
    assert values['tightrope_batch_size_bucket{experiment="ward",le="+Inf"}'] > 0
    page = web.get("/docs").text
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    api = web.get("/openapi.json").json()
    assert api["openapi"].startswith("3.1")
    for path, methods in api["paths"].items():
        for method in methods:
            url = path.replace("{event_id}", "visit-1")
            answer = web.request(method, url, params={**WARD, "status": "late"})
            # Without a control group there is no lift.
            missing = (404,) if path != "/v1/lift" else ()
            assert answer.status_code not in (*missing, 405, 500), (method, path, answer.text)
            assert str(answer.status_code) in methods[method]["responses"], (method, path)


def test_every_reference_in_the_document_resolves(web: httpx.Client) -> None:
    api = web.get("/openapi.json").json()

    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            for key, entry in value.items():
                if key == "$ref":
                    yield entry
                yield from references(entry)
        elif isinstance(value, list):
            for entry in value:
                yield from references(entry)

    found = set(references(api))
    assert found
    for one in found:
        node = api
        for part in one.removeprefix("#/").split("/"):
            node = node[part]


# --- durability before the answer ---


def test_no_answer_before_the_journal_has_it_and_503_when_too_many_wait() -> None:
    journal = SlowJournal()
    experiment = Experiment(ward(), journal)
    experiment.open()
    with running(Service([experiment], max_in_flight=8)) as web, ThreadPoolExecutor(30) as pool:
        before = journal.last()
        journal.gate.clear()
        url = str(web.base_url) + "/v1/decisions"
        answers = [pool.submit(httpx.post, url, content=visit(i), timeout=PATIENCE) for i in range(20)]
        until(lambda: sum(answer.done() for answer in answers) >= 12, "8 may wait, the others are told so")
        refused = [answer.result() for answer in answers if answer.done()]
        assert len(refused) == 12, "8 may wait, the others are told so at once"
        assert {answer.status_code for answer in refused} == {503}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        time.sleep(0.2)
        assert journal.last() == before
        assert sum(answer.done() for answer in answers) == 12
        journal.gate.set()
        statuses = sorted(answer.result().status_code for answer in answers)
        assert statuses == [200] * 8 + [503] * 12
        assert verify(journal).decisions == 8
        with ThreadPoolExecutor(4) as few:
            retried = few.map(lambda i: httpx.post(url, content=visit(i)).status_code, range(20))
            assert set(retried) == {200}
    assert verify(journal).decisions == 20


def test_a_caller_who_leaves_harms_no_one() -> None:
    experiment = Experiment(ward(), MemoryJournal())
    experiment.open()
    with running(Service([experiment], max_in_flight=4)) as web:
        for _ in range(20):
            raw = socket.create_connection((web.base_url.host, web.base_url.port or 80))
            raw.sendall(b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            raw.close()
        until(
            lambda: web.post("/v1/decisions", content=visit(1)).status_code == 200,
            "what they held is given back",
        )


def test_no_path_ends_in_a_line_feed(web: httpx.Client) -> None:
    web.post("/v1/decisions", params=WARD, json={"event_id": "abc", "context": {"age": 1, "sex": "f"}})
    assert web.get("/v1/decisions/abc", params=WARD).status_code == 200
    for path in ("/v1/decisions/abc%0A", "/healthz%0A", "/v1/state%0A", "/v1/decisions%0A"):
        assert web.get(path, params=WARD).status_code == 404


def test_the_document_says_how_to_show_a_key(web: httpx.Client, guarded: tuple[httpx.Client, Path]) -> None:
    for one, security in ((web, [{}, {"key": []}]), (guarded[0], [{"key": []}])):
        document = one.get("/openapi.json").json()
        assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
        assert document["paths"]["/v1/decisions"]["post"]["security"] == security
        assert "security" not in document["paths"]["/healthz"]["get"]
        fields = document["components"]["schemas"]["OutcomeRequest"]["properties"]
        assert "half an hour, whatever the limit" in fields["usage"]["description"]
        assert "costs" not in fields


# --- keys ---


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[httpx.Client, Path]]:
    path = tmp_path / "keys.json"
    create_key(path, scopes=["admin"], experiments=["ward"])
    experiments = [Experiment(spec, MemoryJournal()) for spec in (ward(), arms())]
    for one in experiments:
        one.open()
    with running(Service(experiments, keys=Keys(path))) as client:
        yield client, path


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def test_each_scope_opens_its_routes_alone(guarded: tuple[httpx.Client, Path]) -> None:
    web, path = guarded
    routes = [
        ("decide", "POST", "/v1/decisions", visit(1)),
        ("outcome", "POST", "/v1/outcomes", b'{"event_id": "visit-1", "reward": 1}'),
        ("read", "GET", "/v1/decisions/visit-1", None),
        ("read", "GET", "/v1/decisions", None),
        ("read", "GET", "/v1/outcomes?status=late", None),
        ("read", "GET", "/v1/state", None),
        ("read", "GET", "/v1/history", None),
        ("read", "GET", "/v1/changes", None),
        ("read", "GET", "/v1/snapshots", None),
        ("admin", "POST", "/v1/snapshots", b'{"label": "x"}'),
        ("admin", "POST", "/v1/mode", b'{"mode": "live"}'),
        ("admin", "POST", "/v1/rollback", b'{"position": 1, "restore": "all"}'),
    ]
    for scope in ("decide", "outcome", "read", "admin"):
        mine = create_key(path, scopes=[scope], experiments=["ward"])
        theirs = create_key(path, scopes=[scope], experiments=["arms"])
        time.sleep(1.1)
        for needed, method, route, body in routes:
            url = route + ("&" if "?" in route else "?") + "experiment=ward"
            answer = web.request(method, url, content=body, headers=bearer(mine))
            if scope == needed:
                assert answer.status_code in (200, 404), (route, answer.text)
            else:
                assert answer.status_code == 403, (scope, route)
            assert web.request(method, url, content=body, headers=bearer(theirs)).status_code == 403
            unknown = url.replace("=ward", "=attic")
            assert web.request(method, unknown, content=body, headers=bearer(theirs)).status_code == 403
            assert web.request(method, url, content=body).status_code == 401
            assert web.request(method, url, content=body, headers=bearer(mine + "x")).status_code == 401


def test_reading_lists_only_what_the_key_opens(guarded: tuple[httpx.Client, Path]) -> None:
    web, path = guarded
    secret = create_key(path, scopes=["read"], experiments=["arms"])
    time.sleep(1.1)
    assert web.get("/v1/experiments").status_code == 401
    assert web.get("/metrics").status_code == 401
    names = [one["name"] for one in web.get("/v1/experiments", headers=bearer(secret)).json()["experiments"]]
    assert names == ["arms"]
    assert 'experiment="ward"' not in web.get("/metrics", headers=bearer(secret)).text
    assert web.get("/healthz").status_code == web.get("/readyz").status_code == 200
    revoke_key(path, secret.split("_")[1])
    time.sleep(1.1)
    assert web.get("/v1/experiments", headers=bearer(secret)).status_code == 401


def test_a_key_of_one_experiment_learns_nothing_of_another(guarded: tuple[httpx.Client, Path]) -> None:
    web, path = guarded
    every, one = create_key(path, scopes=SCOPES), create_key(path, scopes=SCOPES, experiments=["arms"])
    time.sleep(1.1)
    for i in range(3):
        web.post("/v1/decisions?experiment=ward", content=visit(i), headers=bearer(every))
    web.get("/nothing")
    shown = web.get("/metrics", headers=bearer(one)).text
    # No trace of the three decisions of the other one, nor of what belongs to none.
    assert '"ward"' not in shown
    assert "/v1/decisions" not in shown
    assert 'route="other"' not in shown
    everything = web.get("/metrics", headers=bearer(every)).text
    assert (
        metrics(everything)['tightrope_requests_total{experiment="ward",route="/v1/decisions",status="200"}']
        == 3
    )
    assert 'route="other"' in everything
    for headers in ({}, bearer(one), bearer(every)):
        assert web.get("/readyz", headers=headers).json() == {"ready": True}


def test_a_key_sends_no_more_requests_a_second_than_it_may(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time stands still while the requests are counted, however long they take.
    clock = [lambda: 0.0]
    monkeypatch.setattr("tightrope.service.http.app.Rates", lambda: Rates(lambda: clock[0]()))
    web, path = request.getfixturevalue("guarded")
    limited, free = create_key(path, scopes=SCOPES, rate=2), create_key(path, scopes=SCOPES)
    time.sleep(1.1)
    answers = [web.get("/v1/state?experiment=ward", headers=bearer(limited)) for _ in range(6)]
    assert [one.status_code for one in answers[:2]] == [200, 200]
    assert {one.status_code for one in answers[2:]} == {429}
    assert answers[-1].json()["error"]["code"] == "rate"
    assert int(answers[-1].headers["retry-after"]) == 1
    assert web.get("/metrics", headers=bearer(limited)).status_code == 429
    assert web.get("/v1/state?experiment=ward", headers=bearer(free)).status_code == 200
    began = time.monotonic()
    clock[0] = lambda: time.monotonic() - began
    with Client(str(web.base_url), key=limited, experiment="ward") as client:
        assert client.state()["experiment"] == "ward", "the client waits for its turn"


def test_who_asked_reaches_the_operation_and_the_log_of_admin_calls(
    guarded: tuple[httpx.Client, Path], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    web, path = guarded
    secret = create_key(path, scopes=SCOPES, experiments=["ward"])
    time.sleep(1.1)
    asked: list[str | None] = []
    process = Experiment.process

    def note(self: Experiment, ops: Sequence[Any]) -> Any:
        asked.extend(op.by for op in ops)
        return process(self, ops)

    monkeypatch.setattr(Experiment, "process", note)
    with caplog.at_level(logging.INFO, "tightrope.service"):
        web.post("/v1/decisions?experiment=ward", content=visit(1), headers=bearer(secret))
        web.post("/v1/mode?experiment=ward", json={"mode": "paused"}, headers=bearer(secret))
        web.post("/v1/mode?experiment=arms", json={"mode": "paused"}, headers=bearer(secret))
    key = secret.split("_")[1]
    assert asked == [key, key]
    calls = [vars(one) for one in caplog.records if one.message == "admin call"]
    assert [(one["key"], one["experiment"], one["status"]) for one in calls] == [
        (key, "ward", 200),
        (key, "", 403),
    ]


def test_every_request_can_be_logged(web: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "tightrope.service.requests"):
        web.get("/v1/state", params=WARD)
    [one] = [vars(one) for one in caplog.records if one.name == "tightrope.service.requests"]
    assert (one["method"], one["route"], one["status"], one["experiment"]) == (
        "GET",
        "/v1/state",
        200,
        "ward",
    )
    assert one["seconds"] > 0


def test_the_file_of_keys_holds_no_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    secret = create_key(path, scopes=SCOPES)
    assert secret.split("_", 2)[2] not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(InvalidInput, match="scopes must be among"):
        create_key(path, scopes=["everything"])


def test_without_keys_only_loopback(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    for host in ("0.0.0.0", "192.168.1.5", "::", "example.org"):
        with pytest.raises(InvalidInput, match="so it needs keys"):
            serve([spec], host=host, data=tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_without_keys_no_page_in_a_browser_gets_through(web: httpx.Client) -> None:
    for headers in (
        {"Host": "attacker.example"},
        {"Origin": "https://attacker.example"},
        {"Origin": "null"},
    ):
        assert web.post("/v1/decisions", params=WARD, content=visit(1), headers=headers).status_code == 403
        assert web.get("/v1/state", params=WARD, headers=headers).status_code == 403
    own = {"Origin": f"http://{web.base_url.host}:{web.base_url.port}"}
    assert web.get("/v1/state", params=WARD, headers=own).status_code == 200


# --- processes ---

SERVER = "import sys; from tightrope.service import serve; serve([sys.argv[1]], port=int(sys.argv[2]), data=sys.argv[3])"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


def start(spec: Path, port: int, data: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(spec), str(port), str(data)])

    def ready() -> bool:
        assert process.poll() is None, "the server ended"
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
        return False

    until(ready, "the server is ready")
    return process


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    spec, port = write_spec(tmp_path), free_port()
    data = tmp_path / "data"
    acknowledged: dict[str, bytes] = {}
    lock = threading.Lock()
    for cycle in range(3):
        process = start(spec, port, data)
        stop = threading.Event()

        def load(worker: int, cycle: int = cycle, stop: threading.Event = stop) -> None:
            with contextlib.closing(
                http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            ) as connection:
                for i in range(100_000):
                    if stop.is_set():
                        return
                    event_id = f"{cycle}-{worker}-{i}"
                    body = json.dumps({"event_id": event_id, "context": {"age": i % 100, "sex": "f"}})
                    try:
                        connection.request("POST", "/v1/decisions", body)
                        answer = connection.getresponse()
                        content = answer.read()
                    except (OSError, http.client.HTTPException):
                        return
                    if answer.status == 200:
                        with lock:
                            acknowledged[event_id] = content

        workers = [threading.Thread(target=load, args=(worker,)) for worker in range(8)]
        for worker in workers:
            worker.start()
        enough = len(acknowledged) + 20 + 10 * cycle
        until(lambda enough=enough: len(acknowledged) >= enough, "decisions are acknowledged")  # type: ignore[misc]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        stop.set()
        for worker in workers:
            worker.join()
    assert len(acknowledged) > 50
    journal = SqliteJournal(data / "ward.sqlite", read_only=True)
    journal.open()
    report = verify(journal)
    journal.close()
    assert report.decisions >= len(acknowledged)
    process = start(spec, port, data)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}") as web:
            for event_id, content in acknowledged.items():
                i = int(event_id.rpartition("-")[2])
                body = json.dumps({"event_id": event_id, "context": {"age": i % 100, "sex": "f"}})
                assert web.post("/v1/decisions", content=body.encode()).content == content
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE)
    again = SqliteJournal(data / "ward.sqlite", read_only=True)
    again.open()
    after = verify(again)
    again.close()
    assert after.decisions == report.decisions
    assert after.snapshots >= 1, "an orderly stop keeps a snapshot"


def test_a_second_process_on_the_same_folder_refuses(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    holder = make_service([spec], data=tmp_path / "data")
    try:
        with pytest.raises(JournalLocked, match="another process writes"):
            make_service([spec], data=tmp_path / "data")
        second = subprocess.run(
            [sys.executable, "-c", SERVER, str(spec), str(free_port()), str(tmp_path / "data")],
            capture_output=True,
            timeout=PATIENCE,
        )
        assert second.returncode != 0
        assert b"another process writes this journal" in second.stderr
    finally:
        for one in holder.experiments.values():
            one.close()


def test_names_of_experiments_become_different_files(tmp_path: Path) -> None:
    names = ["a/b", "a%b", "a.b", "../a", "ä"]
    service = make_service([arms(name) for name in names], data=tmp_path / "data")
    try:
        files = list((tmp_path / "data").glob("*.sqlite"))
        assert len(files) == len(names)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    finally:
        for one in service.experiments.values():
            one.close()
    with pytest.raises(InvalidInput, match="different names"):
        make_service([arms(), arms()], data=tmp_path / "data")
    with pytest.raises(InvalidInput, match="data or database, not both"):
        make_service([arms()], data=tmp_path, database="memory:")
    with pytest.raises(InvalidInput, match="database must be"):
        make_service([arms()], database="mysql://localhost")


def test_the_service_does_not_load_the_engine() -> None:
    code = (
        "import sys; import tightrope.service.http.server, tightrope.service.storage.sqlite, tightrope.service.offline.replay; "
        "heavy = {'matplotlib', 'tightrope.engine', 'tightrope.result', 'pyarrow', 'sklearn', 'psycopg'} & set(sys.modules); "
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def test_limits_reach_the_experiment() -> None:
    experiment = Experiment(ward(), MemoryJournal())
    experiment.open()
    with running(Service([experiment], limits=Limits(reward=2.0, actions=1))) as web:
        web.post("/v1/decisions", content=visit(1))
        assert web.post("/v1/decisions", content=visit(2, actions=["icu", "other"])).status_code == 422
        assert web.post("/v1/outcomes", json={"event_id": "visit-1", "reward": 3}).status_code == 422
        assert web.post("/v1/outcomes", json={"event_id": "visit-1", "reward": 2}).status_code == 200
