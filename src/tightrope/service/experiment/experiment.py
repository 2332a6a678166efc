"""One experiment: its state and its journal, changed in batches that are durable before anyone hears of them."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from tightrope.concerns import Concern
from tightrope.errors import Exhausted, InvalidInput, TooManyKeys
from tightrope.models.background import Result
from tightrope.service.answer import Answer, Refusal
from tightrope.service.experiment import configuration
from tightrope.service.experiment.batch import Batch, Op
from tightrope.service.experiment.changes import in_words
from tightrope.service.experiment.clock import SteadyClock
from tightrope.service.experiment.rebuild import finish_erasure, rebuilt
from tightrope.service.experiment.state import ExperimentState
from tightrope.service.experiment.warm_start import past_of
from tightrope.service.journal import JournalDamaged, JournalError, JournalUnreachable
from tightrope.service.journal.audit import Audit
from tightrope.service.journal.contract import Journal
from tightrope.service.journal.entries import KINDS, Snapshotted, Started, WarmStarted, label_after_erasure
from tightrope.service.journal.heads import Head, HeadFile
from tightrope.service.journal.rows import entry_of
from tightrope.service.requests import DecisionRequest, OutcomeRequest
from tightrope.spec import Spec, make_spec
from tightrope.version import __version__
from tightrope.words import JSON

log = logging.getLogger("tightrope.service")

# "differs": stands by, but its spec or settings differ from the active process's, or it knows of entries that the journal lacks.
# "damaged": an audit found that the journal was changed. "broken": all requests fail; "stuck": a batch is overdue; "dead": its
# thread died. The writer reports these three.
Status: TypeAlias = Literal[
    "closed", "ready", "standby", "differs", "failing", "damaged", "broken", "stuck", "dead"
]

_KEPT_SNAPSHOTS: Final = 16
# A snapshot holds all accounts per window: it waits for so many entries less than there are accounts, so that it costs each little.
_ACCOUNTS_PER_ENTRY: Final = 8
_RETRY_SECONDS: Final = 1
# When to try again with a key for which there is no room.
_KEYS_SECONDS: Final = 60
# After this many internal errors in a row, in decisions or in outcomes, the experiment is not ready.
ERRORS_IN_A_ROW: Final = 20
_WARM_UP_ROUNDS: Final = 5
# How often, while standing by, the active process's configuration is compared.
_COMPARE_SECONDS: Final = 2.0


# The frequent requests.
_CALLS: Final = (DecisionRequest, OutcomeRequest)


class Experiment:
    """The one place where an experiment changes. One thread at a time may call `open`, `process` and `close`.

    - expire_after, max_pending: How many seconds to wait for the whole outcome of a decision; how many decisions may be pending.
    - snapshot_every: Entries between two snapshots; more where many decisions are pending, since each snapshot holds them.
    - accept_changes: Whether to continue under a spec that differs from the journal's, if what was learnt still fits.
    - accept_clock: Whether to trust the machine's clock at the start, however far past the journal's last entry it is.
    - reset_caps: Hard caps, by the names that `/v1/state` gives them, that begin at 0 when such a change is accepted. Without a
      change nothing is reset: a service that starts twice does not refill them twice.
    - clock: Seconds since 1970; by default a `SteadyClock`, which does not jump when the machine's clock does.
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
        accept_clock: bool = False,
        reset_caps: Sequence[str] = (),
        clock: Callable[[], float] | None = None,
    ) -> None:
        # The spec as it was given, and as it is in force.
        self._given = self.spec = spec
        self.name = spec.name
        self.journal = journal
        self.status: Status = "closed"
        self.trouble = "not open yet"
        state = ExperimentState(spec, expire_after=expire_after, max_pending=max_pending)
        self._config = state.started(__version__)
        self._state: ExperimentState | None = None
        self._snapshot_every = snapshot_every
        self._accept_changes = accept_changes
        self._accept_clock = accept_clock
        self._reset_caps = list(reset_caps)
        self._heads = HeadFile(journal.head_file)
        self._snapshot_at = 0
        self.clock = SteadyClock() if clock is None else clock
        self._next_try = 0.0
        self._next_comparison = 0.0
        # Whether it has been active or stood by: from then on the journal's settings apply, which another process may have written.
        self._begun = False
        # Whether a thread works in the background.
        self._at_work = False
        # By type of request (decisions, outcomes): how many internal errors since the last success.
        self._errors: Counter[type] = Counter()
        # Whether an audit must still check the whole chain; how many rows it found intact; what it found.
        self._unchecked = False
        self.checked = 0
        self._damage: JournalDamaged | None = None
        # Kinds of concerns that this process has already logged.
        self._logged: set[str] = set()

    @property
    def state(self) -> ExperimentState | None:
        """What other threads may read but not change; None unless the experiment is ready."""
        return self._state if self.status == "ready" and self.journal.held() else None

    @property
    def broken(self) -> bool:
        """Whether the last decisions, or the last outcomes, all ended in internal errors."""
        return max(self._errors.values(), default=0) >= ERRORS_IN_A_ROW

    @property
    def purging(self) -> bool:
        """Whether snapshots still hold erased data: each batch, even an empty one, rewrites some of them."""
        return self._state is not None and bool(self._state.stale)

    # Its life

    def open(self) -> None:
        """Take the journal and rebuild the state; or stand by if another process has it.

        Raises `JournalLocked` if another process writes it and the storage has no stand-by, and `JournalError` if it can't be read
        or written, or belongs to another spec. If it can't be reached, the experiment keeps trying: the status is "failing".
        """
        try:
            active = self.journal.open()
        except JournalUnreachable as error:
            self._fail(error)
            return
        if active:
            self._load()
        else:
            self._heads.follow(self.journal)
            self._step_down()
            self._compare()

    def close(self) -> None:
        """Keep a snapshot, so that the next start has nothing to replay, and close the journal."""
        state = self._state
        if self.status == "ready" and state is not None and state.position > self._snapshot_at:
            batch = Batch(state, self.journal, self._now())
            batch.snapshot(None)
            self._snapshot_when_due(batch)
            with contextlib.suppress(JournalError):
                self.journal.append(batch.rows, batch.snapshots, batch.drop)
                self._heads.write(Head(state.position, state.head))
        self._heads.close()
        self.status, self.trouble, self._state = "closed", "the service is stopping", None
        self.journal.close()

    def warm_up(self) -> None:
        """Compile what decisions need, on a copy: no caller should wait for that, or for prices when rounds have doubled."""
        state = ExperimentState(self.spec)
        request, used = state.input.example()
        with contextlib.suppress(InvalidInput, Exhausted, Refusal):
            for round_number in range(_WARM_UP_ROUNDS):
                entry = state.decide(f"warm-up-{round_number}", request, time=0)
                state.learn(entry.number, reward=0.5, usage=used)
            if (due := state.background.due()) is not None:
                due[1]()

    def process(self, ops: Sequence[Op]) -> list[Answer]:
        """Run operations in order, make all their changes durable together, and only then return their answers.

        Only an operation that hits an internal error is answered 500: the others run again without it, from the journal's state.
        """
        failed: dict[int, Answer] = {}
        while True:
            left = [k for k in range(len(ops)) if k not in failed]
            if failed and not left:
                self._recovered()
                return [failed[k] for k in range(len(ops))]
            done = self._run([ops[k] for k in left])
            if not isinstance(done, int):
                answers = failed | dict(zip(left, done, strict=True))
                return [answers[k] for k in range(len(ops))]
            failed[left[done]] = _INTERNAL

    def _run(self, ops: Sequence[Op]) -> list[Answer] | int:
        """One attempt at a batch: the answers, or the number of the operation that failed, whose effects were discarded."""
        if self.status == "ready" and not self.journal.held():
            self._step_down()
        if self._damage is not None and self.status != "damaged":
            self.status, self.trouble, self._state = "damaged", str(self._damage), None
            self.journal.stand_aside(True)
        state = self._state if self.status == "ready" else self._recovered()
        if state is None:
            return [unavailable(self.status)] * len(ops)
        answers: list[Answer] = []
        try:
            # Look up the journal's entries for all events of the batch before running any operation.
            events = {one for op in ops if (one := getattr(op.request, "event_id", None)) is not None}
            batch = Batch(state, self.journal, self._now(), self.journal.find(events) if events else ())
            expired = state.expire(batch.now)
            if expired is not None:
                batch.write(expired)
            batch.begin_changes()
            for op in ops:
                batch.by, position = op.by, state.position
                try:
                    answers.append(op.operation(batch, op.request))
                    if self._errors:
                        self._errors.pop(type(op.request), None)
                except REFUSALS as error:
                    # An old row is damaged: the state does not depend on it, unless it was half changed.
                    if isinstance(error, JournalDamaged) and state.position != position:
                        raise
                    answers.append(refused(self.name, error))
                except Exception as error:
                    log.exception("experiment %r: an operation failed, and nothing of it is kept", self.name)
                    if not op.reads:
                        self.doubt([op], error)
                        return len(answers)
                    answers.append(_INTERNAL)
            batch.by = None
            if batch.forgets:
                batch.snapshot(label_after_erasure(state.position))
            batch.purge()
            self._snapshot_when_due(batch)
            if batch.rows or batch.snapshots or batch.drop:
                self._append(batch)
        except JournalError as error:
            self._fail(error)
            return [unavailable(self.status)] * len(ops)
        except Exception as error:
            log.exception("experiment %r: a batch failed", self.name)
            self.doubt(ops, error)
            return [TRY_AGAIN] * len(ops)
        return answers

    def background_job(self) -> Callable[[], Op] | None:
        """If there is background work, a function that does it on any thread and returns the operation to run next."""
        if self.status != "ready" or self._state is None or self._at_work:
            return None
        background = self._state.background
        if (due := background.due()) is None:
            return None
        number, work = due
        self._at_work = True

        def job() -> Op:
            result: Result | None = None
            try:
                result = work()
            except Exception:
                # On its own thread nobody else would hear of it, and the policy continues with what it has.
                log.exception("experiment %r: work in the background failed", self.name)

            def take(batch: Batch, request: None) -> Answer:
                self._at_work = False
                if result is not None and batch.state.background is background:
                    batch.write(background.take(number, result))
                return Answer.of({"work": number})

            return Op(take)

        return job

    def audit_job(self) -> Audit | None:
        """If the whole chain must still be checked, an audit that does it in the background; it reports from any thread."""
        if self.status != "ready" or not self._unchecked:
            return None
        self._unchecked = False
        journal = self.journal.reader()

        def told(found: int | JournalDamaged) -> None:
            if isinstance(found, int):
                self.checked = found
            else:
                self._damage = found

        return None if journal is None else Audit(self.name, journal, told)

    # Helpers

    def _append(self, batch: Batch) -> None:
        self.journal.append(batch.rows, [*batch.snapshots, *batch.rewritten.values()], batch.drop)
        self._heads.write(Head(batch.state.position, batch.state.head))
        if batch.erased or (batch.rewritten and not batch.state.stale):
            self.journal.overwrite([*batch.erased.values()])
        self.spec = batch.state.spec
        for entry in batch.changes:
            kind = entry.__struct_config__.tag
            if isinstance(entry, Started) and entry.changes:
                kind = f"changed: {'; '.join(entry.changes)}"
            if not isinstance(entry, Snapshotted) or entry.label is not None:
                by = f", asked for by key {entry.by}" if entry.by else ""
                log.info("experiment %r: %s%s", self.name, kind, by)

    def _recovered(self) -> ExperimentState | None:
        """After trouble: retry from time to time to recover the state."""
        if self.status in ("standby", "differs", "failing") and time.monotonic() >= self._next_try:
            try:
                if self.journal.open():
                    self.journal.probe()
                    self._load()
                elif self.status == "failing":
                    self._step_down()
                elif time.monotonic() >= self._next_comparison:
                    self._compare()
            except Exception as error:
                defect = not isinstance(error, JournalError)
                if defect or str(error) != self.trouble:
                    log.error("experiment %r: still no journal: %s", self.name, error, exc_info=defect)
                self.status, self.trouble, self._state = "failing", str(error), None
                self._next_try = time.monotonic() + _RETRY_SECONDS
                # Another process may succeed.
                self.journal.stand_aside(True)
        return self._state

    def _step_down(self) -> None:
        why = "the journal is another process's, or its connection is gone"
        log.info("experiment %r: %s; standing by", self.name, why)
        self.status, self.trouble, self._state = "standby", _UNAVAILABLE["standby"], None
        self._begun = True
        self._next_comparison = 0.0

    def _compare(self) -> None:
        """Check whether this process could continue where the active one stops, in the same way."""
        self._next_comparison = time.monotonic() + _COMPARE_SECONDS
        try:
            self._heads.follow(self.journal)
        except JournalDamaged as error:
            self.journal.stand_aside(True)
            if str(error) != self.trouble:
                log.error("experiment %r: this process can't take over: %s", self.name, error)
            self.status, self.trouble = "differs", str(error)
            return
        row = self.journal.recorded()
        if row is None:
            self.journal.stand_aside(False)
            return
        present = entry_of(row)
        assert isinstance(present, Started)
        recorded = make_spec(present.spec, source=self.spec.source, trust=self.spec.trust)
        spec = configuration.continued(self._given, recorded, present.stated)
        parts, settings = configuration.changed_fields(
            present, msgspec.structs.replace(self._config, spec=configuration.served_part(spec))
        )
        self.journal.stand_aside(bool(parts) and not self._accept_changes)
        status: Status = "differs" if parts or settings else "standby"
        trouble = _UNAVAILABLE["standby"]
        if status == "differs":
            then = "can't take over without --accept-changes"
            then = then if parts else "would take over and leave them as they are"
            then = "would take over and change them" if self._accept_changes else then
            fields = ", ".join([*parts, *settings])
            trouble = f"{fields} differ from those of the active process: this one {then}"
        if trouble != self.trouble:
            level = logging.INFO if status == "standby" else logging.ERROR
            log.log(level, "experiment %r: %s", self.name, trouble)
        self.status, self.trouble = status, trouble

    def doubt(self, ops: Sequence[Op], error: Exception) -> None:
        """A request failed because of an internal error. The state may be half changed: it is rebuilt from the journal."""
        self._errors.update(type(op.request) for op in ops if isinstance(op.request, _CALLS))
        self._fail(error)
        if ERRORS_IN_A_ROW in self._errors.values():
            words = "experiment %r: not ready: %d errors in a row, and no success"
            log.error(words, self.name, ERRORS_IN_A_ROW)

    def _fail(self, error: Exception) -> None:
        log.error("experiment %r: no decisions until its journal is read again: %s", self.name, error)
        self.status, self.trouble, self._state = "failing", str(error) or type(error).__name__, None
        self._next_try = time.monotonic()

    def _load(self) -> None:
        self._state = None
        self._at_work = False
        began = time.monotonic()
        if self.journal.last() == 0:
            wait, most = self._config.expire_after, self._config.max_pending
            past = None if self.spec.warm_start is None else past_of(self.spec)
            ranges = configuration.inferred_ranges(self.spec, past)
            state = ExperimentState(self.spec, expire_after=wait, max_pending=most, ranges=ranges)
            self._heads.require(self.journal)
            batch = Batch(state, self.journal, self._now())
            batch.write(state.started(__version__))
            if past is not None:
                taught = state.warm_start(past)
                batch.write(taught)
                log.info("experiment %r: has learnt from %d rows of %s", self.name, taught.rows, taught.file)
            self._append(batch)
        else:
            self._heads.require(self.journal)
            finish_erasure(self.journal)
            state, self._snapshot_at = rebuilt(self.journal, self.spec)
            if isinstance(self.clock, SteadyClock):
                wait = min(state.expire_after, self._config.expire_after)
                oldest = next((event.time for *_, event in state.waiting.values()), math.inf)
                safe = oldest / 1e6 + wait
                if state.ledger.windows is not None:
                    # A clock that is wrong by a window would refill it.
                    safe = min(safe, state.time / 1e6 + state.ledger.windows.shortest)
                self.clock.resume(state.time / 1e6, safe=safe, accept=self._accept_clock)
            if self.spec.warm_start is not None and not self.journal.select([KINDS[WarmStarted]], limit=1):
                words = "experiment %r: it began without a warm start, so [warm_start] is ignored; use a new name to learn from it"
                log.warning(words, self.name)
            self._reconfigure(state)
        state.background.prepare()
        state.hooks.report_to(self._log_concern)
        for concern in state.policy.concerns():
            self._log_concern(concern)
        self._heads.write(Head(state.position, state.head))
        self._state = state
        self._begun = self._unchecked = True
        self.status, self.trouble = "ready", ""
        took = time.monotonic() - began
        log.info("experiment %r: ready at position %d after %.2f s", self.name, state.position, took)

    def _log_concern(self, concern: Concern) -> None:
        if concern.kind not in self._logged:
            self._logged.add(concern.kind)
            log.warning("experiment %r: %s", self.name, concern)

    def _reconfigure(self, state: ExperimentState) -> None:
        """Bring a rebuilt state to the requested configuration, through the journal."""
        present = state.started(__version__)
        spec = self.spec = configuration.continued(self._given, state.spec, present.stated)
        stated = present.stated if spec is state.spec else None
        if stated is not None:
            log.info("experiment %r goes on with what was changed while it ran", self.name)
        elif spec.policies[0].kind != self._given.policies[0].kind:
            log.info("experiment %r continues with %r, as it began", self.name, spec.policies[0].kind)
        self._config = msgspec.structs.replace(
            self._config, spec=configuration.served_part(spec), stated=stated
        )
        changed, settings = configuration.changed_fields(present, self._config)
        if settings and self._begun and not self._accept_changes:
            kept = {name: getattr(present, name) for name in settings}
            log.warning("experiment %r continues with %s, as recorded in the journal", self.name, kept)
            self._config = msgspec.structs.replace(self._config, **kept)
        ranges = present.ranges
        if changed:
            ranges = configuration.carried_ranges(spec, state.spec, ranges)
        wanted = msgspec.structs.replace(self._config, ranges=ranges)
        if wanted == present:
            if self._reset_caps:
                log.warning("experiment %r: nothing has changed, so no hard cap is reset", self.name)
            return
        if changed and not self._accept_changes:
            raise JournalError(
                f"{self.spec.source}: the spec differs from what the journal of {self.name!r} says: "
                f"{'; '.join(in_words(state.spec, spec))}. Start with --accept-changes, which keeps "
                "what was learnt and spent; or undo the change; or rename the experiment to start from scratch."
            )
        batch = Batch(state, self.journal, self._now())
        reset = self._reset_caps if changed else []
        try:
            wanted = msgspec.structs.replace(wanted, reset_caps=reset)
            batch.write(state.reconfigure(wanted, time=batch.now))
        except InvalidInput as error:
            raise JournalError(str(error)) from error
        self._append(batch)

    def _snapshot_when_due(self, batch: Batch) -> None:
        """Take a routine snapshot, and drop the oldest without a label."""
        state = batch.state
        windows = state.ledger.windows
        accounts = 0 if windows is None else windows.keys // _ACCOUNTS_PER_ENTRY
        every = max(self._snapshot_every, len(state.waiting), accounts)
        if not batch.snapshots and state.position - self._snapshot_at >= every:
            batch.snapshot(None)
        if batch.snapshots:
            self._snapshot_at = state.position
            nameless = [one.position for one in self.journal.snapshots() if one.label is None]
            batch.drop += nameless[: max(0, len(nameless) - _KEPT_SNAPSHOTS + 1)]

    def _now(self) -> int:
        return int(self.clock() * 1e6)


