"""Who decides: the policy, the control group's baseline, or an earlier decision for the same user.

The experiment's policy weighs every offer and books every action, whoever chose it. So its totals count all usage, hard caps bind
everyone, and it learns from all outcomes. The baseline is a policy of its own that books and learns only what it decided.

A control group is drawn by a hash: of the decision's number, or of the user's name. So it is the same in a replay, and a user who
is in it stays there. Where an action sticks, it comes from the user's earlier decision in the same arm, unless it is not on offer.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from tightrope.errors import InvalidInput
from tightrope.holdout import drawn, is_held_out, key_of
from tightrope.lift import CONTROL, POLICY
from tightrope.offer import Offer
from tightrope.policies import POLICIES, Decision, Policy
from tightrope.policies.build import build_policy
from tightrope.policies.hooks import PolicyHooks
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD
from tightrope.rules.rules import Group
from tightrope.service.experiment.configuration import Ranges, known_before, late_shifts
from tightrope.service.experiment.kept_actions import Kept, KeptActions
from tightrope.service.experiment.lift_accounts import NOBODY, LiftAccounts
from tightrope.service.experiment.policy_input import PolicyInput
from tightrope.service.journal import packing
from tightrope.service.journal.entries import Assigned, Decided, Erased
from tightrope.service.requests import DecisionRequest
from tightrope.spec import Spec
from tightrope.validation import Array

# The row of a decision that no lift counts.
_UNMEASURED: Final = -2
_ARMS: Final[tuple[Literal["policy", "control"], ...]] = ("policy", "control")
_SEED: Final = 1


class Choice(NamedTuple):
    """What was decided: by the numbers `seen`, as the policy's `decision`, drawn as `chance` by the policy of `hooks`.

    `chance` is None for a repeat, which is certain.
    """

    seen: Decision
    decision: Decision
    chance: Decision | None
    hooks: PolicyHooks
    assigned: Assigned


class _Note(NamedTuple):
    """Of a pending decision: its arm, its user's row in the lift, and its number among the baseline's own decisions."""

    arm: int
    row: int
    own: int


class Baseline:
    """The policy that decides for the control group, and learns from its own decisions alone."""

    def __init__(self, spec: Spec, ranges: Ranges) -> None:
        assert spec.baseline is not None
        stated = spec.baseline.settings
        if "seed" in inspect.signature(POLICIES.find(spec.baseline.kind, spec.baseline.folder)).parameters:
            # Its draws are not those of the experiment's policy.
            stated = {"seed": _SEED, **stated}
        policy = build_policy(msgspec.structs.replace(spec.baseline, settings=stated), spec.problem())
        if not isinstance(policy, Policy):
            raise spec.error(
                "holdout.policy: must inherit tightrope.policies.Policy, which saves and restores it"
            )
        if reasons := spec.problem().misfits(policy):
            raise spec.error(f"holdout.policy: can't be served here: {'; '.join(reasons)}")
        if policy.hooks.background() or policy.hooks.counts_seconds:
            kind = spec.baseline.kind
            words = "works in the background or counts seconds, which only the experiment's own policy may do"
            raise spec.error(f"holdout.policy: {kind!r} with these settings {words}")
        self.policy, self.hooks = policy, policy.hooks
        self.input = PolicyInput(spec, policy, ranges)
        self._shares = spec.baseline.settings.get("shares")

    def decide(self, request: DecisionRequest, offer: Offer, action: int | None, time: int) -> Decision:
        """Its decision on the offer that is left of a request; or the action that its user keeps."""
        own = self.input.read(request, time)
        if len(own.ids) > len(offer.ids):
            on_offer = {*offer.ids.tolist()}
            own = own.only([row for row, one in enumerate(own.ids.tolist()) if one in on_offer])
        return self.policy.commit(self.policy.quote(own), action)

    def is_off_offer(self, action: int) -> bool:
        """Whether it took an action that is none of its own, because none of these was on offer."""
        return self._shares is not None and not self._shares[action]

    def learn(self, number: int, reward: float | None, costs: Array | None) -> None:
        waiting = self.hooks.pending.get(number)
        if waiting is None:
            return
        reward = reward if waiting[0] & AWAITS_REWARD else None
        costs = costs if waiting[0] & AWAITS_COSTS else None
        if reward is None and costs is None:
            return
        try:
            self.policy.learn(number, reward, costs)
        except InvalidInput:
            # The experiment's policy has taken the outcome, so it stands; one that the baseline can't take teaches it nothing.
            self.forget(number)

    def forget(self, number: int) -> None:
        if number in self.hooks.pending:
            self.policy.forget(number)

    def continue_from(self, old: Baseline, was: Spec, now: Spec) -> bool:
        """Take over what `old` has learnt and booked; False if it can't be taken over, and this one begins anew."""
        if (was.baseline, was.actions) != (now.baseline, now.actions):
            return False
        same = known_before(was, was.actions) == known_before(now, was.actions)
        try:
            self.hooks.resume(old.policy, same_costs=same, shifts=late_shifts(was, now))
        except InvalidInput:
            return False
        return True


