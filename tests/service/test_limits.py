"""What one caller can't do to the others: slots, memory, the loop and the disk are shared out."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tightrope.service.app import Service
from tightrope.service.bodies import read_body
from tightrope.service.experiment import Experiment
from tightrope.service.server import make_service
from tightrope.service.storage.memory import MemoryJournal
from waiting import PATIENCE
from workbench import SlowJournal, measured, metrics, running, visit, ward


def test_unfinished_bodies_hold_no_one_up() -> None:
    experiment = Experiment(ward(), MemoryJournal())
    experiment.open()
    with running(Service([experiment], max_in_flight=8)) as web:
        raws = [socket.create_connection((web.base_url.host, web.base_url.port or 80)) for _ in range(60)]
        for raw in raws:
            raw.sendall(b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        time.sleep(0.3)
        assert web.get("/healthz").status_code == web.get("/readyz").status_code == 200
        assert web.get("/metrics").status_code == 200
        assert web.post("/v1/decisions", content=visit(1)).status_code == 200
        for raw in raws:
            raw.close()


def test_bodies_on_their_way_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightrope.service.app._UNFINISHED", 1)
    experiment = Experiment(ward(), MemoryJournal())
    experiment.open()
    head = b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    with running(Service([experiment])) as web:
        raws = [socket.create_connection((web.base_url.host, web.base_url.port or 80)) for _ in range(8)]
        for raw in raws:
            raw.settimeout(1.0)
            with contextlib.suppress(OSError):
                raw.sendall(head + b" " * 300_000)
        answers = []
        for raw in raws:
            with contextlib.suppress(OSError):
                answers.append(raw.recv(100)[9:12])
        assert b"503" in answers
        assert set(answers) == {b"503"}
        assert 0 < len(answers) < 8, "some wait for the rest of their body, the others were told"
        assert web.post("/v1/decisions", content=visit(1)).status_code == 200
        for raw in raws:
            raw.close()
        deadline = time.monotonic() + PATIENCE
        big = visit(2) + b" " * 700_000
        while web.post("/v1/decisions", content=big).status_code != 200:
            assert time.monotonic() < deadline, "what they held was not given back"
            time.sleep(0.05)


def test_health_is_answered_while_everything_else_waits() -> None:
    journal = SlowJournal()
    experiment = Experiment(ward(), journal)
    experiment.open()
    with running(Service([experiment], max_in_flight=4)) as web, ThreadPoolExecutor(8) as pool:
        journal.gate.clear()
        waiting = [pool.submit(web.post, "/v1/decisions", content=visit(i)) for i in range(4)]
        try:
            deadline = time.monotonic() + PATIENCE
            numbers: dict[str, float] = {}
            while numbers.get('tightrope_oldest_request_seconds{experiment="ward"}', 0.0) < 0.5:
                assert time.monotonic() < deadline
                numbers = metrics(web.get("/metrics").text)
            assert numbers['tightrope_in_flight{experiment="ward"}'] == 4
            assert web.post("/v1/decisions", content=visit(9)).status_code == 503
            assert web.get("/healthz").status_code == 200
        finally:
            journal.gate.set()
        assert [one.result().status_code for one in waiting] == [200] * 4
        numbers = metrics(web.get("/metrics").text)
        assert numbers['tightrope_in_flight{experiment="ward"}'] == 0


def test_one_experiment_leaves_the_others_their_share() -> None:
    slow = SlowJournal()
    experiments = [Experiment(ward(), slow), Experiment(measured(), MemoryJournal())]
    for one in experiments:
        one.open()
    with running(Service(experiments, max_in_flight=8)) as web, ThreadPoolExecutor(8) as pool:
        slow.gate.clear()
        url = f"{web.base_url}/v1/decisions?experiment=ward"
        asked = [pool.submit(httpx.post, url, content=visit(i), timeout=PATIENCE) for i in range(8)]
        deadline = time.monotonic() + PATIENCE
        while sum(one.done() for one in asked) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        for i in range(3):
            assert web.post("/v1/decisions?experiment=measured", content=visit(i)).status_code == 200
        slow.gate.set()
        assert sorted(one.result().status_code for one in asked) == [200] * 6 + [503] * 2


def test_metrics_say_what_operators_ask_for(tmp_path: Path) -> None:
    service = make_service([ward()], data=tmp_path)
    with running(service) as web:
        web.post("/v1/decisions", content=visit(1))
        web.post("/v1/decisions", content=b"{")
        numbers = metrics(web.get("/metrics").text)
    route = 'experiment="ward",route="/v1/decisions"'
    assert numbers[f'tightrope_requests_total{{{route},status="200"}}'] == 1
    assert numbers[f'tightrope_requests_total{{{route},status="400"}}'] == 1
    assert numbers[f"tightrope_request_seconds_count{{{route}}}"] == 2
    assert numbers['tightrope_role{experiment="ward",role="active"}'] == 1
    assert numbers['tightrope_role{experiment="ward",role="standby"}'] == 0
    assert numbers['tightrope_disk_free_bytes{experiment="ward"}'] > 1e6
    assert numbers['tightrope_decisions_total{experiment="ward",action="icu"}'] >= 0
    assert numbers['tightrope_ready{experiment="ward"}'] == 1


def test_outcomes_of_unknown_events_do_not_fill_the_disk(tmp_path: Path) -> None:
    service = make_service([ward()], data=tmp_path)
    with running(service) as web:
        web.post("/v1/decisions", content=visit(1))
        before = sum(path.stat().st_size for path in tmp_path.iterdir())
        long = {f"{i}" * 9: 0.5 for i in range(12_000)}
        for event_id in ("visit-1", "unknown"):
            web.post("/v1/outcomes", json={"event_id": "visit-1", "usage": {"hours": 0.25}})
            answer = web.post("/v1/outcomes", json={"event_id": event_id, "reward": 1, "usage": long})
            assert answer.status_code == (404 if event_id == "unknown" else 409)
            assert len(answer.content) < 1000
        kept = web.get("/v1/outcomes?status=rejected").json()["outcomes"]
        assert [one["reward"] for one in kept] == [1.0] * 2
        assert [one["usage"] for one in kept] == [{}, {}]
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) < before + 100_000


def test_a_long_body_is_not_read_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment(ward(), MemoryJournal())
    experiment.open()
    threads: list[str] = []

    def read(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name.partition("_")[0])
        return read_body(*arguments)

    monkeypatch.setattr("tightrope.service.app.read_body", read)
    monkeypatch.setattr("tightrope.service.app._SHORT", 1000)
    with running(Service([experiment])) as web:
        assert web.post("/v1/decisions", content=visit(71)).status_code == 200
        assert web.post("/v1/decisions", content=visit(72) + b" " * 2000).status_code == 200
    assert threads[0] != threads[1] == "bodies"
