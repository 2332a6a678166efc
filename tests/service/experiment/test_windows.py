"""Limits per window and key in the service: reservations, outcomes, cancellations, restarts, erasure, changed rules."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tightrope.service import requests
from tightrope.service.answer import Refusal
from tightrope.service.experiment import Experiment
from tightrope.service.http import handlers
from tightrope.service.http.windows import show_windows
from tightrope.service.journal import entries
from tightrope.service.journal.rows import entry_of
from tightrope.service.offline.replay import verify
from tightrope.service.requests import (
    ErasureRequest,
    ModeRequest,
    RollbackRequest,
    SnapshotRequest,
    WindowQuery,
)
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import Spec, SpecError, make_spec
from workbench import Bench, code, read

ZONE = "Europe/Berlin"
# An hour before midnight in Berlin; clocks go forward in the night after next.
EVENING = dt.datetime(2026, 3, 27, 23, tzinfo=ZoneInfo(ZONE)).timestamp()
USES = {"big": 0.9, "small": 0.3, "none": 0.0}
COST = {
    "kind": "budget",
    "name": "cost",
    "at_most": 2,
    "per": "day",
    "by": "user",
    "zone": ZONE,
    "hard": True,
    "seen": "after",
}
BIG = {"kind": "capacity", "action": "big", "at_most": 30, "count": True, "per": "24h", "hard": True}


def spec_of(*rules: dict[str, Any], policy: str = "shadow-price", **more: Any) -> Spec:
    made = rules or ({**COST, "usage": USES}, BIG)
    return make_spec(
        {"name": "spending", "actions": list(USES), "rule": list(made), "policy": {"kind": policy}, **more}
    )


@pytest.fixture(params=["shadow-price", "uniform"])
def bench(request: pytest.FixtureRequest) -> Bench:
    """A policy that keeps the accounts itself, and one that knows nothing of them."""
    return at_evening(spec_of(policy=request.param))


def at_evening(spec: Spec, **options: Any) -> Bench:
    bench = Bench(spec, **options)
    bench.now = EVENING
    return bench


def ask(bench: Bench, i: int, user: str | int = "a", **more: Any) -> str:
    return str(read(bench.decide({"event_id": f"e{i}", "keys": {"user": user}, **more}))["name"])


def windows(bench: Bench, **query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(bench.ask(show_windows, WindowQuery(**query)))["windows"]
    return found


def account(bench: Bench, user: str) -> dict[str, Any]:
    [one] = windows(bench, rule="cost per day by user", key=user)
    found: dict[str, Any] = one["accounts"][0]
    return found


def test_limits_bind_the_control_group_and_what_users_keep() -> None:
    """The baseline would always take the dearest action, and users keep theirs, but neither passes a limit."""
    more = {"holdout": {"share": 0.6, "by": "user", "baseline": "big"}, "sticky": {"by": "user", "for": "2h"}}
    bench = at_evening(spec_of(**more))
    for part in range(3):
        spend(bench, random.Random(part), 60, start=60 * part)
        before = bench.digest()
        bench.reopened()
        assert bench.digest() == before
    assert audited(bench) == []
    assert bench.experiment.state is not None
    assert bench.experiment.state.tally.actions[0] > 20
    verify(bench.journal)


def test_a_limit_per_window_changes_over_http(bench: Bench) -> None:
    for i in range(3):
        ask(bench, i, actions=["small"])
    read(bench.learn("e0", usage={"cost": 0.3}))
    changed = requests.ChangeRequest(rules={"cost per day by user": {"at_most": 300}})
    read(bench.ask(handlers.change, changed))
    assert account(bench, "a")["left"] == pytest.approx(299.1)
    assert verify(bench.journal).decisions == 3


def audited(bench: Bench) -> list[str]:
    """What is wrong in a journal under COST and BIG: each decision against all that came before, by the clock alone."""
    wrong, held = [], {}
    made: list[tuple[float, str, str]] = []

    def day_of(time: float) -> dt.date:
        return dt.datetime.fromtimestamp(time, ZoneInfo(ZONE)).date()

    for row in bench.journal.rows():
        entry, time = entry_of(row), row.time / 1e6
        if isinstance(entry, entries.Decided):
            user = str((entry.request.keys or {})["user"])
            taken = sum(
                (
                    held[i]
                    for i, (then, who, _) in enumerate(made)
                    if who == user and day_of(then) == day_of(time)
                ),
                Decimal(0),
            )
            near, far = (
                sum(1 for then, _, what in made if what == "big" and time - then < 86_400 * (1 + k))
                for k in (0, 1 / 96)
            )
            offered = list(USES) if entry.offered is None else [list(USES)[a] for a in entry.offered]
            for name, use in USES.items():
                fits = taken + Decimal(str(use)) <= 2 or not use
                if name == "big" and near < 30 <= far:
                    continue  # its last bucket is not past yet
                if (name in offered) != (fits and (name != "big" or near < 30)):
                    wrong.append(
                        f"{entry.event_id}: {name} was {'' if name in offered else 'not '}on offer at {taken}"
                    )
            name = list(USES)[entry.action]
            made.append((time, user, name))
            held[entry.number] = Decimal(str(USES[name]))
        elif isinstance(entry, entries.Learnt) and entry.cancelled:
            held[entry.number] = Decimal(0)
            made[entry.number] = (made[entry.number][0], made[entry.number][1], "cancelled")
        elif isinstance(entry, entries.Learnt) and entry.usage is not None:
            held[entry.number] = Decimal(str(entry.usage["cost"]))
    return wrong


def spend(bench: Bench, draw: random.Random, rounds: int, start: int = 0) -> None:
    waiting: list[int] = []
    for i in range(start, start + rounds):
        bench.now += draw.expovariate(1 / 600)
        name = ask(bench, i, draw.choice("abc"))
        waiting.append(i)
        while len(waiting) > 5:
            one = waiting.pop(draw.randrange(len(waiting)))
            kind = draw.random()
            if kind < 0.2:
                read(bench.learn(f"e{one}", cancelled=True))
            elif kind < 0.9:
                most = USES[
                    str(read(bench.decide({"event_id": f"e{one}", "keys": asked(bench, one)}))["name"])
                ]
                read(
                    bench.learn(
                        f"e{one}", reward=draw.random(), usage={"cost": round(most * draw.random(), 6)}
                    )
                )
        assert name in USES


def asked(bench: Bench, i: int) -> Any:
    from tightrope.service.requests import EventQuery

    return read(bench.ask(handlers.show_decision, EventQuery(event_id=f"e{i}")))["request"]["keys"]


def test_limits_hold_across_midnights_clock_changes_and_restarts(bench: Bench) -> None:
    draw = random.Random(1)
    for part in range(6):
        spend(bench, draw, 60, start=60 * part)
        before = bench.digest()
        bench.experiment.close() if part % 2 else None
        bench.reopened()
        assert bench.digest() == before
    assert bench.now > EVENING + 2 * 86_400
    assert audited(bench) == []
    report = verify(bench.journal)
    assert (report.decisions, report.digest) == (360, bench.digest())


def test_the_control_that_books_too_late_is_noticed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that checks all requests of a batch before it books the first: the race that this is about."""
    from tightrope.ledger.windows import Windows

    book, late = Windows.take, list[Any]()
    monkeypatch.setattr(Windows, "take", lambda *given: late.append(given))
    for batch in range(12):
        bench.now += 60
        for i in range(8):
            ask(bench, 8 * batch + i)
        for given in late:
            book(*given)
        late.clear()
    assert audited(bench)


