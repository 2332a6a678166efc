"""What can be asked of an experiment: one decision for each event, outcomes once, pages, modes, going back."""

from __future__ import annotations

import numpy as np
import pytest

from tightrope.service.http import handlers
from tightrope.service.offline.replay import verify
from tightrope.service.requests import ModeRequest, OutcomeQuery, PageQuery, RollbackRequest, SnapshotRequest
from tightrope.spec import make_spec
from workbench import Bench, arms, code, measured, read, visit, ward


def test_the_same_body_again_gives_the_stored_answer_and_another_body_409() -> None:
    bench = Bench(ward())
    first = bench.decide(visit(1))
    for i in range(2, 30):
        bench.decide(visit(i))
    position = bench.journal.last()
    assert bench.decide(visit(1)) == first
    reordered = b'{"context": {"sex": "m", "age": 37.0}, "event_id": "visit-1"}'
    assert bench.decide(reordered) == first
    assert code(bench.decide(visit(1, actions=["icu"]))) == (409, "differs")
    assert bench.journal.last() == position
    assert bench.reopened() is bench.experiment
    assert bench.decide(visit(1)) == first


def test_retries_within_one_batch_are_one_decision() -> None:
    bench = Bench(ward())
    answers = bench.experiment.process([bench.deciding(visit(1)) for _ in range(5)])
    assert len({answer.body for answer in answers}) == 1
    assert bench.state()["decisions"] == 1
    other = bench.experiment.process([bench.deciding(visit(2)), bench.deciding(visit(2, actions=["icu"]))])
    assert [answer.status for answer in other] == [200, 409]


def test_a_decision_without_an_event_id_is_given_one() -> None:
    bench = Bench(arms())
    first, second = read(bench.decide(b"{}")), read(bench.decide(b"{}"))
    assert first["event_id"] != second["event_id"]
    assert (first["sequence"], second["sequence"]) == (0, 1)
    assert bench.learn(second["event_id"], reward=1.0).status == 200


def test_a_stored_answer_explains_the_numbers_of_its_own_round() -> None:
    bench = Bench(ward())
    for i in range(20):
        first = bench.decide(visit(i, explain=True))
        bench.learn(f"visit-{i}", reward=1.0, usage={"hours": 0.9})
    assert bench.decide(visit(19, explain=True)) == first
    why = read(first)["explanation"]
    rows = {row["action"]: row for row in why["actions"]}
    chosen = max(why["actions"], key=lambda row: row["value"])
    assert rows[read(first)["name"]]["value"] >= chosen["value"] - 1e-12
    for row in why["actions"]:
        assert row["value"] == pytest.approx(row["reward"] - sum(row["penalties"].values()))


def test_an_outcome_applies_exactly_once() -> None:
    bench = Bench(ward())
    for i in range(10):
        bench.decide(visit(i))
    first = bench.learn("visit-3", reward=1.0, usage={"hours": 0.5})
    after = bench.digest()
    assert bench.learn("visit-3", reward=1.0, usage={"hours": 0.5}) == first
    assert bench.learn("visit-3", reward=1.0).status == 200
    assert bench.digest() == after
    assert code(bench.learn("visit-3", reward=0.0)) == (409, "differs")
    assert code(bench.learn("visit-3", usage={"hours": 0.6})) == (409, "differs")
    assert code(bench.learn("visit-99", reward=1.0)) == (404, "unknown")
    state = bench.state()
    assert state["outcomes"]["rewards"] == 1
    assert state["outcomes"]["rejected"] == 3
    state = bench.experiment._state
    assert state is not None
    assert state.policy.hooks.reward_model().n_learnt == 1
    listed = read(bench.ask(handlers.list_outcomes, OutcomeQuery(status="rejected")))["outcomes"]
    assert [(one["event_id"], one["reason"]) for one in listed] == [
        ("visit-99", "unknown"),
        ("visit-3", "differs"),
        ("visit-3", "differs"),
    ]


def test_the_parts_of_an_outcome_may_come_apart_and_in_any_order() -> None:
    together, apart = Bench(ward()), Bench(ward())
    for bench in (together, apart):
        for i in range(4):
            bench.decide(visit(i))
    for i in (2, 0, 3):
        together.learn(f"visit-{i}", reward=0.5, usage={"hours": 0.25})
        assert read(apart.learn(f"visit-{i}", usage={"hours": 0.25}))["awaits"] == ["reward"]
        assert read(apart.learn(f"visit-{i}", reward=0.5))["awaits"] == []
    one, other = together.experiment._state, apart.experiment._state
    assert one is not None
    assert other is not None
    for name, array in one.policy.hooks.state().items():
        np.testing.assert_array_equal(array, other.policy.hooks.state()[name], err_msg=name)


