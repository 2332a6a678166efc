"""Many spenders under hard limits by key and day, across midnights in two zones and a change of clocks, with kill -9 in between."""

from __future__ import annotations

import contextlib
import datetime as dt
import http.client
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from faults.process import Served, free_port
from tightrope.service.journal import entries
from tightrope.service.journal.rows import Row, entry_of
from tightrope.spec import Spec, make_spec
from waiting import PATIENCE

USES = {"big": 0.9, "small": 0.3, "none": 0.0}
LIMIT, CALLS = Decimal(2), 3
BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
# An hour before midnight in Berlin; the next day has 23 hours there.
EVENING = dt.datetime(2026, 3, 28, 23, tzinfo=BERLIN).timestamp()
# A journal's time follows the machine's at once.
QUICK_CLOCK = {
    "tightrope.service.experiment.clock.FASTEST": 1e9,
    "tightrope.service.experiment.clock.SLOWEST": 0.0,
    "tightrope.service.experiment.clock.ALARM": 1e12,
}


def spending(**changes: Any) -> Spec:
    """2 a day in Berlin for each user, of which the most is reserved; 3 large calls a day in New York for each user."""
    cost = {
        "kind": "budget",
        "name": "cost",
        "at_most": float(LIMIT),
        "per": "day",
        "by": "user",
        "zone": "Europe/Berlin",
    }
    cost |= {"hard": True, "seen": "after", "usage": USES}
    calls = {"kind": "capacity", "action": "big", "at_most": CALLS, "count": True, "per": "day", "by": "user"}
    calls |= {"zone": "America/New_York", "hard": True}
    data = {
        "name": "spending",
        "actions": list(USES),
        "rule": [cost, calls],
        "policy": {"kind": "shadow-price"},
    }
    return make_spec({**data, **changes})


def wrongly_granted(rows: Iterable[Row]) -> list[str]:
    """Each decision of a journal against all before it, by the clock alone: what was wrongly on offer, or not."""
    wrong: list[str] = []
    taken: dict[tuple[str, dt.date], Decimal] = {}
    calls: Counter[tuple[str, dt.date]] = Counter()
    made: dict[int, tuple[str, float, str, Decimal]] = {}
    for row in rows:
        entry, now = entry_of(row), row.time / 1e6
        if isinstance(entry, entries.Decided):
            user = str((entry.request.keys or {})["user"])
            here, there = ((user, dt.datetime.fromtimestamp(now, zone).date()) for zone in (BERLIN, NEW_YORK))
            spent = taken.get(here, Decimal(0))
            right = [name for name, use in USES.items() if not use or spent + Decimal(str(use)) <= LIMIT]
            right = [name for name in right if name != "big" or calls[there] < CALLS]
            offered = list(USES) if entry.offered is None else [list(USES)[a] for a in entry.offered]
            if offered != right:
                wrong.append(
                    f"{entry.event_id}: {offered} on offer to {user}, who had spent {spent} and called {calls[there]} times"
                )
            name = list(USES)[entry.action]
            taken[here] = spent + Decimal(str(USES[name]))
            calls[there] += name == "big"
            made[entry.number] = (user, now, name, Decimal(str(USES[name])))
        elif isinstance(entry, entries.Learnt) and entry.number in made:
            user, then, name, held = made[entry.number]
            here, there = (
                (user, dt.datetime.fromtimestamp(then, zone).date()) for zone in (BERLIN, NEW_YORK)
            )
            if entry.cancelled:
                taken[here] -= held
                calls[there] -= name == "big"
            elif entry.usage is not None:
                taken[here] += Decimal(str(entry.usage["cost"])) - held
    wrong += [f"{user} spent {spent} on {day}" for (user, day), spent in taken.items() if spent > LIMIT]
    return wrong


