"""The promises of an experiment, one by one, without HTTP: what is answered is in the journal, once, and replays to the bit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import apsw
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightrope as tr
from tightrope.errors import InvalidInput
from tightrope.policies import slater as slater_module
from tightrope.service import operations
from tightrope.service.bodies import ModeRequest, OutcomeQuery, PageQuery, RollbackRequest, SnapshotRequest
from tightrope.service.experiment import Op, Writer
from tightrope.service.journal import (
    Decided,
    Expired,
    JournalError,
    JournalLocked,
    Learnt,
    Measured,
    ModeChanged,
    Row,
    Snapshot,
    Started,
    entry_of,
)
from tightrope.service.metrics import Metrics
from tightrope.service.replay import verify
from tightrope.service.storage.memory import MemoryJournal
from tightrope.service.storage.sqlite import SqliteJournal
from tightrope.spec import make_spec
from workbench import Bench, arms, code, measured, read, visit, ward

# --- one decision for each event ---


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
        bench.learn(f"visit-{i}", reward=1.0, costs={"hours": 0.9})
    assert bench.decide(visit(19, explain=True)) == first
    why = read(first)["explanation"]
    rows = {row["action"]: row for row in why["actions"]}
    chosen = max(why["actions"], key=lambda row: row["value"])
    assert rows[read(first)["name"]]["value"] >= chosen["value"] - 1e-12
    for row in why["actions"]:
        assert row["value"] == pytest.approx(row["reward"] - sum(row["penalties"].values()))


# --- outcomes ---


def test_an_outcome_applies_exactly_once() -> None:
    bench = Bench(ward())
    for i in range(10):
        bench.decide(visit(i))
    first = bench.learn("visit-3", reward=1.0, costs={"hours": 0.5})
    after = bench.digest()
    assert bench.learn("visit-3", reward=1.0, costs={"hours": 0.5}) == first
    assert bench.learn("visit-3", reward=1.0).status == 200
    assert bench.digest() == after
    assert code(bench.learn("visit-3", reward=0.0)) == (409, "differs")
    assert code(bench.learn("visit-3", costs={"hours": 0.6})) == (409, "differs")
    assert code(bench.learn("visit-99", reward=1.0)) == (404, "unknown")
    state = bench.state()
    assert state["outcomes"]["rewards"] == 1
    assert state["outcomes"]["rejected"] == 3
    state = bench.experiment._state
    assert state is not None
    assert state.policy.reward_model.n_learnt == 1
    listed = read(bench.ask(operations.list_outcomes, OutcomeQuery(status="rejected")))["outcomes"]
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
        together.learn(f"visit-{i}", reward=0.5, costs={"hours": 0.25})
        assert read(apart.learn(f"visit-{i}", costs={"hours": 0.25}))["awaits"] == ["reward"]
        assert read(apart.learn(f"visit-{i}", reward=0.5))["awaits"] == []
    one, other = together.experiment._state, apart.experiment._state
    assert one is not None
    assert other is not None
    for name, array in one.policy.state().items():
        np.testing.assert_array_equal(array, other.policy.state()[name], err_msg=name)


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


def test_pending_decisions_expire_and_are_listed() -> None:
    bench = Bench(ward(), expire_after=60.0)
    for i in range(5):
        bench.decide(visit(i))
        bench.now += 10
    bench.learn("visit-1", reward=1.0)
    bench.learn("visit-2", reward=1.0, costs={"hours": 0.5})
    bench.now += 45
    bench.experiment.process([])
    state = bench.state()["outcomes"]
    assert (state["missing"], state["pending"], state["complete"]) == (3, 1, 1)
    missing = read(bench.ask(operations.list_outcomes, OutcomeQuery(status="missing")))["outcomes"]
    assert [one["event_id"] for one in missing] == ["visit-0", "visit-1", "visit-3"]
    pending = read(bench.ask(operations.list_outcomes, OutcomeQuery(status="pending")))["outcomes"]
    assert [one["event_id"] for one in pending] == ["visit-4"]
    assert code(bench.learn("visit-0", reward=1.0)) == (410, "late")
    assert code(bench.learn("visit-1", costs={"hours": 0.5})) == (410, "late")
    assert bench.learn("visit-1", reward=1.0).status == 200, "a repeat of what was applied in time"
    late = read(bench.ask(operations.list_outcomes, OutcomeQuery(status="late")))["outcomes"]
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
    assert len(state.trail) < 240


def test_pages_of_a_list_hold_everything_once() -> None:
    bench = Bench(arms())
    for i in range(25):
        bench.decide({"event_id": str(i)})
    seen: list[str] = []
    before = None
    while True:
        page = read(bench.ask(operations.list_decisions, PageQuery(10, before)))
        seen += [one["event_id"] for one in page["decisions"]]
        before = page["before"]
        if before is None:
            break
    assert seen == [str(i) for i in reversed(range(25))]
    seen, before = [], None
    while True:
        page = read(
            bench.ask(operations.list_outcomes, OutcomeQuery(limit=10, before=before, status="pending"))
        )
        seen += [one["event_id"] for one in page["outcomes"]]
        before = page["before"]
        if before is None:
            break
    assert seen == [str(i) for i in range(25)]


# --- state = f(journal) ---


def play(bench: Bench, steps: int, seed: int = 0) -> None:
    """Everything that can happen, in a random order."""
    random = np.random.default_rng(seed)
    waiting: list[str] = []
    start = bench.journal.last()
    for i in range(steps):
        bench.now += float(random.uniform(0, 2))
        event_id = f"visit-{start}-{i}"
        choice = random.integers(12)
        if choice < 6:
            body = {
                "event_id": event_id,
                "context": {"age": float(random.uniform(0, 100)), "sex": "fm"[int(random.integers(2))]},
                "actions": [["icu", "other"], ["surgery", "icu"], None][int(random.integers(3))],
                "default": "icu",
            }
            if body["actions"] is None:
                del body["actions"]
            if bench.decide(json.dumps(body).encode()).status == 200:
                waiting.append(event_id)
        elif choice < 10 and waiting:
            one = waiting[int(random.integers(len(waiting)))]
            outcome: dict[str, Any] = {"reward": float(random.uniform())}
            if random.integers(2):
                outcome["costs"] = {"hours": float(random.uniform())}
            bench.learn(one, **outcome)
        elif choice == 10:
            mode = ["live", "shadow", "paused"][int(random.integers(3))]
            bench.ask(operations.change_mode, ModeRequest(mode=mode))  # type: ignore[arg-type]
        elif bench.journal.snapshots() and random.integers(2):
            at = bench.journal.snapshots()[-1].position
            restore = ["learnt", "all"][int(random.integers(2))]
            request = RollbackRequest(position=at, restore=restore)  # type: ignore[arg-type]
            read(bench.ask(operations.roll_back, request))
        else:
            request = SnapshotRequest(label=f"snapshot {i}")
            read(bench.ask(operations.take_snapshot, request))
    bench.measure()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_replay_gives_the_same_state_bit_for_bit(seed: int) -> None:
    bench = Bench(ward(), expire_after=200.0, snapshot_every=70)
    play(bench, 250, seed)
    alive = bench.digest()
    report = verify(bench.journal)
    assert report.digest == alive
    assert report.snapshots == len(bench.journal.snapshots()) > 0
    bench.reopened()
    assert bench.digest() == alive, "snapshot plus replay"
    play(bench, 40, seed + 100)
    assert verify(bench.journal).digest == bench.digest()


def test_a_journal_keeps_its_state_across_files_and_restarts(tmp_path: Path) -> None:
    bench = Bench(ward(), SqliteJournal(tmp_path / "ward.sqlite"), expire_after=200.0)
    play(bench, 60)
    for seed in (1, 2):
        alive = bench.digest()
        bench.experiment.close()
        assert bench.journal.open()
        assert verify(bench.journal).digest == alive
        bench.journal.close()
        bench.reopened()
        assert bench.digest() == alive
        play(bench, 30, seed)
    bench.experiment.close()


def test_the_service_and_the_library_decide_alike() -> None:
    """The same requests given to the policy by hand."""
    spec = ward()
    bench = Bench(spec)
    policy = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(3, 3), cost=tr.DisjointRidge(3, 3), constraints=spec.rules, slater=0.2
    )
    random = np.random.default_rng(5)
    for i in range(120):
        context = {"age": float(random.uniform(0, 100)), "sex": "fm"[int(random.integers(2))]}
        x = spec.features().vector(context)
        answer = read(bench.decide({"event_id": str(i), "context": context}))
        decision = policy.decide(x, cost_features=x)
        assert answer["action"] == decision.action
        reward, hours = float(random.uniform()), float(random.uniform())
        bench.learn(str(i), reward=reward, costs={"hours": hours})
        policy.learn(decision, reward, {"hours": hours})
        state = bench.state()
        assert [column["queue"] for column in state["constraints"]] == policy.queue.tolist()
        assert [column["cumulative_cost"] for column in state["constraints"]] == policy.totals.tolist()


@pytest.mark.parametrize("model", ["ridge", "disjoint-ridge", "arm-means"])
def test_every_model_can_be_served(model: str) -> None:
    bench = Bench(ward(policy={"slater": 0.2, "reward": {"model": model}, "cost": {"model": model}}))
    for i in range(30):
        assert bench.decide(visit(i)).status == 200
        bench.learn(f"visit-{i}", reward=0.5, costs={"hours": 0.5})
    if model != "arm-means":
        rows = [[0.5, 0.1, 0.0], [0.5, 0.2, 0.0]]
        assert bench.decide({"features": rows, "actions": ["other", "icu"]}).status == 200
        assert bench.decide({"features": [0.5, 0.1, 0.0]}).status == 200
    assert verify(bench.journal).digest == bench.digest()


def test_usage_groups_and_costs_by_the_caller() -> None:
    rules = [
        {"kind": "share", "action": "a", "at_least": 0.2, "among": "young"},
        {"kind": "budget", "name": "fuel", "at_most": 0.5},
        {"kind": "budget", "name": "time", "at_most": 0.5, "usage": {"a": 0.2, "b": 0.4}},
    ]
    bench = Bench(arms(rules=rules))
    assert bench.decide({"usage": {"fuel": [0.1, 0.9]}, "group": "young"}).status == 200
    assert bench.decide({"usage": {"fuel": {"a": 0.1, "b": 0.9}}, "group": []}).status == 200
    assert bench.decide({"usage": {"fuel": 0.3}, "group": ["young", "tall"], "actions": ["b"]}).status == 200
    assert bench.decide({"costs": [[0.1, 0.2, 0.3], [0.0, 0.0, 0.0]]}).status == 200
    for body, words in [
        ({"usage": {"fuel": 0.3}}, "group is missing"),
        ({"group": "young"}, "usage['fuel'] is missing"),
        ({"usage": {"fuel": 0.3, "time": 0.1}, "group": []}, "usage.time is fixed"),
        ({"usage": {"fuel": [0.3]}, "group": []}, "usage['fuel']"),
        ({"usage": {"fuel": 1.3}, "group": []}, "usage['fuel']"),
        ({"costs": [[0, 0, 0], [0, 0, 0]], "usage": {"fuel": 0.3}}, "costs and usage"),
    ]:
        answer = bench.decide(body)
        assert answer.status == 422
        assert words in answer.body.decode()
    state = bench.experiment._state
    assert state is not None
    by_hand = tr.Rules.from_data(
        [{key: value for key, value in rule.items() if key != "usage"} for rule in rules], ["a", "b"]
    )
    first = entry_of(list(bench.journal.rows())[1])
    assert isinstance(first, Decided)
    costs = by_hand.costs({"fuel": [0.1, 0.9], "time": [0.2, 0.4]}, group="young")
    np.testing.assert_array_equal(state.explain(first).costs, costs)
    assert verify(bench.journal).digest == bench.digest()


class _Altered(MemoryJournal):
    """A journal in which one row was changed after the fact."""

    def __init__(self, journal: MemoryJournal, position: int, **changes: Any) -> None:
        super().__init__()
        for row in journal.rows():
            if row.position == position:
                entry = msgspec.structs.replace(entry_of(row), **changes)
                row = row._replace(data=msgspec.msgpack.encode(entry))
            self.append([row])
        for snapshot in journal.snapshots():
            saved = journal.snapshot(snapshot.position)
            assert saved is not None
            self.append([], [saved])


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (Decided, {"action": 2}, "action was"),
        (Decided, {"queue": b"\0" * 16}, "queue was"),
        (Decided, {"number": 7}, "number was"),
        (Learnt, {"reward": 0.123}, "does not come out"),
        (Expired, {"numbers": [999]}, "can't be repeated"),
    ],
)
def test_a_journal_that_was_altered_does_not_verify(kind: type, change: dict[str, Any], words: str) -> None:
    bench = Bench(ward(), expire_after=30.0)
    for i in range(40):
        bench.decide(visit(i))
        if i % 2:
            bench.learn(f"visit-{i}", reward=0.5, costs={"hours": 0.5})
        bench.now += 1.0
    bench.ask(operations.take_snapshot, SnapshotRequest(label="end"))
    assert isinstance(bench.journal, MemoryJournal)
    rows = [row for row in bench.journal.rows() if isinstance(entry_of(row), kind)]
    altered = _Altered(bench.journal, rows[3].position, **change)
    with pytest.raises(JournalError, match=words):
        verify(altered)
    lost = MemoryJournal()
    lost._rows = [row for row in bench.journal.rows() if row.position != 5]
    with pytest.raises(JournalError, match="rows are missing"):
        verify(lost)


def test_a_journal_is_not_continued_under_another_spec_by_accident() -> None:
    journal = MemoryJournal()
    Bench(ward(), journal).decide(visit(1))
    with pytest.raises(JournalError, match="policy differ"):
        Bench(ward(policy={"slater": 0.3}), journal)


LATE = {"kind": "budget", "name": "hours", "at_most": 0.6, "seen": "after"}


def test_accepted_changes_keep_what_was_learnt_and_spent() -> None:
    cap = {"kind": "capacity", "action": ["icu", "surgery"], "at_most": 0.9, "hard": True, "total": 70}
    bench = Bench(
        ward(rule=[{"kind": "capacity", "action": "icu", "at_most": 0.4}, LATE, cap]), snapshot_every=25
    )
    for i in range(60):
        bench.decide(visit(i))
        if i % 2:
            bench.learn(f"visit-{i}", reward=0.5, costs={"hours": 0.5})
    old, was = bench.state(), bench.experiment._state
    assert was is not None
    before, why = was.policy.state(), read(bench.decide(visit(7, explain=True)))
    share = {"kind": "share", "action": "other", "at_least": 0.1}
    bench.spec = ward(
        rule=[share, LATE, {**cap, "total": 75}, {"kind": "capacity", "action": "icu", "at_most": 0.3}],
        policy={"slater": 0.1},
    )
    bench.options["accept_changes"] = True
    bench.reopened()
    now = bench.experiment._state
    assert now is not None
    after = now.policy.state()
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
        bench.learn(f"visit-{i - 20}", reward=0.5, costs={"hours": 0.5})
    alive = bench.digest()
    bench.reopened()
    assert bench.digest() == alive
    assert verify(bench.journal).digest == alive
    assert bench.state()["hard_caps"][0]["used"] <= 75
    early = [one.position for one in bench.journal.snapshots() if one.position < now.configured]
    request = RollbackRequest(position=early[0], restore="all")
    assert code(bench.ask(operations.roll_back, request)) == (409, "differs")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"actions": ["icu", "surgery", "other", "attic"]}, "actions: can't change"),
        ({"context": {"age": {"type": "number", "min": 0, "max": 99}}}, "context: can't change"),
        ({"rule": [{**LATE, "at_most": 0.7}]}, "rules seen after acting: can't change"),
        ({"rule": []}, "can't change"),
        ({"policy": {"slater": 0.2, "reward": {"bonus": 0.5}}}, "policy.reward: can't change"),
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
    bench.measure()
    assert bench.state()["slater"] == pytest.approx(0.4)
    data = {**measured().data, "rule": [{"kind": "capacity", "action": "a", "at_most": 0.7}]}
    bench.spec, bench.options["accept_changes"] = make_spec(data), True
    bench.reopened()
    assert bench.state()["slater"] == slater_module.FLOOR
    bench.decide(visit(20))
    bench.measure()
    assert bench.state()["slater"] == pytest.approx(0.7)
    # A change that leaves the costs as they are keeps the sample.
    bench.spec = make_spec({**data, "policy": {"slater": "measure", "horizon": 500}})
    bench.reopened()
    assert bench.state()["slater"] == pytest.approx(0.7)
    alive = bench.digest()
    assert verify(bench.journal).digest == alive


def test_changes_of_configuration_are_in_the_journal() -> None:
    bench = Bench(ward(), expire_after=60.0)
    bench.ask(operations.change_mode, ModeRequest(mode="paused"))
    bench.options["expire_after"] = 120.0
    bench.reopened()
    bench.reopened()
    listed = read(bench.ask(operations.list_changes, PageQuery()))["changes"]
    assert [one["kind"] for one in listed] == ["started", "mode", "started"]
    assert [listed[0]["expire_after"], listed[2]["expire_after"]] == [120.0, 60.0]
    assert verify(bench.journal).digest == bench.digest()


# --- Slater's constant ---


def test_slater_is_never_measured_inside_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: object, **kwargs: object) -> object:
        raise AssertionError("an LP was solved inside a request")

    bench = Bench(measured())
    with monkeypatch.context() as patched:
        patched.setattr(slater_module.lp, "slater", forbidden)
        for i in range(40):
            assert bench.decide(visit(i)).status == 200
    assert bench.state()["slater"] == slater_module.FLOOR
    bench.measure()
    # On costs W = (0.6, −0.4) of the two actions the best mixture keeps the mean at −0.4.
    assert bench.state()["slater"] == pytest.approx(0.4)
    assert bench.experiment.slater_job() is None, "not due before the number of rounds has doubled"
    for i in range(40, 64):
        bench.decide(visit(i))
    job = bench.experiment.slater_job()
    assert job is not None
    with monkeypatch.context() as patched:
        op = job()
        patched.setattr(slater_module.lp, "slater", forbidden)
        bench.experiment.process([op])
        assert verify(bench.journal).digest == bench.digest(), "replay takes the value from the journal"
    assert sum(isinstance(entry_of(row), Measured) for row in bench.journal.rows()) == 2


# --- hard caps ---

USAGE = st.floats(0.0, 1.0).map(lambda value: round(value, 3))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(USAGE, USAGE, st.sampled_from(["young", "old"])), min_size=5, max_size=60),
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
        answer = bench.decide({"event_id": str(i), "usage": {"fuel": [a, b]}, "group": group})
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
        {"kind": "budget", "name": "hours", "at_most": 0.9, "seen": "after", "hard": True, "total": 2.5},
    ]
    bench = Bench(arms(rules=rules), expire_after=100.0)
    for i in range(2):
        assert bench.decide({"event_id": str(i)}).status == 200
    assert code(bench.decide({"event_id": "2"})) == (409, "exhausted")
    assert code(bench.learn("0", costs=[0.1])) == (422, "invalid"), "a cap counts usage by name"
    assert bench.learn("0", reward=1.0).status == 200
    assert code(bench.decide({"event_id": "2"})) == (409, "exhausted")
    assert bench.learn("0", costs={"hours": 0.25}).status == 200
    assert bench.state()["hard_caps"][0]["used"] == 1.25
    assert bench.decide({"event_id": "2"}).status == 200, "the same event may be tried again"
    assert bench.learn("2", costs={"hours": 0.5}).status == 200
    assert bench.learn("2", costs={"hours": 0.5}).status == 200
    assert bench.state()["hard_caps"][0]["used"] == 1.75
    bench.now += 200
    assert code(bench.decide({"event_id": "3"})) == (409, "exhausted"), "what expired stays reserved"
    assert code(bench.learn("1", costs={"hours": 0.0})) == (410, "late")
    assert bench.state()["hard_caps"][0]["used"] == 1.75
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
        ({"kind": "capacity", "action": "a", "at_most": 0.5, "hard": True}, "go together"),
        ({"kind": "capacity", "action": "a", "at_most": 0.5, "total": 3}, "go together"),
    ],
)
def test_caps_that_can_not_be_kept_are_refused(rule: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        Bench(arms(rules=[rule]))


# --- modes, rollback ---


def test_shadow_mode_serves_the_default_and_learns_from_it() -> None:
    bench, twin = Bench(ward()), Bench(ward())
    bench.ask(operations.change_mode, ModeRequest(mode="shadow", default="other"))
    for i in range(30):
        answer = read(bench.decide(visit(i)))
        # The same queue and models decide without the default: what shadow mode proposes.
        assert answer["name"] == "other"
        assert answer["proposed"] in ("icu", "surgery", "other")
        read(twin.decide(visit(i, actions=["other"])))
        for one in (bench, twin):
            one.learn(f"visit-{i}", reward=0.25, costs={"hours": 0.5})
    mine, theirs = bench.experiment._state, twin.experiment._state
    assert mine is not None
    assert theirs is not None
    for name, array in mine.policy.state().items():
        np.testing.assert_array_equal(array, theirs.policy.state()[name], err_msg=name)
    served = read(bench.decide(visit(100, default="icu")))
    assert served["name"] == "icu"
    bench.ask(operations.change_mode, ModeRequest(mode="shadow"))
    assert code(bench.decide(visit(101))) == (422, "invalid")
    bench.ask(operations.change_mode, ModeRequest(mode="live"))
    assert "proposed" not in read(bench.decide(visit(102, default="icu")))
    assert bench.state()["shadow_decisions"] == 31
    assert verify(bench.journal).digest == bench.digest()


def test_a_proposal_is_what_the_policy_then_decides() -> None:
    bench, live = Bench(measured()), Bench(measured())
    for i in range(20):
        for one in (bench, live):
            one.decide(visit(i))
            one.learn(f"visit-{i}", reward=float(i % 2))
    bench.ask(operations.change_mode, ModeRequest(mode="shadow", default="b"))
    assert read(bench.decide(visit(20)))["proposed"] == read(live.decide(visit(20)))["name"]


def test_a_paused_experiment_takes_outcomes_but_no_decisions() -> None:
    bench = Bench(ward())
    bench.decide(visit(1))
    bench.ask(operations.change_mode, ModeRequest(mode="paused"))
    answer = bench.decide(visit(2))
    assert code(answer) == (503, "paused")
    assert answer.retry_after
    assert bench.decide(visit(1)).status == 200, "what was decided is still known"
    assert bench.learn("visit-1", reward=1.0).status == 200
    bench.reopened()
    assert code(bench.decide(visit(2))) == (503, "paused")
    bench.ask(operations.change_mode, ModeRequest(mode="live"))
    assert bench.decide(visit(2)).status == 200


def test_rolling_back_what_was_learnt_keeps_what_was_spent() -> None:
    bench = Bench(ward())
    for i in range(30):
        bench.decide(visit(i))
        bench.learn(f"visit-{i}", reward=0.5, costs={"hours": 0.5})
    taken = read(bench.ask(operations.take_snapshot, SnapshotRequest(label="good")))
    state = bench.experiment._state
    assert state is not None
    good = state.policy.state()
    for i in range(30, 60):
        bench.decide(visit(i))
        bench.learn(f"visit-{i}", reward=0.0, costs={"hours": 1.0})
    bench.decide(visit(60))
    bad = state.policy.state()
    position = taken["position"]
    for restore in ("learnt", "all"):
        request = RollbackRequest(position=position, restore=restore)  # type: ignore[arg-type]
        read(bench.ask(operations.roll_back, request))
        now = state.policy.state()
        for name in ("reward/Theta", "cost/Theta", "reward/Sigma"):
            np.testing.assert_array_equal(now[name], good[name])
        kept = bad if restore == "learnt" else good
        np.testing.assert_array_equal(now["core"], kept["core"])
        assert now["made"][0] == 61, "numbers of decisions are not given twice"
        if restore == "learnt":
            assert bench.learn("visit-60", reward=1.0).status == 200
    assert code(bench.learn("visit-60", costs={"hours": 0.5})) == (410, "late")
    assert bench.state()["outcomes"]["rolled_back"] == 1
    assert read(bench.decide(visit(61)))["sequence"] == 61
    assert code(bench.learn("visit-40", reward=1.0)) == (409, "differs")
    assert bench.decide(visit(40)).status == 200
    bench.reopened()
    assert verify(bench.journal).digest == bench.digest()
    missing = RollbackRequest(position=3, restore="all")
    assert code(bench.ask(operations.roll_back, missing)) == (404, "unknown")


def test_rolling_back_does_not_refill_a_hard_cap() -> None:
    rules = [{"kind": "capacity", "action": ["a", "b"], "at_most": 1.0, "hard": True, "total": 5}]
    bench = Bench(arms(rules=rules))
    taken = read(bench.ask(operations.take_snapshot, SnapshotRequest(label="empty")))
    for i in range(5):
        bench.decide({"event_id": str(i)})
    request = RollbackRequest(position=taken["position"], restore="all")
    read(bench.ask(operations.roll_back, request))
    assert code(bench.decide({"event_id": "6"})) == (409, "exhausted")


def test_old_snapshots_are_dropped_but_not_named_ones() -> None:
    bench = Bench(arms(), snapshot_every=4, max_pending=1)
    bench.ask(operations.take_snapshot, SnapshotRequest(label="mine"))
    for i in range(200):
        bench.decide({"event_id": str(i)})
    kept = bench.journal.snapshots()
    assert len(kept) == 17
    assert kept[0].label == "mine"
    bench.reopened()
    assert verify(bench.journal).digest == bench.digest()


def test_a_damaged_snapshot_is_not_used() -> None:
    bench = Bench(arms(), snapshot_every=50, max_pending=1)
    for i in range(120):
        bench.decide({"event_id": str(i)})
    alive = bench.digest()
    assert isinstance(bench.journal, MemoryJournal)
    newest = max(bench.journal._snapshots)
    saved = bench.journal._snapshots[newest]
    bench.journal._snapshots[newest] = saved._replace(state=saved.state[:-9] + b"\x01" * 9)
    bench.reopened()
    assert bench.digest() == alive
    with pytest.raises(JournalError, match="does not match its own digest"):
        verify(bench.journal)


# --- failures ---


class _Failing(MemoryJournal):
    """Fails to write when told to; `after` pretends that the rows got in all the same, as a lost connection may."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = False
        self.after = False

    def append(
        self, rows: Sequence[Row], snapshots: Sequence[Snapshot] = (), drop: Sequence[int] = ()
    ) -> None:
        if self.broken:
            if self.after:
                super().append(rows, snapshots, drop)
            raise JournalError("disk full")
        super().append(rows, snapshots, drop)

    def probe(self) -> None:
        if self.broken:
            raise JournalError("disk full")