def test_what_is_held_settled_cancelled_and_expired(bench: Bench) -> None:
    for i in range(4):
        ask(bench, i, actions=["small"])
    known = account(bench, "a")
    assert (known["used"], known["reserved"], known["allowed"], known["left"], known["decisions"]) == (
        0,
        1.2,
        2,
        0.8,
        4,
    )
    assert (known["start"], known["end"]) == (EVENING - 23 * 3600, EVENING + 3600)
    read(bench.learn("e0", usage={"cost": 0.1}))
    for _ in range(2):
        assert read(bench.learn("e1", cancelled=True))["awaits"] == []
    assert code(bench.learn("e0", cancelled=True)) == (409, "differs")
    assert code(bench.learn("e1", reward=1.0)) == (409, "differs")
    assert code(bench.learn("e1", usage={"cost": 0.1})) == (409, "differs")
    assert code(bench.learn("never", cancelled=True)) == (404, "unknown")
    known = account(bench, "a")
    assert (known["used"], known["reserved"]) == (0.1, 0.6)
    bench.now += 31 * 86_400
    bench.experiment.process([])
    assert code(bench.learn("e2", cancelled=True)) == (410, "late")
    assert bench.experiment.state is not None
    ledger = bench.experiment.state.ledger.windows
    assert ledger is not None
    assert (ledger.bookings, ledger.faults()) == ({}, [])
    # Kept by the hard limit, in the window of their decisions.
    assert float(ledger.account(0, "a", EVENING).used) == 0.7
    assert verify(bench.journal).outcomes == 2


