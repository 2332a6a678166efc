"""Monitors any running policy: totals that stay above zero, actions and costs that were never seen.

Totals are checked before every 64th decision, and reported from the 512th on; everything else, which takes longer, before
the 512th and whenever the number has doubled. Checks read plain state, so a loaded policy is checked as well;
it may then warn again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.concerns import Concern
from tightrope.models import Model
from tightrope.models.hooks import never_learnt
from tightrope.policies.hooks import PolicyHooks, Watched
from tightrope.policies.pending import AWAITS_COSTS
from tightrope.rules import Rules, Units
from tightrope.validation import Array

# Totals are checked this often; nothing is reported before the decision with that number.
LOOK_EVERY, FIRST_LOOK = 64, 512
# A total is a concern if it is above zero by this many typical costs, and by this many per decision.
LEAST_COSTS, LEAST_SHARE = 3.0, 2e-3
# An action should have been tried if it was on offer this often, and at least this often per action.
ENOUGH_OFFERS, OFFERS_FOR_EACH = 1024, 64
_NAMED = 3


def next_look(made: int) -> int:
    """The number of the decision before which to check the totals again.

    >>> next_look(0), next_look(64), next_look(3000)
    (64, 128, 3008)
    """
    return (made // LOOK_EVERY + 1) * LOOK_EVERY


def next_whole_look(made: int) -> int:
    """The number of the decision before which to check everything again: the next power of two.

    >>> next_whole_look(0), next_whole_look(512), next_whole_look(3000)
    (512, 1024, 4096)
    """
    return 1 << max(FIRST_LOOK.bit_length() - 1, made.bit_length())


class Watch:
    """What is remembered between checks, and what was reported; not saved with the policy.

    `since` (K,): the first of the consecutive checks that found a total above zero, 0 if the last one did not. For offers that left
    actions out, `few` counts all of them and `offered` those of each action; other decisions, from number `begun` on, had all
    actions on offer. Everything is checked before decision number `whole_at`.
    """

    __slots__ = ("begun", "few", "offered", "since", "told", "whole_at")

    def __init__(self, n_constraints: int, begun: int = 0) -> None:
        self.since = np.zeros(n_constraints, dtype=np.int64)
        self.begun = begun
        self.few = 0
        self.offered: NDArray[np.int64] | None = None
        self.told: set[str] = set()
        self.whole_at = FIRST_LOOK

    def note_offer(self, ids: Any, n_actions: int | None) -> None:
        if n_actions is None or len(ids) >= n_actions:
            return
        if self.offered is None:
            self.offered = np.zeros(n_actions, dtype=np.int64)
        self.offered[ids] += 1
        self.few += 1

    def look(self, policy: Watched) -> None:
        self.note_totals(policy.totals, policy.rounds)
        if policy.rounds >= self.whole_at:
            self.whole_at = next_whole_look(policy.rounds)
            self.tell(policy, policy.concerns())
        elif self.since.any():
            self.tell(policy, self.totals_above(policy))

    def note_totals(self, totals: Array, rounds: int) -> None:
        above = totals > 0.0
        if len(above) != len(self.since):
            self.since = np.zeros(len(above), dtype=np.int64)
        self.since[~above] = 0
        self.since[above & (self.since == 0)] = rounds

    def tell(self, policy: Watched, concerns: Sequence[Concern]) -> None:
        for concern in concerns:
            if concern.kind not in self.told:
                self.told.add(concern.kind)
                policy.hooks.notify(concern)

    def concerns(self, policy: Watched, model: Model | None) -> list[Concern]:
        """What the checks have found, and the current state."""
        hooks = policy.hooks
        offered = np.full(hooks.n_actions or 0, policy.rounds - self.begun - self.few)
        if self.offered is not None:
            offered += self.offered
        return [
            *self.totals_above(policy),
            *never_tried(hooks, model, offered),
            *costs_not_seen(hooks, policy.rounds),
        ]

    def totals_above(self, policy: Watched) -> list[Concern]:
        """The rules whose total is above zero now, and has been for half of the rounds watched."""
        hooks, totals = policy.hooks, policy.totals
        words, units = constraint_words(hooks.rules, len(totals)), units_counted(hooks.rules, len(totals))
        return totals_above(hooks, totals, self.since, policy.rounds, words, units, self.begun)


def totals_above(
    hooks: PolicyHooks,
    totals: Array,
    since: NDArray[np.int64],
    now: int,
    words: Sequence[str],
    units: Units,
    begun: int = 0,
) -> list[Concern]:
    """The rules whose total is above zero in round `now`, and has been for at least half of the rounds since `begun`."""
    if now - begun < FIRST_LOOK or not len(totals) or len(since) != len(totals):
        return []
    sizes = hooks.cost_sizes()
    least = sizes * max(LEAST_COSTS, LEAST_SHARE * now)
    long = (since > 0) & (2 * (since - begun) <= now - begun) & (totals > least)
    found = np.flatnonzero(long)
    if not len(found):
        return []
    worst = found[np.argsort(-(totals / sizes)[found], kind="stable")]
    over, per_decision = units.totals(totals), units.means(totals / now)
    said = [
        f"{words[k]}: its total was above zero at every check from round {since[k]:,} on; in round {now:,} it is "
        f"{over[k]:.4g}"
        + (f", which is {per_decision[k]:.2g} per decision too much." if units.shares[k] > 0.0 else ".")
        for k in worst[:_NAMED].tolist()
    ]
    if len(worst) > _NAMED:
        said.append(f"The same holds for {len(worst) - _NAMED} others.")
    return [Concern("total above zero", " ".join(said), hooks.remedy_of_totals(worst.tolist()))]


def never_tried(hooks: PolicyHooks, model: Model | None, offered: Array) -> list[Concern]:
    """Actions without any outcome, though each was on offer often enough; only if the model tells actions apart."""
    never = None if model is None or not hooks.learns else never_learnt(model)
    if never is None or len(never) != len(offered):
        return []
    never = never & (offered >= max(ENOUGH_OFFERS, OFFERS_FOR_EACH * len(offered)))
    if not never.any():
        return []
    for pending in hooks.pending.values():
        never[pending[1]] = False
    found = np.flatnonzero(never).tolist()
    if not found:
        return []
    names = hooks.labels.actions
    called = [repr(names[a]) if names is not None else str(a) for a in found[:_NAMED]]
    if len(found) > _NAMED:
        called.append(f"{len(found) - _NAMED} others")
    which = called[0] if len(called) == 1 else f"{', '.join(called[:-1])} and {called[-1]}"
    n = int(offered[found].min())
    return [
        Concern(
            "action never tried",
            f"No outcome of action {which} was ever seen in {n:,} rounds on offer, so its value is unknown.",
            "Give it a minimum share for a while, teach the policy from a log, or take it off offer.",
        )
    ]


def costs_not_seen(hooks: PolicyHooks, rounds: int) -> list[Concern]:
    """The costs of most decisions are still awaited: they are in no total, and no model has learnt from them."""
    awaited = costs_awaited(hooks)
    if awaited < FIRST_LOOK or 2 * awaited < rounds or not hooks.n_constraints or not hooks.learns:
        return []
    return [
        Concern(
            "costs not seen",
            f"The costs of {awaited:,} of {rounds:,} decisions have not been seen: totals don't include them, and the policy can't "
            "keep a rule whose costs it never sees.",
            "Pass them to `learn` as soon as they are known; pass costs that are known beforehand to `decide`.",
        )
    ]


def costs_awaited(hooks: PolicyHooks) -> int:
    return sum(1 for one in hooks.pending.values() if one[0] & AWAITS_COSTS)


def units_counted(rules: Rules | None, K: int) -> Units:
    """The units of K rules; the number of decisions in a group is unknown, so its share is NaN."""
    shares = None if rules is None else [np.nan if one.rule.among else 1.0 for one in rules.columns]
    return Units.of(rules, K, shares)


def constraint_words(rules: Rules | None, K: int) -> tuple[str, ...]:
    if rules is not None:
        return tuple(str(column.rule) for column in rules.columns)
    return tuple(f"constraint {k}" for k in range(K))
