"""Several processes on one database: who is active, who takes over, and what each says of itself meanwhile."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from faults.kill import body_of
from faults.process import Served
from faults.replica import Replica

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tightrope[postgres]'")

from faults.database import Server
from tightrope.service.storage.postgresql import PostgresJournal
from waiting import PATIENCE
from workbench import write_spec

CONNECTION = "tightrope.service.storage.postgresql.connection"
LEASE = "tightrope.service.storage.postgresql.lease"
# As in operation, three times as fast.
QUICK = {f"{LEASE}.LEASE": 1.2, f"{LEASE}.BEAT": 0.15, f"{CONNECTION}.PATIENCE": 1.5}


def until(holds: Callable[[], object], what: str, seconds: float = PATIENCE) -> float:
    """Wait for something; how long it took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)
    return time.monotonic() - began


def decide(served: Served, number: int, experiment: str = "ward") -> int:
    """The status of a decision."""
    path = f"/v1/decisions?experiment={experiment}"
    return served.call("POST", path, body_of(f"event-{number}", number))[0]


def decisions(served: Served) -> int | None:
    """How many decisions a process says there are; None where it does not say."""
    status, content = served.call("GET", "/v1/state")
    return json.loads(content)["decisions"] if status == 200 else None


@contextlib.contextmanager
def services(*made: Served) -> Iterator[list[Served]]:
    """Some, until the end of the test."""
    try:
        yield list(made)
    finally:
        for one in made:
            if one.alive:
                one.resume()
                one.kill()


@pytest.fixture
def url(database: Server) -> str:
    return database.url


def one_is_ready(replicas: list[Served]) -> bool:
    return [one.ready for one in replicas].count(True) == 1


def one_decides(replicas: list[Served], at: int) -> bool:
    """Whether one process is ready, and decides for both experiments."""
    leaders = [one for one in replicas if one.ready]
    return len(leaders) == 1 and [decide(leaders[0], at, name) for name in ("east", "west")] == [200, 200]


def test_with_several_experiments_one_process_leads_whatever_connections_die(
    database: Server, tmp_path: Path
) -> None:
    specs = [write_spec(tmp_path, name) for name in ("east", "west")]
    first = Served(specs, database=database.url).wait()
    with services(first, Served(specs, database=database.url).wait(ready=False)) as replicas:
        for at in range(4):
            # Idle; then a connection ends: in turn the one that the lease is kept by, and another.
            kept = [pid for (pid,) in database.execute("SELECT DISTINCT pid FROM tightrope_lease")]
            others = [pid for pid, _ in database.backends() if pid not in kept]
            database.execute(
                "SELECT pg_terminate_backend(%s)", kept[0] if at % 2 else others[at % len(others)]
            )
            time.sleep(0.3)
            # A leader whose lease has just gone may say once that it is ready before it notices; what it is asked then is refused.
            until(lambda at=at: one_decides(replicas, at), "one process is ready, and decides for both")
        database.stop()
        database.start()
        until(lambda: one_is_ready(replicas), "one process is ready after a restart")
        time.sleep(0.5)
        until(lambda: one_is_ready(replicas), "and stays so")


def test_a_leader_that_is_paused_is_replaced_and_then_writes_and_says_nothing(
    url: str, tmp_path: Path
) -> None:
    spec = write_spec(tmp_path, "paused")
    options: dict[str, Any] = {"database": url, "patch": QUICK}
    made = [Served(spec, **options).wait(), Served(spec, **options).wait(ready=False)]
    told: dict[int, bytes] = {}
    with services(*made) as (leader, other):
        for at in range(3):
            for number in range(10 * at, 10 * at + 5):
                status, told[number] = leader.call(
                    "POST", "/v1/decisions", body_of(f"event-{number}", number)
                )
                assert status == 200
            # Half a request has come when it stops.
            with ThreadPoolExecutor(1) as pool:
                leader.pause()
                late = pool.submit(decide, leader, 10 * at + 9, "paused")
                until(lambda one=other: one.ready, "the other takes over")
                for number in range(10 * at + 5, 10 * at + 8):
                    status, told[number] = other.call(
                        "POST", "/v1/decisions", body_of(f"event-{number}", number)
                    )
                    assert status == 200
                leader.resume()
                assert late.result() == 503, "it was deposed before it read on"
            assert decisions(leader) is None, "what it knows is out of date, and it says nothing"
            assert not leader.ready
            assert decisions(other) == 8 * (at + 1)
            leader, other = other, leader
        for number, content in told.items():
            assert leader.call("POST", "/v1/decisions", body_of(f"event-{number}", number)) == (200, content)
        replica = Replica(lambda: PostgresJournal(url, "paused", read_only=True))
        replica.follow()
        assert len(replica.decided) == len(told) == 24


def test_the_control_that_ignores_its_lease_writes_what_another_has_decided(url: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, "ignored")
    options: dict[str, Any] = {"database": url, "patch": QUICK, "mutant": "unfenced"}
    made = [Served(spec, **options).wait(), Served(spec, **options).wait(ready=False)]
    with services(*made) as (leader, other):
        assert [decide(leader, i, "ignored") for i in range(5)] == [200] * 5
        leader.pause()
        until(lambda: other.ready, "the other takes over")
        assert decide(other, 7, "ignored") == 200
        leader.resume()
        assert leader.ready
        assert decide(leader, 8, "ignored") == 200
    with pytest.raises(
        Exception,
        match=r"does not come out as it was recorded|was decided twice|does not follow the row before it",
    ):
        Replica(lambda: PostgresJournal(url, "ignored", read_only=True)).follow()


