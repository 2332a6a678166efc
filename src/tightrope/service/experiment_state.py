"""The state of an experiment as a function of its journal.

Every change goes through a method that returns the journal's entry for it. `replay` goes the other way: it repeats what an
entry says and refuses the journal if a single bit of the answer comes out differently.

>>> from tightrope.spec import make_spec
>>> spec = make_spec({"actions": ["a", "b"], "rule": [{"kind": "capacity", "action": "a", "at_most": 0.5}]})
>>> state = ExperimentState(spec)
>>> entry = state.decide("visit-1", DecisionRequest(), time=0)
>>> spec.actions[entry.action], state.queue.tolist()
('a', [2.949489742783178])
"""

from __future__ import annotations

from collections import OrderedDict
from decimal import Decimal
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.policies import Decision, Explanation, PessimisticOptimistic
from tightrope.service.bodies import DecisionRequest, Refusal, fingerprint
from tightrope.service.configuration import (
    constraint_names,
    known_before,
    require_fit,
    served_part,
    served_policy,
)
from tightrope.service.hard_caps import affordable, exhausted, hard_caps
from tightrope.service.journal import (
    Decided,
    Entry,
    Expired,
    JournalDamaged,
    Learnt,
    Measured,
    ModeChanged,
    Refused,
    RolledBack,
    Row,
    Started,
    entry_of,
)
from tightrope.service.policy_input import PolicyInput
from tightrope.service.snapshots import (
    digest_of,
    packed_arrays,
    packed_state,
    unpacked_arrays,
    unpacked_state,
)
from tightrope.spec import Spec, make_spec
from tightrope.validation import Array

__all__ = ["ExperimentState", "Tally", "Waiting"]

Mode = Literal["live", "shadow", "paused"]

AWAITS_REWARD, AWAITS_COSTS = 1, 2
# At most so many at a time, so that a batch that follows a long silence is not held up.
_EXPIRE_AT_ONCE = 1000
_TRAIL = 240