def test_a_callers_own_bound_is_held_and_never_taken_for_a_cost() -> None:
    bench = at_evening(
        spec_of(
            {**COST, "range": [0, 5]},
            {"kind": "budget", "name": "cost", "at_most": 0.5, "seen": "after", "range": [0, 5]},
        )
    )
    assert (
        ask(bench, 0, actions=["small", "none"], usage={"cost": {"small": 1.5, "none": 0, "big": 0}}) in USES
    )
    reserved = account(bench, "a")["reserved"]
    assert reserved in (1.5, 0)
    assert code(bench.decide({"event_id": "e1", "keys": {"user": "a"}, "usage": {"cost": 9}})) == (
        422,
        "invalid",
    )
    # Without a bound the end of the declared range is held: more than the limit.
    assert code(bench.decide({"event_id": "e2", "keys": {"user": "b"}})) == (409, "exhausted")
    state = bench.state()
    assert state["constraints"][0]["cumulative_cost"] == 0
    read(bench.learn("e0", usage={"cost": 0.2}))
    assert account(bench, "a")["used"] == 0.2


def test_what_is_refused(bench: Bench) -> None:
    for body, words in (
        ({}, "keys.user is missing"),
        ({"keys": {"usr": "a"}}, "did you mean 'user'"),
        ({"keys": {"user": "a", "team": "b"}}, "keys.team is not a key that the spec uses"),
    ):
        answer = bench.decide({"event_id": "e", **body})
        assert answer.status == 422
        assert words in answer.body.decode()
    for key in ("", 1.5, "a" * 201, "a\nb", None):
        with pytest.raises(Refusal, match=r"keys\.user must"):
            bench.decide({"event_id": "e", "keys": {"user": key}})
    with pytest.raises(Refusal, match="keys must have at most 20 entries, but got 21"):
        bench.decide({"event_id": "e", "keys": dict.fromkeys(map(str, range(21)), "a")})
    with pytest.raises(Refusal, match="reward and usage must be left out where cancelled is true"):
        bench.learn("e", reward=1.0, cancelled=True)
    assert bench.experiment.state is not None
    assert bench.experiment.state.tally.decisions == 0
    assert ask(bench, 1, 17, actions=["small"]) == "small"
    assert account(bench, "17")["reserved"] == 0.3


