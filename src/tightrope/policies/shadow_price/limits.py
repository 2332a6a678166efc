"""What changes under a running policy: limits that an operator moves, rounds from before it, another configuration or state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.kernels import shadow
from tightrope.models import Model
from tightrope.policies.input import Log
from tightrope.policies.pending import AWAITS_COSTS
from tightrope.policies.policy import Policy
from tightrope.policies.shadow_price.memory import Remembered, remembered
from tightrope.policies.shadow_price.prices import expected_costs
from tightrope.policies.state_file import Arrays
from tightrope.rules import Rules
from tightrope.validation import Array, finite_number, whole_number


def change_limit(
    policy: Any, rule: str | int, limit: float | None, shift: float | None, forgive: bool
) -> None:
    """Move a limit: see `ShadowPrice.change_limit`."""
    k = _column(policy, rule)
    if k in policy._columns:
        _require_shift(policy._cost)
    if policy.rules is None:
        if limit is not None or shift is None:
            raise InvalidInput(
                "costs without rules have no limits to name: give shift=, how much they change by."
            )
        by = finite_number("shift", shift)
    else:
        if limit is None or shift is not None:
            raise InvalidInput("with rules, give the new limit.")
        by = _with_limit(policy, k, finite_number("limit", limit))
    change = np.zeros(policy.n_constraints)
    change[k] = by
    if k in policy._columns:
        _restate_late(policy, change[policy._columns])
    else:
        policy._memory.restate(change)
    _begin_anew(policy, [k], forgive)
    if forgive:
        total, rest = (shadow.vector(policy._core, which) for which in (shadow.TOTALS, shadow.RESTS))
        if total[k] > 0.0:
            total[k] = rest[k] = 0.0


def _require_shift(model: Model) -> None:
    """Refuse a model that would go on with what it has learnt under the old limit."""
    if type(model).shift is Model.shift:
        raise InvalidInput(
            f"the limit can't change, since the cost model {type(model).__name__} can't restate what it has learnt: define "
            "`shift(output, by)` in its class."
        )


def _restate_late(policy: Any, shifts: Array) -> None:
    """Costs seen after acting have grown by so much, (K_after,): what was learnt of them, and what is booked for those to come."""
    for i, by in enumerate(shifts.tolist()):
        if by:
            policy._cost.shift(i, by)
    for number, pending in policy._pending.items():
        awaits, action, x, z, group, note = pending
        if awaits & AWAITS_COSTS and z is not None:
            booked = shifts.copy()
            if policy._rule_costs is not None:
                # For a rule that is not in force nothing is booked.
                booked[policy._rule_costs.force(group).unseen] = 0.0
            z = np.concatenate([z[: -len(shifts)], z[-len(shifts) :] + booked])
            policy._pending[number] = (awaits, action, x, z, group, note)
    policy._book_again()


def _begin_anew(policy: Any, which: Sequence[int], forgive: bool = False) -> None:
    """Scales, corrections and prices of rules whose limits have changed."""
    core = policy._core
    _measure_again(policy, which, 1.0 if forgive else max(1.0, float(shadow.rounds_that_count(core))))
    shadow.vector(core, shadow.CORRECTION)[which] = 0.0
    _solve_next(policy)


def _column(policy: Any, rule: str | int) -> int:
    names: tuple[str, ...] = policy._input.constraints
    if isinstance(rule, str):
        if rule not in names:
            raise InvalidInput(f"there is no constraint {rule!r}; there are {list(names)}.")
        return names.index(rule)
    k = whole_number("rule", rule)
    if k >= policy.n_constraints:
        raise InvalidInput(f"rule must be below {policy.n_constraints}, but got {k}.")
    return k


def _with_limit(policy: Any, k: int, limit: float) -> float:
    """Let the policy's rules have another limit in column k; by how much its costs change."""
    rules: Rules = policy.rules
    column = rules.columns[k]
    old: Any = column.rule
    new = replace(old, **{column.side: limit})
    if new.scale != old.scale:
        raise InvalidInput(
            f"the limit {limit:g} of {rules.names[k]!r} lies outside what is "
            f"{'declared of' if old.declared else 'suggested by the old one for'} its usage, so that costs would change their "
            "scale: make a policy with new rules, with a `range` that holds both limits."
        )
    changed = [new if rule is old else rule for rule in rules]
    policy.rules = Rules(changed, list(rules.actions), groups=rules.groups)
    policy._input.set_rules(policy.rules)
    policy._rule_costs = policy._input.rule_costs
    policy._label()
    return column.shift(policy.rules.columns[k])


