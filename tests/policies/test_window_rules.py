"""Policies under hard limits per window and key: what doesn't fit is not on offer, and what was booked stays exact."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.errors import Exhausted, TooManyKeys
from tightrope.ledger.windows import Windows
from tightrope.policies.constrained import Constrained

START = dt.datetime(2026, 3, 28, 20, tzinfo=dt.UTC)
USES = {"big": 0.9, "small": 0.3, "none": 0.0}
REWARDS = {"big": 1.0, "small": 0.6, "none": 0.0}
KNOWN = tr.Rules(
    [
        tr.Budget("cost", 2, per="day", by="user", zone="Europe/Berlin", hard=True),
        tr.Capacity("big", 3, per="1h", count=True, hard=True),
    ],
    actions=list(USES),
)
LATE = tr.Rules(
    [
        tr.Budget("cost", 2, per="day", by="user", hard=True, seen="after"),
        tr.Capacity("big", 0.75),
    ],
    actions=list(USES),
)
Make = Callable[[tr.Rules], Constrained]


def shadow_price(rules: tr.Rules) -> Constrained:
    return tr.ShadowPrice(rules, reward=tr.DisjointRidge(3, 2))


def papers(rules: tr.Rules) -> Constrained:
    return tr.PessimisticOptimistic(reward=tr.DisjointRidge(3, 2), constraints=rules, slater=0.1, horizon=500)


both = pytest.mark.parametrize("make", [shadow_price, papers])


def round_of(i: int, **more: Any) -> dict[str, Any]:
    time = START + dt.timedelta(minutes=3 * i)
    return {"features": [0.5, 0.5], "usage": {"cost": USES}, "keys": {"user": i % 4}, "time": time, **more}


def windows_of(policy: Constrained) -> Windows:
    found = policy.hooks.windows
    assert found is not None
    return found


def same_state(one: Any, other: Any) -> bool:
    mine, theirs = one.hooks.state(), other.hooks.state()
    return mine.keys() == theirs.keys() and all(
        np.array_equal(mine[name], theirs[name], equal_nan=True) for name in mine
    )


@both
def test_known_usage_never_exceeds_a_limit_and_is_granted_while_it_fits(make: Make) -> None:
    policy, spent, big, granted = make(KNOWN), {}, [], 0
    for i in range(240):
        given = round_of(i)
        decision = policy.decide(**given)
        policy.learn(decision, REWARDS[str(decision.name)])
        local = (
            (given["time"].date() if given["time"].hour < 23 else given["time"].date() + dt.timedelta(1)),
            i % 4,
        )
        spent[local] = round(spent.get(local, 0.0) + USES[str(decision.name)], 9)
        big += [i] * (decision.name == "big")
        assert spent[local] <= 2
        assert sum((i - one) * 3 <= 20 * 3 for one in big) <= 3
        offered = [list(USES)[a] for a in decision.offered]
        assert ("small" in offered) == (spent[local] - USES[str(decision.name)] + 0.3 <= 2 + 1e-9)
        granted += decision.name != "none"
    assert granted > 30
    assert windows_of(policy).bookings == {}


@both
def test_late_usage_is_held_at_its_bound_then_settled(make: Make) -> None:
    policy = tr.ShadowPrice(LATE) if make is shadow_price else make(LATE)
    windows, waiting = windows_of(policy), []
    for i in range(200):
        # What is sent beforehand is an upper bound.
        decision = policy.decide(**round_of(i))
        waiting.append(decision)
        account = windows.account(0, str(i % 4), round_of(i)["time"].timestamp())
        assert account.taken <= 2
        if len(waiting) > 6:
            one = waiting.pop(0)
            if i % 5 == 0:
                policy.forget(one)
            elif i % 5 == 1:
                policy.forget(one, acted=False)
            else:
                policy.learn(one, REWARDS[str(one.name)], usage={"cost": USES[str(one.name)] / 2})
        assert windows.faults() == []
    assert set(windows.bookings) == set(policy.pending) == {one.number for one in waiting}


def test_parts_of_an_outcome_settle_once() -> None:
    policy = tr.ShadowPrice(LATE)
    decision = policy.decide(**round_of(0, actions=["small"], usage={"cost": 0.3}))
    at = round_of(0)["time"].timestamp()
    policy.learn(decision, 0.5)
    assert windows_of(policy).account(0, "0", at).reserved > 0
    with pytest.raises(tr.InvalidInput, match=r"usage\['cost'\] is missing"):
        policy.learn(decision, usage={})
    policy.learn(decision, usage={"cost": 0.1})
    account = windows_of(policy).account(0, "0", at)
    assert (float(account.used), account.reserved) == (0.1, 0)
    with pytest.raises(tr.InvalidInput, match="already has its whole outcome"):
        policy.learn(decision, usage={"cost": 0.1})
    assert policy.pending == ()


def test_a_cancelled_decision_is_given_back_and_a_forgotten_one_is_not() -> None:
    policy, at = tr.ShadowPrice(LATE), round_of(0)["time"].timestamp()
    one, other = (policy.decide(**round_of(0, actions=["small"])) for _ in range(2))
    policy.forget(one, acted=False)
    assert float(windows_of(policy).account(0, "0", at).reserved) == 0.3
    policy.forget(other)
    account = windows_of(policy).account(0, "0", at)
    assert (float(account.used), account.reserved) == (0.3, 0)


@both
def test_saved_copied_and_sent_policies_go_on_the_same(make: Make, tmp_path: Path) -> None:
    policy = make(LATE)
    for i in range(40):
        decision = policy.decide(**round_of(i))
        if i % 3:
            policy.learn(decision, REWARDS[str(decision.name)], usage={"cost": 0.1})
    policy.save(tmp_path / "policy")
    twins = [tr.load(tmp_path / "policy"), policy.copy(), pickle.loads(pickle.dumps(policy))]
    assert all(same_state(policy, one) for one in twins)
    for i in range(40, 80):
        chosen = [one.decide(**round_of(i)) for one in (policy, *twins)]
        assert len({one.action for one in chosen}) == 1
        assert len({tuple(one.offered) for one in chosen}) == 1
    assert all(same_state(policy, one) for one in twins)


@both
def test_a_quote_changes_nothing_and_commits_to_the_same(make: Make) -> None:
    policy, twin = make(KNOWN), make(KNOWN)
    for i in range(30):
        before = policy.hooks.state()
        quote = policy.quote(**round_of(i))
        assert policy.propose(**round_of(i)).action == quote.proposed.action
        after = policy.hooks.state()
        assert all(np.array_equal(before[name], after[name], equal_nan=True) for name in before)
        assert policy.commit(quote).action == twin.decide(**round_of(i)).action
    quote = policy.quote(**round_of(30))
    with pytest.raises(tr.InvalidInput, match="the action that was chosen must be on offer"):
        policy.commit(quote, next(a for a in range(3) if a not in quote.offer.ids))


@both
def test_decide_many_is_as_many_decisions(make: Make) -> None:
    rounds = [round_of(i) for i in range(20)]
    named = {name: [one[name] for one in rounds] for name in rounds[0]}
    one, other = make(KNOWN), make(KNOWN)
    assert [made.action for made in one.decide_many(**named)] == [
        other.decide(**given).action for given in rounds
    ]
    assert same_state(one, other)


@both
def test_rolled_back_policies_keep_their_accounts(make: Make) -> None:
    policy = make(LATE)
    for i in range(10):
        policy.learn(policy.decide(**round_of(i)), 0.5, usage={"cost": 0.2})
    then = policy.hooks.state()
    made = [policy.decide(**round_of(i)) for i in range(10, 18)]
    at = round_of(17)["time"].timestamp()
    before = [windows_of(policy).account(0, str(user), at).taken for user in range(4)]
    assert policy.hooks.roll_back(then, learnt_only=False) == [one.number for one in made]
    windows = windows_of(policy)
    assert [windows.account(0, str(user), at).taken for user in range(4)] == before, (
        "what may have been spent is spent"
    )
    assert [windows.account(0, str(user), at).reserved for user in range(4)] == [0] * 4
    assert windows.faults() == []


def test_nothing_fits() -> None:
    rules = tr.Rules([tr.Budget("cost", 1, per="day", hard=True)], actions=["a", "b"])
    policy = tr.ShadowPrice(rules)
    policy.decide([1.0], usage={"cost": 0.8}, time=START)
    before = policy.hooks.state()
    with pytest.raises(
        Exhausted,
        match=r"every action on offer would exceed a hard cap: cost per day \(0.8 of 1 used or reserved\)",
    ):
        policy.decide([1.0], usage={"cost": 0.3}, time=START)
    assert all(
        np.array_equal(before[name], one, equal_nan=True) for name, one in policy.hooks.state().items()
    )
    assert policy.decide([1.0], usage={"cost": 0.2}, time=START).number == 1
    assert policy.decide([1.0], usage={"cost": 0.8}, time=START + dt.timedelta(1)).number == 2


def test_what_a_round_must_bring() -> None:
    policy = tr.ShadowPrice(KNOWN)
    for change, message in (
        (
            {"time": None},
            r"time is missing: a rule reads 'cost: at most 2 per day \(Europe/Berlin\) for each user, never exceeded'",
        ),
        ({"time": dt.datetime(2026, 1, 1)}, "time must have a time zone"),
        ({"time": "now"}, "time must be a datetime with a time zone, or seconds since 1970"),
        ({"time": True}, "time must be a datetime"),
        ({"time": 1.7e12}, r"time must be seconds since 1970 \(milliseconds\?\)"),
        ({"time": float("nan")}, "time must be seconds since 1970"),
        ({"keys": None}, r"keys\['user'\] is missing"),
        ({"keys": {"usr": "a"}}, r"keys\['user'\] is missing \(did you mean 'usr'\?\)"),
        (
            {"keys": {"user": 0.5}},
            r"keys\['user'\] must be a text of 1 to 200 characters, or a whole number, but got 0.5",
        ),
        ({"keys": {"user": ""}}, r"keys\['user'\] must be a text"),
        ({"keys": ["u17"]}, "keys must be a mapping"),
        ({"usage": None}, r"usage\['cost'\] is missing"),
    ):
        with pytest.raises(tr.InvalidInput, match=message):
            policy.decide(**round_of(0, **change))
    assert policy.rounds == 0
    assert policy.decide(**round_of(0)).number == 0


def test_too_many_keys() -> None:
    rules = tr.Rules(
        [tr.Budget("cost", 1, per="day", by="user", hard=True, max_keys=2)], actions=["a", "none"]
    )
    policy = tr.ShadowPrice(rules)
    given = {"features": [1.0], "usage": {"cost": {"a": 0.1, "none": 0.0}}, "time": START}
    for user in ("a", "b", "a"):
        policy.decide(keys={"user": user}, **given)
    with pytest.raises(TooManyKeys, match="accounts for 2 keys"):
        policy.decide(keys={"user": "c"}, **given)


def test_rules_that_a_policy_cant_keep_are_refused() -> None:
    table = tr.Rules([tr.Budget("cost", 2, per="table")], actions=["a", "b"])
    with pytest.raises(
        tr.InvalidInput, match=r"'cost: at most 2 for the whole table' is for a table .* use tr.allocate"
    ):
        tr.ShadowPrice(table)
    soft = tr.Rules([tr.Budget("cost", 2, per="day")], actions=["a", "b"])
    with pytest.raises(
        tr.InvalidInput,
        match=r"must be paced, which PessimisticOptimistic does not do. Say hard=True, or use ShadowPrice",
    ):
        papers(soft)


def test_a_hard_limit_without_a_free_action_is_told() -> None:
    with pytest.warns(
        tr.errors.PolicyWarning, match="Every action uses some of 'cost: at most 2 per day, never exceeded'"
    ):
        tr.Rules([tr.Budget("cost", 2, per="day", hard=True, range=(0.1, 1))], actions=["a", "b"])
    with pytest.warns(tr.errors.PolicyWarning, match="Every action uses some of 'a or b"):
        tr.Rules([tr.Capacity(["a", "b"], 5, per="day", count=True, hard=True)], actions=["a", "b"])


def test_windows_and_averages_side_by_side() -> None:
    """A limit on the average keeps its own total, whatever windows do."""
    rules = tr.Rules([tr.Budget("cost", 2, per="day", hard=True), tr.Budget("cost", 0.4)], actions=list(USES))
    policy = tr.ShadowPrice(rules)
    costs = []
    for i in range(60):
        decision = policy.decide(**round_of(i))
        policy.learn(decision, REWARDS[str(decision.name)])
        costs.append(USES[str(decision.name)] - 0.4)
    assert policy.totals.tolist() == pytest.approx([sum(costs)])
    assert rules.names == ("cost",)
    assert [one.name for one in rules.windows.columns] == ["cost per day"]
