"""What a caller with a good key may try, and what may go wrong around it, on services that go on deciding within their rules.

Each stage starts a service, attacks it, and then sends honest requests. A stage gives what went wrong, in words. Its controls are
services without the check in question, on which it must find something.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from faults.process import Served
from tightrope.service.http.keys import create_key, revoke_key
from tightrope.service.journal import JournalDamaged
from tightrope.service.offline.backup import copy_to_file, restore
from tightrope.service.offline.replay import open_journal, verify
from tightrope.service.storage.sqlite import SqliteJournal
from waiting import PATIENCE, until

_DAY = 86_400.0
# The share that each spec leaves to the action that always earns most.
_SHARE = 0.2
# A rule holds on average: so much more is forgiven after a few hundred decisions.
_SLACK = 0.05

_HEAD = 'name = "{name}"\nactions = ["a", "b"]\n[reward]\nrange = [0, 1]\n'
_CAPACITY = '[[rule]]\nkind = "capacity"\naction = "a"\nat_most = {share}\n'
_SPECS = {
    # What callers say that an action uses is all that the rule knows.
    "ages": '[context]\nage = {{ type = "number", min = 18, max = 79 }}\n'
    '[[rule]]\nkind = "budget"\nname = "fuel"\nat_most = {share}\n',
    "vectors": "[features]\ncount = 2\nmin = -1\nmax = 1\n" + _CAPACITY,
    "plain": _CAPACITY + '[[rule]]\nkind = "budget"\nname = "hours"\nat_most = 0.9\nseen = "after"\n',
}


class Stage(NamedTuple):
    """An attack and the mutants (`faults.process.MUTANTS`) on which it must find something."""

    run: Callable[[Path, int, str | None], list[str]]
    controls: tuple[str, ...]


def requests(folder: Path, decisions: int, mutant: str | None = None) -> list[str]:
    """Numbers far outside every range, names that nobody declared, and a key that is revoked half way."""
    with _Siege(folder, mutant) as siege:
        siege.honest(decisions // 4)
        for experiment in _SPECS:
            siege.expect(experiment, "decisions", {"event_id": "first", **_offer(experiment, 0)}, {200})
        for experiment, kind, body, statuses in _bodies():
            siege.expect(experiment, kind, body, statuses)
        siege.revoked()
        for i, age in enumerate((30_000.0, 1e300, -30_000.0, -1e300)):
            # Clipped, which the spec has as its default.
            siege.honest_one("ages", f"far-{i}", {"context": {"age": age}, "usage": {"fuel": [1.0, 0.0]}})
        siege.honest(decisions)
        siege.judge()
        siege.served.stop()
        siege.replay()
    return siege.wrong


def reads(folder: Path, decisions: int, mutant: str | None = None) -> list[str]:
    """Every `GET /v1/rules` fails, again and again, beside decisions."""
    with _Siege(folder, mutant or "rules fail") as siege, ThreadPoolExecutor(2) as readers:
        asked = [
            readers.submit(Caller(siege.port, siege.key).call, "GET", "/v1/rules?experiment=plain")
            for _ in range(40)
        ]
        with ThreadPoolExecutor(2) as deciders:
            deciding = [deciders.submit(siege.honest, decisions // 4, ("plain",), f"{k}-") for k in range(2)]
        for one in deciding:
            one.result()
        # The fault itself: nothing else may be answered so.
        siege.wrong += [
            f"a failing read was answered {read.result()[0]}" for read in asked if read.result()[0] != 500
        ]
        if not siege.served.ready:
            siege.wrong.append("the service is not ready after reads that failed")
        siege.honest(decisions, ("plain",))
        siege.judge(("plain",))
        siege.served.stop()
        siege.replay()
    return siege.wrong


def clock(folder: Path, decisions: int, mutant: str | None = None) -> list[str]:
    """kill -9, and a start with the clock of the machine 390 days ahead, while decisions wait for their outcomes."""
    with _Siege(folder, mutant, expire_after=10 * _DAY) as siege:
        siege.honest(decisions // 4)
        for experiment in _SPECS:
            for i in range(10):
                siege.expect(
                    experiment, "decisions", {"event_id": f"waits-{i}", **_offer(experiment, i)}, {200}
                )
        siege.served.kill()
        siege.start(mutant, clock_offset=390 * _DAY)
        # Expiry comes with the next batch.
        siege.honest(decisions)
        for experiment in _SPECS:
            outcomes = siege.state(experiment)["outcomes"]
            if (outcomes["pending"], outcomes["missing"]) != (10, 0):
                siege.wrong.append(
                    f"{experiment}: {outcomes['pending']} of 10 pending, {outcomes['missing']} missing"
                )
            for i in range(10):
                siege.expect(experiment, "outcomes", _outcome(experiment, f"waits-{i}", "b"), {200})
        siege.judge()
        siege.served.stop()
        siege.replay()
    return siege.wrong


def change(folder: Path, decisions: int, mutant: str | None = None) -> list[str]:
    """A rule changes, decisions follow, kill -9, restart, replay, backup, restore."""
    with _Siege(folder, None) as siege:
        siege.honest(decisions // 4)
        siege.served.stop()
        siege.write_specs(0.15)
        siege.start(mutant, accept_changes=True)
        siege.honest(3, prefix="changed-")
        siege.served.kill()
        try:
            siege.start(None)
        except AssertionError as error:
            return [*siege.wrong, f"after the change and kill -9: {error}"]
        for experiment in _SPECS:
            for i in range(3):
                status, _ = siege.caller.call("GET", f"/v1/decisions/changed-{i}?experiment={experiment}")
                if status != 200:
                    siege.wrong.append(
                        f"{experiment}: decision changed-{i} was acknowledged, and is now {status}"
                    )
        siege.honest(decisions)
        siege.judge()
        siege.served.stop()
        siege.replay()
    return siege.wrong


STAGES = (
    Stage(
        requests, ("any usage", "any features", "any context", "any reward", "any group", "key of the head")
    ),
    Stage(reads, ("rules fail with their batch",)),
    Stage(clock, ("believes the clock",)),
    Stage(change, ("behind",)),
)


def _bodies() -> Iterator[tuple[str, str, dict[str, Any], set[int]]]:
    """What must be refused: experiment, route, body, and the statuses that say so."""
    refused = {422}
    ages = {"context": {"age": 40}}
    for far in (-1e6, 1e6, 1e20, -1e300):
        for fuel in (far, [far, 0.0], {"a": 0.0, "b": far}):
            yield "ages", "decisions", {**ages, "usage": {"fuel": fuel}}, refused
        yield "ages", "decisions", {**ages, "costs": [[far], [far]]}, refused
        yield "plain", "outcomes", {"event_id": "first", "usage": {"hours": far}}, refused
    for features in ([1e20, 0.0], [0.0, -1e20], [1e300, 1e300], [[1e20, 0.0], [0.0, 0.0]]):
        for experiment in _SPECS:
            yield experiment, "decisions", {**_offer(experiment, 0), "features": features}, refused
    for experiment in _SPECS:
        yield experiment, "outcomes", {"event_id": "first", "reward": 7}, refused
        for group in ("😀", [chr(0x1F600 + i) * 200 for i in range(5)]):
            yield experiment, "decisions", {**_offer(experiment, 0), "group": group}, refused
        long = {"group": [chr(0x1F600 + i % 80) * 200 + str(i) for i in range(1_000)]}
        yield experiment, "decisions", {**_offer(experiment, 0), **long}, {413, 422}
        for default in ("x" * 1_000_000, "x" * 2_000_000):
            yield experiment, "decisions", {**_offer(experiment, 0), "default": default}, {413}
        yield experiment, "decisions", {**_offer(experiment, 0), "default": "x" * 50_000}, refused


def _offer(experiment: str, i: int) -> dict[str, Any]:
    """What an honest caller sends."""
    if experiment == "ages":
        return {"context": {"age": 18 + 7 * i % 61}, "usage": {"fuel": {"a": 1.0, "b": 0.0}}}
    return {"features": [math.sin(i), math.cos(i)]} if experiment == "vectors" else {}


def _outcome(experiment: str, event_id: str, name: str) -> dict[str, Any]:
    """One action always earns most, so that only the rule speaks against it."""
    used = {"usage": {"hours": 0.5}} if experiment == "plain" else {}
    return {"event_id": event_id, "reward": float(name == "a"), **used}


class Caller:
    """One caller with a key, on a connection that is kept."""

    def __init__(self, port: int, key: str) -> None:
        self._line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._headers = {"authorization": f"Bearer {key}"}

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status, and what the answer says."""
        raw = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        for _ in range(2):
            try:
                self._line.request(method, path, raw, self._headers)
                answer = self._line.getresponse()
                return answer.status, json.loads(answer.read())
            except (ConnectionError, http.client.HTTPException):
                # The service closes what was idle. One that closes again, on a connection that is new, has not answered.
                self._line.close()
        return 0, None