def _measure_again(policy: Any, which: Sequence[int], rounds: float) -> None:
    """The scales of rules on the costs that are remembered, as if they had been seen for so many rounds."""
    core = policy._core
    entries, weights = policy._memory.sample(np.inf)
    if not entries:
        return
    models = policy._models()
    squares, sizes = np.zeros(policy.n_constraints), np.zeros(policy.n_constraints)
    means, spreads = expected_costs(entries, models, policy._columns)
    ends = np.cumsum([len(entry.ids) for entry in entries])
    for entry, end, weight in zip(entries, ends.tolist(), weights / weights.sum()):
        own = slice(end - len(entry.ids), end)
        size2 = means[own] ** 2 + spreads[own] ** 2
        squares += weight * size2.mean(axis=0)
        sizes += weight * np.sqrt(size2).mean(axis=0)
    for name, value in ((shadow.SQUARE, squares), (shadow.SIZE, sizes), (shadow.MOVED, squares)):
        shadow.vector(core, name)[which] = rounds * value[which]
    shadow.vector(core, shadow.CLOCK)[which] = rounds * squares[which]


def _solve_next(policy: Any) -> None:
    """Drop a solve in progress, and start one in the next round."""
    policy._solve = None
    policy._core[shadow.NEXT_SOLVE] = max(2.0, policy._core[shadow.ROUNDS] + 1.0)
    policy._set_alarm()


def forget_inputs(policy: Any, numbers: Collection[int]) -> None:
    """Drop the rounds of some decisions: see `ShadowPrice.forget_inputs`."""
    Policy.forget_inputs(policy, numbers)
    core = policy._core
    if not policy._memory.forget({*numbers}):
        return
    core[shadow.REMEMBERED], core[shadow.MARK] = len(policy._memory), 0.0
    if policy._solve is not None:
        # Its sample is of rounds that are gone.
        _solve_next(policy)


# Rounds from before


def logged_offers(policy: Any, log: Log, offers: Sequence[Mapping[str, Any]] | None) -> list[Remembered]:
    """What was on offer in logged rounds, checked: as told, or where one x serves all actions and no cost is known before."""
    if offers is not None:
        found = []
        for i, given in enumerate(offers):
            try:
                found.append(remembered(policy._offer(**given), policy._input))
            except (InvalidInput, TypeError) as error:
                raise InvalidInput(f"offers[{i}]: {error}") from error
        return found
    K, late = policy.n_constraints, len(policy._columns)
    models = [model for model in (policy._reward, policy._cost) if model is not None]
    if not K or late < K or policy.rules is not None or any(model.n_actions is None for model in models):
        return []
    ids = np.arange(policy.n_actions)
    W = np.zeros((len(ids), K))
    psi = log.psi if log.psi is not None else log.phi
    return [
        Remembered(
            ids,
            None if log.phi is None else log.phi[i : i + 1].copy(),
            None if psi is None or not policy._cost.takes_features else psi[i : i + 1].copy(),
            W,
        )
        for i in range(len(log.ids))
    ]


