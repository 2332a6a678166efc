"""One experiment: a machine and its journal, changed in batches that are durable before anyone hears of them.

>>> from tightrope.service.bodies import read_decision, read_outcome
>>> from tightrope.service.journal import MemoryJournal
>>> from tightrope.spec import make_spec
>>> spec = make_spec({"name": "beds", "actions": ["icu", "other"]})
>>> beds = Experiment(spec, MemoryJournal())
>>> beds.open()
>>> [first] = beds.process([beds.decide(read_decision(b'{"event_id": "visit-1"}'))])
>>> first
Answer(status=200, body=b'{"event_id":"visit-1","action":0,"name":"icu","sequence":0}', retry_after=None)
>>> [again] = beds.process([beds.decide(read_decision(b'{"event_id": "visit-1"}'))])
>>> again == first
True
>>> beds.process([beds.learn(read_outcome(b'{"event_id": "visit-1", "reward": 1}'))])[0].status
200
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

import tightrope
from tightrope.errors import InvalidInput
from tightrope.features import Number
from tightrope.policies.slater import measure
from tightrope.service import views
from tightrope.service.bodies import (
    LIMITS,
    DecisionRequest,
    Limits,
    ModeRequest,
    OutcomeRequest,
    Refusal,
    RollbackRequest,
    SnapshotRequest,
    fingerprint,
)
from tightrope.service.journal import (
    KINDS,
    Decided,
    Entry,
    Expired,
    Journal,
    JournalDamaged,
    JournalError,
    Learnt,
    ModeChanged,
    Refused,
    RolledBack,
    Row,
    Snapshot,
    Started,
    entry_of,
    row_of,
)
from tightrope.service.machine import AWAITS_COSTS, AWAITS_REWARD, Machine, digest_of
from tightrope.spec import Spec

__all__ = ["Answer", "Experiment", "Op"]

log = logging.getLogger("tightrope.service")

Status: TypeAlias = Literal["closed", "ready", "standby", "failing"]

_KEPT_SNAPSHOTS: Final = 16
_RETRY_SECONDS: Final = 1


class Answer(NamedTuple):
    """What is sent back: HTTP status, JSON, and after how many seconds to try again."""

    status: int
    body: bytes
    retry_after: int | None = None


class Op(NamedTuple):
    """One request to an experiment; `event_id` is looked up in the journal before `run` is called."""

    run: Callable[[_Batch], Answer]
    event_id: str | None = None


class _Batch:
    """What becomes durable together."""

    def __init__(self, machine: Machine, now: int, found: Sequence[Row]) -> None:
        self.machine = machine
        self.now = max(now, machine.time)
        self.rows: list[Row] = []
        self.snapshots: list[Snapshot] = []
        self.drop: list[int] = []
        self._decided: dict[str, Decided] = {}
        self._learnt: dict[str, list[Learnt]] = {}
        for row in found:
            self._note(entry_of(row))

    def write(self, entry: Entry) -> None:
        """Put what has just happened to the machine into the journal."""
        row = row_of(self.machine.position + 1, self.now, entry)
        self.rows.append(row)
        self.machine.advance(row)
        self._note(entry)

    def decided(self, event_id: str) -> Decided | None:
        """The decision of an event, of this batch or before."""
        return self._decided.get(event_id)

    def learnt(self, event_id: str) -> list[Learnt]:
        """The parts of an event's outcome so far."""
        return self._learnt.get(event_id, [])

    def snapshot(self, label: str | None) -> Snapshot:
        """Keep the state as it is now."""
        state, digest = self.machine.snapshot()
        taken = Snapshot(self.machine.position, self.now, digest, label, state)
        self.snapshots.append(taken)
        return taken

    def _note(self, entry: Entry) -> None:
        if isinstance(entry, Decided):
            self._decided[entry.event_id] = entry
        elif isinstance(entry, Learnt):
            self._learnt.setdefault(entry.event_id, []).append(entry)


