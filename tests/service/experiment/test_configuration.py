"""Changes of the spec under a running experiment: what may change, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tightrope.encoder import Encoder
from tightrope.policies.pessimistic_optimistic import slater as slater_module
from tightrope.service.experiment.configuration import served_part
from tightrope.service.http import handlers
from tightrope.service.journal import JournalError
from tightrope.service.journal.entries import ModeChanged, Started
from tightrope.service.journal.packing import packed
from tightrope.service.journal.rows import entry_of, row_of
from tightrope.service.offline.replay import verify
from tightrope.service.requests import ModeRequest, PageQuery, RollbackRequest, SnapshotRequest
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import Spec, make_spec
from workbench import CONTEXT, PAPER, Bench, code, measured, read, visit, ward


def test_a_journal_is_not_continued_under_another_spec_by_accident() -> None:
    journal = MemoryJournal()
    Bench(ward(), journal).decide(visit(1))
    with pytest.raises(
        JournalError, match=r"policy.slater was 0.2, and now is 0.3. Start with --accept-changes"
    ):
        Bench(ward(policy={"kind": "pessimistic-optimistic", "slater": 0.3}), journal)


LATE = {"kind": "budget", "name": "hours", "at_most": 0.6, "seen": "after"}


def test_accepted_changes_keep_what_was_learnt_and_spent() -> None:
    cap = {"kind": "capacity", "action": ["icu", "surgery"], "at_most": 0.9, "hard": True, "total": 70}
    bench = Bench(
        ward(rule=[{"kind": "capacity", "action": "icu", "at_most": 0.4}, LATE, cap]), snapshot_every=25
    )
    for i in range(60):
        bench.decide(visit(i))
        if i % 2:
            bench.learn(f"visit-{i}", reward=0.5, usage={"hours": 0.5})
    old, was = bench.state(), bench.experiment._state
    assert was is not None
    before, why = was.policy.hooks.state(), read(bench.decide(visit(7, explain=True)))
    share = {"kind": "share", "action": "other", "at_least": 0.1}
    bench.spec = ward(
        rule=[share, LATE, {**cap, "total": 75}, {"kind": "capacity", "action": "icu", "at_most": 0.3}],
        policy={"kind": "pessimistic-optimistic", "slater": 0.1},
    )
    bench.options["accept_changes"] = True
    bench.reopened()
    now = bench.experiment._state
    assert now is not None
    after = now.policy.hooks.state()
    for name in before:
        if name.startswith(("reward/", "cost/", "pending/", "made")):
            np.testing.assert_array_equal(before[name], after[name], err_msg=name)
    state = bench.state()
    assert [one["name"] for one in old["constraints"]] != [one["name"] for one in state["constraints"]]
    for name in (one["name"] for one in old["constraints"]):
        [mine] = [one for one in state["constraints"] if one["name"] == name]
        [theirs] = [one for one in old["constraints"] if one["name"] == name]
        assert mine["queue"] == theirs["queue"]
        assert mine["cumulative_cost"] == theirs["cumulative_cost"]
    assert state["constraints"][0] == {**state["constraints"][0], "queue": 0.0, "cumulative_cost": 0.0}
    assert state["hard_caps"][0]["used"] == old["hard_caps"][0]["used"] > 0
    assert state["hard_caps"][0]["total"] == 75
    # V and ε come from the new δ and K, and the clock goes on.
    first = read(bench.decide(visit(60, explain=True)))
    assert first["sequence"] == 60
    assert first["explanation"]["V"] == pytest.approx(0.1 * 9 * 61**0.5 / 4 * np.log(62) * 4**0.25)
    assert read(bench.decide(visit(7, explain=True))) == why, "a stored answer keeps the words of its time"
    for i in range(61, 100):
        bench.decide(visit(i))
        bench.learn(f"visit-{i - 20}", reward=0.5, usage={"hours": 0.5})
    alive = bench.digest()
    bench.reopened()
    assert bench.digest() == alive
    assert verify(bench.journal).digest == alive
    assert bench.state()["hard_caps"][0]["used"] <= 75
    early = [one.position for one in bench.journal.snapshots() if one.position < now.configured]
    request = RollbackRequest(position=early[0], restore="all")
    assert code(bench.ask(handlers.roll_back, request)) == (409, "differs")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"actions": ["icu", "other", "surgery"]},
            r'actions: .*those of the journal come first, in its order: actions = \["icu", "surgery", "other"\]',
        ),
        ({"actions": ["icu", "surgery"], "rule": [LATE]}, 'actions = .*"surgery", "other"'),
        ({"context": {"age": {"type": "number", "min": 0, "max": 99}}}, "context: was .* and now is"),
        (
            {"rule": [{**LATE, "range": [0.0, 2.0]}]},
            r"rule 'hours: at most 0.6 .*': range was \[0.0, 1.0\], and now is \[0.0, 2.0\]\. What was learnt .* new name",
        ),
        (
            {"rule": [{**LATE, "at_most": 1.5}]},
            r"rule 'hours: at most 0.6 .*': at_most was 0.6, and now is 1.5, .* declare `range = \[0.0, 1.0\]`",
        ),
        (
            {"rule": []},
            "rules that are seen after acting: were 'hours: at most 0.6 .*', and now are none",
        ),
        (
            {"policy": {"kind": "pessimistic-optimistic", "slater": 0.2, "reward": {"bonus": 0.5}}},
            "policy.reward: was .* and now is",
        ),
    ],
)
def test_changes_that_would_falsify_what_was_learnt_are_refused(changes: dict[str, Any], words: str) -> None:
    journal = MemoryJournal()
    Bench(ward(), journal).decide(visit(1))
    with pytest.raises(JournalError, match=words):
        Bench(ward(**changes), journal, accept_changes=True)
    assert journal.last() == 2


def test_slater_is_measured_afresh_under_new_rules() -> None:
    bench = Bench(measured())
    for i in range(20):
        bench.decide(visit(i))
    bench.work()
    assert bench.state()["slater"] == pytest.approx(0.4)
    data = {**measured().data, "rule": [{"kind": "capacity", "action": "a", "at_most": 0.7}]}
    bench.spec, bench.options["accept_changes"] = make_spec(data), True
    bench.reopened()
    assert bench.state()["slater"] == slater_module.FLOOR
    bench.decide(visit(20))
    bench.work()
    assert bench.state()["slater"] == pytest.approx(0.7)
    # A change that leaves the costs as they are keeps the sample.
    bench.spec = make_spec(
        {**data, "policy": {"kind": "pessimistic-optimistic", "slater": "measure", "horizon": 500}}
    )
    bench.reopened()
    assert bench.state()["slater"] == pytest.approx(0.7)
    alive = bench.digest()
    assert verify(bench.journal).digest == alive


def test_changes_of_configuration_are_in_the_journal() -> None:
    bench = Bench(ward(), expire_after=60.0)
    bench.ask(handlers.change_mode, ModeRequest(mode="paused"))
    bench.options["expire_after"] = 120.0
    bench.reopened()
    bench.reopened()
    listed = read(bench.ask(handlers.list_changes, PageQuery()))["changes"]
    assert [one["kind"] for one in listed] == ["started", "mode", "started"]
    assert [listed[0]["expire_after"], listed[2]["expire_after"]] == [120.0, 60.0]
    assert verify(bench.journal).digest == bench.digest()


def plain(**policy: Any) -> Any:
    """A spec that says nothing of its policy, or that little."""
    rules = [{"kind": "capacity", "action": "a", "at_most": 0.4}]
    return make_spec(
        {"name": "plain", "actions": ["a", "b"], "rule": rules, **({"policy": policy} if policy else {})}
    )


def test_a_spec_without_a_policy_is_served_by_shadow_price_and_the_journal_says_so() -> None:
    bench = Bench(plain())
    first = entry_of(next(iter(bench.journal.rows())))
    assert isinstance(first, Started)
    assert first.spec["policy"] == {"kind": "shadow-price"}
    assert b"shadow-price" in next(iter(bench.journal.rows())).data
    for i in range(40):
        shown = read(bench.decide({"event_id": f"v-{i}", "explain": True}))
        assert 0.0 < shown["probability"] <= 1.0
        bench.learn(f"v-{i}", reward=float(shown["name"] == "a"))
    assert bench.state()["policy"] == "shadow-price"
    alive = bench.digest()
    assert verify(bench.journal).digest == alive
    rows = bench.journal.last()
    bench.spec = plain(kind="shadow-price")
    bench.reopened()
    assert (bench.journal.last(), bench.digest()) == (rows, alive), "the same configuration, said aloud"


def test_a_spec_that_names_no_policy_goes_on_with_the_one_that_is_recorded() -> None:
    bench = Bench(plain(kind="pessimistic-optimistic"))
    journal = bench.journal
    for i in range(30):
        bench.decide({"event_id": f"v-{i}"})
        bench.learn(f"v-{i}", reward=float(i % 2))
    rows, bench = journal.last(), Bench(plain(), journal)
    assert journal.last() == rows, "nothing has changed, so nothing is written"
    assert bench.state()["policy"] == "pessimistic-optimistic"
    assert bench.experiment.spec.policies[0].kind == "pessimistic-optimistic"
    bench.decide({"event_id": "v-30"})
    assert verify(journal).digest == bench.digest()
    bench.options["accept_changes"] = True
    bench.spec = plain(kind="shadow-price")
    with pytest.raises(
        JournalError, match=r"policy\.kind: was 'pessimistic-optimistic', and now is 'shadow-price'"
    ):
        bench.reopened()


def test_first_entry_is_the_configuration() -> None:
    bench = Bench(ward())
    first = entry_of(next(iter(bench.journal.rows())))
    assert isinstance(first, Started)
    again = make_spec(first.spec)
    assert again.rules == ward().rules
    bench.ask(handlers.change_mode, ModeRequest(mode="paused"))
    assert isinstance(entry_of(list(bench.journal.rows())[1]), ModeChanged)


def test_a_context_keeps_its_order_of_features_when_the_file_has_another() -> None:
    """The fields of a table have no order in TOML; the features that were learnt have one."""
    swapped = dict(reversed(CONTEXT.items()))
    found = []
    for context in (CONTEXT, swapped):
        rule = {"kind": "capacity", "action": "icu", "at_most": 0.4}
        bench = Bench(ward(policy={}, rule=[rule]), accept_changes=True)
        for i in range(20):
            read(bench.decide(visit(i)))
            read(bench.learn(f"visit-{i}", reward=i % 3 / 2))
        bench.spec = ward(policy={}, rule=[{**rule, "at_most": 0.3}], context=context)
        bench.reopened()
        found.append([read(bench.decide(visit(i, explain=True))) for i in range(20, 30)])
        assert verify(bench.journal).digest == bench.digest()
    assert found[0] == found[1]


@pytest.mark.parametrize("data", [{"expire_after": 60}, {"expire_after": 60.0}])
def test_a_snapshot_has_the_same_bytes_whether_a_setting_was_a_whole_number(data: dict[str, Any]) -> None:
    bench = Bench(ward(), **data)
    read(bench.decide(visit(1)))
    read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="here")))
    assert verify(bench.journal).digest == bench.digest()


def test_what_is_served_of_a_spec_is_what_the_journal_gives_back(tmp_path: Path) -> None:
    Encoder({"sex": {"type": "category", "values": ["f", "m"]}}).fit([{"sex": "f"}, {"sex": "m"}]).save(
        tmp_path / "encoder.json"
    )
    context = {"encoder": "encoder.json"}
    rule = {"kind": "budget", "name": "x", "at_most": 1, "range": [-0.0, 2], "hard": True, "total": 3}
    policy = {"explore": 1, "kind": "shadow-price"}
    spec = make_spec(
        {"actions": ["a", "b"], "context": context, "rule": [rule], "policy": policy}, folder=tmp_path
    )
    part = served_part(spec)
    entry = Started(format=1, version="1", spec=part, expire_after=1.0, max_pending=1)
    stored = entry_of(row_of(1, 0, entry))
    assert isinstance(stored, Started)
    assert stored.spec == part
    assert packed(served_part(make_spec(stored.spec))) == packed(part)


def test_a_changed_spec_is_told_rule_by_rule_with_the_option_to_use() -> None:
    bench = Bench(ward())
    icu = {"kind": "capacity", "action": "icu", "at_most": 0.4}
    for rules, words in (
        (
            [{**icu, "at_most": 0.3}, LATE],
            "rule 'icu: at most 40% of decisions': at_most was 0.4, and now is 0.3",
        ),
        (
            [icu, {**LATE, "at_most": 0.7}],
            "rule 'hours: at most 0.6 per decision on average (seen after acting)': at_most was 0.6, and now is 0.7",
        ),
        ([LATE], "the rule 'icu: at most 40% of decisions' is gone"),
        (
            [icu, LATE, {"kind": "share", "action": "other", "at_least": 0.1}],
            "the rule 'other: at least 10% of decisions' is new",
        ),
        ([LATE, icu], "the rules come in another order"),
    ):
        bench.spec = ward(rule=rules)
        with pytest.raises(JournalError, match="Start with --accept-changes") as refused:
            bench.reopened()
        assert words in str(refused.value)
    assert bench.journal.last() == 1


# --- limits of rules that are seen after acting ---

MINUTES = {"kind": "budget", "name": "minutes", "at_most": 4.0, "range": [0.0, 10.0], "seen": "after"}
POLICIES: dict[str, dict[str, Any]] = {
    "shadow-price": {},
    "pessimistic-optimistic": {
        **PAPER,
        "reward": {"bonus": 0.01},
        "cost": {"bonus": 0.01, "ridge": 0.01},
    },
}


def clinic(limit: float, policy: dict[str, Any], **rule: Any) -> Spec:
    rules = [{**MINUTES, "at_most": limit, **rule}, {"kind": "share", "action": "other", "at_least": 0.05}]
    return ward(rule=rules, policy=policy)


def taught(bench: Bench, first: int, last: int, *, outcomes: bool = True) -> None:
    """Visits whose ward is chosen by someone else, so that every limit sees the same; the icu takes 8 minutes, the others 2."""
    for i in range(first, last):
        name = ("icu", "surgery", "other")[i % 3]
        read(bench.decide(visit(i, default=name)))
        if outcomes:
            read(bench.learn(f"visit-{i}", reward=0.5, usage={"minutes": used(i)}))


def used(i: int) -> float:
    return (8.0 if i % 3 == 0 else 2.0) + i % 2


def expected(bench: Bench, i: int = 3) -> Any:
    """What the policy believes that each ward costs, (J, K)."""
    assert bench.experiment._state is not None
    policy, x = bench.experiment._state.policy, bench.spec.encoder.vector(read_context(i))
    return policy.propose(features=x, cost_features=x).explain().costs


def read_context(i: int) -> dict[str, Any]:
    context: dict[str, Any] = json.loads(visit(i))["context"]
    return context


@pytest.mark.parametrize("name", POLICIES)
def test_a_limit_of_a_rule_that_is_seen_after_acting_changes(name: str) -> None:
    """Beliefs, totals and pending decisions are then those of a policy that has had the new limit all along."""
    policy = POLICIES[name]
    moved, always = Bench(clinic(4.0, policy), accept_changes=True), Bench(clinic(6.0, policy))
    for bench in (moved, always):
        read(bench.ask(handlers.change_mode, ModeRequest(mode="shadow", default="other")))
        taught(bench, 0, 90)
        taught(bench, 90, 96, outcomes=False)
    before = expected(moved)
    totals = moved.experiment.state.ledger.totals  # type: ignore[union-attr]
    moved.spec = clinic(6.0, policy)
    moved.reopened()
    assert moved.experiment.state is not None
    assert always.experiment.state is not None
    # One scaled unit is the width of the range: ten minutes.
    np.testing.assert_allclose(expected(moved)[:, 0], before[:, 0] - 0.2, atol=1e-9)
    np.testing.assert_allclose(expected(moved), expected(always), atol=0.02)
    # What was spent under the old limit stays as it was.
    np.testing.assert_array_equal(moved.experiment.state.ledger.totals, totals)
    for number in range(96):
        assert (number in moved.experiment.state.waiting) == (number >= 90)
    # What comes from now on is judged by the new one, whenever it was decided.
    for i in range(90, 96):
        read(moved.learn(f"visit-{i}", reward=0.5, usage={"minutes": used(i)}))
        read(always.learn(f"visit-{i}", reward=0.5, usage={"minutes": used(i)}))
    came = sum((used(i) - 6.0) / 10.0 for i in range(90, 96))
    assert moved.experiment.state.ledger.totals[0] == pytest.approx(totals[0] + came)
    for bench in (moved, always):
        taught(bench, 96, 120)
    np.testing.assert_allclose(expected(moved), expected(always), atol=0.02)
    alive = moved.digest()
    assert verify(moved.journal).digest == alive
    moved.reopened()
    assert moved.digest() == alive
    # And once more, back to where it began.
    moved.spec = clinic(4.0, policy)
    moved.reopened()
    np.testing.assert_allclose(expected(moved)[:, 0], expected(always)[:, 0] + 0.2, atol=0.02)
    assert verify(moved.journal).digest == moved.digest()


def test_what_is_booked_for_costs_to_come_is_booked_by_the_new_limit() -> None:
    """Unless the rule is not in force for that decision: then nothing is booked."""
    rules = [{**MINUTES, "among": "A"}, {"kind": "share", "action": "other", "at_least": 0.05}]
    bench = Bench(ward(rule=rules, policy={}), accept_changes=True)
    for i in range(30):
        group = "A" if i % 2 else []
        read(bench.decide(visit(i, group=group)))
        if i < 24:
            read(bench.learn(f"visit-{i}", reward=0.5, usage={"minutes": used(i)}))
    was: Any = bench.experiment.state.policy  # type: ignore[union-attr]
    bench.spec = ward(rule=[{**rules[0], "at_most": 6.0}, rules[1]], policy={})
    bench.reopened()
    now: Any = bench.experiment.state.policy  # type: ignore[union-attr]
    assert len(now.pending) == 6
    booked = now.expected_totals - now.totals - (was.expected_totals - was.totals)
    np.testing.assert_allclose(booked, [3 * -0.2, 0.0], atol=1e-9)
    for i in range(24, 30):
        read(bench.learn(f"visit-{i}", reward=0.5, usage={"minutes": used(i)}))
    np.testing.assert_allclose(now.expected_totals, now.totals, atol=1e-12)
    assert verify(bench.journal).digest == bench.digest()


def test_more_is_used_where_more_is_allowed() -> None:
    def shop(limit: float) -> Spec:
        rule = {"kind": "budget", "name": "cents", "at_most": limit, "range": [0.0, 10.0], "seen": "after"}
        return make_spec({"name": "shop", "actions": ["dear", "free"], "rule": [rule]})

    bench, random = Bench(shop(2.0), accept_changes=True), np.random.default_rng(1)

    def run(first: int, last: int) -> float:
        spent = 0.0
        for i in range(first, last):
            dear = read(bench.decide({"event_id": str(i)}))["name"] == "dear"
            spent += 10.0 * dear
            reward = float(random.random() < (0.9 if dear else 0.3))
            read(bench.learn(str(i), reward=reward, usage={"cents": 10.0 * dear}))
        return spent / (last - first)

    assert 1.0 < run(0, 300) <= 2.05
    bench.spec = shop(6.0)
    bench.reopened()
    assert 4.5 < run(300, 600) <= 6.5
    bench.spec = shop(2.0)
    bench.reopened()
    assert run(600, 900) <= 2.6
    assert bench.experiment.state.ledger.totals[0] <= 0.05  # type: ignore[union-attr]


def test_a_policy_that_can_not_restate_its_costs_says_so() -> None:
    policy = {"kind": "lagrangian"}
    rules = [{**MINUTES, "at_most": limit} for limit in (4.0, 6.0)]
    bench = Bench(ward(rule=[rules[0]], policy=policy), accept_changes=True)
    bench.spec = ward(rule=[rules[1]], policy=policy)
    with pytest.raises(JournalError, match="seen after acting can't change under a lagrangian policy"):
        bench.reopened()


def test_a_range_that_was_suggested_may_be_declared() -> None:
    """A limit far from the old one suggests another range; whoever declares the old one keeps what was learnt."""
    rule = {"kind": "budget", "name": "minutes", "at_most": 24.0, "seen": "after"}
    bench = Bench(ward(rule=[rule], policy={}), accept_changes=True)
    bench.spec = ward(rule=[{**rule, "at_most": 25.0}], policy={})
    bench.reopened()
    bench.spec = ward(rule=[{**rule, "at_most": 40.0}], policy={})
    with pytest.raises(JournalError, match=r"declare `range = \[0.0, 64.0\]` in the rule"):
        bench.reopened()
    bench.spec = ward(rule=[{**rule, "at_most": 40.0, "range": [0, 64]}], policy={})
    bench.reopened()
    read(bench.decide(visit(1)))
    assert verify(bench.journal).digest == bench.digest()
