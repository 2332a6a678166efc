"""What a journal recorded, read for another policy."""

from __future__ import annotations

from typing import Any

from tightrope.service.experiment.configuration import served_policy
from tightrope.service.http import handlers
from tightrope.service.offline.served_decisions import Reader, Record, spec_to_judge
from tightrope.service.requests import ModeRequest
from tightrope.spec import Spec, make_spec
from workbench import Bench, read, visit, ward


def arms(*rules: dict[str, Any]) -> Spec:
    """Two arms, drawn."""
    return make_spec({"actions": ["a", "b"], "rule": list(rules), "policy": {"kind": "uniform"}})


def test_outcomes_are_put_together_from_their_parts() -> None:
    bench = Bench(ward())
    read(bench.decide(visit(1)))
    bench.learn("visit-1", usage={"hours": 0.25})
    read(bench.decide(visit(2)))
    bench.learn("visit-1", reward=0.5)
    bench.ask(handlers.change_mode, ModeRequest(mode="shadow", default="icu"))
    read(bench.decide(visit(3)))
    record = Record.of(bench.journal)
    first, second = record.served
    assert (first.reward, first.used, first.known_at) == (0.5, {"hours": 0.25}, 5)
    assert (second.reward, second.used) == (None, None)
    assert record.shadow == 1


def test_usage_is_by_name_whatever_was_sent() -> None:
    fuel = {"kind": "budget", "name": "fuel", "at_most": 0.5, "hard": True, "total": 1.0}
    time = {"kind": "budget", "name": "time", "at_most": 0.5, "usage": {"a": 0.2, "b": 0.3}}
    bench = Bench(arms(fuel, time))
    read(bench.decide({"event_id": "1", "actions": ["b", "a"], "usage": {"fuel": [0.9, 0.95]}}))
    read(bench.decide({"event_id": "2", "actions": ["b", "a"], "usage": {"fuel": [0.9, 0.0]}}))
    _, one = Record.of(bench.journal).served
    assert one.usage == {"fuel": {"b": 0.9, "a": 0.0}, "time": {"a": 0.2, "b": 0.3}}
    assert (one.asked, one.entry.offered) == ([1, 0], [0])
    assert one.rows_on_offer(["row of b", "row of a"]) == ["row of a"]


def test_a_policy_alone_has_the_rest_from_the_journal() -> None:
    """Also when costs are seen, which the journal's policy may have said for all of its rules."""
    rule = {"kind": "budget", "name": "fuel", "at_most": 0.5}
    recorded = make_spec(
        {
            "actions": ["a", "b"],
            "rule": [rule],
            "policy": {"kind": "pessimistic-optimistic", "costs_seen": "after", "slater": 0.2},
        }
    )
    spec = spec_to_judge(make_spec({"policy": {"kind": "uniform"}}, name="candidate"), recorded)
    assert (spec.name, spec.actions, spec.rules) == ("candidate", ("a", "b"), recorded.rules)
    assert spec.rules is not None
    assert [rule.seen for rule in spec.rules] == ["after"]
    own = make_spec({"actions": ["a", "b"], "rule": [], "policy": {"kind": "uniform"}})
    assert spec_to_judge(own, recorded).rules is None


def test_costs_seen_after_acting_may_have_been_known_before() -> None:
    fuel = {"kind": "budget", "name": "fuel", "at_most": 0.5}
    bench = Bench(arms(fuel))
    action = read(bench.decide({"event_id": "1", "usage": {"fuel": {"a": 0.75, "b": 0.25}}}))["action"]
    spec = arms({**fuel, "seen": "after"})
    reader = Reader(spec, served_policy(spec))
    record = Record.of(bench.journal)
    assert list(reader.misfits(record)) == []
    observed = reader.observed(record.served[0])
    assert observed is not None
    assert observed.tolist() == [0.25 if action == 0 else -0.25]
