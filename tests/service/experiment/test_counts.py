"""What is counted for people alone: used, allowed and left by hand, what caps withhold, and that nothing else depends on it."""

from __future__ import annotations

from typing import Any

import pytest

from tightrope.service.http import handlers
from tightrope.service.offline.replay import verify
from tightrope.service.requests import RollbackRequest, SnapshotRequest
from tightrope.spec import Spec, make_spec
from workbench import Bench, read

CENTS = {
    "kind": "budget",
    "name": "cents",
    "at_most": 6.0,
    "range": [0, 20],
    "usage": {"none": 0.0, "small": 5.0, "large": 20.0},
}
OLD = {"kind": "share", "action": ["small", "large"], "at_least": 0.5, "among": "old"}
HOURS = {
    "kind": "mean",
    "name": "hours",
    "at_most": 3.0,
    "at_least": 1.0,
    "range": [0, 8],
    "seen": "after",
    "among": "old",
}
USES = {"none": 0.0, "small": 5.0, "large": 20.0}


def coupons(cents: dict[str, Any] | None = None, rules: tuple[dict[str, Any], ...] = (OLD, HOURS)) -> Spec:
    return make_spec(
        {
            "name": "coupons",
            "actions": list(USES),
            "groups": ["old"],
            "rule": [CENTS if cents is None else cents, *rules],
        }
    )


def play(bench: Bench, rounds: range) -> list[str]:
    """Every other caller is old; costs of two in three come back. The names of what was chosen."""
    chosen = []
    for i in rounds:
        group = ["old"] if i % 2 else []
        decided = read(bench.decide({"event_id": f"e-{i}", "group": group}))
        chosen.append(decided["name"])
        used = (
            {"usage": {"hours": 2.0}}
            if i % 3 and bench.spec.rules is not None and "hours" in str(bench.spec.rules)
            else {}
        )
        read(bench.learn(f"e-{i}", reward={"none": 0.1, "small": 0.5, "large": 0.6}[decided["name"]], **used))
    return chosen


def standing(bench: Bench) -> list[tuple[Any, ...]]:
    return [
        tuple(one[name] for name in ("unit", "decisions", "used", "allowed", "left"))
        for one in bench.state()["constraints"]
    ]


def test_used_allowed_and_left_are_what_was_used_allowed_and_left() -> None:
    bench = Bench(coupons())
    chosen = play(bench, range(60))
    spent = sum(USES[name] for name in chosen)
    given = sum(name != "none" for i, name in enumerate(chosen) if i % 2)
    seen = sum(1 for i in range(60) if i % 2 and i % 3)
    expected = [
        ("cents", 60, spent, 360.0, 360.0 - spent),
        ("decisions", 30, given, 15.0, given - 15.0),
        ("hours", seen, 2.0 * seen, 3.0 * seen, 1.0 * seen),
        ("hours", seen, 2.0 * seen, 1.0 * seen, 1.0 * seen),
    ]
    for found, wanted in zip(standing(bench), expected, strict=True):
        assert found[:2] == wanted[:2]
        assert found[2:] == pytest.approx(wanted[2:])
    history = read(bench.ask(handlers.show_history))
    assert history["allowed"]["cents"] == pytest.approx([6.0 * n for n in history["decisions"]])
    assert history["left"]["cents"][-1] == pytest.approx(360.0 - spent)
    assert [one["one_more"] for one in bench.state()["constraints"]] == [
        "one more cent",
        "requiring one decision fewer for small or large",
        "one more hour",
        "requiring one hour less",
    ]
    assert [one["offered"] for one in bench.state()["actions"]] == [60, 60, 60]
    # A restart and a whole replay count the same.
    before = standing(bench)
    bench.ask(handlers.take_snapshot, SnapshotRequest(label="now"))
    bench.reopened()
    assert standing(bench) == before
    assert verify(bench.journal).digest == bench.digest()


