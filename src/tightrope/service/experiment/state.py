"""The state of an experiment as a function of its journal.

Every change goes through a method that returns its journal entry. `replay` goes the other way: it repeats an entry and refuses the
journal if a single bit of the answer differs.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

import msgspec
import numpy as np

from tightrope.actions import count
from tightrope.concerns import ignore
from tightrope.errors import InvalidInput
from tightrope.ledger.hard_caps import Exhausted
from tightrope.ledger.ledger import Ledger
from tightrope.ledger.trail import Moment, Trail
from tightrope.log import Log
from tightrope.models.background import Result
from tightrope.policies import Decision, Explanation, Policy
from tightrope.policies.decision import Labels
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, PendingDecisions
from tightrope.rules import Column
from tightrope.service.answer import Refusal
from tightrope.service.experiment import configuration
from tightrope.service.experiment.configuration import Ranges, constraint_names, served_part, served_policy
from tightrope.service.experiment.policy_input import PolicyInput
from tightrope.service.experiment.warm_start import teach
from tightrope.service.journal import JournalDamaged, JournalError, entries, packing
from tightrope.service.journal.chain import GENESIS
from tightrope.service.journal.rows import Row, difference, entry_of, hash_of
from tightrope.service.requests import DecisionRequest, Used, fingerprint
from tightrope.spec import Spec, make_spec
from tightrope.validation import Array

Mode = Literal["live", "shadow", "paused"]

# How many at a time: more than a batch adds, and few enough that their event ids fit into a row of the journal.
_EXPIRE_AT_ONCE = 300
# What a snapshot stores unchanged.
_KEPT = ("mode", "default", "expire_after", "max_pending", "configured")


# There is one per pending decision, so they are hidden from the garbage collector: they can't be part of a cycle.
class Event(msgspec.Struct, frozen=True, gc=False):
    """The service's notes on a pending decision. `holds` are the hard caps that have the high end of its cost reserved."""

    event_id: str
    time: int
    group: str | tuple[str, ...] | None
    holds: tuple[int, ...]


class _Waiting(msgspec.Struct, frozen=True, gc=False, array_like=True):
    event_id: str
    time: int
    action: int
    awaits: int
    group: str | tuple[str, ...] | None
    holds: tuple[int, ...]


class _Labels(msgspec.Struct, frozen=True, array_like=True):
    """Which constraints apply to the decisions from number `first` on, and which actions are on offer by default."""

    first: int
    constraints: tuple[str, ...]
    active: tuple[int, ...]


class Tally(msgspec.Struct, kw_only=True):
    """Counts since the beginning, only for people: no decision depends on them. Actions are counted by id."""

    decisions: int = 0
    actions: list[int] = []
    offered: list[int] = []
    # By field of the context: how many of its numbers were outside their range but still accepted.
    outside: dict[str, int] = {}
    shadow: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    complete: int = 0
    expired: int = 0
    rolled_back: int = 0
    late: int = 0
    unknown: int = 0
    differs: int = 0

    def count_decision(self, action: int, ids: Iterable[int]) -> None:
        self.decisions += 1
        count(self.actions, action)
        offered = self.offered
        for one in ids:
            if one < len(offered):
                offered[one] += 1
            else:
                count(offered, one)


class Background:
    """The background work of a policy, numbered as in `hooks.background()`: no request waits for it."""

    def __init__(self, policy: Policy) -> None:
        self._works, self._waiting = policy.hooks.background(), policy.hooks.pending
        for work in self._works:
            work.deferred = True

    def due(self) -> tuple[int, Callable[[], Result]] | None:
        """The number of a work item with something to do, and the function that does it on any thread."""
        for number, work in enumerate(self._works):
            if (job := work.due()) is not None:
                return number, job
        return None

    def take(self, work: int, result: Result) -> entries.TookEffect:
        if not 0 <= work < len(self._works):
            raise InvalidInput(f"work {work} is not done in the background.")
        self._works[work].take(result)
        self._waiting.version += 1
        return entries.TookEffect(work=work, result=result)

    def prepare(self) -> None:
        """Wait for what the next answer needs, so that no caller has to; a failed fit is reported to callers."""
        for work in self._works:
            with contextlib.suppress(InvalidInput):
                work.prepare()