def test_a_leader_whose_connection_is_cut_while_idle_notices_within_a_second(
    database: Server, tmp_path: Path
) -> None:
    spec = write_spec(tmp_path, "idle")
    made = [Served(spec, database=database.url).wait()]
    made.append(Served(spec, database=database.url).wait(ready=False))
    with services(*made) as replicas:
        for at in range(2):
            until(lambda: one_is_ready(replicas), "one process is ready")
            [leader] = [one for one in replicas if one.ready]
            assert decide(leader, at, "idle") == 200
            for pid, _ in database.backends():
                database.execute("SELECT pg_terminate_backend(%s)", pid)
            time.sleep(1.0)
            for _ in range(10):
                seen = {decisions(one) for one in replicas} - {None}
                assert seen <= {at + 1}, "what is answered is up to date"
                assert [one.ready for one in replicas].count(True) <= 1
                time.sleep(0.05)


def test_a_hung_connection_is_dropped_and_the_service_goes_on(database: Server, tmp_path: Path) -> None:
    with services(Served(write_spec(tmp_path, "hung"), database=database.url, patch=QUICK).wait()) as [
        served
    ]:
        assert decide(served, 0, "hung") == 200
        [writer] = [pid for pid, query in database.backends() if "INSERT INTO tightrope_journal" in query]
        with database.hung(writer):
            assert decide(served, 1, "hung") == 503
            until(lambda: decide(served, 1, "hung") == 200, "it goes on by another connection")
        assert decide(served, 1, "hung") == 200
        assert decisions(served) == 2, "decided once"


@pytest.mark.parametrize("mutant", [None, "waits for ever"])
def test_a_database_that_hangs_makes_the_service_say_so_and_does_not_keep_it_from_stopping(
    database: Server, tmp_path: Path, mutant: str | None
) -> None:
    name = "silent" if mutant is None else "trusting"
    spec = write_spec(tmp_path, name)
    with services(Served(spec, database=database.url, patch=QUICK, mutant=mutant).wait()) as [served]:
        assert decide(served, 0, name) == 200
        with database.without_its_replica():
            if mutant is not None:
                with pytest.raises(TimeoutError):
                    served.call("POST", "/v1/decisions", body_of("event-1", 1), timeout=4.0)
                assert served.ready, "which is what must not be"
                return
            assert decide(served, 1, name) == 503
            until(lambda: not served.ready, "it says that it is not ready")
            assert served.call("GET", "/healthz")[0] == 200, "a new process would not do better"
            time.sleep(2.0)
            assert len(database.backends()) < 8, "connections that were given up are ended"
        until(lambda: served.ready, "it goes on by itself")
        assert decide(served, 1, name) == 200
        assert decisions(served) == 2
        with database.without_its_replica():
            served.process.terminate()
            served.ended(PATIENCE)


def test_a_standby_with_another_configuration_says_so_and_does_no_harm(url: str, tmp_path: Path) -> None:
    spec, options = write_spec(tmp_path, "compared"), {"database": url, "patch": QUICK}
    (tmp_path / "other").mkdir()
    differing = write_spec(tmp_path / "other", "compared", slater=0.3)
    leader = Served(spec, **options).wait()
    settings = Served(spec, **options, max_pending=1, expire_after=0.5).wait(ready=False)
    rules = Served(differing, **options).wait(ready=False)
    with services(leader, settings, rules):
        assert [decide(leader, i, "compared") for i in range(10)] == [200] * 10
        for one in (settings, rules):
            until(lambda one=one: b'"differs":1' in one.call("GET", "/readyz")[1], "it says that it differs")
        leader.kill()
        until(lambda: settings.ready, "the one whose spec is the same takes over")
        time.sleep(0.6)
        assert decide(settings, 11, "compared") == 200
        outcomes = json.loads(settings.call("GET", "/v1/state")[1])["outcomes"]
        assert (outcomes["pending"], outcomes["missing"]) == (11, 0), "under the settings in the journal"
        settings.stop()
        time.sleep(2.5)
        assert not rules.ready
        assert b'"differs":1' in rules.call("GET", "/readyz")[1]
        again = Served(spec, **options).wait()
        assert decide(again, 12, "compared") == 200, "it does not keep others from taking over"
        again.kill()


def test_a_service_that_starts_while_the_database_is_down_waits_for_it(
    database: Server, tmp_path: Path
) -> None:
    database.stop()
    try:
        with services(Served(write_spec(tmp_path, "early"), database=database.url).wait(ready=False)) as [
            served
        ]:
            assert decide(served, 0, "early") == 503
            assert served.call("GET", "/healthz")[0] == 200
            database.start()
            until(lambda: served.ready, "it is ready")
            assert decide(served, 0, "early") == 200
    finally:
        database.stop()
        database.start()