def test_another_limit_counts_from_then_on() -> None:
    bench = Bench(coupons(rules=()), accept_changes=True)
    chosen = play(bench, range(20))
    bench.spec = coupons({**CENTS, "at_most": 10.0}, rules=())
    bench.reopened()
    chosen += play(bench, range(20, 30))
    spent = sum(USES[name] for name in chosen)
    [found] = standing(bench)
    assert found == ("cents", 30, pytest.approx(spent), 20 * 6.0 + 10 * 10.0, pytest.approx(220.0 - spent))
    # With another scale what was summed before can't be told in units: it is not made up.
    bench.spec = coupons({**CENTS, "range": [0, 40]}, rules=())
    bench.reopened()
    [found] = standing(bench)
    assert found[1:4] == (None, None, None)
    assert verify(bench.journal).digest == bench.digest()


def test_rolling_all_back_takes_what_was_allowed_back_too() -> None:
    bench = Bench(coupons())
    play(bench, range(20))
    before = standing(bench)
    read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="now")))
    position = bench.journal.snapshots()[-1].position
    play(bench, range(20, 40))
    assert standing(bench) != before
    read(bench.ask(handlers.roll_back, RollbackRequest(position=position, restore="all")))
    assert standing(bench) == before
    assert sum(one["offered"] for one in bench.state()["actions"]) == 120, "what happened has happened"


def test_what_a_hard_cap_withholds_and_since_when() -> None:
    bench = Bench(coupons({**CENTS, "at_most": 20.0, "hard": True, "total": 43}, rules=()))
    last = None
    for i in range(40):
        [cap] = bench.state()["hard_caps"]
        left = 43.0 - cap["used"]
        assert cap["left"] == left
        names = [name for name, use in USES.items() if use <= left]
        withheld = sorted(set(USES) - set(names))
        bench.now += 1.0
        decided = read(bench.decide({"event_id": f"e-{i}", "explain": True}))
        assert [row["action"] for row in decided["explanation"]["actions"]] == names
        read(bench.learn(f"e-{i}", reward=0.5 if decided["name"] == "none" else 1.0))
        [cap] = bench.state()["hard_caps"]
        if not withheld:
            assert cap["withheld"] is None
            continue
        last = last or (bench.now, i)
        assert (cap["withheld"]["since"], cap["withheld"]["sequence"]) == last
        assert cap["withheld"]["decisions"] == i - last[1] + 1
        assert cap["withheld"]["actions"]["large"] == i - last[1] + 1
    assert last is not None
    first = last[1]
    chosen = {one["name"]: one["decisions"] for one in bench.state()["actions"]}
    total = 0.5 * chosen["none"] + 1.0 * (40 - chosen["none"])
    before, since = cap["withheld"]["mean_reward_before"], cap["withheld"]["mean_reward_since"]
    assert before * first + since * (40 - first) == pytest.approx(total)
    assert [one["offered"] for one in bench.state()["actions"]][2] == first
    bench.reopened()
    assert bench.state()["hard_caps"] == [cap]


def test_a_cap_that_offers_all_again_withholds_nothing() -> None:
    late = {
        "kind": "budget",
        "name": "hours",
        "at_most": 2.0,
        "range": [0, 4],
        "seen": "after",
        "hard": True,
        "total": 6,
    }
    bench = Bench(make_spec({"name": "late", "actions": ["a", "b"], "rule": [{**late, "action": "a"}]}))
    read(bench.decide({"event_id": "first", "actions": ["a"]}))
    read(bench.decide({"event_id": "second"}))
    assert bench.state()["hard_caps"][0]["withheld"]["actions"] == {"a": 1}, "4 of 6 are reserved"
    read(bench.learn("first", reward=1.0, usage={"hours": 1.0}))
    read(bench.decide({"event_id": "third"}))
    assert bench.state()["hard_caps"][0]["withheld"] is None


def test_what_rules_cost_is_answered_beside_the_writer() -> None:
    bench = Bench(coupons(rules=()))
    nothing = read(bench.ask(handlers.show_rules))
    assert (nothing["reward"], nothing["rules"]) == (None, [])
    assert "too few rounds" in nothing["why"]
    play(bench, range(120))
    alive = bench.digest()
    found = read(bench.ask(handlers.show_rules))
    assert bench.digest() == alive, "asking changes nothing"
    [rule] = found["rules"]
    assert rule["name"] == "cents"
    assert found["reward"] <= rule["without"]
    assert found["rounds"] == 120