class Waiting(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A decision whose outcome is still to come. `holds` are the hard caps that keep the high end of its cost reserved.

    There are as many as decisions pending, so the garbage collector is spared them: they can't be part of a cycle.
    """

    event_id: str
    time: int
    action: int
    awaits: int
    group: str | tuple[str, ...] | None
    holds: tuple[int, ...]


class Tally(msgspec.Struct, kw_only=True):
    """What has been counted since the beginning."""

    actions: list[int]
    shadow: int = 0
    rewards: int = 0
    reward_sum: float = 0.0
    complete: int = 0
    expired: int = 0
    rolled_back: int = 0
    late: int = 0
    unknown: int = 0
    differs: int = 0


class ExperimentState:
    """The policy of one experiment, its hard caps and everything else that a decision depends on.

    Parameters
    ----------
    spec : Spec
        With named actions and one policy, a pessimistic-optimistic one.
    expire_after : float
        Seconds until a decision without its whole outcome is no longer waited for.
    max_pending : int
        Decisions waited for at most: beyond, the oldest expire.
    """

    def __init__(
        self, spec: Spec, *, expire_after: float = 30 * 86_400.0, max_pending: int = 100_000
    ) -> None:
        self.spec = spec
        self.expire_after = expire_after
        self.max_pending = max_pending
        self.position = 0
        self.time = 0
        self.mode: Mode = "live"
        self.default: int | None = None
        self.measured = 0
        self.waiting: OrderedDict[int, Waiting] = OrderedDict()
        self.policy = served_policy(spec)
        self.measures = self.policy.defer_slater()
        self.caps = hard_caps(spec)
        self.tally = Tally(actions=[0] * len(spec.actions))
        self.trail: list[list[float]] = []
        self.stride = 1
        # Which constraints the decisions from a number on were judged by, and since which entry.
        self.labels: list[tuple[int, tuple[str, ...]]] = [(0, constraint_names(spec))]
        self.configured = 1
        self._input = PolicyInput(spec)
        self._kinds = (type(self.policy.reward_model), type(self.policy.cost_model))

    # What it knows

    @property
    def queue(self) -> Array:
        """The dual variables Q, (K,)."""
        return self.policy.queue

    @property
    def totals(self) -> Array:
        """Cumulative costs (K,)."""
        return self.policy.totals

    @property
    def rounds(self) -> int:
        """Decisions that the policy has counted."""
        return self.policy.rounds

    @property
    def slater(self) -> float | None:
        """Slater's constant, as given or as measured last."""
        return self.policy.slater

    def slater_sample(self) -> Any:
        """What Slater's constant is measured on."""
        return self.policy.slater_sample()

    @property
    def slater_due(self) -> bool:
        """Whether the number of rounds has doubled since Slater's constant was measured."""
        return self.measures and self.policy.rounds.bit_length() > self.measured.bit_length()

    def explain(self, entry: Decided) -> Explanation:
        """Why a decision came out as it did. In shadow mode: why the policy would have chosen what it proposed."""
        ids = np.arange(len(self.spec.actions)) if entry.offered is None else np.array(entry.offered)
        chosen = entry.action if entry.proposed is None else entry.proposed
        names = next(names for first, names in reversed(self.labels) if first <= entry.number)
        row, trace = int(np.flatnonzero(ids == chosen)[0]), np.frombuffer(entry.trace)
        labels = self.policy.labels._replace(actions=self.spec.actions, constraints=names)
        return Decision(chosen, row, entry.number, 0, ids, trace, labels).explain()

    # What changes it

    def decide(self, event_id: str, request: DecisionRequest, *, time: int) -> Decided:
        """Choose, move the queue, reserve what hard caps need.

        Raises
        ------
        InvalidInput
            The request is not what the spec asks for; nothing has changed.
        Refusal
            The experiment is paused, or its hard caps leave nothing to choose; nothing has changed.
        """
        if self.mode == "paused":
            raise Refusal(
                503, "paused", "the experiment is paused: no decisions until it is live", retry_after=5
            )
        read = self._input
        ids = None if request.actions is None else read.actions(request.actions)
        x = read.vector(request, ids)
        usage = read.usage(request)
        W = read.costs(request, usage, ids)
        needs: list[list[Decimal]] | None = None
        if self.caps:
            needs, keep = affordable(self.caps, self.spec.actions, ids, usage, request.group)
            if len(keep) < len(needs):
                ids = keep if ids is None else [ids[row] for row in keep]
                needs = [needs[row] for row in keep]
                W = None if W is None else np.ascontiguousarray(W[keep])
                x = np.ascontiguousarray(x[keep]) if x is not None and x.ndim == 2 else x
        phi, psi = (read.rows(kind, x, ids) for kind in self._kinds)
        proposed: int | None = None
        if self.mode == "shadow":
            served = self._default(request, ids)
            seen = self.policy.propose(phi, W, cost_features=psi, actions=ids)
            row = served if ids is None else ids.index(served)
            decision = self.policy.decide(
                _one(phi, row), _one(W, row), cost_features=_one(psi, row), actions=[served]
            )
            proposed = seen.action
        else:
            seen = decision = self.policy.decide(phi, W, cost_features=psi, actions=ids)
            row = decision.row
        holds: tuple[int, ...] = ()
        if needs is not None:
            holds = tuple(k for k, cap in enumerate(self.caps) if cap.spend(needs[row][k]))
        self.tally.actions[decision.action] += 1
        self.tally.shadow += proposed is not None
        awaits = AWAITS_REWARD | (AWAITS_COSTS if read.awaits_costs else 0)
        group = tuple(request.group) if isinstance(request.group, list) else request.group
        self.waiting[decision.number] = Waiting(event_id, time, decision.action, awaits, group, holds)
        self._mark(time)
        assert seen.trace is not None
        return Decided(
            event_id=event_id,
            request=request,
            fingerprint=fingerprint(request),
            number=decision.number,
            action=decision.action,
            trace=seen.trace.tobytes(),
            queue=self.policy.queue.tobytes(),
            offered=ids,
            proposed=proposed,
        )

    def learn(
        self,
        number: int,
        reward: float | None = None,
        costs: list[float] | dict[str, float] | None = None,
    ) -> Learnt:
        """Apply an outcome, or a part of one, to a decision in `waiting`.

        Raises
        ------
        InvalidInput
            The outcome is not what the spec asks for; nothing has changed.
        """
        entry = self.waiting[number]
        observed: Any = costs
        if isinstance(costs, dict):
            if self.spec.rules is None or not self._input.awaits_costs:
                raise InvalidInput("costs are not seen after acting here: an outcome is the reward alone.")
            observed = self.spec.rules.observed(costs, action=entry.action, group=entry.group)
        elif costs is not None and entry.holds:
            name = self.caps[entry.holds[0]].name
            raise InvalidInput(
                f"costs must be an object of usages by name, since a hard cap counts {name!r}."
            )
        self.policy.learn(number, reward, observed)
        awaits, holds = entry.awaits, entry.holds
        if reward is not None:
            awaits &= ~AWAITS_REWARD
            self.tally.rewards += 1
            self.tally.reward_sum += reward
        if costs is not None:
            awaits &= ~AWAITS_COSTS
            for k in holds:
                cap = self.caps[k]
                assert isinstance(costs, dict)
                assert cap.usage is not None
                cap.replace_reserved(costs[cap.usage])
            holds = ()
        if awaits:
            self.waiting[number] = msgspec.structs.replace(entry, awaits=awaits, holds=holds)
        else:
            del self.waiting[number]
            self.tally.complete += 1
        return Learnt(event_id=entry.event_id, number=number, reward=reward, costs=costs)

    def expire(self, time: int) -> Expired | None:
        """Stop waiting for what is too old at `time`, or too much; None if there is nothing. What is reserved stays used."""
        due = time - int(self.expire_after * 1e6)
        excess = len(self.waiting) - self.max_pending
        numbers: list[int] = []
        for number, entry in self.waiting.items():
            if (entry.time > due and len(numbers) >= excess) or len(numbers) == _EXPIRE_AT_ONCE:
                break
            numbers.append(number)
        return self._drop(numbers) if numbers else None

    def refuse(
        self,
        event_id: str,
        reason: Literal["late", "unknown", "differs"],
        reward: float | None = None,
        costs: list[float] | dict[str, float] | None = None,
    ) -> Refused:
        """Count an outcome that can't be applied."""
        setattr(self.tally, reason, getattr(self.tally, reason) + 1)
        return Refused(event_id=event_id, reason=reason, reward=reward, costs=costs)

    def take_slater(self, slater: float, rounds: int) -> Measured:
        """Go on with Slater's constant as measured on the first `rounds` rounds."""
        self.policy.take_slater(slater)
        self.measured = rounds
        return Measured(rounds=rounds, slater=slater)

    def change_mode(self, mode: Mode, default: int | str | None = None) -> ModeChanged:
        """Go live, into shadow mode, or pause."""
        if default is not None and mode != "shadow":
            raise InvalidInput(f"default is for shadow mode, but got mode {mode!r}.")
        self.default = None if default is None else self._input.actions([default], "default")[0]
        self.mode = mode
        return ModeChanged(mode=mode, default=self.default)

    def reconfigure(self, entry: Started) -> Started:
        """Go on under another configuration: rules that are seen before acting, hard caps, schedules, how long to wait.

        What was learnt and spent stays: models, rounds, pending decisions; queues and cumulative costs of the constraints, and what
        is used of the caps, that there were before. New ones begin at 0.

        Raises
        ------
        InvalidInput
            What was learnt does not fit the new configuration; nothing has changed.
        """
        spec = make_spec(entry.spec, source=self.spec.source)
        if served_part(spec) != served_part(self.spec):
            self._adopt(spec)
        self.expire_after, self.max_pending = entry.expire_after, entry.max_pending
        return self.started(entry.version)

    def started(self, version: str) -> Started:
        """The entry that states the configuration."""
        return Started(
            format=1,
            version=version,
            spec=served_part(self.spec),
            expire_after=self.expire_after,
            max_pending=self.max_pending,
        )

    def roll_back(self, position: int, state: bytes, restore: Literal["learnt", "all"]) -> RolledBack:
        """Take what was learnt, or rounds, queues and cumulative costs too, from a snapshot's state.

        Hard caps, counts and the numbers of decisions stay: they tell what happened. Decisions that were pending then and are
        still pending now stay pending; with "all", younger ones are dropped.
        """
        then = unpacked_arrays(unpacked_state(state)["policy"])
        now = self.policy.state()
        if restore == "learnt":
            arrays = {
                name: then[name] if name.startswith(("reward/", "cost/")) else array
                for name, array in now.items()
            }
        else:
            kept = np.isin(now["pending/number"], then["pending/number"])
            arrays = {
                name: array[kept] if name.startswith("pending/") else array if name == "made" else then[name]
                for name, array in now.items()
            }
            dropped = now["pending/number"][~kept].tolist()
            for number in dropped:
                del self.waiting[number]
            self.tally.rolled_back += len(dropped)
        self._restore_policy(arrays)
        return RolledBack(position=position, restore=restore, state=state)

    def advance(self, row: Row) -> None:
        """Take note that `row` is in the journal."""
        self.position, self.time = row.position, row.time

    # Replay, snapshots

    @classmethod
    def begin(cls, row: Row, source: str = "journal") -> ExperimentState:
        """The state at the first row of a journal."""
        entry = entry_of(row)
        if not isinstance(entry, Started) or row.position != 1:
            raise JournalDamaged(
                f"row {row.position}: a journal begins with the experiment's configuration at row 1."
            )
        state = cls.of(entry, source)
        state.advance(row)
        return state

    @classmethod
    def of(cls, entry: Started, source: str = "journal") -> ExperimentState:
        """The state before any decision, in a journaled configuration."""
        return cls(
            make_spec(entry.spec, source=source),
            expire_after=entry.expire_after,
            max_pending=entry.max_pending,
        )

    def replay(self, row: Row) -> Entry:
        """Repeat the entry that follows, and compare."""
        if row.position != self.position + 1:
            raise JournalDamaged(f"row {row.position} follows row {self.position}: rows are missing.")
        entry = entry_of(row)
        try:
            again = self._repeat(entry, row.time)
        except (InvalidInput, Refusal, KeyError) as error:
            raise JournalDamaged(f"row {row.position} can't be repeated: {error}") from error
        if again != entry:
            raise JournalDamaged(
                f"row {row.position} does not come out as it was recorded: {_difference(entry, again)}. Was it written by another "
                "release of Tightrope or of the libraries below it? Stop the service in order before an upgrade."
            )
        self.advance(row)
        return entry

    def snapshot(self) -> tuple[bytes, str]:
        """The whole state in bytes, and its SHA-256: equal states give equal bytes."""
        packed = packed_state(
            {
                "position": self.position,
                "time": self.time,
                "mode": self.mode,
                "default": self.default,
                "measured": self.measured,
                "expire_after": self.expire_after,
                "max_pending": self.max_pending,
                # Two lists, not pairs: 100,000 pairs would wake the garbage collector.
                "waiting": [list(self.waiting), list(self.waiting.values())],
                "caps": [[cap.name, str(cap.used)] for cap in self.caps],
                "tally": self.tally,
                "labels": self.labels,
                "configured": self.configured,
                "trail": self.trail,
                "stride": self.stride,
                "policy": packed_arrays(self.policy.state()),
            }
        )
        return packed, digest_of(packed)

    def restore(self, state: bytes) -> None:
        """Become what `snapshot` saw."""
        saved = unpacked_state(state)
        self.position, self.time = saved["position"], saved["time"]
        self.mode, self.default = saved["mode"], saved["default"]
        self.measured = saved["measured"]
        self.expire_after, self.max_pending = saved["expire_after"], saved["max_pending"]
        numbers, entries = msgspec.convert(saved["waiting"], tuple[list[int], list[Waiting]])
        self.waiting = OrderedDict(zip(numbers, entries, strict=True))
        for cap, (name, used) in zip(self.caps, saved["caps"], strict=True):
            if cap.name != name:
                raise JournalDamaged(
                    f"the snapshot counts a hard cap {name!r} where the spec has {cap.name!r}."
                )
            cap.used = Decimal(used)
        self.tally = msgspec.convert(saved["tally"], Tally)
        self.labels = msgspec.convert(saved["labels"], list[tuple[int, tuple[str, ...]]])
        self.configured = saved["configured"]
        self.trail, self.stride = saved["trail"], saved["stride"]
        self._restore_policy(unpacked_arrays(saved["policy"]))

    # Helpers

    def _repeat(self, entry: Entry, time: int) -> Entry | None:
        match entry:
            case Decided():
                return self.decide(entry.event_id, entry.request, time=time)
            case Learnt():
                return self.learn(entry.number, entry.reward, entry.costs)
            case Expired():
                return self._drop(entry.numbers)
            case Refused():
                return self.refuse(entry.event_id, entry.reason, entry.reward, entry.costs)
            case Measured():
                return self.take_slater(entry.slater, entry.rounds)
            case ModeChanged():
                return self.change_mode(entry.mode, entry.default)
            case RolledBack():
                return self.roll_back(entry.position, entry.state, entry.restore)
            case Started():
                return self.reconfigure(entry)

    def _adopt(self, spec: Spec) -> None:
        old, new = self.policy, served_policy(spec)
        caps = hard_caps(spec)
        require_fit(self.spec, spec, old, new)
        same = known_before(self.spec) == known_before(spec)
        new.resume(old, same_costs=same)
        self.policy = new
        self.measures = new.defer_slater()
        if not (same and old.slater is not None):
            # Costs under the old limits say nothing about δ under the new ones: measure afresh, soon.
            self.measured = 0
        moved = {k: caps.index(cap) for k, was in enumerate(self.caps) for cap in caps if cap.key == was.key}
        for k, at in moved.items():
            caps[at].used = self.caps[k].used
        for number, entry in self.waiting.items():
            if entry.holds:
                holds = tuple(moved[k] for k in entry.holds if k in moved)
                self.waiting[number] = msgspec.structs.replace(entry, holds=holds)
        if self.labels[-1][1] != constraint_names(spec):
            self.labels.append((old.rounds, constraint_names(spec)))
            self.trail = []
        self.spec, self.caps, self.configured = spec, caps, self.position + 1
        self._input = PolicyInput(spec)

    def _drop(self, numbers: list[int]) -> Expired:
        event_ids = [self.waiting[number].event_id for number in numbers]
        for number in numbers:
            del self.waiting[number]
            self.policy.forget(number)
        self.tally.expired += len(numbers)
        return Expired(numbers=numbers, event_ids=event_ids)

    def _restore_policy(self, arrays: dict[str, NDArray[Any]]) -> None:
        settings = {**self.policy.settings(), "pending_groups": None}
        try:
            self.policy = PessimisticOptimistic.restore(settings, arrays)
        except (KeyError, ValueError, IndexError) as error:
            raise JournalDamaged(f"the snapshot does not fit the policy of the spec: {error!r}.") from error
        self.policy.defer_slater()

    def _default(self, request: DecisionRequest, ids: list[int] | None) -> int:
        if request.default is not None:
            served = self._input.actions([request.default], "default")[0]
        elif self.default is not None:
            served = self.default
        else:
            raise InvalidInput("default is missing: in shadow mode it says which action is served.")
        if ids is not None and served not in ids:
            if self.caps and (request.actions is None or served in self._input.actions(request.actions)):
                raise exhausted(self.caps, f"the default action {self.spec.actions[served]!r}")
            raise InvalidInput(
                f"default must be one of the actions on offer, but got {self.spec.actions[served]!r}."
            )
        return served

    def _mark(self, time: int) -> None:
        """Note where things stand, at most `_TRAIL` times: twice as seldom whenever that many are kept."""
        if sum(self.tally.actions) % self.stride:
            return
        tally = self.tally
        self.trail.append(
            [
                float(sum(tally.actions)),
                float(time),
                float(tally.rewards),
                tally.reward_sum,
                *self.policy.totals.tolist(),
                *self.policy.queue.tolist(),
                *map(float, tally.actions),
            ]
        )
        if len(self.trail) >= _TRAIL:
            self.trail = self.trail[1::2]
            self.stride *= 2


def _one(rows: Array | None, row: int) -> Array | None:
    """The row alone; a vector for all actions stays one."""
    return rows if rows is None or rows.ndim == 1 else np.ascontiguousarray(rows[row : row + 1])


def _difference(recorded: Entry, again: Entry | None) -> str:
    for name in recorded.__struct_fields__:
        old, new = getattr(recorded, name), getattr(again, name, None)
        if old != new:
            if isinstance(old, bytes) and isinstance(new, bytes) and name in ("trace", "queue"):
                return f"{name} was {np.frombuffer(old).tolist()}, and now is {np.frombuffer(new).tolist()}"
            return f"{name} was {old!r}, and now is {new!r}"
    return "its kind differs"
