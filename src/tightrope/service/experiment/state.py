"""The state of an experiment as a function of its journal.

Every change goes through a method that returns its journal entry. `replay` goes the other way: it repeats an entry and refuses the
journal if a single bit of the answer differs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Literal

import msgspec
import numpy as np

from tightrope.concerns import ignore
from tightrope.errors import Exhausted, InfeasibleProblem, InvalidInput, TooManyKeys
from tightrope.ledger.ledger import Ledger
from tightrope.ledger.trail import Moment, Trail
from tightrope.ledger.window_changes import carry_windows
from tightrope.ledger.windows import late_uses
from tightrope.log import Log
from tightrope.models.hooks import Corrected
from tightrope.offer import Offer
from tightrope.policies import Decision, Explanation
from tightrope.policies.decision import Labels
from tightrope.policies.living_actions import succeed
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD, PendingDecisions
from tightrope.rules import Column
from tightrope.service.answer import Refusal
from tightrope.service.experiment import configuration, corrections
from tightrope.service.experiment.assignment import Assignment
from tightrope.service.experiment.background import Background
from tightrope.service.experiment.chances import CERTAIN, probabilities_of
from tightrope.service.experiment.changes import edited, in_words, only_actions_differ, renamed
from tightrope.service.experiment.configuration import Ranges, constraint_names, served_part, served_policy
from tightrope.service.experiment.events import Event, Waiting
from tightrope.service.experiment.policy_input import PolicyInput
from tightrope.service.experiment.schedule import Planned, Schedule
from tightrope.service.experiment.succession import (
    Held,
    Successor,
    held_after,
    join_like,
    renamed_columns,
    same_ledger,
)
from tightrope.service.experiment.tally import Tally
from tightrope.service.experiment.warm_start import teach
from tightrope.service.journal import JournalDamaged, JournalError, entries, packing
from tightrope.service.journal.chain import GENESIS
from tightrope.service.journal.rows import Row, difference, entry_of, hash_of
from tightrope.service.requests import ChangeRequest, DecisionRequest, Used, fingerprint
from tightrope.spec import Spec, make_spec
from tightrope.validation import Array

Mode = Literal["live", "shadow", "paused"]

# How many at a time: more than a batch adds, and few enough that their event ids fit into a row of the journal.
_EXPIRE_AT_ONCE = 300
# What a snapshot stores unchanged.
_KEPT = ("mode", "default", "expire_after", "max_pending", "configured")


class _Labels(msgspec.Struct, frozen=True, array_like=True):
    """Which constraints apply to the decisions from number `first` on, and which actions are on offer by default."""

    first: int
    constraints: tuple[str, ...]
    active: tuple[int, ...]


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
        self.ledger = Ledger(spec, self.policy if self.hooks.n_constraints else None, self.hooks.windows)
        self.tally = Tally()
        self.trail = Trail()
        self.labels = [_Labels(0, constraint_names(spec), tuple(spec.registry.active))]
        # The journal entry with which the current configuration began.
        self.configured = 1
        # The spec that the service was started with, if it has changed since; what was used before a limit changed, by column.
        self.stated: dict[str, Any] | None = None
        self.held: dict[str, Held] = {}
        self.schedule = Schedule()
        self.input = PolicyInput(spec, self.policy, self.ranges)
        # Who decides, if the spec has a control group or actions that stick.
        self.assignment = Assignment.of(spec, self.ranges)
        # Snapshots that still hold inputs of erased decisions: position → the numbers of these decisions.
        self.stale: dict[int, list[int]] = {}
        # Digests of the keys that were erased meanwhile.
        self.stale_keys: list[str] = []

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
        then, ids = self._labels_of(entry), np.array(self.offered(entry))
        chosen = entry.action if entry.proposed is None else entry.proposed
        row, trace = int(np.flatnonzero(ids == chosen)[0]), np.frombuffer(entry.trace)
        read = self.hooks.labels
        # A policy that paces names its limits per window behind the constraints.
        windows = (read.constraints or ())[len(self.labels[-1].constraints) :]
        names = None if read.constraints is None else (*then.constraints, *windows)
        labels = Labels(self.spec.actions, names, read.unpack, read.probabilities)
        why = Decision(chosen, row, entry.number, 0, 0, ids, trace, labels, entry.sampling).explain()
        # The explanation refers to today's rules.
        return why if then is self.labels[-1] else replace(why, words=())

    def offered(self, entry: entries.Decided) -> Sequence[int]:
        """The ids of the actions that were compared."""
        return self._labels_of(entry).active if entry.offered is None else entry.offered

    def active_at(self, entry: entries.Decided) -> Sequence[int]:
        """The ids of the actions that were active."""
        return self._labels_of(entry).active

    def _labels_of(self, entry: entries.Decided) -> _Labels:
        return next(one for one in reversed(self.labels) if one.first <= entry.number)

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
        offer, room = read.read(request, time), None
        ids = None if offer.whole else offer.ids.tolist()
        if self.ledger.caps:
            room = self.ledger.room(ids, offer.usage or {}, request.group)
            if not room.whole:
                offer = offer.only(room.rows)
        windows, at = self.ledger.own_windows, offer
        if windows is not None:
            offer = windows.admitted(offer)
        policy, proposed, assigned = self.policy, None, None
        if self.mode == "shadow":
            quote = policy.quote(offer)
            offer, seen = quote.offer, quote.proposed
            served = self._default(request, None if offer.whole else offer.ids.tolist(), at)
            decision, proposed = policy.commit(quote, served), seen.action
            # A default is served with certainty, whatever the policy would have drawn.
            chances: tuple[float | None, bytes | None] = CERTAIN
        elif self.assignment is not None:
            seen, decision, chance, hooks, assigned = self.assignment.decide(
                policy, self.hooks, read, request, offer, time
            )
            chances = CERTAIN if chance is None else probabilities_of(chance, hooks)
        else:
            seen = decision = self.hooks.decide_offer(offer)
            chances = probabilities_of(decision, self.hooks)
        # The policy itself may leave out what does not fit limits per window.
        whole = offer.whole and len(seen.offered) == len(offer.ids)
        offered = None if whole else seen.offered.tolist()
        row = at.row_of("the action", decision.action)
        if not self.hooks.n_constraints and len(read.known_columns):
            self.ledger.book(at.W[row, read.known_columns], read.known_columns)
        holds: tuple[int, ...] = ()
        if room is not None:
            now = (time, decision.number, self.tally.rewards, self.tally.reward_sum)
            self.ledger.note_withheld(room, ids, now)
            holds = self.ledger.take(room.needs[room.rows[row]])
        if windows is not None:
            windows.take(decision.number, at, row)
        self.ledger.count(request.group, "before")
        self.tally.count_decision(decision.action, read.active if offered is None else offered)
        for name in read.outside(request):
            self.tally.outside[name] = self.tally.outside.get(name, 0) + 1
        if read.is_tolerant:
            self.tally.count_replaced(read.replaced(request.context or {}))
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
            probability=chances[0],
            probabilities=chances[1],
            sampling=seen.sampling,
            assigned=assigned,
        )

    def learn(self, number: int, reward: float | None = None, usage: Used | None = None) -> entries.Learnt:
        """Apply an outcome, or a part of one, to a decision in `waiting`; after `InvalidInput` nothing has changed."""
        _, action, *_, event = self.waiting[number]
        if reward is not None:
            self.input.require_reward(reward)
        observed: Array | None = None
        if usage is not None:
            if self.spec.rules is None or not self.input.awaits_usage:
                problem = "is not seen after acting in this experiment; send only the reward"
                raise InvalidInput(field="usage", problem=problem)
            self.input.require_in_ranges(usage)
            observed = self.spec.rules.observed(usage, action=action, group=event.group)
        named = usage if usage is not None and self.hooks.windows is not None else None
        windows, uses = self.ledger.own_windows, None
        if usage is not None and windows is not None:
            uses = late_uses(windows.rules, usage, action, event.group).tolist()
        if named is None:
            self.policy.learn(number, reward, observed)
        else:
            self.policy.learn(number, reward, usage=named)
        if windows is not None and uses is not None:
            windows.settle(number, uses)
        if self.assignment is not None:
            whole = number not in self.waiting
            self.assignment.learnt(number, self.input, event.group, reward, observed, whole)
        if reward is not None:
            self.tally.rewards += 1
            self.tally.reward_sum += reward
        if usage is not None and observed is not None:
            self.ledger.count(event.group, "after")
            self.ledger.book(observed, self.input.late_columns)
            self.ledger.settle(event.holds, usage)
        if number not in self.waiting:
            self.tally.complete += 1
            if windows is not None:
                windows.done(number)
        elif usage is not None and event.holds:
            self.waiting.note(number, msgspec.structs.replace(event, holds=()))
        return entries.Learnt(event_id=event.event_id, number=number, reward=reward, usage=usage)

    def cancel(self, number: int) -> entries.Learnt:
        """A decision in `waiting` was never carried out: limits per window get back what it booked. Hard caps keep it."""
        event = self.waiting[number][-1]
        self._let_go(number, acted=False)
        if self.assignment is not None:
            self.assignment.drop([number])
        self.tally.cancelled += 1
        return entries.Learnt(event_id=event.event_id, number=number, cancelled=True)

    def correct(self, entry: entries.Learnt) -> Corrected:
        """Apply the correction of an outcome; after `InvalidInput` nothing has changed."""
        effect = corrections.apply(entry, self.policy, self.input, self.spec.rules, self.ledger)
        if entry.reward is not None and entry.was is not None and entry.was.reward is not None:
            self.tally.reward_sum += entry.reward - entry.was.reward
        return effect

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

    def change(
        self, request: ChangeRequest, version: str, *, time: int, scheduled: int | None = None
    ) -> entries.Started:
        """Change actions and rules as asked; after `InvalidInput` or `InfeasibleProblem` nothing has changed."""
        return self.reconfigure(self._changed(request, version, scheduled), time=time)

    def check(self, request: ChangeRequest, version: str, *, time: int) -> list[str]:
        """What a change would change, in words; raises what `change` would raise."""
        wanted = self._changed(request, version)
        self._successor(make_spec(wanted.spec, source=self.spec.source), wanted, time)
        return wanted.changes

    def begin_due(self, version: str, *, time: int) -> entries.Started | entries.Cancelled | None:
        """Let the next change that is due at `time` begin; what is impossible by now is cancelled. None if nothing is due."""
        if (due := self.schedule.due(time)) is None:
            return None
        begun: entries.Started | entries.Cancelled
        try:
            request = msgspec.convert(due.change, ChangeRequest)
            begun = self.change(request, version, time=time, scheduled=due.position)
        except (InvalidInput, InfeasibleProblem) as error:
            begun = self.schedule.cancel(due.position, str(error))
        begun.by = due.by
        return begun

    def _changed(self, request: ChangeRequest, version: str, scheduled: int | None = None) -> entries.Started:
        present, spec = self.started(version), edited(self.spec, request)
        ranges = configuration.carried_ranges(spec, self.spec, self.ranges)
        return msgspec.structs.replace(
            present,
            spec=served_part(spec),
            ranges=ranges,
            changes=in_words(self.spec, spec),
            stated=present.spec if present.stated is None else present.stated,
            scheduled=scheduled,
        )

    def reconfigure(self, entry: entries.Started, *, time: int) -> entries.Started:
        """Continue under another configuration if what was learnt fits it; otherwise `InvalidInput`, and nothing has changed.

        What was learnt and spent stays: models, rounds, pending decisions, and the queues and cumulative costs of existing
        constraints. What was spent counts for every hard cap on that usage (`carried_over`), unless `reset_caps` names it.
        """
        spec = make_spec(entry.spec, source=self.spec.source)
        if served_part(spec) != served_part(self.spec):
            self._adopt(spec, entry, time)
        elif entry.reset_caps:
            raise InvalidInput(
                "reset_caps: hard caps are only reset with a change of the spec, but the spec has not changed."
            )
        self.expire_after, self.max_pending = float(entry.expire_after), entry.max_pending
        self.ranges, self.stated = dict(entry.ranges), entry.stated
        self.schedule.begun(entry.scheduled)
        told = {name: getattr(entry, name) for name in ("reset_caps", "changes", "scheduled")}
        return msgspec.structs.replace(self.started(entry.version), **told)

    def started(self, version: str) -> entries.Started:
        return entries.Started(
            format=entries.FORMAT,
            version=version,
            spec=served_part(self.spec),
            expire_after=self.expire_after,
            max_pending=self.max_pending,
            ranges=self.ranges,
            stated=self.stated,
        )

    def roll_back(self, position: int, state: bytes, restore: Literal["learnt", "all"]) -> entries.RolledBack:
        """Take what was learnt, or rounds, queues and cumulative costs too, from a snapshot's state.

        Hard caps, counts and the numbers of decisions stay: they record what happened. Decisions that were pending then and are
        still pending now stay pending; with "all", younger ones are dropped.
        """
        saved = packing.unpacked_state(state)
        # Limits per window stay as they are, and accounts may be many.
        if [
            saved["policy"].pop(name) for name in [*saved["policy"]] if name.startswith("windows/")
        ] or saved.pop("windows", None):
            state = packing.packed(saved)
        holds = {number: event.holds for number, (*_, event) in self.waiting.items() if event.holds}
        with packing.arrays_of(saved["policy"]) as then:
            dropped = self.hooks.roll_back(then, learnt_only=restore == "learnt")
        if self.assignment is not None:
            self.assignment.roll_back(saved.get("assignment"), dropped, restore == "learnt")
        for number in dropped:
            self.ledger.keep(holds.get(number, ()))
            if self.ledger.own_windows is not None:
                self.ledger.own_windows.expire(number)
        if restore == "all" and self.hooks.n_constraints:
            # Together with the totals, which they explain.
            self.ledger.restore_counts(saved["ledger"])
        self.tally.rolled_back += len(dropped)
        return entries.RolledBack(position=position, restore=restore, state=state)

    def erase(self, entry: entries.Erased, keys: Collection[str] | None = None) -> entries.Erased:
        """Forget the inputs of some decisions; `keys` are the texts behind the digests in the entry, if they are at hand."""
        if entry.keys and self.ledger.windows is not None:
            self.ledger.windows.erase(entry.keys, keys)
        self._drop([number for number in entry.numbers if number in self.waiting])
        self.hooks.forget_inputs(entry.numbers)
        if self.assignment is not None:
            self.assignment.erase(entry)
        for position in entry.stale:
            self.stale[position] = sorted({*self.stale.get(position, ()), *entry.numbers})
        for position, _ in entry.snapshots:
            self.stale.pop(position, None)
        self.stale_keys = sorted({*self.stale_keys, *entry.keys}) if self.stale else []
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
        state = cls(spec, expire_after=entry.expire_after, max_pending=entry.max_pending, ranges=entry.ranges)
        state.stated = entry.stated
        return state

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
        except (InvalidInput, Exhausted, TooManyKeys, Refusal, KeyError) as error:
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
                        Waiting(event.event_id, event.time, action, awaits, event.group, event.holds)
                        for awaits, action, *_, event in self.waiting.values()
                    ],
                ],
                "ledger": self.ledger.saved(),
                "tally": self.tally,
                "trail": self.trail,
                "labels": self.labels,
                "policy": self.hooks.state(),
                **({"windows": own.arrays()} if (own := self.ledger.own_windows) is not None else {}),
                **({"clock": self.clock} if self.hooks.counts_seconds else {}),
                **({"stale": list(self.stale.items())} if self.stale else {}),
                **({"stale_keys": self.stale_keys} if self.stale_keys else {}),
                **({} if self.assignment is None else {"assignment": self.assignment.saved()}),
                **({"held": self.held} if self.held else {}),
                **({"scheduled": self.schedule.planned} if self.schedule else {}),
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
        if self.ledger.own_windows is not None:
            with packing.arrays_of(saved["windows"]) as arrays:
                self.ledger.own_windows.load(arrays)
        self.stale, self.stale_keys = dict(saved.get("stale", [])), saved.get("stale_keys", [])
        self.held = msgspec.convert(saved.get("held", {}), dict[str, Held])
        self.schedule = Schedule(msgspec.convert(saved.get("scheduled", []), list[Planned]))
        self.tally = msgspec.convert(saved["tally"], Tally)
        self.trail = msgspec.convert(saved["trail"], Trail)
        self.labels = msgspec.convert(saved["labels"], list[_Labels])
        self.clock = saved.get("clock", 0)
        with packing.arrays_of(saved["policy"]) as arrays:
            self.hooks.load(arrays)
        numbers, waiting = msgspec.convert(saved["waiting"], tuple[list[int], list[Waiting]])
        for number, one in zip(numbers, waiting, strict=True):
            self.waiting.note(number, Event(one.event_id, one.time, one.group, one.holds), one.awaits)
        self.waiting.set_groups([one.group for one in waiting])
        if self.assignment is not None:
            self.assignment.restore(saved["assignment"])

    # Helpers

    def _repeat(self, entry: entries.Written, time: int) -> entries.Written:
        match entry:
            case entries.Decided():
                return self.decide(entry.event_id, entry.request, time=time)
            case entries.Learnt() if entry.correction is not None:
                self.correct(entry)
                return entry
            case entries.Learnt():
                if entry.cancelled:
                    return self.cancel(entry.number)
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
                return self.reconfigure(entry, time=time)
            case entries.WarmStarted():
                return self._begin_from(entry)
            case entries.Snapshotted():
                return entries.Snapshotted(of=self.position, digest=self.snapshot()[1], label=entry.label)
            case entries.Erased():
                return self.erase(entry)
            case entries.Scheduled():
                return self.schedule.keep(self.position + 1, entry)
            case entries.Cancelled():
                return self.schedule.cancel(entry.position, entry.why)

    def _begin_from(self, entry: entries.WarmStarted) -> entries.WarmStarted:
        """Take over what was learnt before the first decision, in the same way here and in a replay."""
        with packing.arrays_of(packing.unpacked_state(entry.state)) as arrays:
            self.hooks.load(arrays)
        return msgspec.structs.replace(entry, state=packing.packed(self.hooks.state()))

    def _adopt(self, spec: Spec, entry: entries.Started, time: int) -> None:
        new = self._successor(spec, entry, time)
        # `self.hooks` is of when the policy was made, before anyone said where its concerns go.
        new.policy.hooks.report_to(self.policy.hooks.notify)
        assignment = Assignment.of(spec, entry.ranges)
        if assignment is not None:
            assignment.continue_from(self.assignment, self.policy.rounds, self.time)
        self.assignment = assignment
        first, names, same = self.policy.rounds, constraint_names(spec), new.same_columns
        self.policy, self.hooks, self.ledger, self.held = (new.policy, new.policy.hooks, new.ledger, new.held)
        self.background = Background(new.policy)
        for number, (*_, event) in self.waiting.items():
            if event.holds and new.moved is not None:
                holds = new.ledger.moved_holds(event.holds, new.moved)
                self.waiting.note(number, msgspec.structs.replace(event, holds=holds))
        labels = _Labels(first, names, tuple(spec.registry.active))
        if not same:
            self.trail.begin_again()
        if msgspec.structs.replace(self.labels[-1], first=labels.first) != labels:
            self.labels.append(labels)
        self.spec, self.configured = spec, self.position + 1
        self.input = PolicyInput(spec, new.policy, entry.ranges)

    def _successor(self, spec: Spec, entry: entries.Started, time: int) -> Successor:
        """What goes on under another spec; nothing of this state has changed."""
        old, new, ledger, held = self.policy, served_policy(spec), self.ledger, self.held
        hooks = new.hooks
        was, later = renamed(self.spec, spec)
        configuration.require_fit(was, spec, old, new)
        if later:
            # Under the new names first: accounts and prices go by the names of rules, and these by those of actions.
            old = served_policy(was)
            succeed(old, self.policy)
            ledger = same_ledger(ledger, was, old if hooks.n_constraints else None, later, old.hooks.windows)
            held = renamed_columns(held, self.ledger.limits, ledger.limits)
        present, summed, moved = ledger, new if hooks.n_constraints else None, None
        if only_actions_differ(was, spec):
            succeed(new, old)
            ledger = same_ledger(present, spec, summed, windows=hooks.windows)
        else:
            ledger, moved = present.under(spec, summed, entry.reset_caps, hooks.windows)
            change = configuration.moved_limits(was, spec)
            if change is not None and hooks.restate is not None:
                succeed(new, old)
                if hooks.windows is not None and old.hooks.windows is not None:
                    # Another limit may be counted in other units.
                    carry_windows(old.hooks.windows, hooks.windows)
                hooks.restate(change)
            else:
                before, now = (configuration.known_before(one, was.actions) for one in (was, spec))
                hooks.resume(old, same_costs=before == now, shifts=configuration.late_shifts(was, spec))
        join_like(new, spec, len(was.actions))
        held = held_after(held, present.limits, ledger.limits, time)
        return Successor(new, ledger, moved, held, constraint_names(was) == constraint_names(spec))

    def _drop(self, numbers: list[int]) -> entries.Expired:
        events = [self.waiting[number][-1] for number in numbers]
        for number in numbers:
            self._let_go(number)
        if self.assignment is not None:
            self.assignment.drop(numbers)
        self.tally.expired += len(numbers)
        return entries.Expired(numbers=numbers, event_ids=[event.event_id for event in events])

    def _let_go(self, number: int, *, acted: bool = True) -> None:
        self.ledger.keep(self.waiting[number][-1].holds)
        self.policy.forget(number, acted=acted)
        if (windows := self.ledger.own_windows) is not None:
            (windows.expire if acted else windows.cancel)(number)

    def _default(self, request: DecisionRequest, ids: list[int] | None, offer: Offer) -> int:
        if request.default is not None:
            served = self.spec.registry.id(request.default, "default")
        elif self.default is not None:
            served = self.default
        else:
            problem = "is missing: in shadow mode it says which action is served"
            raise InvalidInput(field="default", problem=problem)
        if ids is not None and served not in ids:
            caps = self.ledger.hard(offer, served)
            asked = self.input.active if request.actions is None else self.spec.registry.ids(request.actions)
            if caps and served in asked and served in self.input.active:
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
