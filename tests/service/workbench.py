"""What the tests of the service share: specs, an experiment with a clock of its own, a server in a thread."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvicorn

from tightrope.offer import Offer
from tightrope.policies import Policy
from tightrope.service.answer import Answer
from tightrope.service.experiment import Experiment, Op
from tightrope.service.http import handlers
from tightrope.service.http.app import Service
from tightrope.service.http.server import UVICORN
from tightrope.service.journal.contract import Journal, Snapshot
from tightrope.service.journal.rows import Row
from tightrope.service.requests import (
    DecisionRequest,
    ModeRequest,
    OutcomeRequest,
    RollbackRequest,
    SnapshotRequest,
    read_body,
)
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import Spec, make_spec
from waiting import PATIENCE

CONTEXT = {
    "age": {"type": "number", "min": 0, "max": 100, "outside": "refuse"},
    "sex": {"type": "category", "values": ["f", "m"]},
}

# The paper's policy with δ given: it draws nothing, so that a test can say what comes next.
PAPER: dict[str, Any] = {"kind": "pessimistic-optimistic", "slater": 0.2}


def ward(name: str = "ward", **changes: Any) -> Spec:
    """Three wards, one rule of each time of seeing, δ given."""
    return make_spec(
        {
            "name": name,
            "actions": ["icu", "surgery", "other"],
            "context": CONTEXT,
            "rule": [
                {"kind": "capacity", "action": "icu", "at_most": 0.4},
                {"kind": "budget", "name": "hours", "at_most": 0.6, "seen": "after"},
            ],
            "policy": PAPER,
            **changes,
        }
    )


def measured(name: str = "measured") -> Spec:
    """Costs seen before acting, δ measured."""
    return make_spec(
        {
            "name": name,
            "actions": ["a", "b"],
            "context": CONTEXT,
            "rule": [{"kind": "capacity", "action": "a", "at_most": 0.4}],
            "policy": {**PAPER, "slater": "measure"},
        }
    )


def arms(name: str = "arms", rules: list[dict[str, Any]] | None = None, **policy: Any) -> Spec:
    """Two arms without context."""
    return make_spec(
        {"name": name, "actions": ["a", "b"], "rule": rules or [], "policy": {**PAPER, **policy}}
    )


def visit(i: int, **more: Any) -> bytes:
    body = {"event_id": f"visit-{i}", "context": {"age": (37 * i) % 100, "sex": "fm"[i % 2]}, **more}
    return json.dumps(body).encode()


def arguments(offer: Offer, policy: Policy) -> dict[str, Any]:
    """An offer as the arguments of `decide`."""
    asks = policy.hooks.setting()
    given: dict[str, Any] = {"features": offer.phi, "cost_features": offer.psi, "group": offer.group}
    given["costs"] = offer.W if asks is not None and np.any(asks.seen_before) else None
    given["actions"] = None if offer.whole else offer.ids
    return {**given, **({"context": offer.context} if policy.hooks.sees_context else {})}


class Bench:
    """An experiment without threads, at a time that the test sets."""

    def __init__(self, spec: Spec, journal: Journal | None = None, **options: Any) -> None:
        self.now = 1_000_000.0
        self.journal: Journal = MemoryJournal() if journal is None else journal
        self.spec = spec
        self.options = options
        self.experiment = self.reopened()

    def reopened(self) -> Experiment:
        """Another start on the same journal."""
        experiment = Experiment(self.spec, self.journal, clock=lambda: self.now, **self.options)
        experiment.open()
        self.experiment = experiment
        return experiment

    def ask(self, operation: Any, request: Any = None) -> Answer:
        """A batch of one."""
        return self.experiment.process([Op(operation, request)])[0]

    def decide(self, body: bytes | dict[str, Any]) -> Answer:
        return self.experiment.process([self.deciding(body)])[0]

    def deciding(self, body: bytes | dict[str, Any]) -> Op:
        return Op(handlers.decide, read_body(_raw(body), DecisionRequest))

    def learn(self, event_id: str, **outcome: Any) -> Answer:
        return self.experiment.process([self.learning(event_id, **outcome)])[0]

    def learning(self, event_id: str, **outcome: Any) -> Op:
        return Op(handlers.learn, read_body(_raw({"event_id": event_id, **outcome}), OutcomeRequest))

    def work(self) -> None:
        """What a thread in the background does, until there is nothing left to do."""
        while (job := self.experiment.background_job()) is not None:
            self.experiment.process([job()])

    def state(self) -> dict[str, Any]:
        return read(self.ask(handlers.show_state))

    def digest(self) -> str:
        """Of the whole state, bit for bit."""
        state = self.experiment._state
        assert state is not None, self.experiment.trouble
        return state.snapshot()[1]


def _raw(body: bytes | dict[str, Any]) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def read(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer
    value: dict[str, Any] = json.loads(answer.body)
    return value


def code(answer: Answer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body)["error"]["code"]


class SlowJournal(MemoryJournal):
    """Writes nothing before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()

    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        self.gate.wait(PATIENCE)
        super().append(rows, snapshots, drop)