def test_when_nothing_fits_the_answer_says_so() -> None:
    bench = at_evening(spec_of({**COST, "usage": {"big": 0.9, "small": 0.3, "none": 0.1}}))
    for i in range(2):
        ask(bench, i, actions=["big"])
    answer = bench.decide({"event_id": "e9", "keys": {"user": "a"}, "actions": ["big", "small"]})
    assert code(answer) == (409, "exhausted")
    assert "cost per day by user of 'a' (1.8 of 2 used or reserved)" in answer.body.decode()
    assert ask(bench, 9, "b", actions=["big"]) == "big", "the same event may be tried again"


def test_more_keys_than_there_may_be() -> None:
    bench = at_evening(spec_of({**COST, "usage": USES, "max_keys": 3}))
    for i in range(3):
        ask(bench, i, i)
    answer = bench.decide({"event_id": "e3", "keys": {"user": 3}})
    assert (*code(answer), answer.retry_after) == (429, "too-many-keys", 60)
    assert ask(bench, 4, 2) in USES
    bench.now += 3600
    assert ask(bench, 5, 3) in USES, "the next window has room"


def test_shadow_mode_refuses_a_default_that_does_not_fit(bench: Bench) -> None:
    read(bench.ask(handlers.change_mode, ModeRequest(mode="shadow", default="big")))
    assert [ask(bench, i) for i in range(2)] == ["big", "big"]
    answer = bench.decide({"event_id": "e2", "keys": {"user": "a"}})
    assert code(answer) == (409, "exhausted")
    assert (
        "the default action 'big' would exceed a hard cap: cost per day by user of 'a'"
        in answer.body.decode()
    )
    assert account(bench, "a")["reserved"] == 1.8
    assert verify(bench.journal).decisions == 2


def test_a_rollback_gives_nothing_back(bench: Bench) -> None:
    ask(bench, 0, actions=["small"])
    taken = read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="before")))
    ask(bench, 1, actions=["big"])
    for restore in ("learnt", "all"):
        read(bench.ask(handlers.roll_back, RollbackRequest(position=taken["position"], restore=restore)))
        known = account(bench, "a")
        assert round(known["used"] + known["reserved"], 9) == 1.2
    [last] = [entry_of(row) for row in bench.journal.rows() if row.kind == entries.KINDS[entries.RolledBack]][
        1:
    ]
    assert isinstance(last, entries.RolledBack)
    assert b"windows" not in last.state, "accounts may be many, and a rollback does not need them"
    verify(bench.journal)


def test_erased_keys_name_nobody_and_still_count(bench: Bench) -> None:
    read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="none yet")))
    for i in range(2):
        ask(bench, i, "someone@example.org", actions=["big"])
    read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="named")))
    ask(bench, 2, "another", actions=["small"])
    read(bench.ask(handlers.erase, ErasureRequest(event_ids=["e0", "e1"])))
    while bench.experiment.purging:
        bench.experiment.process([])
    for saved in bench.journal.snapshots():
        whole = bench.journal.snapshot(saved.position)
        assert whole is not None
        assert b"someone" not in whole.state, saved.label
    assert not any(b"someone" in row.data for row in bench.journal.rows())
    bench.reopened()
    assert account(bench, "someone@example.org")["left"] == pytest.approx(0.2)
    assert account(bench, "another")["left"] == pytest.approx(1.7)
    assert ask(bench, 3, "someone@example.org") in ("none",)
    [shown] = windows(bench, rule="cost per day by user", limit=1)
    assert shown["accounts"][0]["key"].startswith("~")
    assert shown["keys"] == 2
    verify(bench.journal)


def test_the_keys_that_are_closest_to_their_limits_come_first(bench: Bench) -> None:
    for user in range(30):
        for k in range(user % 6):
            ask(bench, 10 * user + k, user, actions=["small"])
    [cost, big] = windows(bench, limit=3)
    assert [one["reserved"] for one in cost["accounts"]] == [1.5] * 3
    assert {int(one["key"]) % 6 for one in cost["accounts"]} == {5}
    assert (cost["keys"], cost["by"], cost["hard"], cost["unit"]) == (25, "user", True, "cost")
    assert big["accounts"] == [{**big["accounts"][0], "key": None, "used": 0, "allowed": 30, "left": 30}]
    assert code(bench.ask(show_windows, WindowQuery(rule="cost"))) == (404, "unknown")
    assert code(bench.ask(show_windows, WindowQuery(rule="capacity big per 24h", key="a"))) == (
        404,
        "unknown",
    )


