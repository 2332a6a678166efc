"""Faults, in short: lost power, kill -9, crashes at named points, dead databases, hostile requests.

`make torture` runs the same for long. Each test has a control: a service that breaks the promise, on which it must fail.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from hypothesis.stateful import run_state_machine_as_test

from faults.crash import POINTS
from faults.kill import Account, Load, body_of, kill_cycles, missing
from faults.outage import Careless, losses, survives_error, told_on, walk
from faults.power import Disk
from faults.process import Served, free_port
from faults.replica import Replica
from faults.spenders import spend
from faults.state_machine import ServiceMachine
from tightrope.service.answer import Refusal
from tightrope.service.experiment import Op
from tightrope.service.http import handlers
from tightrope.service.http.server import make_service
from tightrope.service.journal import JournalDamaged
from tightrope.service.offline.replay import open_journal, verify
from tightrope.service.requests import DecisionRequest, OutcomeRequest, read_body
from tightrope.service.storage.sqlite import SqliteJournal
from waiting import PATIENCE
from workbench import Bench, running, visit, ward, write_spec

pytestmark = pytest.mark.usefixtures("impatient")


# --- power ---


@pytest.mark.usefixtures("quiet")
def test_power_cuts_at_every_write_and_sync_lose_nothing(tmp_path: Path) -> None:
    disk = Disk()
    told = told_on(disk, tmp_path, length=16)
    assert {"write", "sync", "truncate", "delete"} <= {change.kind for change in disk.log}
    assert losses(disk, told, tmp_path, loss=[1.0]) == []
    assert losses(disk, told, tmp_path, loss=[0.5], step=3) == []


@pytest.mark.usefixtures("quiet")
def test_the_control_without_a_sync_for_each_batch_loses_acknowledged_events(tmp_path: Path) -> None:
    disk = Disk()
    told = told_on(disk, tmp_path, length=16, synchronous="NORMAL")
    found = losses(disk, told, tmp_path, loss=[1.0], step=5, synchronous="NORMAL")
    assert any("the journal ends at" in one for one in found)
    assert any(walk(tmp_path, lives=8, seed=seed, synchronous="NORMAL") for seed in range(6))


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cuts_upon_cuts_also_while_recovering_lose_nothing(tmp_path: Path, seed: int) -> None:
    assert walk(tmp_path, lives=8, seed=seed) == []


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(("kind", "step"), [("write", 17), ("sync", 5)])
def test_a_disk_that_refuses_for_a_while_loses_nothing(tmp_path: Path, kind: str, step: int) -> None:
    """A full disk, and an fsync that failed and took its pages with it; the service goes on by itself."""
    count = 0
    for at in range(1, 1000, step):
        met, wrong = survives_error(tmp_path, length=10, kind=kind, at=at, times=2)
        assert wrong is None, f"{kind} {at}"
        if not met:
            break
        count += 1
    assert count > 3


@pytest.mark.usefixtures("quiet")
def test_the_control_that_takes_a_failed_commit_for_a_good_one_is_noticed(tmp_path: Path) -> None:
    wrong = [
        survives_error(tmp_path, length=10, kind="sync", at=at, times=2, made=Careless)[1] for at in (12, 17)
    ]
    assert any(wrong)


# --- limits by key and day ---


def test_spenders_never_exceed_a_limit_by_key_and_day(tmp_path: Path) -> None:
    """Across two midnights in Berlin, one in New York and a change of clocks, with two kill -9."""
    spent = spend(tmp_path, kills=1)
    assert spent.lost == []
    assert spent.days == 3
    assert spent.acknowledged > 100


def test_the_control_that_checks_before_others_have_booked_is_noticed(tmp_path: Path) -> None:
    lost = spend(tmp_path, kills=0, hours=1.0, keys=2, callers=16, mutant="books later").lost
    assert any("on offer to" in one for one in lost)


# --- against the model ---

SEARCH = settings(
    max_examples=12,
    stateful_step_count=20,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.usefixtures("quiet")
def test_the_service_agrees_with_the_model_through_retries_repeats_and_crashes() -> None:
    run_state_machine_as_test(ServiceMachine, settings=SEARCH)


class _Unsynced(ServiceMachine):
    synchronous = "NORMAL"


@pytest.mark.usefixtures("quiet")
def test_the_control_disagrees_with_the_model() -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            _Unsynced, settings=settings(SEARCH, max_examples=60, phases=[Phase.generate])
        )


# --- kill -9 ---


def test_kill_9_in_a_loop_under_load_loses_nothing(tmp_path: Path) -> None:
    outcome = kill_cycles(write_spec(tmp_path), tmp_path / "data", 8)
    assert outcome.lost == []
    assert outcome.acknowledged > 50
    assert outcome.outcomes > 10


@pytest.mark.parametrize("options", [{"database": "memory:"}, {"mutant": "behind"}])
def test_the_control_that_answers_before_the_journal_has_it_is_noticed(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """Journal off; and a journal that is a few batches behind."""
    outcome = kill_cycles(write_spec(tmp_path), tmp_path / "data", 8, **options)
    assert outcome.lost


# --- named crash points ---

GONE = (OSError, http.client.HTTPException)

# Whether the event that was under way is in the journal afterwards.
KEPT = {
    "state changed, journal not written": False,
    "before the journal": False,
    "written, not committed": False,
    "journal written, not answered": True,
    "half an answer sent": True,
}


def checked(folder: Path, served: Served, answers: dict[str, bytes]) -> Replica:
    """Every answer that was given is given again; the state is what the journal says."""
    for event_id, content in answers.items():
        number = int(event_id.rpartition("-")[2])
        assert served.call("POST", "/v1/decisions", body_of(event_id, number)) == (200, content)
    replica = Replica(lambda: SqliteJournal(folder / "ward.sqlite", read_only=True))
    status, content = served.call("POST", "/v1/snapshots", {"label": f"at {time.time_ns()}"})
    assert status == 200
    taken = json.loads(content)
    replica.follow(taken["position"])
    assert replica.digest() == taken["digest"]
    return replica


def until_it_dies(served: Served) -> dict[str, bytes]:
    """Ask for one decision after the other; what was answered before the end."""
    answers: dict[str, bytes] = {}
    for i in range(3000):
        try:
            status, content = served.call("POST", "/v1/decisions", body_of(f"event-{i}", i))
        except GONE:
            served.ended()
            return answers
        assert status == 200
        answers[f"event-{i}"] = content
    raise AssertionError("it did not die")


@pytest.mark.parametrize("point", KEPT)
def test_a_crash_between_two_steps_leaves_all_or_nothing(tmp_path: Path, point: str) -> None:
    spec, data = write_spec(tmp_path), tmp_path / "data"
    served = Served(spec, data=data, crash=(point, 8)).wait()
    answers = until_it_dies(served)
    last = f"event-{len(answers)}"
    assert 3 < len(answers) < 12, "it died where it was told to"
    assert served.process.exitcode == -9
    served = Served(spec, data=data).wait()
    replica = checked(data, served, answers)
    assert (last in replica.decided) == KEPT[point]
    status, content = served.call("POST", "/v1/decisions", body_of(last, int(last[6:])))
    assert status == 200
    assert json.loads(content)["sequence"] == len(answers), "decided once, whatever the crash left"
    checked(data, served, {**answers, last: content})
    served.kill()


def test_a_crash_when_half_of_a_batch_was_answered(tmp_path: Path) -> None:
    spec, data = write_spec(tmp_path), tmp_path / "data"
    served = Served(spec, data=data, crash=("half of a batch answered", 1)).wait()

    def ask(i: int) -> tuple[int, bytes] | None:
        with contextlib.suppress(*GONE):
            return served.call("POST", "/v1/decisions", body_of(f"event-{i}", i))
        return None

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(64)))
    served.ended()
    told = {f"event-{i}": one[1] for i, one in enumerate(answers) if one is not None}
    assert len(told) < 64
    served = Served(spec, data=data).wait()
    replica = checked(data, served, told)
    assert len(replica.decided) > len(told), "what was not answered is in the journal all the same"
    served.kill()


def test_a_crash_around_a_snapshot_a_replay_and_a_stop(tmp_path: Path) -> None:
    spec, data = write_spec(tmp_path), tmp_path / "data"
    answers: dict[str, bytes] = {}
    for n, crash in enumerate(
        [
            ("snapshot made, not written", 1),
            ("snapshot written, not answered", 1),
            ("stopping, last snapshot not written", 1),
        ]
    ):
        served = Served(spec, data=data, crash=crash).wait()
        for i in range(12 * n, 12 * n + 12):
            status, content = served.call("POST", "/v1/decisions", body_of(f"event-{i}", i))
            assert status == 200
            answers[f"event-{i}"] = content
        if crash[0].startswith("stopping"):
            served.stop()
        else:
            with pytest.raises(GONE):
                served.call("POST", "/v1/snapshots", {"label": "mine"})
        served.ended()
        assert served.process.exitcode == -9
        with contextlib.closing(open_journal(data / "ward.sqlite")) as journal:
            assert [one.label for one in journal.snapshots()] == (["mine"] if n else [])
    for at in (1, 10):
        served = Served(spec, data=data, crash=("replaying at the start", at))
        served.ended()
        assert served.process.exitcode == -9
    served = Served(spec, data=data).wait()
    assert len(checked(data, served, answers).decided) == 36
    served.kill()


def test_a_crash_before_slaters_constant_is_written(tmp_path: Path) -> None:
    spec, data = write_spec(tmp_path, slater='"measure"'), tmp_path / "data"
    served = Served(spec, data=data, crash=("slater measured, not written", 2)).wait()
    answers = until_it_dies(served)
    served = Served(spec, data=data).wait()
    checked(data, served, answers)
    deadline = time.monotonic() + PATIENCE
    while json.loads(served.call("GET", "/v1/state")[1])["slater"] < 0.01:
        assert time.monotonic() < deadline, "it is measured again"
        time.sleep(0.02)
    served.kill()


def test_every_crash_point_is_met_by_a_test() -> None:
    elsewhere = {
        "half of a batch answered",
        "snapshot made, not written",
        "snapshot written, not answered",
        "replaying at the start",
        "slater measured, not written",
        "stopping, last snapshot not written",
    }
    assert set(POINTS) == set(KEPT) | elsewhere


# --- hostile requests ---

PIECES = st.sampled_from(
    [
        b"NaN",
        b"Infinity",
        b"1e400",
        b"-1e400",
        b'"NaN"',
        b"true",
        b"null",
        b"[]",
        b"{}",
        b"[[[[[[[[[[]]]]]]]]]]",
        b"1" * 400,
        b'"\\ud800"',
        b"\xff\xfe",
        b'"event_id":"x","event_id":"y"',
        b"1e308",
        b"-0.0",
        b"5e-324",
        b"99999999999999999999999999",
        b"\x00",
        b'"\\u0000"',
    ]
)


@st.composite
def hostile(draw: st.DrawFn) -> tuple[str, bytes]:
    """A good body with pieces replaced, cut out or put in."""
    kind = draw(st.sampled_from(["decisions", "outcomes"]))
    body = (
        b'{"event_id":"e1","context":{"age":40.5,"sex":"f"},"actions":["icu",2],"explain":true}'
        if kind == "decisions"
        else b'{"event_id":"visit-1","reward":0.5,"usage":{"hours":0.25}}'
    )
    tokens = [bytes([one]) for one in body] if draw(st.booleans()) else _tokens(body)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(tokens) - 1))
        how = draw(st.sampled_from(["put", "replace", "cut", "double"]))
        if how == "cut":
            del tokens[at]
        elif how == "double":
            tokens.insert(at, tokens[at])
        else:
            tokens[at : at + (how == "replace")] = [draw(st.one_of(PIECES, st.binary(max_size=6)))]
        if not tokens:
            break
    return kind, b"".join(tokens)


def _tokens(body: bytes) -> list[bytes]:
    return re.findall(rb'"[^"]*"|[-\d.]+|true|.', body)


@pytest.fixture(scope="module")
def bench() -> Bench:
    one = Bench(ward())
    for i in range(5):
        one.decide(visit(i))
    return one


@settings(max_examples=400, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(request_=hostile())
def test_a_refused_request_reaches_nothing(bench: Bench, request_: tuple[str, bytes]) -> None:
    before, position = bench.digest(), bench.journal.last()
    kind, body = request_
    experiment = bench.experiment
    try:
        op = (
            Op(handlers.decide, read_body(body, DecisionRequest))
            if kind == "decisions"
            else Op(handlers.learn, read_body(body, OutcomeRequest))
        )
        status = experiment.process([op])[0].status
    except Refusal as refusal:
        status = refusal.status
    assert status == 200 or 400 <= status < 500
    if status in (200, 404, 409, 410):
        # Done, or counted as an outcome that could not be applied.
        assert bench.journal.last() - position <= 1
    else:
        assert bench.digest() == before
        assert bench.journal.last() == position


def test_the_service_does_what_its_document_says(tmp_path: Path) -> None:
    """Schemathesis: requests made from /openapi.json, good ones and bad ones; answers checked against it."""
    schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis")
    from schemathesis.specs.openapi import checks

    service = make_service([ward()], data=tmp_path / "data")
    with running(service) as web:
        schema = schemathesis.openapi.from_url(f"{web.base_url}/openapi.json")
        operations = [one.ok() for one in schema.get_all_operations()]
        assert len(operations) > 15
        statuses: set[int] = set()
        rules = [
            checks.status_code_conformance,
            checks.response_schema_conformance,
            checks.content_type_conformance,
            checks.negative_data_rejection,
        ]
        for operation in operations:
            # A bad item of a batch is refused by itself, in an answer of 200.
            batch = operation.path.endswith("/batch")
            own = [rule for rule in rules if not (batch and rule is checks.negative_data_rejection)]
            for mode in schemathesis.GenerationMode:
                statuses |= _fuzz(operation, mode, own)
        assert {200, 404, 422} <= statuses
        assert 500 not in statuses
    with contextlib.closing(open_journal(tmp_path / "data" / "ward.sqlite")) as journal:
        verify(journal)


def _fuzz(operation: Any, mode: Any, rules: list[Any]) -> set[int]:
    """Requests for one operation, of the one experiment that there is."""
    seen: set[int] = set()

    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(operation.as_strategy(generation_mode=mode), st.booleans())
    def run(case: Any, valid: bool) -> None:
        if "experiment" in (case.query or {}):
            case.query["experiment"] = "ward"
        if valid and operation.path == "/v1/decisions" and isinstance(case.body, dict):
            case.body["context"] = {"age": 40, "sex": "f"}
        if isinstance(case.body, dict) and case.body.get("mode") == "paused":
            case.body["mode"] = "live"
        response = case.call(timeout=PATIENCE)
        seen.add(response.status_code)
        case.validate_response(response, checks=rules)

    with contextlib.suppress(Unsatisfiable):
        # Some operations take nothing that could be wrong.
        run()
    return seen


# --- two writers ---


def test_a_second_process_never_gets_in_however_often_the_first_one_dies(tmp_path: Path) -> None:
    spec, data = write_spec(tmp_path), tmp_path / "data"
    first = Served(spec, data=data).wait()
    for _ in range(2):
        second = Served(spec, data=data)
        second.ended()
        assert second.process.exitcode == 1, "it refuses"
        assert first.call("POST", "/v1/decisions", body_of("event-1", 1))[0] == 200
        first.kill()
        first = Served(spec, data=data).wait()
    first.kill()


def test_a_journal_that_could_not_be_opened_is_not_left_locked(tmp_path: Path) -> None:
    other = apsw.Connection(str(tmp_path / "ward.sqlite"))
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(JournalDamaged):
        SqliteJournal(tmp_path / "ward.sqlite").open()
    for path in tmp_path.glob("ward.sqlite*"):
        path.unlink()
    journal = SqliteJournal(tmp_path / "ward.sqlite")
    assert journal.open()
    journal.close()


# --- PostgreSQL ---


def follower(url: str, name: str = "ward") -> Replica:
    from tightrope.service.storage.postgresql import PostgresJournal

    return Replica(lambda: PostgresJournal(url, name, read_only=True))


def wait_for(account: Account, more: int, seconds: float = PATIENCE) -> None:
    goal = len(account.decisions) + more
    deadline = time.monotonic() + seconds
    while len(account.decisions) < goal:
        assert time.monotonic() < deadline, "no decisions any more"
        time.sleep(0.01)


def test_two_processes_on_postgres_through_kills_and_restarts_of_the_server(
    database: Any, tmp_path: Path
) -> None:
    spec = write_spec(tmp_path)
    ports = [free_port(), free_port()]
    services = [
        Served(spec, port=port, database=database.url).wait(ready=not i) for i, port in enumerate(ports)
    ]
    assert services[1].call("POST", "/v1/decisions", body_of("event-x", 1))[0] == 503
    account = Account()
    load = Load(lambda: ports, account, callers=6, patient=True)
    active = 0
    for _ in range(2):
        wait_for(account, 50)
        services[active].kill()
        wait_for(account, 50)
        services[active] = Served(spec, port=ports[active], database=database.url).wait(ready=False)
        active = 1 - active
        assert [one.call("GET", "/readyz")[0] for one in services].count(200) == 1, (
            "one is active, one stands by"
        )
    database.stop()
    time.sleep(0.2)
    database.start()
    wait_for(account, 50)
    load.stop()
    replica = follower(database.url)
    ready = [one for one in services if one.call("GET", "/readyz")[0] == 200]
    assert len(ready) == 1
    status, content = ready[0].call("POST", "/v1/snapshots", {"label": "end"})
    assert status == 200
    taken = json.loads(content)
    replica.follow(taken["position"])
    assert replica.digest() == taken["digest"]
    assert missing(account, replica) + account.wrong == []
    for one in services:
        one.kill()


@pytest.mark.parametrize("mutant", [None, "lazy database"])
def test_a_crash_of_the_database_loses_nothing_unless_commits_do_not_wait(
    database: Any, tmp_path: Path, mutant: str | None
) -> None:
    import psycopg

    with psycopg.connect(database.url, autocommit=True) as admin:
        admin.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        admin.execute("SELECT pg_reload_conf()")
    lost: list[str] = []
    for attempt in range(4 if mutant else 1):
        # Its log may just have been written by chance, so the control may have to try again.
        name = f"{'hasty' if mutant else 'steady'}-{attempt}"
        served = Served(write_spec(tmp_path, name), database=database.url, mutant=mutant).wait()
        account = Account()
        load = Load(lambda port=served.port: [port], account, callers=4, patient=True)  # type: ignore[misc]
        wait_for(account, 80)
        database.stop()
        load.stop()
        served.kill()
        database.start()
        replica = follower(database.url, name)
        replica.follow()
        lost += missing(account, replica)
        if lost:
            break
    assert bool(lost) == (mutant is not None)
