"""Hard caps: never exceeded, in decimals, reserved until the cost is seen."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightrope.errors import InvalidInput
from tightrope.service.http import handlers
from tightrope.service.journal import JournalError
from tightrope.service.offline.replay import verify
from tightrope.service.requests import PageQuery, RollbackRequest, SnapshotRequest
from workbench import Bench, arms, code, read

USAGE = st.floats(0.0, 1.0).map(lambda value: round(value, 3))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(USAGE, USAGE, st.sampled_from(["young", ()])), min_size=5, max_size=60),
    st.floats(0.5, 8.0).map(lambda value: round(value, 2)),
    st.integers(1, 6),
)
def test_hard_caps_are_never_exceeded(
    requests: list[tuple[float, float, str]], total: float, uses: int
) -> None:
    """Counted independently, in exact decimals, from what was asked and answered."""
    rules = [
        {"kind": "budget", "name": "fuel", "at_most": 0.9, "hard": True, "total": total},
        {"kind": "capacity", "action": "a", "at_most": 0.9, "hard": True, "total": uses, "among": "young"},
    ]
    bench = Bench(arms(rules=rules))
    fuel, young = Decimal(0), 0
    for i, (a, b, group) in enumerate(requests):
        answer = bench.decide({"event_id": str(i), "usage": {"fuel": [a, b]}, "group": group or []})
        fits = [
            fuel + Decimal(repr(a)) <= Decimal(repr(total)) and not (group == "young" and young == uses),
            fuel + Decimal(repr(b)) <= Decimal(repr(total)),
        ]
        if not any(fits):
            assert code(answer) == (409, "exhausted")
            continue
        action = read(answer)["action"]
        assert fits[action]
        fuel += Decimal(repr((a, b)[action]))
        young += group == "young" and action == 0
        if i == len(requests) // 2:
            bench.reopened()
    caps = bench.state()["hard_caps"]
    assert Decimal(repr(caps[0]["used"])) == Decimal(repr(float(fuel))) <= Decimal(repr(total))
    assert caps[1]["used"] == young <= uses
    assert verify(bench.journal).digest == bench.digest()


def test_ten_times_a_tenth_is_one() -> None:
    rules = [{"kind": "budget", "name": "fuel", "at_most": 0.9, "hard": True, "total": 1.0}]
    bench = Bench(arms(rules=rules))
    answers = [bench.decide({"event_id": str(i), "usage": {"fuel": 0.1}}) for i in range(11)]
    assert [answer.status for answer in answers] == [200] * 10 + [409]
    assert "fuel (1 of 1 used or reserved)" in answers[-1].body.decode()


def test_a_cap_reserves_the_high_end_until_the_cost_is_seen() -> None:
    rules = [
        {
            "kind": "budget",
            "name": "hours",
            "at_most": 0.9,
            "range": [0, 1],
            "seen": "after",
            "hard": True,
            "total": 2.5,
        },
    ]
    bench = Bench(arms(rules=rules), expire_after=100.0)
    for i in range(2):
        assert bench.decide({"event_id": str(i)}).status == 200
    assert code(bench.decide({"event_id": "2"})) == (409, "exhausted")
    assert bench.learn("0", reward=1.0).status == 200
    assert code(bench.decide({"event_id": "2"})) == (409, "exhausted")
    assert bench.learn("0", usage={"hours": 0.25}).status == 200
    [cap] = bench.state()["hard_caps"]
    assert (cap["used"], cap["reserved"], cap["left"]) == (1.25, 1.0, 1.25)
    assert bench.decide({"event_id": "2"}).status == 200, "the same event may be tried again"
    assert bench.learn("2", usage={"hours": 0.5}).status == 200
    assert bench.learn("2", usage={"hours": 0.5}).status == 200
    assert bench.state()["hard_caps"][0]["used"] == 1.75
    bench.now += 200
    assert code(bench.decide({"event_id": "3"})) == (409, "exhausted"), "what expired stays reserved"
    assert code(bench.learn("1", usage={"hours": 0.0})) == (410, "late")
    [cap] = bench.state()["hard_caps"]
    assert (cap["used"], cap["reserved"]) == (1.75, 0.0)
    bench.reopened()
    assert bench.state()["hard_caps"][0]["used"] == 1.75
    assert verify(bench.journal).digest == bench.digest()


def test_caps_leave_out_only_what_would_exceed_them() -> None:
    rules = [{"kind": "capacity", "action": "a", "at_most": 0.9, "hard": True, "total": 3}]
    bench = Bench(arms(rules=rules))
    actions = [read(bench.decide({"event_id": str(i)}))["name"] for i in range(40)]
    assert actions.count("a") == 3
    assert code(bench.decide({"event_id": "only", "actions": ["a"]})) == (409, "exhausted")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            {"kind": "share", "action": "a", "at_least": 0.1, "hard": True, "total": 3},
            "needs a rule with at_most",
        ),
        (
            {"kind": "capacity", "action": "a", "at_most": 0.5, "hard": True},
            "needs both `hard = true` and `total`",
        ),
        (
            {"kind": "budget", "name": "x", "at_most": 0.5, "seen": "after", "hard": True, "total": 3},
            r"rule\[0\]\.range: is missing",
        ),
        (
            {"kind": "capacity", "action": "a", "at_most": 0.5, "total": 3},
            "needs both `hard = true` and `total`",
        ),
    ],
)
def test_caps_that_can_not_be_kept_are_refused(rule: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Bench(arms(rules=[rule]))


def test_rolling_back_does_not_refill_a_hard_cap() -> None:
    rules = [{"kind": "capacity", "action": ["a", "b"], "at_most": 1.0, "hard": True, "total": 5}]
    bench = Bench(arms(rules=rules))
    taken = read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="empty")))
    for i in range(5):
        bench.decide({"event_id": str(i)})
    request = RollbackRequest(position=taken["position"], restore="all")
    read(bench.ask(handlers.roll_back, request))
    assert code(bench.decide({"event_id": "6"})) == (409, "exhausted")


# --- what was spent, under other rules ---

VOUCHERS: dict[str, Any] = {"kind": "budget", "name": "vouchers", "at_most": 0.9, "hard": True, "total": 3.0}


def spent(*rules: dict[str, Any], journal: Any = None, **options: Any) -> Bench:
    """A bench on the journal of another, with other rules."""
    return Bench(arms(rules=list(rules)), journal, accept_changes=True, **options)


def used(bench: Bench) -> list[float]:
    return [cap["used"] for cap in bench.state()["hard_caps"]]


def spend(bench: Bench, events: str) -> list[int]:
    return [bench.decide({"event_id": one, "usage": {"vouchers": 1.0}}).status for one in events]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param([VOUCHERS, {**VOUCHERS, "at_most": 0.8, "total": 9.0}], [3, 3], id="a second cap"),
        pytest.param([{**VOUCHERS, "total": 9.0}], [3], id="another total"),
        pytest.param([{**VOUCHERS, "action": "a"}], [3], id="some actions"),
        pytest.param([{**VOUCHERS, "among": "young"}], [3], id="some groups"),
        pytest.param([{**VOUCHERS, "action": "a"}, {**VOUCHERS, "action": "b"}], [3, 3], id="each action"),
        pytest.param(
            [{"kind": "capacity", "action": "a", "at_most": 0.9, "hard": True, "total": 2}, VOUCHERS],
            [0, 3],
            id="another usage",
        ),
    ],
)
def test_what_was_spent_counts_for_every_cap_of_the_usage(
    changed: list[dict[str, Any]], expected: list[float]
) -> None:
    """A change that is accepted never refills a cap."""
    bench = spent(VOUCHERS)
    assert spend(bench, "0123") == [200, 200, 200, 409]
    bench = spent(*changed, journal=bench.journal)
    assert used(bench) == expected
    assert verify(bench.journal).digest == bench.digest()
    bench.reopened()
    assert used(bench) == expected


def test_a_cap_that_comes_back_goes_on_from_what_was_spent() -> None:
    bench = spent(VOUCHERS)
    assert spend(bench, "01") == [200, 200]
    bench = spent({"kind": "budget", "name": "vouchers", "at_most": 0.9}, journal=bench.journal)
    assert used(bench) == []
    read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="without")))
    bench = spent(VOUCHERS, journal=bench.journal)
    assert used(bench) == [2]
    assert spend(bench, "234") == [200, 409, 409]
    assert verify(bench.journal).digest == bench.digest()


def test_parts_of_a_usage_add_up() -> None:
    bench = spent({**VOUCHERS, "action": "a"}, {**VOUCHERS, "action": "b"})
    spend(bench, "0123456")
    total = sum(used(bench))
    assert total > max(used(bench))
    bench = spent({**VOUCHERS, "total": 50.0}, journal=bench.journal)
    assert used(bench) == [total]


def test_a_reset_needs_its_own_word_and_is_in_the_journal(caplog: pytest.LogCaptureFixture) -> None:
    bench = spent(VOUCHERS)
    spend(bench, "012")
    with pytest.raises(
        JournalError, match="reset_caps must name hard caps of the new spec, 'vouchers', but got 'fuel'"
    ):
        spent({**VOUCHERS, "total": 4.0}, journal=bench.journal, reset_caps=["fuel"])
    bench = spent(VOUCHERS, journal=bench.journal, reset_caps=["vouchers"])
    assert used(bench) == [3], "nothing else has changed"
    assert "no hard cap is reset" in caplog.text
    bench = spent({**VOUCHERS, "total": 4.0}, journal=bench.journal, reset_caps=["vouchers"])
    assert used(bench) == [0]
    [change, _] = read(bench.ask(handlers.list_changes, PageQuery()))["changes"]
    assert change["reset_caps"] == ["vouchers"]
    spend(bench, "3456")
    bench.reopened()
    assert used(bench) == [4], "the same command again resets nothing"
    assert verify(bench.journal).digest == bench.digest()


COUPONS = {**VOUCHERS, "name": "coupons"}
COUNTED: dict[str, Any] = {
    "kind": "capacity",
    "action": ["a", "b"],
    "at_most": 1.0,
    "hard": True,
    "total": 3.0,
}


def test_a_usage_that_has_another_name_goes_on_from_what_was_spent() -> None:
    bench = spent(VOUCHERS)
    assert spend(bench, "01") == [200, 200]
    bench = spent(COUPONS, journal=bench.journal)
    assert used(bench) == [2]
    answer = bench.decide({"event_id": "2", "usage": {"coupons": 1.0}})
    assert (answer.status, used(bench)) == (200, [3])
    bench = spent(VOUCHERS, journal=bench.journal)
    assert used(bench) == [3], "and back again"
    assert spend(bench, "3") == [409]
    assert verify(bench.journal).digest == bench.digest()


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param([{**COUPONS, "total": 4.0}], id="another name and another total"),
        pytest.param([COUNTED], id="a budget becomes a capacity"),
        pytest.param([COUPONS, {**COUPONS, "name": "tickets"}], id="two may be meant"),
    ],
)
def test_a_cap_is_not_granted_again_under_another_name(changed: list[dict[str, Any]]) -> None:
    bench = spent(VOUCHERS)
    assert spend(bench, "01") == [200, 200]
    name = changed[0].get("name", "a or b: at most 100% of decisions")
    words = rf"hard cap 'vouchers' \(2 of 3 used\) is gone, and '{name}' is new.*--reset-caps '?{name}'?"
    rows = bench.journal.last()
    with pytest.raises(JournalError, match=words):
        spent(*changed, journal=bench.journal)
    assert bench.journal.last() == rows
    names = [one.get("name", name) for one in changed]
    bench = spent(*changed, journal=bench.journal, reset_caps=names)
    assert used(bench) == [0] * len(changed)
    assert verify(bench.journal).digest == bench.digest()


def test_a_capacity_does_not_become_a_budget_that_begins_at_0() -> None:
    bench = spent(COUNTED)
    assert [bench.decide({"event_id": one}).status for one in "0123"] == [200, 200, 200, 409]
    with pytest.raises(JournalError, match=r"'a or b: at most 100% of decisions' \(3 of 3 used\) is gone"):
        spent(VOUCHERS, journal=bench.journal)
    other = {**COUNTED, "action": "a", "total": 9.0}
    assert used(spent(other, journal=bench.journal)) == [3], "a part of what was counted"


def test_a_new_cap_beside_the_old_ones_begins_at_0() -> None:
    bench = spent(VOUCHERS)
    assert spend(bench, "01") == [200, 200]
    assert used(spent(VOUCHERS, COUPONS, journal=bench.journal)) == [2, 0]
    untouched = spent(VOUCHERS)
    assert used(spent(COUNTED, journal=untouched.journal)) == [0], (
        "nothing was spent under the one that is gone"
    )


def test_a_cap_that_comes_back_counts_what_another_kind_of_rule_has_counted_since() -> None:
    bench = spent(VOUCHERS)
    assert spend(bench, "0") == [200]
    bench = spent({**VOUCHERS, "kind": "mean"}, journal=bench.journal)
    assert (used(bench), spend(bench, "12")) == ([1], [200, 200])
    bench = spent(VOUCHERS, journal=bench.journal)
    assert used(bench) == [3]
    assert verify(bench.journal).digest == bench.digest()
