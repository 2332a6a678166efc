"""What usage callers may send: declared, or inferred at the first start, recorded, and fixed from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tightrope.service.experiment.configuration import inferred_ranges
from tightrope.service.journal.entries import Started
from tightrope.service.journal.rows import entry_of
from tightrope.service.offline.replay import verify
from tightrope.spec import Spec, SpecError, make_spec
from workbench import Bench, read

HUGE = [1e20, -1e20, 1e308, -1e308, -1e6, 1e6]
BEFORE = {"kind": "budget", "name": "fuel", "at_most": 0.5}
AFTER = {"kind": "budget", "name": "hours", "at_most": 0.5, "seen": "after"}


def beds(*rules: dict[str, Any], **more: Any) -> Spec:
    capacity = {"kind": "capacity", "action": "a", "at_most": 0.2}
    return make_spec({"name": "beds", "actions": ["a", "b"], "rule": [capacity, *rules], **more})


def started(bench: Bench) -> list[Started]:
    return [entry for row in bench.journal.rows() if isinstance(entry := entry_of(row), Started)]


@pytest.mark.parametrize("declared", [{}, {"range": [0, 2]}])
@pytest.mark.parametrize("policy", ["shadow-price", "uniform", "greedy"])
def test_no_number_that_callers_send_switches_a_rule_off(declared: dict[str, Any], policy: str) -> None:
    bench = Bench(beds({**BEFORE, **declared}, {**AFTER, **declared}, policy={"kind": policy}))
    read(bench.decide({"event_id": "first", "usage": {"fuel": [0.5, 0.25]}}))
    before = bench.digest()
    for value in HUGE:
        for given in (value, [0.1, value], {"a": value, "b": 0.1}):
            answer = bench.decide({"usage": {"fuel": given}})
            assert answer.status == 422
            assert "fuel" in answer.body.decode()
        answer = bench.learn("first", reward=1.0, usage={"hours": value})
        assert answer.status == 422
        assert "must lie in [0, " in answer.body.decode()
    assert bench.digest() == before
    read(bench.learn("first", reward=1.0, usage={"hours": 0.5}))
    for i in range(200):
        read(bench.decide({"event_id": str(i), "usage": {"fuel": [0.5, 0.25]}}))
        read(bench.learn(str(i), reward=float(i % 2), usage={"hours": 0.25}))
    if policy == "shadow-price":
        assert bench.state()["actions"][0]["share"] <= 0.25
    assert verify(bench.journal).digest == bench.digest()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({**AFTER, "at_most": 24.0}, (0.0, 2400.0)),
        (
            {"kind": "mean", "name": "hours", "at_least": -2.0, "at_most": 1.0, "seen": "after"},
            (-200.0, 200.0),
        ),
        ({"kind": "mean", "name": "hours", "at_most": -2.0, "seen": "after"}, (-200.0, 200.0)),
        ({**AFTER, "usage": {"a": 0.25, "b": 0.75}}, (0.0, 7.5)),
    ],
)
def test_what_is_inferred(rule: dict[str, Any], expected: tuple[float, float]) -> None:
    assert inferred_ranges(beds(rule)) == {"hours": expected}


def test_within_what_is_inferred_any_unit_will_do() -> None:
    bench = Bench(beds({**BEFORE, "at_most": 24.0}, {**AFTER, "at_most": 0.5}))
    read(bench.decide({"event_id": "1", "usage": {"fuel": [2_400.0, 3.0]}}))
    read(bench.learn("1", reward=1.0, usage={"hours": 50.0}))
    for fuel, hours in ((2_401.0, 50.5), (-0.5, -0.5)):
        answer = bench.decide({"event_id": "2", "usage": {"fuel": [fuel, 3.0]}})
        assert answer.status == 422
        assert (
            f"usage.fuel[0] must lie in [0, 2400], the range that was inferred when the experiment began, but got {fuel:g}"
            in (answer.body.decode())
        )
        read(bench.decide({"event_id": "3", "usage": {"fuel": 3.0}}))
        assert "usage.hours must lie in [0, 50]" in bench.learn("3", usage={"hours": hours}).body.decode()
    assert verify(bench.journal).digest == bench.digest()


def test_a_range_that_is_declared_or_never_sent_is_not_inferred() -> None:
    fixed = {**BEFORE, "usage": {"a": 0.25, "b": 0.75}}
    assert inferred_ranges(beds(fixed, {**AFTER, "range": [0, 1]})) == {}


def test_a_limit_of_zero_tells_nothing() -> None:
    with pytest.raises(SpecError, match="`range` is needed in the rule on 'hours'"):
        Bench(beds({**AFTER, "at_most": 0.0}))
    assert Bench(beds({**AFTER, "at_most": 0.0, "range": [-1, 1]})).experiment.status == "ready"


def test_a_table_tells_more_than_a_limit_and_is_recorded(tmp_path: Path) -> None:
    table = tmp_path / "past.csv"
    table.write_text("done,good,hours\n" + "a,1,0.5\nb,0,0.75\n" * 20)
    past = {"file": str(table), "action": "done", "reward": "good", "usage": {"hours": "hours"}}
    bench = Bench(beds(AFTER, warm_start=past))
    [first] = started(bench)
    assert first.ranges == {"hours": (0.0, 7.5)}
    table.unlink()
    bench.reopened()
    assert [entry.ranges for entry in started(bench)] == [first.ranges], "a restart infers nothing again"
    read(bench.decide({"event_id": "1"}))
    assert bench.learn("1", usage={"hours": 7.75}).status == 422
    read(bench.learn("1", usage={"hours": 0.75}))
    assert verify(bench.journal).digest == bench.digest()


def test_a_table_with_what_can_not_be_right_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "past.csv"
    for hours in ("1e20", "1e308", "-1e20"):
        table.write_text(f"done,good,hours\na,1,{hours}\nb,0,0.75\n")
        past = {"file": str(table), "action": "done", "reward": "good", "usage": {"hours": "hours"}}
        with pytest.raises(SpecError, match="hours"):
            Bench(beds(AFTER, warm_start=past))


def test_a_change_keeps_what_was_inferred_and_makes_room_for_a_new_limit() -> None:
    bench = Bench(beds(BEFORE), accept_changes=True)
    read(bench.decide({"event_id": "1", "usage": {"fuel": 0.5}}))
    other = {"kind": "share", "action": "b", "at_least": 0.1}
    bench.spec = beds(BEFORE, other)
    bench.reopened()
    bench.spec = beds({**BEFORE, "at_most": 0.9}, other)
    bench.reopened()
    bench.spec = beds({**BEFORE, "at_most": 0.4}, other)
    bench.reopened()
    ranges = [entry.ranges["fuel"] for entry in started(bench)]
    assert ranges == [(0.0, 50.0), (0.0, 50.0), (0.0, 90.0), (0.0, 90.0)]
    read(bench.decide({"event_id": "2", "usage": {"fuel": 0.5}}))
    assert verify(bench.journal).digest == bench.digest()
