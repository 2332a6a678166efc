"""What one caller can't do to the others: slots, memory, the loop and the disk are shared out."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest

from tightrope.encoder import Encoder
from tightrope.service import requests
from tightrope.service.answer import Refusal
from tightrope.service.experiment import Experiment
from tightrope.service.http import handlers
from tightrope.service.http.app import Service
from tightrope.service.http.server import make_service
from tightrope.service.requests import DecisionRequest, Limits, ModeRequest, PageQuery, read_body
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import Spec, make_spec
from waiting import PATIENCE
from workbench import Bench, SlowJournal, measured, metrics, read, running, visit, ward


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
    monkeypatch.setattr("tightrope.service.http.app._UNFINISHED", 1)
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
        long = {f"{i}" * 9: 0.5 for i in range(4_000)}
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

    monkeypatch.setattr("tightrope.service.http.app.read_body", read)
    monkeypatch.setattr("tightrope.service.http.app._SHORT", 1000)
    with running(Service([experiment])) as web:
        assert web.post("/v1/decisions", content=visit(71)).status_code == 200
        assert web.post("/v1/decisions", content=visit(72) + b" " * 2000).status_code == 200
    assert threads[0] != threads[1] == "bodies"


# --- bytes that are kept ---

EMOJI = "\N{FOX FACE}" * 200
LONG = "x" * 1_000_000


def unseen(**more: Any) -> Spec:
    """A policy that takes categories which it has never seen."""
    encoder = Encoder({"ward": {"values": ["a", "b"], "unseen": "other"}}).fit({"ward": ["a", "b"]})
    spec = {"actions": ["x", "y"], "context": {"encoder": encoder.to_dict()}, "policy": {"kind": "uniform"}}
    return make_spec({**spec, **more})


def kept(bench: Bench) -> tuple[int, int]:
    """Bytes of the journal, and of the state with what is pending."""
    assert bench.experiment.state is not None
    return sum(len(row.data) for row in bench.journal.rows()), len(bench.experiment.state.snapshot()[0])


NAMES = [f"{i:04}{EMOJI}"[:200] for i in range(1_000)]


@pytest.mark.parametrize("mode", ["live", "shadow"])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"group": NAMES}, "bytes of the journal"),
        ({"group": NAMES[:50]}, "group must be left out"),
        ({"group": EMOJI}, "group must be left out"),
        ({"default": LONG[:30_000]}, "default"),
        ({"default": LONG}, "bytes of the journal"),
        ({"default": "z"}, "default"),
        ({"default": 2}, "default"),
        ({"event_id": LONG}, "event_id must have a length <= 200"),
        ({"context": {"ward": LONG}}, "context.ward must have at most 1000 characters, but has 1000000"),
        ({"context": {LONG[:30_000]: "a"}}, "is not a declared field"),
        ({"usage": {LONG[:30_000]: 1.0}}, "usage must be left out"),
        ({"usage": {LONG: 1.0}}, "bytes of the journal"),
        ({"actions": [LONG[:30_000]]}, "actions[0]"),
    ],
    ids=range(13),
)
def test_what_no_one_declared_is_neither_journaled_nor_pending(
    mode: Literal["live", "shadow"], body: dict[str, Any], words: str
) -> None:
    bench = Bench(unseen())
    default = "x" if mode == "shadow" else None
    bench.ask(handlers.change_mode, ModeRequest(mode=mode, default=default))
    before = kept(bench)
    try:
        answer = bench.decide(json.dumps({"context": {"ward": "a"}, **body}, ensure_ascii=False).encode())
        status, message = answer.status, answer.body.decode()
    except Refusal as refusal:
        status, message = refusal.status, refusal.message
    assert status == (413 if "bytes" in words else 422)
    assert words in message
    assert len(message) < 1_000
    assert kept(bench) == before


def test_only_groups_that_the_spec_knows_are_kept() -> None:
    rule = {"kind": "share", "action": "x", "at_least": 0.1, "among": "Young"}
    for declared, known in (({}, ["Young"]), ({"groups": ["Young", "old"]}, ["Young", "old"])):
        bench = Bench(unseen(rule=[rule], **declared))
        for group in ("Young", [], known):
            read(bench.decide({"context": {"ward": "a"}, "group": group}))
        before = kept(bench)
        for group, words in (
            ("young", "unknown group 'young' (did you mean 'Young'?)"),
            (["Young", EMOJI], "unknown group"),
            (NAMES[:50], "unknown group"),
            (["Young"] * 500, "group must name each group once"),
        ):
            answer = bench.decide({"context": {"ward": "a"}, "group": group})
            assert answer.status == 422
            assert words in answer.body.decode()
            assert len(answer.body) < 1_000
        assert kept(bench) == before


def test_a_decision_that_is_waited_for_keeps_few_bytes() -> None:
    bench = Bench(unseen())
    empty = kept(bench)
    for i in range(50):
        read(bench.decide({"event_id": f"{i:03}{EMOJI}"[:200], "context": {"ward": "\N{FOX FACE}" * 1_000}}))
    journaled, pending = kept(bench)
    assert journaled - empty[0] < 50 * 6_000, "1,000 characters of 4 bytes, an event id of 800 bytes"
    assert pending - empty[1] < 50 * 1_000


def test_groups_that_a_spec_declares_are_not_endless_either() -> None:
    rule = {"kind": "share", "action": "x", "at_least": 0.1, "among": NAMES[0]}
    bench = Bench(unseen(rule=[rule], groups=NAMES))
    answer = bench.decide({"context": {"ward": "a"}, "group": NAMES[:50]})
    assert answer.status == 422
    assert "group and event_id must have at most 4096 bytes together" in answer.body.decode()
    read(bench.decide({"context": {"ward": "a"}, "group": NAMES[:4]}))


def test_a_request_that_would_fill_a_row_of_the_journal_is_refused() -> None:
    limits = Limits(row_bytes=2_000)
    numbers = ",".join("1" for _ in range(300))
    with pytest.raises(Refusal, match=r"the request takes 27\d\d bytes of the journal") as refusal:
        read_body(b'{"features": [%s]}' % numbers.encode(), DecisionRequest, limits)
    assert (refusal.value.status, refusal.value.code) == (413, "too-large")
    read_body(b'{"features": [%s]}' % numbers[:300].encode().rstrip(b","), DecisionRequest, limits)


def test_a_page_of_a_list_ends_where_it_is_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(unseen())
    for i in range(50):
        read(bench.decide({"event_id": str(i), "context": {"ward": "y" * 1_000}}))
    whole = read(bench.ask(handlers.list_decisions, PageQuery(limit=1000)))
    assert ([one["event_id"] for one in whole["decisions"]], whole["before"]) == (
        [str(i) for i in reversed(range(50))],
        None,
    )
    monkeypatch.setattr(requests, "LIMITS", Limits(page_bytes=10_000))
    found, before, pages = [], None, 0
    while pages == 0 or before is not None:
        answer = bench.ask(handlers.list_decisions, PageQuery(limit=1000, before=before))
        assert len(answer.body) < 11_000
        page = read(answer)
        found += page["decisions"]
        before, pages = page["before"], pages + 1
    assert found == whole["decisions"]
    assert pages > 5
    monkeypatch.setattr(requests, "LIMITS", Limits(page_bytes=10))
    assert len(read(bench.ask(handlers.list_decisions, PageQuery(limit=7)))["decisions"]) == 1, "at least one"