def changed(bench: Bench, *rules: dict[str, Any]) -> Experiment:
    bench.spec, bench.options = spec_of(*rules, policy=bench.spec.policies[0].kind), {"accept_changes": True}
    return bench.reopened()


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({"at_most": 3}, 2.1),
        ({"at_most": 1}, 0.1),
        ({"at_most": 300}, 299.1),
        ({"per": "week"}, 1.1),
        ({"zone": "America/New_York"}, 1.1),
        ({"per": "24h", "zone": "UTC"}, 1.1),
        ({"per": "hour", "at_most": 1}, 0.1),
    ],
)
def test_what_was_used_counts_under_changed_rules(bench: Bench, change: dict[str, Any], left: float) -> None:
    for i in range(3):
        ask(bench, i, actions=["small"])
    read(bench.learn("e2", usage={"cost": 0.3}))
    assert changed(bench, {**COST, "usage": USES, **change}, BIG).status == "ready"
    assert bench.experiment.state is not None
    ledger = bench.experiment.state.ledger.windows
    assert ledger is not None
    assert ledger.faults() == []
    assert float(ledger.account(0, "a", bench.now).left) == pytest.approx(left)
    read(bench.learn("e0", usage={"cost": 0.1}))
    assert float(ledger.account(0, "a", bench.now).left) == pytest.approx(left + 0.2)
    assert ledger.faults() == []
    verify(bench.journal)
    before = bench.digest()
    bench.reopened()
    assert bench.digest() == before


def test_a_clock_that_jumped_past_a_window_needs_confirmation() -> None:
    """At a start only the wall clock says how long the service was stopped."""
    from tightrope.service.experiment.clock import SteadyClock

    wall = [EVENING]
    bench = Bench(spec_of())
    bench.journal = MemoryJournal()

    def started(**options: Any) -> Experiment:
        clock = SteadyClock(wall=lambda: wall[0], steady=lambda: 0.0)
        experiment = Experiment(bench.spec, bench.journal, clock=clock, **options)
        experiment.open()
        bench.experiment = experiment
        return experiment

    started()
    for i in range(2):
        ask(bench, i, actions=["big"])
        read(bench.learn(f"e{i}", reward=1.0, usage={"cost": 0.9}))
    wall[0] += 3 * 86_400
    started()
    answer = bench.decide({"event_id": "e2", "keys": {"user": "a"}, "actions": ["big"]})
    assert code(answer) == (409, "exhausted"), "the amount of three days ago is not refilled"
    started(accept_clock=True)
    assert ask(bench, 3, actions=["big"]) == "big"


def test_rules_of_a_spec() -> None:
    with pytest.raises(SpecError, match=r"rule\[0\].total: can't be combined with per"):
        spec_of({**COST, "total": 5})
    with pytest.raises(SpecError, match=r"rule\[0\].per.* must be one of 'hour'"):
        spec_of({**COST, "per": "fortnight"})
    with pytest.raises(SpecError, match=r"rule\[0\]: unknown field .*perr|rule\[0\].perr"):
        spec_of({**COST, "perr": "day"})
    with pytest.raises(SpecError, match="is for limits per window, but per is missing"):
        spec_of({"kind": "budget", "name": "cost", "at_most": 2, "by": "user"})
    capped = spec_of(
        {"kind": "budget", "name": "cost", "at_most": 2, "hard": True, "total": 9}, {**COST, "name": "tokens"}
    )
    assert [one.hard for one in capped.rule_specs] == [True, False]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", logger="tightrope.service")