class Assignment:
    """The control group of an experiment, its lift, and the actions that users keep; any of it may be missing."""

    def __init__(self, spec: Spec, ranges: Ranges) -> None:
        self._spec = spec
        self.holdout, self._key = spec.holdout, next(iter(spec.key_names), None)
        self.baseline = None if spec.holdout is None else Baseline(spec, ranges)
        self.kept = None if spec.sticky is None else KeptActions(spec.sticky.seconds)
        by_user = spec.holdout is not None and spec.holdout.by is not None
        self.lift = None if spec.holdout is None else LiftAccounts(spec.rules, by_user)
        # The number of the first decision that the lift counts, and when it was counted from.
        self.since = (0, 0)
        # The number of the first decision that could be the baseline's, which may have begun anew.
        self._baseline_since = 0
        self.repeats = self.displaced = 0
        self._notes: dict[int, _Note] = {}

    @classmethod
    def of(cls, spec: Spec, ranges: Ranges) -> Assignment | None:
        return None if spec.holdout is None and spec.sticky is None else cls(spec, ranges)

    def continue_from(self, old: Assignment | None, first: int, time: int) -> None:
        """Continue under a changed spec, at the decision `first`.

        Users keep their actions. A baseline that has not changed goes on; another begins anew. The lift goes on if nothing has
        changed that it compares or counts, and otherwise begins anew; outcomes of earlier decisions then no longer count in it.
        """
        self.since, self._baseline_since = (first, time), first
        if old is None:
            return
        self.repeats, self.displaced = old.repeats, old.displaced
        was, now = old._spec, self._spec
        if self.kept is not None and old.kept is not None and self._key == old._key:
            self.kept.continue_from(old.kept)
        goes_on = False
        if self.baseline is not None and old.baseline is not None:
            goes_on = self.baseline.continue_from(old.baseline, was, now)
        same = all(was.data.get(part) == now.data.get(part) for part in ("holdout", "policy", "rule"))
        if self.lift is not None and same:
            self.lift, self.since = old.lift, old.since
        self._baseline_since = old._baseline_since if goes_on else first
        for number, note in old._notes.items():
            row, own = note.row if same else _UNMEASURED, note.own if goes_on else NOBODY
            self._notes[number] = note._replace(row=row, own=own)

    def decide(
        self,
        policy: Policy,
        hooks: PolicyHooks,
        read: PolicyInput,
        request: DecisionRequest,
        offer: Offer,
        time: int,
    ) -> Choice:
        """One decision, booked by the policy, and by the baseline in its arm; after `InvalidInput` nothing has changed.

        `hooks` are the policy's, which take a while to ask for.
        """
        bits = self._bits(request)
        arm = self._arm(bits, hooks.pending.made)
        kept = self._kept(bits, arm, offer, time)
        own: Decision | None = None
        if kept is None and arm == POLICY:
            seen = decision = hooks.decide_offer(offer)
        else:
            quote = policy.quote(offer)
            # The policy may itself leave out what some limit does not allow.
            kept = self._kept(bits, arm, quote.offer, time)
            chosen = None if kept is None else kept.action
            if self.baseline is not None and arm == CONTROL:
                own = self.baseline.decide(request, quote.offer, chosen, time)
                chosen = own.action
            decision = policy.commit(quote, chosen)
            seen = decision if chosen is None else quote.proposed
        if kept is not None:
            self.repeats += 1
        elif self.kept is not None:
            self.kept.keep(bits, decision.action, arm, decision.number, time)
        if own is not None and self.baseline is not None and kept is None:
            self.displaced += self.baseline.is_off_offer(own.action)
        number = NOBODY if own is None else own.number
        self._notes[decision.number] = _Note(
            arm, self._count(arm, bits, read, request, decision, offer, time), number
        )
        shown = _ARMS[arm] if self.holdout is not None else None
        assigned = Assigned(shown, None if kept is None else kept.number, number)
        chance = None if kept is not None else (decision if own is None else own)
        drew = self.baseline.hooks if own is not None and self.baseline is not None else hooks
        return Choice(seen, decision, chance, drew, assigned)

    def learnt(
        self,
        number: int,
        read: PolicyInput,
        group: Group,
        reward: float | None,
        costs: Array | None,
        whole: bool,
    ) -> None:
        """A part of the outcome of a decision; `whole` if nothing more is awaited."""
        note = self._notes.get(number)
        if note is None:
            return
        if note.own != NOBODY and self.baseline is not None:
            self.baseline.learn(note.own, reward, costs)
        if note.row != _UNMEASURED and self.lift is not None:
            self.lift.learnt(note.arm, note.row, reward, read.late_columns, costs, group)
        if whole:
            self.drop([number])

    def drop(self, numbers: Collection[int]) -> None:
        """The outcomes of some decisions are no longer awaited."""
        for number in numbers:
            note = self._notes.pop(number, None)
            if note is not None and note.own != NOBODY and self.baseline is not None:
                self.baseline.forget(note.own)

    def roll_back(self, then: Mapping[str, Any] | None, dropped: Collection[int], learnt_only: bool) -> None:
        """Take the baseline back too. The lift and what users keep stay, as counts do: they record what happened."""
        self.drop(dropped)
        saved = None if then is None else then["baseline"]
        if self.baseline is not None and saved is not None:
            with packing.arrays_of(saved["arrays"]) as arrays:
                self.baseline.hooks.roll_back(arrays, learnt_only=learnt_only)

    def reached(self, decided: Iterable[Decided]) -> tuple[list[int], list[int]]:
        """What `erase` needs to know of some decisions: their numbers among the baseline's own, their users' rows in the lift."""
        own, users = set[int](), set[int]()
        for entry in decided:
            if entry.assigned is None:
                continue
            if entry.assigned.own >= 0 and entry.number >= self._baseline_since:
                own.add(entry.assigned.own)
            keys = entry.request.keys or {}
            if self.lift is not None and self._key in keys:
                users.add(self.lift.row_of(self._bits(entry.request)))
        return sorted(own), sorted(users - {NOBODY})

    def erase(self, entry: Erased) -> None:
        """Forget the inputs of decisions, and whose the sums and actions are that come from them."""
        if self.kept is not None:
            self.kept.forget(entry.numbers)
        if self.lift is not None:
            self.lift.forget(entry.users)
        if self.baseline is not None:
            self.baseline.hooks.forget_inputs(entry.own)

    def erase_all(self) -> None:
        """Forget all inputs and all users: for a snapshot that still holds those of erased decisions.

        A rollback takes only the baseline's sums from it, and they stay.
        """
        if self.kept is not None:
            self.kept.forget_all()
        if self.lift is not None:
            self.lift.forget_all()
        if self.baseline is not None:
            self.baseline.hooks.forget_inputs(range(self.baseline.hooks.pending.made))

    def saved(self) -> dict[str, Any]:
        baseline = None
        if self.baseline is not None:
            hooks = self.baseline.hooks
            baseline = {"arrays": hooks.state(), "groups": hooks.pending.settings()["pending_groups"]}
        return {
            "since": self.since,
            "baseline_since": self._baseline_since,
            "counts": (self.repeats, self.displaced),
            "notes": [[number, *note] for number, note in self._notes.items()],
            "kept": None if self.kept is None else self.kept.saved(),
            "lift": None if self.lift is None else self.lift.saved(),
            "baseline": baseline,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.since = msgspec.convert(saved["since"], tuple[int, int])
        self._baseline_since = saved["baseline_since"]
        self.repeats, self.displaced = saved["counts"]
        self._notes = {number: _Note(*note) for number, *note in saved["notes"]}
        if self.kept is not None:
            self.kept.restore(saved["kept"])
        if self.lift is not None:
            with packing.arrays_of(saved["lift"]["arrays"]) as arrays:
                self.lift.restore(saved["lift"], arrays)
        if self.baseline is not None:
            with packing.arrays_of(saved["baseline"]["arrays"]) as arrays:
                self.baseline.hooks.load(arrays)
            self.baseline.hooks.pending.set_groups(saved["baseline"]["groups"])

    def _arm(self, bits: int, number: int) -> int:
        """The arm of a user, or of a decision by its number."""
        if self.holdout is None:
            return POLICY
        if self.holdout.by is None:
            bits = drawn(self._spec.name, f"decision {number}")
        return CONTROL if is_held_out(bits, self.holdout.share) else POLICY

    def _kept(self, bits: int, arm: int, offer: Offer, time: int) -> Kept | None:
        """The earlier decision whose action the user keeps, if it is on offer."""
        kept = None if self.kept is None else self.kept.of(bits, arm, time)
        return kept if kept is not None and kept.action in offer.ids else None

    def _count(
        self,
        arm: int,
        bits: int,
        read: PolicyInput,
        request: DecisionRequest,
        decision: Decision,
        offer: Offer,
        time: int,
    ) -> int:
        """Count a decision in the lift; returns its user's row."""
        if self.lift is None:
            return _UNMEASURED
        if not any(self.lift.decisions):
            self.since = (decision.number, time)
        row = offer.row_of("the action", decision.action)
        costs = offer.W[row, read.known_columns]
        return self.lift.decided(arm, bits, read.known_columns, costs, request.group)

    def _bits(self, request: DecisionRequest) -> int:
        """The random bits of the request's user; 0 if neither the control group nor an action goes by one."""
        if self._key is None:
            return 0
        why = "the control group" if self.kept is None else "who keeps an action"
        return drawn(self._spec.name, f"user {key_of(request.keys, self._key, why)}")