@pytest.mark.parametrize("after", [False, True])
def test_an_unwritable_journal_fails_closed_and_recovers(
    after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tightrope.service.experiment._RETRY_SECONDS", 0)
    journal = _Failing()
    bench = Bench(ward(), journal)
    for i in range(10):
        bench.decide(visit(i))
    good = bench.digest()
    journal.broken, journal.after = True, after
    answers = bench.experiment.process([bench.deciding(visit(i)) for i in range(10, 13)])
    assert [code(answer) for answer in answers] == [(503, "unavailable")] * 3
    assert bench.experiment.status == "failing"
    assert code(bench.learn("visit-1", reward=1.0)) == (503, "unavailable")
    assert b"disk" not in answers[0].body
    journal.broken = False
    if not after:
        bench.experiment.process([])
        assert bench.digest() == good
    again = [read(bench.decide(visit(i))) for i in range(10, 13)]
    assert [one["sequence"] for one in again] == [10, 11, 12]
    assert bench.learn("visit-1", reward=1.0, costs={"hours": 0.5}).status == 200
    assert verify(journal).digest == bench.digest()


def test_a_full_disk_fails_closed_and_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightrope.service.experiment._RETRY_SECONDS", 0)
    journal = SqliteJournal(tmp_path / "ward.sqlite")
    bench = Bench(ward(), journal)
    connection = journal._connection
    assert isinstance(connection, apsw.Connection)
    connection.pragma("max_page_count", 40)
    acknowledged = []
    for i in range(2000):
        answer = bench.decide(visit(i))
        if answer.status != 200:
            break
        acknowledged.append(answer)
    assert code(answer) == (503, "unavailable")
    assert code(bench.decide(visit(i))) == (503, "unavailable")
    connection.pragma("max_page_count", 1 << 30)
    assert bench.decide(visit(i)).status == 200
    assert [bench.decide(visit(j)) for j in range(len(acknowledged))] == acknowledged
    assert verify(journal).digest == bench.digest()
    bench.experiment.close()


def test_a_defect_undoes_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tightrope.service.experiment._RETRY_SECONDS", 0)
    bench = Bench(ward())
    bench.decide(visit(0))
    good = bench.digest()
    op = bench.deciding(visit(2))
    bad = Op(lambda batch, request: (op.operation(batch, request), 1 / 0)[0], op.request)
    answers = bench.experiment.process([bench.deciding(visit(1)), bad, bench.deciding(visit(3))])
    assert [answer.status for answer in answers] == [503, 500, 503]
    bench.experiment.process([])
    assert bench.digest() == good
    assert bench.decide(visit(1)).status == 200


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    first = Bench(ward(), SqliteJournal(tmp_path / "ward.sqlite"))
    first.decide(visit(1))
    with pytest.raises(JournalLocked, match="another process writes"):
        Bench(ward(), SqliteJournal(tmp_path / "ward.sqlite"))
    reader = SqliteJournal(tmp_path / "ward.sqlite", read_only=True)
    reader.open()
    assert verify(reader).decisions == 1, "reading is allowed meanwhile"
    with pytest.raises(JournalError):
        reader.append([Row(3, 0, 5, None, b"")])
    reader.close()
    first.experiment.close()
    second = Bench(ward(), SqliteJournal(tmp_path / "ward.sqlite"))
    assert second.decide(visit(1)).status == 200
    second.experiment.close()


def test_what_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.sqlite").write_bytes(b"this is no database at all, but a text" * 100)
    other = apsw.Connection(str(tmp_path / "other.sqlite"))
    other.execute("CREATE TABLE t (x)")
    other.close()
    for name in ("text", "other"):
        with pytest.raises(JournalError):
            SqliteJournal(tmp_path / f"{name}.sqlite").open()
    with pytest.raises(JournalError, match="there is no journal here"):
        SqliteJournal(tmp_path / "missing.sqlite", read_only=True).open()


class _CountedFile(apsw.VFSFile):
    """A file that counts when it is told to reach the disk."""

    def __init__(self, vfs: _Counted, name: Any, flags: Any) -> None:
        super().__init__("", name, flags)
        self._vfs = vfs

    def xSync(self, flags: int) -> None:
        self._vfs.syncs += 1
        super().xSync(flags)


class _Counted(apsw.VFS):
    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.syncs = 0

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        return _CountedFile(self, name, flags)


@pytest.mark.parametrize(("synchronous", "syncs"), [("FULL", 1), ("NORMAL", 0)])
def test_a_batch_is_synced_once_before_it_is_answered(tmp_path: Path, synchronous: str, syncs: int) -> None:
    """Group commit: as many fsyncs for a hundred decisions as for one. NORMAL shows that the test can fail."""
    vfs = _Counted(f"counted-{synchronous}")
    bench = Bench(ward(), SqliteJournal(tmp_path / "ward.sqlite", vfs=vfs.name, synchronous=synchronous))
    bench.decide(visit(0))
    for size in (1, 100):
        before = vfs.syncs
        answers = bench.experiment.process([bench.deciding(visit(size * 1000 + i)) for i in range(size)])
        assert {answer.status for answer in answers} == {200}
        assert vfs.syncs - before == syncs
    bench.experiment.close()


def test_first_entry_is_the_configuration() -> None:
    bench = Bench(ward())
    first = entry_of(next(iter(bench.journal.rows())))
    assert isinstance(first, Started)
    again = make_spec(first.spec)
    assert again.rules == ward().rules
    bench.ask(operations.change_mode, ModeRequest(mode="paused"))
    assert isinstance(entry_of(list(bench.journal.rows())[1]), ModeChanged)


def test_concurrent_retries_get_one_answer(tmp_path: Path) -> None:
    """Concurrent retries through the writer: one decision for each event."""
    bench = Bench(ward(), SqliteJournal(tmp_path / "ward.sqlite"))

    async def main() -> list[bytes]:
        writer = Writer(bench.experiment, Metrics())
        writer.start(asyncio.get_running_loop())
        answers = await asyncio.gather(*(writer.submit(bench.deciding(visit(i % 20))) for i in range(400)))
        await asyncio.to_thread(writer.stop)
        return [answer.body for answer in answers]

    bodies = asyncio.run(main())
    assert len(set(bodies)) == 20
    journal = SqliteJournal(tmp_path / "ward.sqlite", read_only=True)
    journal.open()
    assert verify(journal).decisions == 20
    journal.close()