def metrics(text: str) -> dict[str, float]:
    """The numbers that Prometheus would read, by name and labels."""
    pairs = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


@contextlib.contextmanager
def running(service: Service, **settings: Any) -> Iterator[httpx.Client]:
    """The service on a free port, and a client for it."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(service, **{**UVICORN, **settings}))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=PATIENCE
        ) as client:
            while not server.started:
                assert thread.is_alive(), "the server did not start"
                time.sleep(0.01)
            yield client
    finally:
        server.should_exit = True
        thread.join(timeout=PATIENCE)
        listener.close()
        assert not thread.is_alive()


def write_spec(folder: Path, name: str = "ward", **changes: Any) -> Path:
    """A spec as a file."""
    path = folder / f"{name}.toml"
    path.write_text(
        f"""
name = "{name}"
actions = ["icu", "surgery", "other"]

[context]
age = {{ type = "number", min = 0, max = 100, outside = "refuse" }}
sex = {{ type = "category", values = ["f", "m"] }}

[[rule]]
kind = "capacity"
action = "icu"
at_most = 0.4
{changes.get("rule", "")}

[policy]
kind = "pessimistic-optimistic"
slater = {changes.get("slater", 0.2)}
"""
    )
    return path


def play(bench: Bench, steps: int, seed: int = 0) -> None:
    """Everything that can happen, in a random order."""
    random = np.random.default_rng(seed)
    waiting: list[str] = []
    start = bench.journal.last()
    for i in range(steps):
        bench.now += float(random.uniform(0, 2))
        event_id = f"visit-{start}-{i}"
        choice = random.integers(12)
        if choice < 6:
            body = {
                "event_id": event_id,
                "context": {"age": float(random.uniform(0, 100)), "sex": "fm"[int(random.integers(2))]},
                "actions": [["icu", "other"], ["surgery", "icu"], None][int(random.integers(3))],
                "default": "icu",
            }
            if body["actions"] is None:
                del body["actions"]
            if bench.decide(json.dumps(body).encode()).status == 200:
                waiting.append(event_id)
        elif choice < 10 and waiting:
            one = waiting[int(random.integers(len(waiting)))]
            outcome: dict[str, Any] = {"reward": float(random.uniform())}
            if random.integers(2):
                outcome["usage"] = {"hours": float(random.uniform())}
            bench.learn(one, **outcome)
        elif choice == 10:
            mode = ["live", "shadow", "paused"][int(random.integers(3))]
            bench.ask(handlers.change_mode, ModeRequest(mode=mode))  # type: ignore[arg-type]
        elif bench.journal.snapshots() and random.integers(2):
            at = bench.journal.snapshots()[-1].position
            restore = ["learnt", "all"][int(random.integers(2))]
            request = RollbackRequest(position=at, restore=restore)  # type: ignore[arg-type]
            read(bench.ask(handlers.roll_back, request))
        else:
            request = SnapshotRequest(label=f"snapshot {i}")
            read(bench.ask(handlers.take_snapshot, request))
    bench.work()