def test_decision_and_outcome_may_share_a_batch() -> None:
    bench = Bench(arms())
    answers = bench.experiment.process(
        [
            bench.learning("early", reward=1.0),
            bench.deciding({"event_id": "early"}),
            bench.learning("early", reward=1.0),
            bench.learning("early", reward=1.0),
            bench.learning("early", reward=0.0),
        ]
    )
    assert [answer.status for answer in answers] == [404, 200, 200, 200, 409]


def test_a_decision_expires_when_it_is_as_old_as_is_allowed_and_not_before() -> None:
    bench = Bench(ward(), expire_after=60.0)
    bench.decide(visit(1))
    bench.now += 60.0 - 1e-3
    assert bench.state()["outcomes"]["missing"] == 0
    bench.now += 1e-3
    assert bench.state()["outcomes"]["missing"] == 1


def test_pending_decisions_expire_and_are_listed() -> None:
    bench = Bench(ward(), expire_after=60.0)
    for i in range(5):
        bench.decide(visit(i))
        bench.now += 10
    bench.learn("visit-1", reward=1.0)
    bench.learn("visit-2", reward=1.0, usage={"hours": 0.5})
    bench.now += 45
    bench.experiment.process([])
    state = bench.state()["outcomes"]
    assert (state["missing"], state["pending"], state["complete"]) == (3, 1, 1)
    missing = read(bench.ask(handlers.list_outcomes, OutcomeQuery(status="missing")))["outcomes"]
    assert [one["event_id"] for one in missing] == ["visit-0", "visit-1", "visit-3"]
    pending = read(bench.ask(handlers.list_outcomes, OutcomeQuery(status="pending")))["outcomes"]
    assert [one["event_id"] for one in pending] == ["visit-4"]
    assert code(bench.learn("visit-0", reward=1.0)) == (410, "late")
    assert code(bench.learn("visit-1", usage={"hours": 0.5})) == (410, "late")
    assert bench.learn("visit-1", reward=1.0).status == 200, "a repeat of what was applied in time"
    late = read(bench.ask(handlers.list_outcomes, OutcomeQuery(status="late")))["outcomes"]
    assert [one["event_id"] for one in late] == ["visit-1", "visit-0"]
    assert bench.state()["outcomes"]["late"] == 2
    assert verify(bench.journal).digest == bench.digest()


def test_memory_stays_flat_when_outcomes_never_come() -> None:
    bench = Bench(arms(), max_pending=50)
    for i in range(400):
        bench.decide({"event_id": str(i)})
        state = bench.experiment._state
        assert state is not None
        assert len(state.waiting) <= 51
        assert len(state.policy.pending) == len(state.waiting)
    assert bench.state()["outcomes"]["missing"] >= 349
    assert len(state.trail.moments) < 240


def test_pages_of_a_list_hold_everything_once() -> None:
    bench = Bench(arms())
    for i in range(25):
        bench.decide({"event_id": str(i)})
    seen: list[str] = []
    before = None
    while True:
        page = read(bench.ask(handlers.list_decisions, PageQuery(10, before)))
        seen += [one["event_id"] for one in page["decisions"]]
        before = page["before"]
        if before is None:
            break
    assert seen == [str(i) for i in reversed(range(25))]
    seen, before = [], None
    while True:
        page = read(
            bench.ask(handlers.list_outcomes, OutcomeQuery(limit=10, before=before, status="pending"))
        )
        seen += [one["event_id"] for one in page["outcomes"]]
        before = page["before"]
        if before is None:
            break
    assert seen == [str(i) for i in range(25)]