# Details of the journal, such as paths and disk errors, are for the log, not for callers.
_UNAVAILABLE: Final = {
    "standby": "another process is active for this experiment; this one stands by",
    "failing": "the journal can't be written now; try again with the same event_id",
    "damaged": "the journal was changed or is damaged: no decisions until it is restored; the service's log says what was found",
    "closed": "the service is starting or stopping",
}


def unavailable(status: Status) -> Answer:
    """The answer to callers while an experiment does not accept decisions."""
    code = "standby" if status in ("standby", "differs") else "unavailable"
    words = _UNAVAILABLE.get("standby" if code == "standby" else status, _UNAVAILABLE["failing"])
    return Refusal(503, code, words, retry_after=_RETRY_SECONDS).answer()


# What an operation may raise without leaving anything half done.
REFUSALS: Final = (Refusal, InvalidInput, Exhausted, TooManyKeys, JournalDamaged)


def refused(name: str, error: Refusal | InvalidInput | Exhausted | TooManyKeys | JournalDamaged) -> Answer:
    """The answer to the caller if an operation on the experiment `name` refuses."""
    if isinstance(error, Refusal):
        return error.answer()
    if isinstance(error, Exhausted):
        return Refusal(409, "exhausted", str(error)).answer()
    if isinstance(error, TooManyKeys):
        return Refusal(429, "too-many-keys", str(error), retry_after=_KEYS_SECONDS).answer()
    if isinstance(error, JournalDamaged):
        log.error("experiment %r: %s", name, error)
        words = "the journal entry for this is damaged and can't be read; the log says where"
        return Refusal(409, "damaged", words).answer()
    message, field = error.said(JSON).rstrip("."), None if error.field is None else JSON.field(error.field)
    short = message if len(message) <= 600 else message[:597] + "..."
    return Refusal(422, "invalid", short, field=field and field[:200]).answer()


_RETRY: Final = "an error inside the service; try again with the same event_id"
TRY_AGAIN: Final = Refusal(500, "internal", _RETRY).answer()
_KEPT_NOTHING: Final = "an error inside the service; nothing of this request was kept"
_INTERNAL: Final = Refusal(500, "internal", _KEPT_NOTHING).answer()