def remember_offers(policy: Any, offers: list[Remembered]) -> None:
    """Keep the last of them, as many as may be kept; a solve starts with the next decision."""
    if not offers:
        return
    core = policy._core
    if core[shadow.CAPACITY] < 0.0:
        core[shadow.CAPACITY] = shadow.capacity(core, max(len(offer.ids) for offer in offers))
    capacity = int(core[shadow.CAPACITY])
    fresh = core[shadow.ROUNDS] == 0.0
    for offer in offers[-capacity:]:
        slot = len(policy._memory)
        if slot >= capacity:
            break
        policy._memory.remember(slot, offer, offer.mark())
    core[shadow.REMEMBERED] = len(policy._memory)
    if fresh:
        _measure_again(policy, list(range(policy.n_constraints)), 1.0)
        known = shadow.vector(core, shadow.KNOWN) != 0.0
        # One round's worth: its ratio is the typical cost. What has moved the totals is nothing yet.
        square, size = shadow.vector(core, shadow.SQUARE), shadow.vector(core, shadow.SIZE)
        m = np.divide(square, size, out=np.zeros_like(square), where=size > 0.0)
        square[:], size[:] = m * m, m
        shadow.vector(core, shadow.MOVED)[:] = np.where(known, square, 0.0)
        shadow.vector(core, shadow.CLOCK)[:] = square
    policy._solve = None
    core[shadow.NEXT_SOLVE] = core[shadow.ROUNDS] + 1.0
    policy._set_alarm()


# Another configuration


def resume(policy: Any, old: Any, same_costs: bool, shifts: Array | None) -> None:
    """Go on where `old` stands: see `ShadowPrice.resume`."""
    now, fresh = old.state(), policy.state()
    same = same_costs and policy._input.constraints == old._input.constraints
    carried = ("reward/", "cost/", "pending/", "made", *(("memory/", "solve/") if same else ()))
    arrays = {
        name: now.get(name, array) if name.startswith(carried) else array for name, array in fresh.items()
    }
    if same:
        arrays |= {name: one for name, one in now.items() if name.startswith("solve/")}
    policy.load(arrays)
    policy._pending.update(old._pending)
    mine, theirs = policy._core, old._core
    heads = (shadow.ROUNDS, shadow.SOLVES, shadow.RHO)
    mine[list(heads)] = theirs[list(heads)]
    names = list(old._input.constraints)
    for k, name in enumerate(policy._input.constraints):
        if name in names:
            for which in range(shadow.VECTORS):
                if which != shadow.KNOWN:
                    shadow.vector(mine, which)[k] = shadow.vector(theirs, which)[names.index(name)]
    if same:
        kept = (shadow.CAPACITY, shadow.REMEMBERED, shadow.NEXT_SOLVE)
        mine[list(kept)] = theirs[list(kept)]
        most = shadow.rounds_worth_keeping(mine)
        if mine[shadow.CAPACITY] > most:
            policy._memory.shorten(int(most))
            mine[shadow.CAPACITY], mine[shadow.REMEMBERED] = most, len(policy._memory)
    else:
        mine[shadow.NEXT_SOLVE] = mine[shadow.ROUNDS] + shadow.LEAST_CAPACITY
    policy._book_again()
    if shifts is not None:
        _require_shift(policy._cost)
        _restate_late(policy, shifts)
        if same:
            _begin_anew(policy, policy._columns[shifts != 0.0].tolist())
    policy._set_alarm()


def roll_back(policy: Any, then: Arrays, learnt_only: bool) -> list[int]:
    """Take what was learnt, or all else too, from an earlier state: see `Policy.roll_back`."""
    now, pending = policy.state(), dict(policy.decisions)
    if learnt_only:
        then = {**now, **{name: then[name] for name in now if policy.is_learnt(name)}}
    dropped = [] if learnt_only else sorted(set(pending) - set(then["pending/number"].tolist()))
    kept = {name: array for name, array in now.items() if name.startswith("pending/") or name == "made"}
    policy.load({**then, **kept})
    policy.decisions.update(pending)
    for number in dropped:
        del policy.decisions[number]
    # Where the same outcomes are awaited as then, what was booked for them is what it was, to the bit.
    awaited = then["pending/number"][then["pending/awaits"] & AWAITS_COSTS != 0].tolist()
    if awaited != [number for number, one in policy.decisions.items() if one[0] & AWAITS_COSTS]:
        policy._book_again()
    return dropped