class _Siege:
    """A service under attack, what was answered wrongly, and what honest callers were told."""

    def __init__(self, folder: Path, mutant: str | None, **options: Any) -> None:
        folder.mkdir(parents=True)
        self.folder, self.options = folder, options
        self.wrong: list[str] = []
        self.key = create_key(folder / "keys.json", scopes=["decide", "outcome", "read"], days=None)
        self.specs: list[Path] = []
        self.share = _SHARE
        self._made = 0
        self.write_specs(_SHARE)
        self.start(mutant)

    def __enter__(self) -> _Siege:
        return self

    def __exit__(self, *error: object) -> None:
        self.served.kill()

    def write_specs(self, share: float) -> None:
        """All specs, with this limit."""
        self.share, self.specs = max(self.share, share), []
        for name, text in _SPECS.items():
            self.specs.append(self.folder / f"{name}.toml")
            self.specs[-1].write_text((_HEAD + text).format(name=name, share=share), encoding="utf-8")

    def start(self, mutant: str | None, *, clock_offset: float = 0.0, **more: Any) -> None:
        """Another process on the same journals."""
        options = {"data": self.folder / "data", "keys": self.folder / "keys.json", **self.options, **more}
        self.served = Served(self.specs, mutant=mutant, clock_offset=clock_offset, **options).wait()
        self.port, self.caller = self.served.port, Caller(self.served.port, self.key)

    def expect(self, experiment: str, kind: str, body: dict[str, Any], statuses: set[int]) -> None:
        """One request that must be answered so."""
        status, told = self.caller.call("POST", f"/v1/{kind}?experiment={experiment}", body)
        if status not in statuses:
            self.wrong.append(f"{experiment}: {str(body)[:80]} was answered {status}: {str(told)[:80]}")

    def revoked(self) -> None:
        """A key that is revoked after the head was read, before the body comes."""
        keys = self.folder / "keys.json"
        secret, body = create_key(keys), b'{"event_id": "revoked"}'
        head = f"POST /v1/decisions?experiment=plain HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {secret}\r\n"
        head += f"content-length: {len(body)}\r\nexpect: 100-continue\r\n\r\n"
        # The service looks for new keys once a second.
        other = Caller(self.port, secret)
        until(
            lambda: other.call("POST", "/v1/decisions?experiment=plain", {})[0] == 200, "the new key is known"
        )
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.port), PATIENCE)) as line:
            line.sendall(head.encode())
            # It asks for the body: the head was found good.
            told = line.recv(1_000)
            revoke_key(keys, secret.split("_")[1])
            line.sendall(body)
            told += line.recv(1_000)
        if b" 100 " not in told or b" 401 " not in told:
            self.wrong.append(f"a key that was revoked before the body came: {told[:200]!r}")

    def honest(self, count: int, experiments: tuple[str, ...] = tuple(_SPECS), prefix: str = "") -> None:
        """Decisions, each with its outcome."""
        caller = Caller(self.port, self.key)
        for experiment in experiments:
            for i in range(count):
                self._made += 1
                event_id = f"{prefix}{i}" if prefix else f"event-{self._made}"
                self.honest_one(experiment, event_id, _offer(experiment, i), caller)

    def honest_one(
        self, experiment: str, event_id: str, offer: dict[str, Any], caller: Caller | None = None
    ) -> None:
        """A decision that must be made as promised, and its outcome."""
        caller = self.caller if caller is None else caller
        where = f"?experiment={experiment}"
        status, told = caller.call(
            "POST", f"/v1/decisions{where}", {"event_id": event_id, "explain": True, **offer}
        )
        if status != 200:
            self.wrong.append(f"{experiment}: an honest decision was answered {status}: {str(told)[:200]}")
            return
        chances = told["probabilities"]
        if not math.isclose(sum(chances.values()), 1.0, abs_tol=1e-9) or not 0.0 < told["probability"] <= 1.0:
            self.wrong.append(f"{experiment}: probabilities {chances}")
        for row in told["explanation"]["actions"]:
            if row["reward"] is None or not -1.0 <= row["reward"] <= 2.0:
                self.wrong.append(f"{experiment}: expects a reward of {row['reward']} in [0, 1]")
        status, told = caller.call(
            "POST", f"/v1/outcomes{where}", _outcome(experiment, event_id, told["name"])
        )
        if status != 200:
            self.wrong.append(f"{experiment}: an honest outcome was answered {status}: {str(told)[:200]}")

    def state(self, experiment: str) -> Any:
        status, told = self.caller.call("GET", f"/v1/state?experiment={experiment}")
        assert status == 200, told
        return told

    def judge(self, experiments: tuple[str, ...] = tuple(_SPECS)) -> None:
        """The rule holds over all decisions, and leaves nothing that it allows."""
        for experiment in experiments:
            share = self.state(experiment)["actions"][0]["share"]
            if not self.share - 3 * _SLACK <= share <= self.share + _SLACK:
                self.wrong.append(f"{experiment}: at most {self.share:.0%} allowed, but {share:.1%} chosen")

    def replay(self) -> None:
        """Every journal comes out as recorded, and so does the restored copy of its backup."""
        for experiment in _SPECS:
            backup, place = (self.folder / f"{experiment}.{one}.sqlite" for one in ("copy", "restored"))
            source = SqliteJournal(self.folder / "data" / f"{experiment}.sqlite")
            try:
                with contextlib.closing(source):
                    source.open()
                    report = verify(source)
                    copy_to_file(source, backup)
                restore(backup, place)
                with contextlib.closing(open_journal(place)) as copy:
                    if verify(copy) != report:
                        self.wrong.append(f"{experiment}: the restored backup differs")
            except JournalDamaged as error:
                self.wrong.append(f"{experiment}: {error}")
