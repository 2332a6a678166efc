"""Many requests in one body: each is answered as it would be by itself, and once, whoever asks at the same time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tightrope.service import AsyncClient, Client, create_key
from tightrope.service.experiment import Experiment
from tightrope.service.http import batches
from tightrope.service.http.app import Service
from tightrope.service.http.keys import Keys
from tightrope.service.http.server import make_service
from tightrope.service.offline.replay import open_journal, verify
from tightrope.service.storage.memory import MemoryJournal
from tightrope_client import Conflict, InvalidRequest, NotFound, ServiceError, Unavailable
from waiting import PATIENCE, until
from workbench import running, visit, ward, write_spec

DECISIONS, OUTCOMES = "/v1/decisions/batch", "/v1/outcomes/batch"


def asked(i: int, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(visit(i))
    return {**body, **more}


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    service = make_service([ward()], data=tmp_path_factory.mktemp("data"), max_body_bytes=60_000)
    with running(service) as client:
        yield client


def test_each_item_is_answered_as_it_would_be_alone(web: httpx.Client) -> None:
    items = [
        asked(1),
        asked(2, context={"age": 171, "sex": "f"}),
        asked(1),
        asked(1, context={"age": 1, "sex": "f"}),
        {"event_id": 3},
        "nothing",
        asked(4, explain=True),
    ]
    answer = web.post(DECISIONS, json={"decisions": items})
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [one["status"] for one in results] == [200, 422, 200, 409, 422, 422, 200]
    assert results[0]["decision"] == results[2]["decision"], "the same event twice in one batch"
    assert "explanation" in results[6]["decision"]
    for item, result in zip(items, results, strict=True):
        alone = web.post("/v1/decisions", json=item)
        assert alone.status_code == result["status"]
        expected = {key: result[key] for key in ("error",) if key in result} or result["decision"]
        assert alone.json() == expected, "the same words"


def test_outcomes_too(web: httpx.Client) -> None:
    web.post(DECISIONS, json={"decisions": [asked(i) for i in range(20, 24)]})
    outcome = {"reward": 0.5, "usage": {"hours": 0.25}}
    told = [{"event_id": f"visit-{i}", **outcome} for i in (20, 21, 20)]
    told += [{"event_id": "visit-22", "reward": 1e9}, {"event_id": "nobody", "reward": 1.0}]
    results = web.post(OUTCOMES, json={"outcomes": told}).json()["results"]
    assert [one["status"] for one in results] == [200, 200, 200, 422, 404]
    assert results[0]["outcome"] == {"event_id": "visit-20", "sequence": 2, "awaits": []} | {
        "sequence": results[0]["outcome"]["sequence"]
    }
    assert web.get("/v1/decisions/visit-22").json()["pending"]


WHOLE = {
    b'{"decisions": [}': (400, "malformed"),
    b'{"decisions": []}': (422, "invalid"),
    b'{"decision": []}': (422, "invalid"),
    b'{"decisions": [{}], "decisions": [{}]}': (422, "invalid"),
    b"[" * 1000: (400, "malformed"),
    b'{"decisions": [' + b",".join([b"{}"] * 257) + b"]}": (422, "invalid"),
    b'{"decisions": [{"event_id": "' + b"x" * 60_000 + b'"}]}': (413, "too-large"),
}


@pytest.mark.parametrize("body", WHOLE)
def test_what_is_no_batch_is_refused_whole(web: httpx.Client, body: bytes) -> None:
    before = web.get("/v1/state").json()["decisions"]
    answer = web.post(DECISIONS, content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == WHOLE[body]
    assert web.get("/v1/state").json()["decisions"] == before


def test_the_same_events_in_many_batches_at_once_are_decided_once(web: httpx.Client) -> None:
    before = web.get("/v1/state").json()["decisions"]
    items = [asked(i) for i in range(100, 160)]

    def send(k: int) -> list[Any]:
        turned = items[k:] + items[:k]
        with httpx.Client(base_url=web.base_url, timeout=PATIENCE) as client:
            found = client.post(DECISIONS, json={"decisions": turned}).json()["results"]
        return sorted((one["decision"] for one in found), key=lambda one: str(one["event_id"]))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(0, 56, 7)))
    assert all(one == answers[0] for one in answers)
    assert web.get("/v1/state").json()["decisions"] == before + 60


def test_a_service_that_can_do_nothing_says_so_once(web: httpx.Client) -> None:
    web.post("/v1/mode", json={"mode": "paused"})
    answer = web.post(DECISIONS, json={"decisions": [asked(400), asked(401)]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "paused")
    assert "retry-after" in answer.headers
    mixed = web.post(DECISIONS, json={"decisions": [asked(400), asked(401, context=5)]}).json()["results"]
    assert [one["status"] for one in mixed] == [503, 422]
    assert mixed[0]["retry_after"] >= 1
    web.post("/v1/mode", json={"mode": "live"})


def test_a_batch_counts_as_its_items(tmp_path: Path) -> None:
    """In what a key may send, and in what may be in progress."""
    path = tmp_path / "keys.json"
    key = create_key(path, scopes=["decide"], experiments=["ward"], rate=10.0)
    experiment = Experiment(ward(), MemoryJournal())
    experiment.open()
    with running(Service([experiment], keys=Keys(path), max_in_flight=8)) as client:
        headers = {"authorization": f"Bearer {key}"}
        small = client.post(DECISIONS, json={"decisions": [asked(i) for i in range(60)]}, headers=headers)
        assert small.status_code == 200
        late = client.post(DECISIONS, json={"decisions": [asked(1000)]}, headers=headers)
        assert (late.status_code, late.json()["error"]["code"]) == (429, "rate")
        assert int(late.headers["retry-after"]) >= 4
    assert [batches.slots(n) for n in (1, 16, 17, 256)] == [1, 1, 2, 16]
    experiment = Experiment(ward(), MemoryJournal())
    experiment.open()
    with running(Service([experiment], max_in_flight=8)) as client:
        full = client.post(DECISIONS, json={"decisions": [asked(i) for i in range(200)]})
        assert (full.status_code, full.json()["error"]["code"]) == (503, "overloaded")
        assert client.get("/v1/state").json()["decisions"] == 0
        assert client.post(DECISIONS, json={"decisions": [asked(i) for i in range(100)]}).status_code == 200


def test_the_clients_put_each_answer_in_its_place(web: httpx.Client) -> None:
    rows = [{"event_id": f"row-{i}", "context": {"age": 40, "sex": "f"}} for i in range(300)]
    rows[7] = {"context": {"age": 40, "sex": "?"}}
    rows[299] = {**rows[0], "context": {"age": 41, "sex": "f"}}
    with Client(str(web.base_url), patience=0.0) as client:
        answers = client.decide_batch(rows)
        assert len(answers) == 300
        assert isinstance(answers[7], InvalidRequest)
        assert answers[7].event_id
        assert isinstance(answers[299], Conflict)
        good = [one for one in answers if not isinstance(one, ServiceError)]
        assert [one["sequence"] for one in good] == sorted(one["sequence"] for one in good)
        told = client.learn_batch([{"event_id": "row-1", "reward": 1.0}, {"event_id": "?", "reward": 1.0}])
        assert told[0] == {"event_id": "row-1", "sequence": good[1]["sequence"], "awaits": ["usage"]}
        assert isinstance(told[1], NotFound)
        assert client.unanswered == {}
        client.change_mode("paused")
        failed = client.decide_batch([*rows[:2], {"event_id": "new", "context": {"age": 3, "sex": "f"}}])
        client.change_mode("live")
        assert all(not isinstance(one, ServiceError) for one in failed[:2]), "decided before"
        assert isinstance(failed[2], Unavailable)
        assert client.unanswered == {"new": {"event_id": "new", "context": {"age": 3, "sex": "f"}}}

    async def again() -> list[Any]:
        async with AsyncClient(str(web.base_url)) as client:
            return await client.decide_batch(rows[:3])

    assert asyncio.run(again()) == answers[:3]


def test_a_batch_that_fails_whole_failed_for_each(web: httpx.Client) -> None:
    with Client("http://127.0.0.1:9", patience=0.0) as client:
        answers = client.decide_batch([{"event_id": "a"}, {"event_id": "b"}])
        assert [(type(one), one.event_id) for one in answers] == [(Unavailable, "a"), (Unavailable, "b")]
        assert set(client.unanswered) == {"a", "b"}
        assert [one.event_id for one in client.learn_batch([{"event_id": "a", "reward": 1.0}])] == ["a"]


def test_kill_9_in_the_middle_of_batches_loses_no_answer(tmp_path: Path) -> None:
    """Batches for a control group with sticky actions; the service is killed, and everything is asked for again."""
    tables = '[holdout]\nshare = 0.3\nby = "user"\nbaseline = "other"\n[sticky]\nby = "user"\nfor = "1h"\n'
    spec = write_spec(tmp_path, rule=tables)
    code = "import sys; from tightrope.service import serve; serve([sys.argv[1]], data=sys.argv[2], port=int(sys.argv[3]))"
    port = 8700 + os.getpid() % 1000

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(spec), str(tmp_path / "data"), str(port)],
            stderr=subprocess.DEVNULL,
        )
        until(lambda: _ready(port), "the service is ready")
        return process

    rows = [{**asked(i), "keys": {"user": f"u{i % 17}"}} for i in range(300)]
    first: dict[str, Any] = {}
    process = start()
    for k in range(3):
        with ThreadPoolExecutor(3) as pool:

            def send(part: int, k: int = k) -> list[Any]:
                with Client(f"http://127.0.0.1:{port}", patience=0.0, timeout=PATIENCE) as client:
                    return client.decide_batch(rows[100 * k + 25 * part : 100 * k + 25 * part + 50])

            coming = [pool.submit(send, part) for part in range(3)]
            if k == 1:
                until(
                    lambda coming=coming: any(one.done() for one in coming),
                    "a first batch is answered",
                    every=0.001,
                )
                process.send_signal(signal.SIGKILL)
                process.wait()
            for one in coming:
                for answer in one.result():
                    if not isinstance(answer, ServiceError):
                        assert first.setdefault(answer["event_id"], answer) == answer
        if k == 1:
            process = start()
    with Client(f"http://127.0.0.1:{port}") as client:
        again = {
            str(one["event_id"]): one
            for one in client.decide_batch(rows)
            if not isinstance(one, ServiceError)
        }
    assert len(again) == 300
    assert all(again[event_id] == answer for event_id, answer in first.items())
    assert len(first) > 150
    arms = {row["keys"]["user"]: again[row["event_id"]]["arm"] for row in rows}
    assert all(again[row["event_id"]]["arm"] == arms[row["keys"]["user"]] for row in rows)
    names = {
        row["keys"]["user"]: again[row["event_id"]]["name"]
        for row in rows
        if arms[row["keys"]["user"]] == "control"
    }
    assert set(names.values()) == {"other"}
    process.send_signal(signal.SIGTERM)
    process.wait()
    journal = open_journal(tmp_path / "data" / "ward.sqlite")
    assert verify(journal).decisions == 300
    journal.close()


def _ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx.HTTPError:
        return False
