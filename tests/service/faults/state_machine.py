"""A hypothesis state machine: the service on a disk that loses power, against the model."""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import apsw
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from faults.model import EXPIRE, MAX_PENDING, Model, model_spec, shown
from faults.power import Change, Disk, PowerLost, journal_on
from tightrope.service.answer import Answer
from tightrope.service.http import handlers
from tightrope.service.offline.replay import verify
from tightrope.service.requests import ModeRequest, SnapshotRequest
from workbench import Bench

EVENTS = st.integers(0, 24).map(lambda i: f"event-{i}")
DECIDE = st.tuples(st.just("decide"), EVENTS, st.sampled_from([20.0, 20.0, 20.0, 70.0]), st.none())
LEARN = st.tuples(
    st.just("learn"), EVENTS, st.sampled_from([None, 0.0, 0.5, 1.0]), st.sampled_from([None, 0.0, 0.25, 0.7])
).filter(lambda one: one[2:] != (None, None))
REQUESTS = st.lists(st.one_of(DECIDE, DECIDE, LEARN), min_size=1, max_size=6)

Request = tuple[str, str, Any, Any]


class ServiceMachine(RuleBasedStateMachine):
    """Requests in batches, retried, reordered and repeated; crashes between batches and inside them; errors of the disk."""

    synchronous = "FULL"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="tightrope-machine-"))
        self.model = Model()
        self.now = 1_000_000.0
        self.labels = 0
        self.disk = Disk()
        self.stack = ExitStack()
        self.start()

    def start(self) -> None:
        journal = self.stack.enter_context(journal_on(self.disk, self.folder, synchronous=self.synchronous))
        self.bench = Bench(
            model_spec(), journal, snapshot_every=9, expire_after=EXPIRE, max_pending=MAX_PENDING
        )
        self.bench.now = self.now

    # What is asked

    def ops(self, requests: list[Request]) -> list[Any]:
        made = []
        for kind, event_id, one, other in requests:
            if kind == "decide":
                made.append(self.bench.deciding({"event_id": event_id, **_body(one)}))
            else:
                parts = {"reward": one, "usage": None if other is None else {"hours": other}}
                made.append(
                    self.bench.learning(event_id, **{k: v for k, v in parts.items() if v is not None})
                )
        return made

    def expect(self, model: Model, requests: list[Request]) -> list[tuple[int, Any]]:
        model.begin(self.now)
        return [
            model.decide(event_id, _body(one), self.now)
            if kind == "decide"
            else model.learn(event_id, one, other)
            for kind, event_id, one, other in requests
        ]

    @rule(requests=REQUESTS)
    def ask(self, requests: list[Request]) -> None:
        expected = self.expect(self.model, requests)
        answers = self.bench.experiment.process(self.ops(requests))
        assert [_said(answer) for answer in answers] == expected

    @rule(requests=REQUESTS, data=st.data())
    def ask_again_in_another_order(self, requests: list[Request], data: st.DataObject) -> None:
        self.ask(requests)
        self.ask(data.draw(st.permutations(requests)))

    @rule(seconds=st.sampled_from([0.0, 1.0, 15.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.bench.now = self.now

    @rule(mode=st.sampled_from(["live", "live", "shadow", "paused"]))
    def change_mode(self, mode: Any) -> None:
        request = ModeRequest(mode=mode, default="other" if mode == "shadow" else None)
        self.model.begin(self.now)
        self.model.mode = mode
        assert self.bench.ask(handlers.change_mode, request).status == 200

    @precondition(lambda self: self.labels < 5)
    @rule()
    def keep(self) -> None:
        self.labels += 1
        self.model.begin(self.now)
        request = SnapshotRequest(label=f"label {self.labels}")
        assert self.bench.ask(handlers.take_snapshot, request).status == 200

    # What goes wrong

    @rule(orderly=st.booleans())
    def restart(self, orderly: bool) -> None:
        """The process ends, in order or by kill -9; the machine stays up."""
        before = self.bench.digest()
        if orderly:
            self.bench.experiment.close()
        self.revive({name: bytes(content) for name, content in self.disk.seen.items()})
        assert self.bench.digest() == before

    @rule(requests=REQUESTS, changes=st.integers(0, 25), loss=st.sampled_from([0.0, 0.5, 1.0]))
    def lose_power(self, requests: list[Request], changes: int, loss: float) -> None:
        """While a batch is written: it is there as a whole, or not at all."""
        left = changes

        def cut(change: Change) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerLost

        after = self.model.copy()
        expected = self.expect(after, requests)
        at = self.bench.journal.last()
        ops = self.ops(requests)
        self.disk.before = cut
        answers = self.bench.experiment.process(ops)
        acknowledged = not self.disk.dead
        self.revive(self.disk.after(len(self.disk.log), loss=loss, seed=changes))
        if acknowledged:
            assert [_said(answer) for answer in answers] == expected
        if acknowledged or self.bench.journal.last() > at:
            self.model = after

    @rule(requests=REQUESTS, kind=st.sampled_from(["write", "sync"]), at=st.integers(0, 3))
    def fail_once(self, requests: list[Request], kind: str, at: int) -> None:
        """The disk refuses one write or sync: 503, and the batch is there as a whole or not at all; or it did not matter."""
        left = at

        def fail(change: Change) -> None:
            nonlocal left
            if change.kind == kind:
                left -= 1
                if left == -1:
                    raise apsw.FullError("full") if kind == "write" else apsw.IOError("fsync")

        after = self.model.copy()
        expected = self.expect(after, requests)
        at_first = self.bench.journal.last()
        self.disk.before = fail
        answers = self.bench.experiment.process(self.ops(requests))
        self.disk.before = lambda change: None
        if self.bench.experiment.status == "ready":
            assert [_said(answer) for answer in answers] == expected
        else:
            assert {answer.status for answer in answers} == {503}
        if self.bench.experiment.status == "ready" or self.bench.journal.last() > at_first:
            self.model = after

    def revive(self, files: dict[str, bytes]) -> None:
        self.disk.dead = True
        self.stack.close()
        self.disk = Disk(files)
        self.start()

    # What holds at all times

    @invariant()
    def agrees(self) -> None:
        self.model.begin(self.now)
        assert shown(self.bench.state()) == self.model.state()

    def teardown(self) -> None:
        try:
            assert verify(self.bench.journal).digest == self.bench.digest()
        finally:
            self.disk.dead = True
            with suppress(PowerLost):
                self.stack.close()
            shutil.rmtree(self.folder)


def _body(age: float) -> dict[str, Any]:
    return {"context": {"age": age, "sex": "f"}}


def _said(answer: Answer) -> tuple[int, Any]:
    body = json.loads(answer.body)
    return answer.status, body if answer.status == 200 else body["error"]["code"]