def test_shadow_mode_serves_the_default_and_learns_from_it() -> None:
    bench, twin = Bench(ward()), Bench(ward())
    bench.ask(handlers.change_mode, ModeRequest(mode="shadow", default="other"))
    for i in range(30):
        answer = read(bench.decide(visit(i)))
        # The same queue and models decide without the default: what shadow mode proposes.
        assert answer["name"] == "other"
        assert answer["proposed"] in ("icu", "surgery", "other")
        read(twin.decide(visit(i, actions=["other"])))
        for one in (bench, twin):
            one.learn(f"visit-{i}", reward=0.25, usage={"hours": 0.5})
    mine, theirs = bench.experiment._state, twin.experiment._state
    assert mine is not None
    assert theirs is not None
    for name, array in mine.policy.hooks.state().items():
        np.testing.assert_array_equal(array, theirs.policy.hooks.state()[name], err_msg=name)
    served = read(bench.decide(visit(100, default="icu")))
    assert served["name"] == "icu"
    bench.ask(handlers.change_mode, ModeRequest(mode="shadow"))
    assert code(bench.decide(visit(101))) == (422, "invalid")
    bench.ask(handlers.change_mode, ModeRequest(mode="live"))
    assert "proposed" not in read(bench.decide(visit(102, default="icu")))
    assert bench.state()["shadow_decisions"] == 31
    assert verify(bench.journal).digest == bench.digest()


def test_a_proposal_is_what_the_policy_then_decides() -> None:
    bench, live = Bench(measured()), Bench(measured())
    for i in range(20):
        for one in (bench, live):
            one.decide(visit(i))
            one.learn(f"visit-{i}", reward=float(i % 2))
    bench.ask(handlers.change_mode, ModeRequest(mode="shadow", default="b"))
    assert read(bench.decide(visit(20)))["proposed"] == read(live.decide(visit(20)))["name"]


def test_a_paused_experiment_takes_outcomes_but_no_decisions() -> None:
    bench = Bench(ward())
    bench.decide(visit(1))
    bench.ask(handlers.change_mode, ModeRequest(mode="paused"))
    answer = bench.decide(visit(2))
    assert code(answer) == (503, "paused")
    assert answer.retry_after
    assert bench.decide(visit(1)).status == 200, "what was decided is still known"
    assert bench.learn("visit-1", reward=1.0).status == 200
    bench.reopened()
    assert code(bench.decide(visit(2))) == (503, "paused")
    bench.ask(handlers.change_mode, ModeRequest(mode="live"))
    assert bench.decide(visit(2)).status == 200


def test_rolling_back_what_was_learnt_keeps_what_was_spent() -> None:
    bench = Bench(ward())
    for i in range(30):
        bench.decide(visit(i))
        bench.learn(f"visit-{i}", reward=0.5, usage={"hours": 0.5})
    taken = read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="good")))
    state = bench.experiment._state
    assert state is not None
    good = state.policy.hooks.state()
    for i in range(30, 60):
        bench.decide(visit(i))
        bench.learn(f"visit-{i}", reward=0.0, usage={"hours": 1.0})
    bench.decide(visit(60))
    bad = state.policy.hooks.state()
    position = taken["position"]
    for restore in ("learnt", "all"):
        request = RollbackRequest(position=position, restore=restore)  # type: ignore[arg-type]
        read(bench.ask(handlers.roll_back, request))
        now = state.policy.hooks.state()
        for name in ("reward/Theta", "cost/Theta", "reward/Sigma"):
            np.testing.assert_array_equal(now[name], good[name])
        kept = bad if restore == "learnt" else good
        np.testing.assert_array_equal(now["core"], kept["core"])
        assert now["made"][0] == 61, "numbers of decisions are not given twice"
        if restore == "learnt":
            assert bench.learn("visit-60", reward=1.0).status == 200
    assert code(bench.learn("visit-60", usage={"hours": 0.5})) == (410, "late")
    assert bench.state()["outcomes"]["rolled_back"] == 1
    assert read(bench.decide(visit(61)))["sequence"] == 61
    assert code(bench.learn("visit-40", reward=1.0)) == (409, "differs")
    assert bench.decide(visit(40)).status == 200
    bench.reopened()
    assert verify(bench.journal).digest == bench.digest()
    missing = RollbackRequest(position=3, restore="all")
    assert code(bench.ask(handlers.roll_back, missing)) == (404, "unknown")


def test_a_group_that_the_spec_does_not_declare_is_refused() -> None:
    rules = [{"kind": "share", "action": "a", "at_least": 0.2, "among": "Young"}]
    bench = Bench(make_spec({"actions": ["a", "b"], "groups": ["Young", "old"], "rule": rules}))
    assert bench.decide({"group": "old"}).status == 200
    answer = bench.decide({"group": "tall"})
    assert answer.status == 422
    assert "unknown group 'tall'" in answer.body.decode()
    assert verify(bench.journal).decisions == 1