class Experiment:
    """The one place where an experiment changes. One thread at a time may call `open`, `process` and `close`.

    Parameters
    ----------
    spec : Spec
    journal : Journal
    expire_after : float
        Seconds until a decision without its whole outcome is no longer waited for.
    max_pending : int
        Decisions waited for at most.
    snapshot_every : int
        Entries between two snapshots; more where many decisions are pending, since each snapshot holds them.
    accept_changes : bool
        Whether to go on under a spec that differs from the journal's, where what was learnt fits.
    limits : Limits
    clock : callable
        Seconds since 1970.
    """

    def __init__(
        self,
        spec: Spec,
        journal: Journal,
        *,
        expire_after: float = 30 * 86_400.0,
        max_pending: int = 100_000,
        snapshot_every: int = 20_000,
        accept_changes: bool = False,
        limits: Limits = LIMITS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.limits = limits
        self.journal = journal
        self.status: Status = "closed"
        self.trouble = "not open yet"
        self._config = Machine(spec, expire_after=expire_after, max_pending=max_pending).started(
            tightrope.__version__
        )
        self._machine: Machine | None = None
        self._snapshot_every = snapshot_every
        self._accept_changes = accept_changes
        self._snapshot_at = 0
        self._clock = clock
        self._next_try = 0.0
        self._measuring = False
        self._measure_from = 0

    # Its life

    def open(self) -> None:
        """Take the journal and rebuild the state; or stand by where another process has it.

        Raises
        ------
        JournalLocked
            Another process writes the journal, and it is not of the kind where one stands by.
        JournalError
            The journal can't be read or written, or was written for another spec.
        """
        if not self.journal.open():
            self._stand_by()
            return
        self._load()

    def close(self) -> None:
        """Keep a snapshot, so that the next start has nothing to replay, and let go of the journal."""
        machine = self._machine
        if self.status == "ready" and machine is not None and machine.position > self._snapshot_at:
            batch = _Batch(machine, self._now(), [])
            batch.snapshot(None)
            self._prune(batch)
            with contextlib.suppress(JournalError):
                self.journal.append([], batch.snapshots, batch.drop)
        self.status, self.trouble, self._machine = "closed", "the service is stopping", None
        self.journal.close()

    def warm_up(self) -> None:
        """Compile what decisions need, on a copy: the first caller should not wait for that."""
        machine = Machine(self.spec)
        with contextlib.suppress(InvalidInput, Refusal):
            entry = machine.decide("warm-up", _example(self.spec), time=0)
            machine.learn(entry.number, reward=0.5)
            if machine.measures:
                measure(machine.policy.slater_sample())

    def process(self, ops: Sequence[Op]) -> list[Answer]:
        """Run operations in order, make what they changed durable at once, and only then give their answers."""
        machine = self._ready()
        if machine is None:
            return [_unavailable(self)] * len(ops)
        try:
            wanted = {op.event_id for op in ops if op.event_id is not None}
            found = self.journal.find(wanted) if wanted else []
        except JournalError as error:
            self._fail(error)
            return [_unavailable(self)] * len(ops)
        batch = _Batch(machine, self._now(), found)
        answers: list[Answer] = []
        try:
            expired = machine.expire(batch.now)
            if expired is not None:
                batch.write(expired)
            for op in ops:
                answers.append(_run(op, batch))
            self._snapshot_when_due(batch)
            if batch.rows or batch.snapshots or batch.drop:
                self.journal.append(batch.rows, batch.snapshots, batch.drop)
        except JournalError as error:
            self._fail(error)
            return [_unavailable(self)] * len(ops)
        except Exception as error:
            # A defect of ours. The machine may be half way: it is rebuilt from the journal.
            log.exception("experiment %r: an operation failed; its batch is undone", self.name)
            self._fail(error)
            failed = Refusal(500, "internal", "an error inside the service; nothing of this request was kept")
            lost = [_unavailable(self)] * len(ops)
            if len(answers) < len(ops):
                lost[len(answers)] = Answer(failed.status, failed.body())
            return lost
        return answers

    def slater_job(self) -> Callable[[], Op] | None:
        """Where Slater's constant is due: a function for any thread that measures it and gives the operation to run next."""
        machine = self._machine
        if self.status != "ready" or machine is None or self._measuring or not machine.slater_due:
            return None
        sample, rounds = machine.policy.slater_sample(), machine.policy.rounds
        if rounds < self._measure_from:
            return None
        self._measuring = True

        def job() -> Op:
            value: float | None = None
            try:
                value = measure(sample)
            except Exception:
                # On a thread of its own there is no one else to tell, and a stale δ is still a valid one.
                log.exception("experiment %r: Slater's constant stays as it was", self.name)

            def run(batch: _Batch) -> Answer:
                self._measuring = False
                if value is None:
                    self._measure_from = 2 * rounds
                else:
                    batch.write(batch.machine.take_slater(value, rounds))
                return _json(200, {"slater": value, "rounds": rounds})

            return Op(run)

        return job

    # What callers do

    def decide(self, request: DecisionRequest) -> Op:
        """Choose an action for an event, once."""
        event_id = request.event_id if request.event_id is not None else _new_event_id()

        def run(batch: _Batch) -> Answer:
            earlier = batch.decided(event_id)
            if earlier is None:
                entry = batch.machine.decide(event_id, request, time=batch.now)
                batch.write(entry)
            elif earlier.fingerprint == fingerprint(request):
                entry = earlier
            else:
                raise Refusal(
                    409,
                    "differs",
                    f"event_id {event_id!r} was decided already, for another request: one decision for each event",
                )
            return _json(200, views.decision(batch.machine, entry, explain=request.explain))

        return Op(run, request.event_id)

    def learn(self, request: OutcomeRequest) -> Op:
        """Apply an outcome, or the part of it that is new."""
        if request.reward is not None and not abs(request.reward) <= self.limits.reward:
            raise Refusal(
                422,
                "invalid",
                f"reward must lie in [-{self.limits.reward:g}, {self.limits.reward:g}], but got {request.reward:g}",
            )

        def run(batch: _Batch) -> Answer:
            return _learn(batch, request)

        return Op(run, request.event_id)

    # What readers ask

    def decision(self, event_id: str) -> Op:
        """A decision, its outcome so far, and why it was taken."""

        def run(batch: _Batch) -> Answer:
            entry = batch.decided(event_id)
            if entry is None:
                raise Refusal(404, "unknown", f"no decision was made for event_id {event_id!r}")
            return _json(
                200,
                {
                    **views.decision(batch.machine, entry, explain=True),
                    "request": entry.request,
                    "outcome": views.outcome(batch.learnt(event_id)),
                    "pending": entry.number in batch.machine.waiting,
                },
            )

        return Op(run, event_id)

    def decisions(self, before: int | None = None, limit: int = 20) -> Op:
        """The newest decisions, newest first, with the numbers behind them."""

        def run(batch: _Batch) -> Answer:
            rows = self.journal.select([KINDS[Decided]], before=before, limit=limit)
            listed = []
            for row in rows:
                entry = entry_of(row)
                assert isinstance(entry, Decided)
                listed.append(
                    {
                        "position": row.position,
                        "time": row.time / 1e6,
                        **views.decision(batch.machine, entry, explain=True),
                        "request": entry.request,
                    }
                )
            return _json(200, {"decisions": listed, "before": _next(rows, limit)})

        return Op(run)

    def outcomes(
        self,
        which: Literal["late", "rejected", "missing", "pending"],
        before: int | None = None,
        limit: int = 20,
    ) -> Op:
        """Outcomes that went wrong: late, rejected (unknown event, or at odds with an earlier one), missing; or still pending."""

        def run(batch: _Batch) -> Answer:
            if which == "pending":
                listed, at = views.pending(batch.machine, before, limit)
                return _json(200, {"outcomes": listed, "before": at})
            kind = Expired if which == "missing" else Refused
            rows = self.journal.select([KINDS[kind]], before=before, limit=limit)
            listed = []
            for row in rows:
                entry, when = entry_of(row), row.time / 1e6
                if isinstance(entry, Expired):
                    listed += [
                        {"event_id": event_id, "sequence": number, "expired": when}
                        for number, event_id in zip(entry.numbers, entry.event_ids, strict=True)
                    ]
                elif isinstance(entry, Refused) and (entry.reason == "late") == (which == "late"):
                    listed.append(
                        {
                            "event_id": entry.event_id,
                            "reason": entry.reason,
                            "time": when,
                            "reward": entry.reward,
                            "costs": entry.costs,
                        }
                    )
            return _json(200, {"outcomes": listed, "before": _next(rows, limit)})

        return Op(run)

    def state(self) -> Op:
        """Where the experiment stands."""
        return Op(lambda batch: _json(200, views.state(batch.machine)))

    def history(self) -> Op:
        """Where the experiment stood, at some hundred moments since its beginning."""
        return Op(lambda batch: _json(200, views.history(batch.machine)))

    def changes(self, before: int | None = None, limit: int = 20) -> Op:
        """Changes of configuration: starts, modes, rollbacks."""

        def run(batch: _Batch) -> Answer:
            kinds = [KINDS[kind] for kind in (Started, ModeChanged, RolledBack)]
            rows = self.journal.select(kinds, before=before, limit=limit)
            listed = []
            for row in rows:
                plain = msgspec.to_builtins(entry_of(row), builtin_types=(bytes,))
                plain.pop("state", None)
                listed.append({"position": row.position, "time": row.time / 1e6, **plain})
            return _json(200, {"changes": listed, "before": _next(rows, limit)})

        return Op(run)

    def snapshots(self) -> Op:
        """The snapshots that can be rolled back to."""

        def run(batch: _Batch) -> Answer:
            return _json(200, {"snapshots": [views.snapshot(one) for one in self.journal.snapshots()]})

        return Op(run)

    # What administrators change

    def change_mode(self, request: ModeRequest) -> Op:
        """Go live, into shadow mode, or pause."""

        def run(batch: _Batch) -> Answer:
            batch.write(batch.machine.change_mode(request.mode, request.default))
            return _json(200, views.mode(batch.machine))

        return Op(run)

    def take_snapshot(self, request: SnapshotRequest) -> Op:
        """Keep the present state under a name."""
        return Op(lambda batch: _json(200, views.snapshot(batch.snapshot(request.label))))

    def roll_back(self, request: RollbackRequest) -> Op:
        """Go back to a snapshot."""

        def run(batch: _Batch) -> Answer:
            wanted = self.journal.snapshot(request.position)
            if wanted is None:
                raise Refusal(404, "unknown", f"there is no snapshot at position {request.position}")
            if wanted.position < batch.machine.configured:
                raise Refusal(
                    409,
                    "differs",
                    f"the rules have changed at position {batch.machine.configured}, after this snapshot was taken",
                )
            if digest_of(wanted.state) != wanted.digest:
                raise Refusal(
                    409, "damaged", f"the snapshot at position {request.position} does not match its digest"
                )
            batch.write(batch.machine.roll_back(request.position, wanted.state, request.restore))
            return _json(200, {"position": batch.machine.position, "restored": views.snapshot(wanted)})

        return Op(run)

    # Helpers

    def _ready(self) -> Machine | None:
        """The machine; after trouble, from time to time, try to get it back."""
        if self.status in ("standby", "failing") and time.monotonic() >= self._next_try:
            self._next_try = time.monotonic() + _RETRY_SECONDS
            try:
                if not self.journal.open():
                    self._stand_by()
                    return None
                self.journal.probe()
                self._load()
            except Exception as error:
                self.status, self.trouble, self._machine = "failing", str(error), None
                log.error(
                    "experiment %r: still no journal: %s",
                    self.name,
                    error,
                    exc_info=not isinstance(error, JournalError),
                )
        return self._machine if self.status == "ready" else None

    def _stand_by(self) -> None:
        if self.status != "standby":
            log.info("experiment %r: another process is active; standing by", self.name)
        self.status, self.trouble = (
            "standby",
            "another process is active for this experiment; this one stands by",
        )
        self._machine = None

    def _fail(self, error: Exception) -> None:
        log.error("experiment %r: no decisions until the journal can be written: %s", self.name, error)
        self.status, self.trouble = "failing", str(error) or type(error).__name__
        self._machine = None
        self._next_try = time.monotonic()

    def _load(self) -> None:
        """The state from the newest sound snapshot and the rows after it."""
        self._machine = None
        self._measuring = False
        began = time.monotonic()
        if self.journal.last() == 0:
            machine = Machine(
                self.spec, expire_after=self._config.expire_after, max_pending=self._config.max_pending
            )
            batch = _Batch(machine, self._now(), [])
            batch.write(self._config)
            self.journal.append(batch.rows)
        else:
            machine = self._rebuilt()
            self._reconfigure(machine)
        self._machine = machine
        self.status, self.trouble = "ready", ""
        log.info(
            "experiment %r: ready at position %d after %.2f s",
            self.name,
            machine.position,
            time.monotonic() - began,
        )

    def _rebuilt(self) -> Machine:
        first = next(self.journal.rows(), None)
        assert first is not None
        machine = Machine.begin(first, self.spec.source)
        self._snapshot_at = machine.position
        for snapshot in reversed(self.journal.snapshots()):
            saved = self.journal.snapshot(snapshot.position)
            if saved is not None and digest_of(saved.state) == saved.digest:
                # The configuration that was in force then.
                [row] = self.journal.select([KINDS[Started]], before=saved.position + 1, limit=1)
                entry = entry_of(row)
                assert isinstance(entry, Started)
                machine = Machine.of(entry, self.spec.source)
                machine.restore(saved.state)
                self._snapshot_at = saved.position
                break
            log.error(
                "experiment %r: the snapshot at position %d is damaged; using an older one",
                self.name,
                snapshot.position,
            )
        last = self.journal.last()
        if machine.position > last:
            raise JournalDamaged(
                f"the newest snapshot is of position {machine.position}, but the journal ends at {last}."
            )
        for row in self.journal.rows(after=machine.position):
            machine.replay(row)
        return machine

    def _reconfigure(self, machine: Machine) -> None:
        """Bring a rebuilt machine to the configuration that was asked for, by way of the journal."""
        wanted, present = self._config, machine.started(tightrope.__version__)
        if wanted == present:
            return
        changed = [
            key for key in {**present.spec, **wanted.spec} if present.spec.get(key) != wanted.spec.get(key)
        ]
        if changed and not self._accept_changes:
            raise JournalError(
                f"{self.spec.source}: {', '.join(changed)} differ from what the journal of {self.name!r} says. Put them back; or "
                "accept the changes, which keeps what was learnt and spent; or give the experiment a new name, to start afresh."
            )
        batch = _Batch(machine, self._now(), [])
        try:
            batch.write(machine.reconfigure(wanted))
        except InvalidInput as error:
            raise JournalError(str(error)) from error
        self.journal.append(batch.rows)

    def _snapshot_when_due(self, batch: _Batch) -> None:
        machine = batch.machine
        every = max(self._snapshot_every, len(machine.waiting))
        if machine.position - self._snapshot_at >= every:
            batch.snapshot(None)
        if batch.snapshots:
            self._snapshot_at = machine.position
            self._prune(batch)

    def _prune(self, batch: _Batch) -> None:
        nameless = [one.position for one in self.journal.snapshots() if one.label is None]
        batch.drop += nameless[: max(0, len(nameless) - _KEPT_SNAPSHOTS + 1)]

    def _now(self) -> int:
        return int(self._clock() * 1e6)


def _run(op: Op, batch: _Batch) -> Answer:
    try:
        return op.run(batch)
    except Refusal as refusal:
        return Answer(refusal.status, refusal.body(), refusal.retry_after)
    except InvalidInput as error:
        message = str(error).rstrip(".")
        invalid = Refusal(422, "invalid", message if len(message) <= 600 else message[:597] + "...")
        return Answer(invalid.status, invalid.body())


def _learn(batch: _Batch, request: OutcomeRequest) -> Answer:
    machine, event_id = batch.machine, request.event_id
    decided = batch.decided(event_id)
    if decided is None:
        batch.write(machine.refuse(event_id, "unknown", request.reward, request.costs))
        raise Refusal(404, "unknown", f"no decision was made for event_id {event_id!r}")
    fresh: dict[str, Any] = {}
    earlier = views.outcome(batch.learnt(event_id))
    for part in ("reward", "costs"):
        value = getattr(request, part)
        if value is None:
            continue
        if part not in earlier:
            fresh[part] = value
        elif earlier[part] != value:
            batch.write(machine.refuse(event_id, "differs", request.reward, request.costs))
            raise Refusal(
                409,
                "differs",
                f"{part} of event_id {event_id!r} was {earlier[part]!r} before, but now is {value!r}",
            )
    waiting = machine.waiting.get(decided.number)
    if fresh and waiting is None:
        batch.write(machine.refuse(event_id, "late", request.reward, request.costs))
        raise Refusal(
            410,
            "late",
            f"the decision of event_id {event_id!r} is waited for no longer: it expired, or was rolled back",
        )
    if fresh:
        batch.write(machine.learn(decided.number, **fresh))
        waiting = machine.waiting.get(decided.number)
    awaits = 0 if waiting is None else waiting.awaits
    missing = [name for name, bit in (("reward", AWAITS_REWARD), ("costs", AWAITS_COSTS)) if awaits & bit]
    return _json(200, {"event_id": event_id, "sequence": decided.number, "awaits": missing})


_json_encoder = msgspec.json.Encoder()


def _json(status: int, value: Any) -> Answer:
    return Answer(status, _json_encoder.encode(value))


def _unavailable(experiment: Experiment) -> Answer:
    # What the journal says of itself, with paths and errors of the disk, is for the log, not for callers.
    words = {
        "standby": "another process is active for this experiment; this one stands by",
        "failing": "the journal can't be written now; try again with the same event_id",
        "closed": "the service is starting or stopping",
    }
    status = experiment.status if experiment.status in words else "closed"
    refusal = Refusal(503, "unavailable" if status != "standby" else "standby", words[status])
    return Answer(503, refusal.body(), _RETRY_SECONDS)


def _new_event_id() -> str:
    """Unique, and in the order of time, which keeps the journal's index compact."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def _next(rows: Sequence[Row], limit: int) -> int | None:
    return rows[-1].position if len(rows) == limit else None


def _example(spec: Spec) -> DecisionRequest:
    """A request that the spec may accept."""
    context: dict[str, float | str] = {
        name: float(field.min) if isinstance(field, Number) else field.values[0]
        for name, field in spec.context.items()
    }
    low: dict[str, Any] = {
        usage: rule.quantity.range[0]
        for rule in spec.rules or ()
        if (usage := rule.quantity.usage) is not None and rule.seen == "before" and usage not in spec.usage
    }
    grouped = any(rule.among is not None for rule in spec.rules or ())
    return DecisionRequest(
        context=context if context else None, usage=low or None, group=[] if grouped else None
    )
