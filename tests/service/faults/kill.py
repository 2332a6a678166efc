"""kill -9 in a loop under load, and the account of what callers were told against what is left."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.process import Served, free_port
from faults.replica import Replica
from tightrope.service.storage.sqlite import SqliteJournal
from waiting import PATIENCE


@dataclass
class Account:
    """What callers were told, and what they were not told."""

    decisions: dict[str, dict[str, Any]] = field(default_factory=dict)
    outcomes: dict[str, float] = field(default_factory=dict)
    in_doubt: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


def body_of(event_id: str, number: int) -> dict[str, Any]:
    return {"event_id": event_id, "context": {"age": number % 100, "sex": "fm"[number % 2]}}


def reward_of(number: int) -> float:
    return number % 7 / 7


class Load:
    """Callers on connections of their own: decisions, their outcomes, and retries of what was answered before.

    Parameters
    ----------
    ports : callable
        Where to send the next request: a service may have moved.
    account : Account
    callers : int
    patient : bool
        Go on after an error; otherwise a caller ends with its connection.
    timeout : float
        Seconds until a caller gives a request up, which is then in doubt.
    """

    def __init__(
        self,
        ports: Callable[[], list[int]],
        account: Account,
        *,
        callers: int = 8,
        patient: bool = False,
        timeout: float = 10.0,
    ) -> None:
        self._ports = ports
        self._account = account
        self._patient = patient
        self._timeout = timeout
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(i,)) for i in range(callers)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a caller hangs"

    _serial = itertools.count()

    def _call(self, caller: int) -> None:
        chance = random.Random(caller)
        while not self._stop.is_set():
            for port in self._ports():
                one = http.client.HTTPConnection("127.0.0.1", port, timeout=self._timeout)
                with contextlib.closing(one), contextlib.suppress(OSError, http.client.HTTPException):
                    self._talk(one, chance)
            if not self._patient:
                return
            time.sleep(0.01)

    def _talk(self, connection: http.client.HTTPConnection, chance: random.Random) -> None:
        account = self._account
        while not self._stop.is_set():
            number = next(self._serial)
            event_id = f"event-{number}"
            with account.lock:
                doubt = next(iter(account.in_doubt), None) if chance.random() < 0.3 else None
                if doubt is not None:
                    event_id, number = doubt, account.in_doubt[doubt]
                account.in_doubt[event_id] = number
            status, content = _post(connection, "/v1/decisions", body_of(event_id, number))
            if not self._note_decision(event_id, status, content):
                return
            if chance.random() < 0.5:
                reward = reward_of(number)
                status, content = _post(
                    connection, "/v1/outcomes", {"event_id": event_id, "reward": reward, "usage": None}
                )
                with account.lock:
                    if status == 200:
                        account.outcomes[event_id] = reward
                    elif status not in (410, 503):
                        account.wrong.append(f"outcome of {event_id}: {status} {content!r}")
            if chance.random() < 0.1:
                with account.lock:
                    old = (
                        chance.choice(list(account.decisions)) if len(account.decisions) < 2000 else event_id
                    )
                status, content = _post(connection, "/v1/decisions", body_of(old, int(old[6:])))
                self._note_decision(old, status, content)

    def _note_decision(self, event_id: str, status: int, content: bytes) -> bool:
        account = self._account
        with account.lock:
            if status != 200:
                account.refused += 1
                if status != 503:
                    account.wrong.append(f"{event_id}: {status} {content!r}")
                return False
            answer = json.loads(content)
            known = account.decisions.setdefault(event_id, answer)
            if known != answer:
                account.wrong.append(f"{event_id} was answered {known}, then {answer}")
            account.in_doubt.pop(event_id, None)
            return True


def _post(connection: http.client.HTTPConnection, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
    given = {key: value for key, value in body.items() if value is not None}
    connection.request("POST", path, json.dumps(given))
    answer = connection.getresponse()
    return answer.status, answer.read()


def missing(account: Account, replica: Replica) -> list[str]:
    """What was acknowledged and is not in the journal, or is there otherwise."""
    lost = [
        f"{event_id}: answered {answer['action']}, {answer['sequence']}; the journal has {replica.decided.get(event_id)}"
        for event_id, answer in account.decisions.items()
        if replica.decided.get(event_id) != (answer["action"], answer["sequence"])
    ]
    lost += [
        f"the reward of {event_id}"
        for event_id, reward in account.outcomes.items()
        if replica.learnt.get((event_id, "reward")) != reward
    ]
    return lost


def unknown_to(service: Served, account: Account, newest: int = 60) -> list[str]:
    """Of the newest acknowledged decisions those that the service does not know, or knows otherwise."""
    lost = []
    for event_id in list(account.decisions)[-newest:]:
        status, content = service.call("GET", f"/v1/decisions/{event_id}")
        known = json.loads(content)
        expected = account.decisions[event_id]
        if status != 200 or (known["action"], known["sequence"]) != (
            expected["action"],
            expected["sequence"],
        ):
            lost.append(event_id)
    return lost


# The points that a service passes again and again while it is asked for decisions.
UNDER_LOAD = (
    "state changed, journal not written",
    "before the journal",
    "written, not committed",
    "journal written, not answered",
    "half of a batch answered",
    "half an answer sent",
)


@dataclass
class Outcome:
    cycles: int
    kills_while_starting: int
    points_reached: int
    acknowledged: int
    outcomes: int
    in_doubt: int
    entries: int
    lost: list[str]


def kill_cycles(
    spec: Path,
    folder: Path,
    cycles: int,
    *,
    seed: int = 0,
    mutant: str | None = None,
    points: bool = False,
    progress: Callable[[int], None] = lambda cycle: None,
    **options: Any,
) -> Outcome:
    """Start, load, kill -9, start again, compare; `cycles` times. With `points` the service kills itself, at a named point."""
    chance = random.Random(seed)
    account = Account()
    durable = "database" not in options
    if durable:
        options["data"] = folder
    replica = Replica(lambda: SqliteJournal(folder / "ward.sqlite", read_only=True))
    port = free_port()
    lost: list[str] = []
    early = doubtful = reached = 0

    def start(crash: tuple[str, int] | None = None) -> Served:
        return Served(spec, port=port, mutant=mutant, crash=crash, max_pending=400, **options)

    for cycle in range(cycles):
        if chance.random() < 0.2:
            service = start()
            time.sleep(chance.uniform(0.0, 0.3))
            service.kill()
            early += 1
        point = (chance.choice(UNDER_LOAD), chance.randint(3, 150)) if points else None
        try:
            service = start(point).wait()
        except AssertionError as error:
            lost.append(f"cycle {cycle}: {error}")
            break
        load = Load(lambda: [port], account)
        known = len(account.decisions)
        deadline = time.monotonic() + PATIENCE
        while len(account.decisions) == known and service.alive and time.monotonic() < deadline:
            time.sleep(0.005)
        if points:
            service.process.join(1.0)
        else:
            time.sleep(chance.uniform(0.02, 0.4))
        reached += not service.alive
        service.kill()
        load.stop()
        doubtful += len(account.in_doubt)
        service = start()
        try:
            service.wait()
        except AssertionError as error:
            lost.append(f"cycle {cycle}: {error}")
            break
        lost += unknown_to(service, account)
        if durable and mutant is None:
            status, content = service.call("POST", "/v1/snapshots", {"label": f"cycle {cycle}"})
            assert status == 200, content
            taken = json.loads(content)
            replica.follow(taken["position"])
            if replica.digest() != taken["digest"]:
                lost.append(f"cycle {cycle}: the state is not what the journal says")
            lost += missing(account, replica)
        service.kill()
        if lost:
            break
        progress(cycle + 1)
    return Outcome(
        cycles=cycle + 1,
        kills_while_starting=early,
        points_reached=reached,
        acknowledged=len(account.decisions),
        outcomes=len(account.outcomes),
        in_doubt=doubtful,
        entries=replica.position,
        lost=lost + account.wrong,
    )