class ExperimentState:
    """The policy of one experiment, its hard caps and everything else that a decision depends on."""

    def __init__(
        self,
        spec: Spec,
        *,
        expire_after: float = 30 * 86_400.0,
        max_pending: int = 100_000,
        ranges: Ranges | None = None,
    ) -> None:
        self.spec = spec
        # Ranges of usage that no rule declares.
        self.ranges: Ranges = dict(ranges or {})
        self.expire_after = float(expire_after)  # a snapshot has different bytes for 60 and 60.0
        self.max_pending = max_pending
        self.position = 0
        self.time = 0
        # When a policy that counts in seconds was last given the time.
        self.clock = 0
        # How many rows have changed anything (keeping a snapshot does not), and the time of the last.
        self.changes = (0, 0)
        # The hash of the row at `position`: not part of the state, because it also covers what no decision depends on.
        self.head = GENESIS
        self.mode: Mode = "live"
        self.default: int | None = None
        self.policy = served_policy(spec)
        self.hooks = self.policy.hooks
        # Silent while a journal is replayed; an experiment that goes live logs them.
        self.hooks.report_to(ignore)
        self.background = Background(self.policy)
        self.ledger = Ledger(spec, self.policy if self.hooks.n_constraints else None)
        self.tally = Tally()
        self.trail = Trail()
        self.labels = [_Labels(0, constraint_names(spec), tuple(spec.registry.active))]
        # The journal entry with which the current configuration began.
        self.configured = 1
        self.input = PolicyInput(spec, self.policy, self.ranges)
        # Snapshots that still hold inputs of erased decisions: position → the numbers of these decisions.
        self.stale: dict[int, list[int]] = {}

    # What it knows

    @property
    def waiting(self) -> PendingDecisions:
        """The decisions that await their outcome, each with its `Event` as the last entry."""
        return self.hooks.pending

    @property
    def queue(self) -> Array:
        """The dual variables (K,): queues or prices; 0 for a policy that has none."""
        return self.hooks.dual() if self.hooks.n_constraints else np.zeros(len(self.columns))

    @property
    def columns(self) -> tuple[Column, ...]:
        return () if self.spec.rules is None else self.spec.rules.columns

    def explain(self, entry: entries.Decided) -> Explanation:
        """Why a decision came out as it did. In shadow mode: why the policy would have chosen what it proposed."""
        then = next(one for one in reversed(self.labels) if one.first <= entry.number)
        ids = np.array(then.active if entry.offered is None else entry.offered)
        chosen = entry.action if entry.proposed is None else entry.proposed
        row, trace = int(np.flatnonzero(ids == chosen)[0]), np.frombuffer(entry.trace)
        read = self.hooks.labels
        names = None if read.constraints is None else then.constraints
        labels = Labels(self.spec.actions, names, read.unpack, read.probabilities)
        why = Decision(chosen, row, entry.number, 0, 0, ids, trace, labels, entry.sampling).explain()
        # The explanation refers to today's rules.
        return why if then is self.labels[-1] else replace(why, words=())

    # What changes it

    def warm_start(self, past: Log) -> entries.WarmStarted:
        teach(self.policy, self.spec, self.input, past)
        state = packing.packed(self.hooks.state())
        assert self.spec.warm_start is not None
        file, digest = self.spec.warm_start.file, past.frame.sha256 or ""
        return self._begin_from(entries.WarmStarted(file=file, sha256=digest, rows=len(past), state=state))

    def decide(self, event_id: str, request: DecisionRequest, *, time: int) -> entries.Decided:
        """Choose, move the queue, reserve what hard caps need; after `InvalidInput` or `Exhausted` nothing has changed."""
        if self.mode == "paused":
            words = "the experiment is paused: no decisions until it is live"
            raise Refusal(503, "paused", words, retry_after=5)
        read = self.input
        read.require_declared(request)
        offer, room = read.read(request), None
        ids = offered = None if offer.whole else offer.ids.tolist()
        if self.ledger.caps:
            room = self.ledger.room(ids, offer.usage or {}, request.group)
            if not room.whole:
                offer = offer.only(room.rows)
                offered = offer.ids.tolist()
        policy, proposed = self.policy, None
        if self.mode == "shadow":
            served = self._default(request, offered)
            quote = policy.quote(offer)
            seen, decision = quote.proposed, policy.commit(quote, served)
            row, proposed = offer.row_of("the default", served), seen.action
        else:
            seen = decision = self.hooks.decide_offer(offer)
            row = decision.row
        if not self.hooks.n_constraints and len(read.known_columns):
            self.ledger.book(offer.W[row, read.known_columns], read.known_columns)
        holds: tuple[int, ...] = ()
        if room is not None:
            now = (time, decision.number, self.tally.rewards, self.tally.reward_sum)
            self.ledger.note_withheld(room, ids, now)
            holds = self.ledger.take(room.needs[room.rows[row]])
        self.ledger.count(request.group, "before")
        self.tally.count_decision(decision.action, read.active if offered is None else offered)
        for name in read.outside(request):
            self.tally.outside[name] = self.tally.outside.get(name, 0) + 1
        self.tally.shadow += proposed is not None
        awaits = AWAITS_REWARD | (AWAITS_COSTS if read.awaits_usage else 0)
        group = tuple(request.group) if isinstance(request.group, list) else request.group
        self.waiting.note(decision.number, Event(event_id, time, group, holds), awaits)
        if self.hooks.counts_seconds:
            # Only decisions that were made advance time, because a replay repeats them at the same times; a refused one leaves no
            # trace.
            self.hooks.elapse(max(0, time - self.clock) / 1e6 if self.clock else 0.0)
            self.clock = max(time, self.clock)
        self._mark(time)
        # A default is served with certainty, whatever the policy would have drawn.
        probability, probabilities = (1.0, None) if proposed is not None else self._probabilities(decision)
        return entries.Decided(
            event_id=event_id,
            request=request,
            fingerprint=fingerprint(request),
            number=decision.number,
            action=decision.action,
            trace=seen.trace.tobytes(),
            queue=self.queue.tobytes(),
            offered=offered,
            proposed=proposed,
            probability=probability,
            probabilities=probabilities,
            sampling=seen.sampling,
        )

    def learn(self, number: int, reward: float | None = None, usage: Used | None = None) -> entries.Learnt:
        """Apply an outcome, or a part of one, to a decision in `waiting`; after `InvalidInput` nothing has changed."""
        _, action, *_, event = self.waiting[number]
        if reward is not None:
            self.input.require_reward(reward)
        observed: Array | None = None
        if usage is not None:
            if self.spec.rules is None or not self.input.awaits_usage:
                problem = "is not seen after acting here; send only the reward"
                raise InvalidInput(field="usage", problem=problem)
            self.input.require_in_ranges(usage)
            observed = self.spec.rules.observed(usage, action=action, group=event.group)
        self.policy.learn(number, reward, observed)
        if reward is not None:
            self.tally.rewards += 1
            self.tally.reward_sum += reward
        if usage is not None and observed is not None:
            self.ledger.count(event.group, "after")
            self.ledger.book(observed, self.input.late_columns)
            self.ledger.settle(event.holds, usage)
        if number not in self.waiting:
            self.tally.complete += 1
        elif usage is not None and event.holds:
            self.waiting.note(number, msgspec.structs.replace(event, holds=()))
        return entries.Learnt(event_id=event.event_id, number=number, reward=reward, usage=usage)

    def expire(self, time: int) -> entries.Expired | None:
        """Stop waiting for decisions that are too old at `time`, or too many; None if there are none. Reservations stay used."""
        due = time - int(self.expire_after * 1e6)
        excess = len(self.waiting) - self.max_pending
        numbers: list[int] = []
        for number, (*_, event) in self.waiting.items():
            if (event.time > due and len(numbers) >= excess) or len(numbers) == _EXPIRE_AT_ONCE:
                break
            numbers.append(number)
        return self._drop(numbers) if numbers else None

    def refuse(
        self,
        event_id: str,
        reason: Literal["late", "unknown", "differs"],
        reward: float | None = None,
        usage: Used | None = None,
    ) -> entries.Refused:
        setattr(self.tally, reason, getattr(self.tally, reason) + 1)
        return entries.Refused(event_id=event_id, reason=reason, reward=reward, usage=usage)

    def change_mode(self, mode: Mode, default: int | str | None = None) -> entries.ModeChanged:
        if default is not None and mode != "shadow":
            raise InvalidInput(field="default", problem=f"is for shadow mode, but got mode {mode!r}")
        self.default = None if default is None else self.spec.registry.id(default, "default")
        self.mode = mode
        return entries.ModeChanged(mode=mode, default=self.default)

    def reconfigure(self, entry: entries.Started) -> entries.Started:
        """Continue under another configuration if what was learnt fits it; otherwise `InvalidInput`, and nothing has changed.

        What was learnt and spent stays: models, rounds, pending decisions, and the queues and cumulative costs of existing
        constraints. What was spent counts for every hard cap on that usage (`carried_over`), unless `reset_caps` names it.
        """
        spec = make_spec(entry.spec, source=self.spec.source)
        if served_part(spec) != served_part(self.spec):
            self._adopt(spec, entry)
        elif entry.reset_caps:
            raise InvalidInput(
                "reset_caps: hard caps are only reset with a change of the spec, but the spec has not changed."
            )
        self.expire_after, self.max_pending = float(entry.expire_after), entry.max_pending
        self.ranges = dict(entry.ranges)
        return msgspec.structs.replace(self.started(entry.version), reset_caps=entry.reset_caps)

    def started(self, version: str) -> entries.Started:
        return entries.Started(
            format=entries.FORMAT,
            version=version,
            spec=served_part(self.spec),
            expire_after=self.expire_after,
            max_pending=self.max_pending,
            ranges=self.ranges,
        )

    def roll_back(self, position: int, state: bytes, restore: Literal["learnt", "all"]) -> entries.RolledBack:
        """Take what was learnt, or rounds, queues and cumulative costs too, from a snapshot's state.

        Hard caps, counts and the numbers of decisions stay: they record what happened. Decisions that were pending then and are
        still pending now stay pending; with "all", younger ones are dropped.
        """
        saved = packing.unpacked_state(state)
        holds = {number: event.holds for number, (*_, event) in self.waiting.items() if event.holds}
        with packing.arrays_of(saved["policy"]) as then:
            dropped = self.hooks.roll_back(then, learnt_only=restore == "learnt")
        for number in dropped:
            self.ledger.keep(holds.get(number, ()))
        if restore == "all" and self.hooks.n_constraints:
            # Together with the totals, which they explain.
            self.ledger.restore_counts(saved["ledger"])
        self.tally.rolled_back += len(dropped)
        return entries.RolledBack(position=position, restore=restore, state=state)

    def erase(self, entry: entries.Erased) -> entries.Erased:
        self._drop([number for number in entry.numbers if number in self.waiting])
        self.hooks.forget_inputs(entry.numbers)
        for position in entry.stale:
            self.stale[position] = sorted({*self.stale.get(position, ()), *entry.numbers})
        for position, _ in entry.snapshots:
            self.stale.pop(position, None)
        return entry

    def advance(self, row: Row, head: bytes) -> None:
        """Record that `row`, whose hash is `head`, is in the journal."""
        self.position, self.time, self.head = row.position, row.time, head
        if row.kind != entries.KINDS[entries.Snapshotted]:
            self.changes = (self.changes[0] + 1, row.time)

    # Replay, snapshots

    @classmethod
    def begin(cls, row: Row, source: str = "journal") -> ExperimentState:
        entry = entry_of(row)
        if not isinstance(entry, entries.Started) or row.position != 1:
            raise JournalDamaged(f"row {row.position}: a journal begins with its configuration at row 1.")
        state = cls.of(entry, source)
        state.advance(row, hash_of(row, GENESIS))
        return state

    @classmethod
    def of(cls, entry: entries.Started, source: str = "journal") -> ExperimentState:
        """The state before any decision, in a journaled configuration."""
        if entry.format != entries.FORMAT:
            raise JournalError(
                f"the journal is written in format {entry.format}; this release reads format {entries.FORMAT}."
            )
        spec = make_spec(entry.spec, source=source)
        return cls(spec, expire_after=entry.expire_after, max_pending=entry.max_pending, ranges=entry.ranges)

    def replay(self, row: Row) -> entries.Entry:
        """Repeat the entry that follows, and compare."""
        if row.position != self.position + 1:
            raise JournalDamaged(f"row {row.position} follows row {self.position}: rows are missing.")
        head = hash_of(row, self.head)
        entry = entry_of(row)
        if isinstance(entry, entries.Blank):
            if entry.kind == "refused" and entry.reason is not None:
                # It changed only a count.
                self.refuse(entry.event_id or "", entry.reason)
                self.advance(row, head)
                return entry
            raise JournalDamaged(
                f"row {row.position} can't be repeated, since its inputs were erased: a whole snapshot after it is missing."
            )
        try:
            again = self._repeat(entry, row.time)
        except (InvalidInput, Exhausted, Refusal, KeyError) as error:
            raise JournalDamaged(f"row {row.position} can't be repeated: {error}") from error
        again.by = entry.by
        if packing.packed(again) != packing.packed(entry):
            raise JournalDamaged(
                f"row {row.position} does not come out as it was recorded: {difference(entry, again)}. Was it written by another "
                "release of Tightrope or of the libraries below it? Shut the service down cleanly before an upgrade."
            )
        self.advance(row, head)
        return entry

    def snapshot(self) -> tuple[bytes, str]:
        """The whole state in bytes, and its SHA-256: equal states give equal bytes."""
        packed = packing.packed(
            {
                **dict(zip(("position", "time"), self.changes)),
                **{name: getattr(self, name) for name in _KEPT},
                # Two lists, not pairs: 100,000 pairs would wake the garbage collector.
                "waiting": [
                    list(self.waiting),
                    [
                        _Waiting(event.event_id, event.time, action, awaits, event.group, event.holds)
                        for awaits, action, *_, event in self.waiting.values()
                    ],
                ],
                "ledger": self.ledger.saved(),
                "tally": self.tally,
                "trail": self.trail,
                "labels": self.labels,
                "policy": self.hooks.state(),
                **({"clock": self.clock} if self.hooks.counts_seconds else {}),
                **({"stale": list(self.stale.items())} if self.stale else {}),
            }
        )
        return packed, packing.digest_of(packed)

    def restore(self, state: bytes, position: int, head: bytes) -> None:
        """Restore what `snapshot` saved, at the row `position` whose hash is `head`."""
        saved = packing.unpacked_state(state)
        self.position, self.time, self.head = position, saved["time"], head
        self.changes = (saved["position"], saved["time"])
        for name in _KEPT:
            setattr(self, name, saved[name])
        try:
            self.ledger.restore(saved["ledger"])
        except InvalidInput as error:
            raise JournalDamaged(str(error)) from error
        self.stale = dict(saved.get("stale", []))
        self.tally = msgspec.convert(saved["tally"], Tally)
        self.trail = msgspec.convert(saved["trail"], Trail)
        self.labels = msgspec.convert(saved["labels"], list[_Labels])
        self.clock = saved.get("clock", 0)
        with packing.arrays_of(saved["policy"]) as arrays:
            self.hooks.load(arrays)
        numbers, waiting = msgspec.convert(saved["waiting"], tuple[list[int], list[_Waiting]])
        for number, one in zip(numbers, waiting, strict=True):
            self.waiting.note(number, Event(one.event_id, one.time, one.group, one.holds), one.awaits)
        self.waiting.set_groups([one.group for one in waiting])

    # Helpers

    def _repeat(self, entry: entries.Written, time: int) -> entries.Written:
        match entry:
            case entries.Decided():
                return self.decide(entry.event_id, entry.request, time=time)
            case entries.Learnt():
                return self.learn(entry.number, entry.reward, entry.usage)
            case entries.Expired():
                return self._drop(entry.numbers)
            case entries.Refused():
                return self.refuse(entry.event_id, entry.reason, entry.reward, entry.usage)
            case entries.TookEffect():
                return self.background.take(entry.work, entry.result)
            case entries.ModeChanged():
                return self.change_mode(entry.mode, entry.default)
            case entries.RolledBack():
                return self.roll_back(entry.position, entry.state, entry.restore)
            case entries.Started():
                return self.reconfigure(entry)
            case entries.WarmStarted():
                return self._begin_from(entry)
            case entries.Snapshotted():
                return entries.Snapshotted(of=self.position, digest=self.snapshot()[1], label=entry.label)
            case entries.Erased():
                return self.erase(entry)

    def _begin_from(self, entry: entries.WarmStarted) -> entries.WarmStarted:
        """Take over what was learnt before the first decision, in the same way here and in a replay."""
        with packing.arrays_of(packing.unpacked_state(entry.state)) as arrays:
            self.hooks.load(arrays)
        return msgspec.structs.replace(entry, state=packing.packed(self.hooks.state()))

    def _adopt(self, spec: Spec, entry: entries.Started) -> None:
        old, new = self.policy, served_policy(spec)
        hooks = new.hooks
        configuration.require_fit(self.spec, spec, old, new)
        names = constraint_names(spec)
        ledger, moved = self.ledger.under(spec, new if hooks.n_constraints else None, entry.reset_caps)
        before, now = (configuration.known_before(one) for one in (self.spec, spec))
        hooks.resume(old, same_costs=before == now, shifts=configuration.late_shifts(self.spec, spec))
        hooks.report_to(self.hooks.notify)
        self.policy, self.hooks, self.ledger = new, hooks, ledger
        self.background = Background(new)
        for number, (*_, event) in self.waiting.items():
            if event.holds:
                holds = ledger.moved_holds(event.holds, moved)
                self.waiting.note(number, msgspec.structs.replace(event, holds=holds))
        labels = _Labels(old.rounds, names, tuple(spec.registry.active))
        if self.labels[-1].constraints != names:
            self.trail.begin_again()
        if msgspec.structs.replace(self.labels[-1], first=labels.first) != labels:
            self.labels.append(labels)
        self.spec, self.configured = spec, self.position + 1
        self.input = PolicyInput(spec, new, entry.ranges)

    def _drop(self, numbers: list[int]) -> entries.Expired:
        events = [self.waiting[number][-1] for number in numbers]
        for number, event in zip(numbers, events, strict=True):
            self.ledger.keep(event.holds)
            self.policy.forget(number)
        self.tally.expired += len(numbers)
        return entries.Expired(numbers=numbers, event_ids=[event.event_id for event in events])

    def _default(self, request: DecisionRequest, ids: list[int] | None) -> int:
        if request.default is not None:
            served = self.spec.registry.id(request.default, "default")
        elif self.default is not None:
            served = self.default
        else:
            problem = "is missing: in shadow mode it says which action is served"
            raise InvalidInput(field="default", problem=problem)
        if ids is not None and served not in ids:
            caps = self.ledger.caps
            if caps and (request.actions is None or served in self.spec.registry.ids(request.actions)):
                raise Exhausted(caps, f"the default action {self.spec.actions[served]!r}")
            name = self.spec.actions[served]
            raise InvalidInput(field="default", must="be one of the actions on offer", got=name)
        return served

    def _mark(self, time: int) -> None:
        tally = self.tally
        if self.trail.due(tally.decisions):
            counts = (tally.decisions, time, tally.rewards, tally.reward_sum)
            allowed = [one.allowed for one in self.ledger.limits]
            rules = (self.ledger.totals.tolist(), self.queue.tolist(), allowed)
            self.trail.add(Moment(*counts, *rules, list(tally.actions)))

    def _probabilities(self, decision: Decision) -> tuple[float | None, bytes | None]:
        """Probabilities for the journal: the action's, and those of all on offer unless they are 1 and 0; None if not known."""
        if not self.hooks.randomised and decision.probability == 1.0:
            return 1.0, None
        try:
            # Read once: a policy may compute them on access.
            chances = decision.probabilities
        except InvalidInput:
            # Too many actions to compute them. The decision stands.
            return None, None
        probability = float(chances[decision.row])
        if math.isnan(probability):
            return None, None
        return probability, None if probability == 1.0 else chances.tobytes()