@dataclass
class Told:
    """What spenders were told."""

    decisions: dict[str, tuple[int, int]] = field(default_factory=dict)
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Spenders:
    """Callers that decide for users, half of them for a few, and tell what was used, that nothing was done, or nothing."""

    _serial = itertools.count()

    def __init__(self, ports: Callable[[], Sequence[int]], told: Told, *, callers: int, keys: int) -> None:
        self._ports, self._told, self._keys, self._stop = ports, told, keys, threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(callers)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a spender hangs"

    def _run(self, seed: int) -> None:
        draw = random.Random(seed)
        while not self._stop.is_set():
            for port in self._ports():
                with contextlib.suppress(OSError, http.client.HTTPException):
                    one = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)
                    with contextlib.closing(one):
                        while not self._stop.is_set() and self._spend(one, draw):
                            pass
            time.sleep(0.01)

    def _spend(self, connection: http.client.HTTPConnection, draw: random.Random) -> bool:
        event_id, user = (
            f"event-{next(self._serial)}",
            draw.randrange(4 if draw.random() < 0.5 else self._keys),
        )
        status, answer = _post(
            connection, "/v1/decisions", {"event_id": event_id, "keys": {"user": f"u{user}"}}
        )
        with self._told.lock:
            if status != 200:
                self._told.refused += 1
                if status != 503:
                    self._told.wrong.append(f"{event_id}: {status} {answer}")
                return False
            self._told.decisions[event_id] = (answer["action"], answer["sequence"])
        kind = draw.random()
        if kind < 0.6:
            used = round(USES[answer["name"]] * draw.random(), 4)
            status, answer = _post(
                connection,
                "/v1/outcomes",
                {"event_id": event_id, "reward": draw.random(), "usage": {"cost": used}},
            )
        elif kind < 0.8:
            status, answer = _post(connection, "/v1/outcomes", {"event_id": event_id, "cancelled": True})
        if status not in (200, 503):
            self._told.wrong.append(f"outcome of {event_id}: {status} {answer}")
        return status == 200


@dataclass
class Spent:
    """What was found."""

    acknowledged: int
    entries: int
    kills: int
    days: int
    lost: list[str]


def spend(
    folder: Path,
    *,
    kills: int,
    hours: float = 27.0,
    callers: int = 8,
    keys: int = 40,
    mutant: str | None = None,
    seconds: float = 0.1,
    database: str | None = None,
) -> Spent:
    """Spend over so many hours of the journal's time, with a kill -9 in every part; two processes share a database, if any."""
    from tightrope.service.offline.replay import open_journal, verify

    folder.mkdir(parents=True, exist_ok=True)
    spec, name = _written(folder), "spending"
    stored: dict[str, Any] = {"data": folder / "data"} if database is None else {"database": database}
    ahead = EVENING - time.time()
    ports = [free_port() for _ in range(1 if database is None else 2)]

    def start(port: int) -> Served:
        return Served(spec, port=port, mutant=mutant, patch=QUICK_CLOCK, clock_offset=ahead, **stored)

    services = [start(port).wait(ready=not i) for i, port in enumerate(ports)]
    told, lost = Told(), list[str]()
    spenders = Spenders(lambda: ports, told, callers=callers, keys=keys)
    try:
        for _ in range(kills + 1):
            for _ in range(4):
                before = len(told.decisions)
                deadline = time.monotonic() + PATIENCE
                while len(told.decisions) < before + 3 * callers and time.monotonic() < deadline:
                    time.sleep(0.01)
                time.sleep(seconds / 4)
                ahead += hours * 3600 / (4 * (kills + 1))
                for one in services:
                    one.clock_offset.value = ahead
            victim = next((one for one in services if one.ready), services[0])
            victim.kill()
            services[services.index(victim)] = start(victim.port)
            if database is None:
                services[0].wait()
    except AssertionError as error:
        lost.append(str(error))
    finally:
        spenders.stop()
        for one in services:
            one.kill()
    source = folder / "data" / f"{name}.sqlite" if database is None else database
    with contextlib.closing(open_journal(source, name)) as journal:
        rows = list(journal.rows())
        lost += wrongly_granted(rows) + told.wrong
        decided = {
            e.event_id: (e.action, e.number)
            for row in rows
            if isinstance(e := entry_of(row), entries.Decided)
        }
        lost += [
            f"{event}: told {what}, the journal has {decided.get(event)}"
            for event, what in told.decisions.items()
            if decided.get(event) != what
        ]
        if mutant is None:
            verify(journal)
    days = {dt.datetime.fromtimestamp(row.time / 1e6, BERLIN).date() for row in rows}
    return Spent(len(told.decisions), len(rows), kills + 1, len(days), lost)


def _written(folder: Path) -> Path:
    path = folder / "spending.toml"
    lines = ['name = "spending"', f"actions = {json.dumps(list(USES))}", "[policy]", 'kind = "shadow-price"']
    for rule in spending().data["rule"]:
        lines.append("[[rule]]")
        for name, value in rule.items():
            shown = (
                "{ " + ", ".join(f"{key} = {one}" for key, one in value.items()) + " }"
                if isinstance(value, dict)
                else json.dumps(value)
            )
            lines.append(f"{name} = {shown}")
    path.write_text("\n".join(lines) + "\n")
    return path


def _post(connection: http.client.HTTPConnection, path: str, body: Any) -> tuple[int, Any]:
    connection.request("POST", path, msgspec.json.encode(body))
    answer = connection.getresponse()
    return answer.status, msgspec.json.decode(answer.read())
