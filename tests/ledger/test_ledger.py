"""The ledger against a literal twin that keeps every booking and adds all of them up, each time, in fractions."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightrope.errors import Exhausted
from tightrope.ledger.account import Address, ExactAccount, amount
from tightrope.ledger.ledger import Ledger
from tightrope.ledger.totals import Totals
from tightrope.ledger.trail import Moment, Trail
from tightrope.spec import Spec, make_spec

CENTS = [0.1, 0.25, 1.0, 2.5]


def exact(value: float) -> Fraction:
    return Fraction(repr(value))


def spec_of(total: float, tickets: float) -> Spec:
    """Cents that are known before acting, minutes that are seen after, tickets of one action for one group."""
    return make_spec(
        {
            "actions": ["mail", "call", "none"],
            "groups": ["old"],
            "rule": [
                {"kind": "budget", "name": "cents", "at_most": 1.0, "hard": True, "total": total},
                {
                    "kind": "budget",
                    "name": "minutes",
                    "at_most": 1.0,
                    "range": [0, 2],
                    "seen": "after",
                    "action": "call",
                    "hard": True,
                    "total": 5.0,
                },
                {
                    "kind": "capacity",
                    "action": "mail",
                    "at_most": 0.5,
                    "among": "old",
                    "hard": True,
                    "total": tickets,
                },
            ],
        }
    )


class Twin:
    """All that ever happened, as a list."""

    def __init__(self, total: float, tickets: float) -> None:
        self.allowed = {"cents": exact(total), "minutes": Fraction(5), "tickets": exact(tickets)}
        self.booked: list[tuple[str, Fraction]] = []
        self.held: dict[int, Fraction] = {}

    def taken(self, cap: str) -> Fraction:
        held = sum(self.held.values()) if cap == "minutes" else 0
        return sum((n for name, n in self.booked if name == cap), Fraction(0)) + held

    def need(self, action: str, cents: Mapping[str, float], old: bool) -> dict[str, Fraction]:
        return {
            "cents": exact(cents[action]),
            "minutes": Fraction(2 if action == "call" else 0),
            "tickets": Fraction(1 if old and action == "mail" else 0),
        }

    def may(self, action: str, cents: Mapping[str, float], old: bool) -> bool:
        need = self.need(action, cents, old)
        return all(not n or self.taken(cap) + n <= self.allowed[cap] for cap, n in need.items())


def agree(ledger: Ledger, twin: Twin) -> None:
    for cap, name in zip(ledger.caps, ("cents", "minutes", "tickets"), strict=True):
        assert Fraction(cap.taken) == twin.taken(name)
        assert Fraction(cap.left) == twin.allowed[name] - twin.taken(name) >= 0
        assert cap.reserved >= 0
    assert Fraction(ledger.caps[1].reserved) == sum(twin.held.values())


@settings(max_examples=60)
@given(
    st.sampled_from([0.3, 2.0, 7.7]),
    st.sampled_from([0.0, 2.0]),
    st.lists(
        st.tuples(
            st.tuples(*[st.sampled_from(CENTS)] * 3),
            st.booleans(),
            st.integers(0, 2),
            st.sampled_from(["settle", "keep", "wait", "restart"]),
            st.sampled_from([0.0, 0.7, 2.0]),
        ),
        max_size=25,
    ),
)
def test_what_may_be_taken_and_what_is_left_are_sums_over_all_that_happened(total, tickets, rounds):
    spec = spec_of(total, tickets)
    ledger, twin = Ledger(spec), Twin(total, tickets)
    holds: dict[int, tuple[int, ...]] = {}
    for number, (costs, old, pick, then, minutes) in enumerate(rounds):
        cents = dict(zip(spec.actions, costs, strict=True))
        group = ["old"] if old else []
        may = [twin.may(action, cents, old) for action in spec.actions]
        if not any(may):
            with pytest.raises(Exhausted, match="every action on offer would exceed a hard cap"):
                ledger.room(None, {"cents": list(costs)}, group)
        else:
            room = ledger.room(None, {"cents": cents if number % 2 else list(costs)}, group)
            assert room.rows == [row for row, one in enumerate(may) if one]
            row = room.rows[pick % len(room.rows)]
            holds[number] = ledger.take(room.needs[row])
            for name, n in twin.need(spec.actions[row], cents, old).items():
                if name == "minutes" and n:
                    twin.held[number] = n
                else:
                    twin.booked.append((name, n))
        agree(ledger, twin)
        oldest = next((n for n in holds if holds[n]), None)
        if then == "restart":
            saved = msgspec.msgpack.decode(msgspec.msgpack.encode(ledger.saved()))
            ledger = Ledger(spec)
            ledger.restore(saved)
        elif oldest is not None and then in ("settle", "keep"):
            if then == "settle":
                ledger.settle(holds[oldest], {"minutes": minutes})
            else:
                ledger.keep(holds[oldest])
            twin.booked.append(("minutes", exact(minutes) if then == "settle" else twin.held[oldest]))
            del holds[oldest], twin.held[oldest]
        agree(ledger, twin)


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from(["before", "after"]))),
    st.floats(-5, 5),
    st.floats(0.1, 9),
)
def test_an_average_allows_its_limit_for_each_decision_that_it_counts(counted, cost, limit):
    rules: list[dict[str, Any]] = [
        {"kind": "mean", "name": "cents", "at_most": 5.0, "at_least": 0.1, "range": [0, 10]},
        {
            "kind": "budget",
            "name": "hours",
            "at_most": limit,
            "range": [0, 10],
            "seen": "after",
            "among": "old",
        },
    ]
    spec = make_spec({"actions": ["a", "b"], "groups": ["old"], "rule": rules})
    totals = Totals(3)
    ledger = Ledger(spec, totals)
    totals.book(np.array([cost, -cost, cost]))
    for old, seen in counted:
        ledger.count(["old"] if old else [], seen)
    every = sum(seen == "before" for _, seen in counted)
    late = sum(old and seen == "after" for old, seen in counted)
    most, least, hours = ledger.limits
    assert [one.decisions for one in (most, least, hours)] == [every, every, late]
    assert [most.allowed, hours.allowed] == [every * 5.0, late * limit]
    assert (most.left, least.left) == (0.0 - cost * 10.0, 0.0 + cost * 10.0)
    assert most.used == most.allowed - most.left
    assert least.used == least.allowed + least.left
    # Another limit: what was allowed before stays allowed.
    rules[1]["at_most"] = limit / 2
    now, moved = ledger.under(
        make_spec({"actions": ["a", "b"], "groups": ["old"], "rule": rules}), totals, ()
    )
    assert moved == {}
    now.count(["old"], "after")
    assert now.limits[2].allowed == late * limit + limit / 2
    assert now.limits[2].decisions == late + 1


def test_an_account_is_addressed_by_rule_key_and_window():
    ledger = Ledger(spec_of(2.0, 1.0))
    assert ledger.account(Address("cents", hard=True)).allowed == 2
    assert ledger.account(Address("cents")).allowed == 0
    ledger.count([], "before")
    ledger.book(np.array([-0.25]), np.array([0]))
    average = ledger.account(Address("cents"))
    assert (average.used, average.reserved, average.allowed, average.left) == (0.75, 0, 1, 0.25)
    assert (average.fits(0.25), average.fits(0.5), average.fits(0.0)) == (True, False, True)
    assert Address("cents") == Address("cents", key=None, window=None) != Address("cents", key="u17")
    with pytest.raises(ValueError, match=r"no account .*'u17'"):
        ledger.account(Address("cents", key="u17"))


def test_what_is_released_is_as_if_it_had_never_been_held():
    account = ExactAccount(Address("cents", hard=True), amount(1.0))
    account.reserve(amount(0.7))
    assert not account.fits(amount(0.4))
    account.release(amount(0.7))
    assert (account.used, account.reserved, account.left) == (0, 0, 1)


def test_totals_keep_the_bits_that_sums_lose():
    totals = Totals(1)
    for _ in range(10):
        totals.book(np.array([0.1]))
    assert totals.totals[0] + totals.rests[0] == pytest.approx(1.0, abs=1e-17)
    again = Totals(1)
    again.load({name: array.copy() for name, array in totals.arrays().items()})
    again.book(np.array([1e9]))
    totals.book(np.array([1e9]))
    assert again.totals[0] == totals.totals[0]


@given(st.integers(0, 3000))
def test_a_trail_is_evenly_spaced_and_short(rounds):
    trail = Trail()
    for n in range(1, rounds + 1):
        if trail.due(n):
            trail.add(Moment(n, n, 0, 0.0, [], [], [], []))
    at = [one.decisions for one in trail]
    assert len(at) < 240
    assert at == list(range(trail.stride, rounds + 1, trail.stride))[: len(at)]
    assert len(at) >= min(rounds, 119)


def test_ten_tenths_are_one():
    account = ExactAccount(Address("vouchers", hard=True), amount(1))
    for _ in range(10):
        account.book(amount(0.1))
    assert account.left == 0
    assert not account.fits(amount(0.1))


def test_a_full_cap_takes_its_action_off_offer():
    rule = {"kind": "capacity", "action": "a", "at_most": 0.5, "hard": True, "total": 1}
    ledger = Ledger(make_spec({"actions": ["a", "b"], "rule": [rule]}))
    room = ledger.room(None, {}, None)
    assert (room.rows, ledger.take(room.needs[0]), ledger.room(None, {}, None).rows) == ([0, 1], (), [1])
    assert ledger.caps[0].left == 0


def test_rows_that_keep_the_totals():
    totals = Totals(2)
    totals.book(np.array([0.5, -0.25]))
    assert totals.totals.tolist() == [0.5, -0.25]
    below, above = (Totals.on(np.array([start]), np.zeros(1)) for start in (-0.2, 0.5))
    assert below.kept_rows(np.array([[0.1], [0.2], [0.3]])).tolist() == [True, True, False]
    assert above.kept_rows(np.array([[0.1], [-0.2], [0.3]])).tolist() == [False, True, False]


def test_a_trail_grows_coarser():
    trail = Trail()
    for n in range(1, 1000):
        if trail.due(n):
            trail.add(Moment(n, 0, 0, 0.0, [], [], [], []))
    assert len(trail.moments) < 240
    assert trail.stride == 8
