"""Control groups and sticky decisions: who is in which arm, what counts, and that a restart changes nothing."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.holdout import drawn, is_held_out
from tightrope.lift import CONTROL, POLICY, ArmSums
from tightrope.service.experiment import Op, kept_actions, lift_accounts
from tightrope.service.http import handlers
from tightrope.service.http.lift import show_lift
from tightrope.service.journal import JournalError
from tightrope.service.journal.entries import Decided, Learnt
from tightrope.service.journal.rows import entry_of
from tightrope.service.offline.replay import verify
from tightrope.service.requests import ErasureRequest, ModeRequest, RollbackRequest, SnapshotRequest
from tightrope.spec import Spec, SpecError
from workbench import Bench, arms, code, read, ward

SHADOW = {"kind": "shadow-price"}
STICKY = {"by": "user", "for": "60s"}


def held(policy: dict[str, Any] | None = None, **tables: Any) -> Spec:
    return ward(policy=policy or SHADOW, **tables)


def body(i: int, user: str | None = None, **more: Any) -> dict[str, Any]:
    asked = {"event_id": f"visit-{i}", "context": {"age": (37 * i) % 100, "sex": "fm"[i % 2]}, **more}
    return asked if user is None else {**asked, "keys": {"user": user}}


def serve(bench: Bench, n: int, users: int = 0, first: int = 0, seed: int = 0) -> list[dict[str, Any]]:
    """Decisions, a second apart, most of them with their outcome at once, some in two parts, a few never."""
    random = np.random.default_rng(seed)
    answers = []
    for i in range(first, first + n):
        bench.now += 1.0
        user = f"u{random.integers(users)}" if users else None
        grouped = any(rule.among for rule in bench.spec.rules or ())
        group = {"group": ["young"] if i % 3 else []} if grouped else {}
        answers.append(read(bench.decide(body(i, user, **group))))
        reward, hours = float(random.random()), float(random.random())
        part = random.integers(10)
        if part > 1:
            bench.learn(f"visit-{i}", reward=reward, usage={"hours": hours})
        elif part == 1:
            bench.learn(f"visit-{i}", reward=reward)
    return answers


def assignment_of(bench: Bench) -> Any:
    state = bench.experiment.state
    assert state is not None
    return state.assignment


def told(bench: Bench) -> tuple[list[Decided], list[Learnt]]:
    entries = [entry_of(row) for row in bench.journal.rows()]
    return [one for one in entries if isinstance(one, Decided)], [
        one for one in entries if isinstance(one, Learnt)
    ]


def lift_of(bench: Bench) -> dict[str, Any]:
    return read(bench.ask(show_lift))


YOUNG = [
    {"kind": "capacity", "action": "icu", "at_most": 0.4, "among": "young"},
    {"kind": "budget", "name": "hours", "at_most": 0.6, "seen": "after", "among": "young"},
]
KINDS: dict[str, dict[str, Any]] = {
    "an action": {"holdout": {"share": 0.3, "baseline": "other"}},
    "a mix by user": {"holdout": {"share": 0.3, "by": "user", "baseline": {"icu": 0.2, "other": 0.8}}},
    "a policy": {"holdout": {"share": 0.3, "policy": SHADOW}},
    "the paper's": {"holdout": {"share": 0.3, "policy": {"kind": "pessimistic-optimistic", "slater": 0.2}}},
    "a policy under rules for a group": {"holdout": {"share": 0.3, "policy": SHADOW}, "rule": YOUNG},
    "sticky": {"sticky": STICKY},
    "both": {"holdout": {"share": 0.3, "by": "user", "baseline": "other"}, "sticky": STICKY},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_and_a_replay_give_the_same_bits(kind: str) -> None:
    spec = held(**KINDS[kind])
    bench = Bench(spec, snapshot_every=37, expire_after=50.0)
    users = 20 if spec.key_names else 0
    serve(bench, 90, users)
    alive = bench.digest()
    assert verify(bench.journal).digest == alive
    bench.reopened()
    assert bench.digest() == alive, "snapshot plus replay"
    again = Bench(spec, snapshot_every=37, expire_after=50.0)
    serve(again, 90, users)
    bench.reopened()
    assert serve(bench, 40, users, 90) == serve(again, 40, users, 90), (
        "a restart changes nothing that follows"
    )
    assert bench.digest() != alive


def test_each_decision_is_drawn_by_its_number_and_the_probability_is_that_of_its_arm() -> None:
    bench = Bench(held(holdout={"share": 0.3, "baseline": {"icu": 0.25, "other": 0.75}}))
    answers = serve(bench, 400)
    control = [one for one in answers if one["arm"] == "control"]
    for one in answers:
        expected = is_held_out(drawn("ward", f"decision {one['sequence']}"), 0.3)
        assert (one["arm"] == "control") == expected
    assert 90 <= len(control) <= 150
    assert {one["name"]: one["probability"] for one in control} == {"icu": 0.25, "other": 0.75}
    icu = sum(one["name"] == "icu" for one in control)
    assert abs(icu / len(control) - 0.25) < 0.12
    shown = [read(bench.decide(body(i, explain=True))) for i in range(1000, 1010)]
    for one in shown:
        assert sum(one["probabilities"].values()) == pytest.approx(1.0)
        said = any("baseline took the action" in text for text in one["explanation"]["words"])
        assert said == (one["arm"] == "control")
    assert {one["arm"] for one in shown} == {"policy", "control"}


def test_a_user_stays_in_its_arm_across_restarts_and_a_larger_share() -> None:
    bench = Bench(held(holdout={"share": 0.2, "by": "user", "baseline": "other"}))
    before = {f"u{i}": read(bench.decide(body(i, f"u{i}")))["arm"] for i in range(60)}
    bench.reopened()
    assert {f"u{i}": read(bench.decide(body(100 + i, f"u{i}")))["arm"] for i in range(60)} == before
    bench.spec = held(holdout={"share": 0.5, "by": "user", "baseline": "other"})
    with pytest.raises(JournalError, match=r"holdout\.share was 0\.2, and now is 0\.5"):
        bench.reopened()
    bench.options = {"accept_changes": True}
    bench.reopened()
    now = {f"u{i}": read(bench.decide(body(200 + i, f"u{i}")))["arm"] for i in range(60)}
    assert all(now[user] == "control" for user, arm in before.items() if arm == "control")
    assert sum(arm == "control" for arm in now.values()) > sum(arm == "control" for arm in before.values())
    assert verify(bench.journal).digest == bench.digest()


def test_all_usage_counts_in_the_totals_whoever_decided() -> None:
    bench = Bench(held(holdout={"share": 0.5, "baseline": "icu"}))
    serve(bench, 120)
    decided, learnt = told(bench)
    icu = sum(one.action == 0 for one in decided)
    hours = sum(one.usage["hours"] for one in learnt if one.usage is not None)
    beds, budget = bench.state()["constraints"]
    assert (beds["decisions"], round(beds["used"], 6)) == (120, icu)
    assert budget["used"] == pytest.approx(hours)
    assert icu > 50


def test_hard_caps_bind_the_control_group() -> None:
    rules = [{"kind": "capacity", "action": "a", "at_most": 0.9, "hard": True, "total": 10}]
    spec = Bench(arms(rules=rules)).spec
    spec = tr.spec.make_spec({**spec.data, "holdout": {"share": 0.5, "baseline": "a"}})
    bench = Bench(spec)
    answers = [read(bench.decide({"event_id": str(i)})) for i in range(100)]
    assert sum(one["name"] == "a" for one in answers) == 10
    assert {one["name"] for one in answers[60:] if one["arm"] == "control"} == {"b"}, (
        "the baseline was not on offer"
    )
    control = [one for one in answers if one["arm"] == "control"]
    assert lift_of(bench)["displaced"] == sum(one["name"] == "b" for one in control) > 0
    assert verify(bench.journal).digest == bench.digest()


def test_the_baseline_is_a_policy_that_knows_only_its_own_decisions() -> None:
    """Both policies played by hand: the baseline by the control group's decisions, the other by all of them."""
    spec = held(holdout={"share": 0.4, "policy": SHADOW})
    bench = Bench(spec)
    main, baseline = (
        tr.ShadowPrice(
            reward=tr.policies.build.build_policy(spec.policies[0], spec.problem()).hooks.reward_model(),
            cost=tr.policies.build.build_policy(spec.policies[0], spec.problem()).hooks.cost_model(),
            constraints=spec.rules,
            seed=seed,
        )
        for seed in (0, 1)
    )
    random = np.random.default_rng(1)
    for i in range(80):
        answer = read(bench.decide(body(i)))
        assert spec.encoder is not None
        x = spec.encoder.vector(body(i)["context"])
        quote, own = main.quote(x, cost_features=x), None
        if answer["arm"] == "control":
            own = baseline.decide(x, cost_features=x)
            assert (answer["action"], answer["probability"]) == (own.action, pytest.approx(own.probability))
        decision = main.commit(quote, None if own is None else own.action)
        assert answer["action"] == decision.action
        reward, hours = float(random.random()), float(random.random())
        bench.learn(f"visit-{i}", reward=reward, usage={"hours": hours})
        main.learn(decision, reward, usage={"hours": hours})
        if own is not None:
            baseline.learn(own, reward, usage={"hours": hours})
    assert 20 < baseline.rounds < 60
    state = bench.experiment.state
    assert state is not None
    for mine, theirs in ((main, state.policy), (baseline, assignment_of(bench).baseline.policy)):
        for name, array in mine.hooks.state().items():
            np.testing.assert_array_equal(array, theirs.hooks.state()[name], err_msg=name)


@pytest.mark.parametrize("by", [None, "user"])
def test_the_lift_is_that_of_the_journals_decisions(by: str | None) -> None:
    holdout = {"share": 0.4, "baseline": "icu", **({} if by is None else {"by": by})}
    bench = Bench(held(holdout=holdout), snapshot_every=50)
    serve(bench, 400, users=130 if by else 0)
    bench.reopened()
    shown = lift_of(bench)
    decided, learnt = told(bench)
    arm_of = {one.number: (POLICY, CONTROL)[one.assigned.arm == "control"] for one in decided if one.assigned}
    unit = {one.number: (one.request.keys or {}).get("user", str(one.number)) for one in decided}
    events: list[tuple[int, dict[int, float]]] = [
        (one.number, {1: float(one.action == 0)}) for one in decided
    ]
    for got in learnt:
        parts = {} if got.reward is None else {0: got.reward}
        events.append((got.number, parts | ({} if got.usage is None else {2: got.usage["hours"]})))
    sums: list[dict[str, float]] = [{}, {}, {}]
    arm_of_unit = {unit[number]: arm for number, arm in arm_of.items()}
    if by:
        sums = [dict.fromkeys(arm_of_unit, 0.0) for _ in range(3)]
    for number, parts in events:
        for k, value in parts.items():
            sums[k][unit[number]] = sums[k].get(unit[number], 0.0) + value
    for k, measure in enumerate([shown["reward"], *shown["rules"]]):
        expected = ArmSums(1)
        for one, value in sums[k].items():
            expected.add(arm_of_unit[one], [0], [value])
        [estimate], [low], [high] = expected.lift(0.4)
        assert [measure["lift"], measure["low"], measure["high"]] == pytest.approx(
            [estimate, low, high], rel=1e-6
        )
        counted = expected.counts[:, 0].tolist()
        assert [measure["counted"]["policy"], measure["counted"]["control"]] == counted
    assert (shown["per"], shown["baseline"]) == ("user" if by else "decision", "always icu")
    assert shown["rules"][0]["lift"] < 0 < shown["rules"][0]["control"]


def test_a_rule_for_a_group_is_compared_on_its_decisions() -> None:
    bench = Bench(held(holdout={"share": 0.4, "baseline": "icu"}, rule=YOUNG))
    serve(bench, 300)
    decided, learnt = told(bench)
    young = {one.number for one in decided if one.request.group}
    control = {one.number for one in decided if one.assigned and one.assigned.arm == "control"}
    beds, hours = lift_of(bench)["rules"]
    assert beds["counted"] == {"policy": len(young - control), "control": len(young & control)}
    assert beds["control"] == 1.0
    used = [one.usage["hours"] for one in learnt if one.usage and one.number in young & control]
    assert hours["counted"]["control"] == len(used)
    assert hours["control"] == pytest.approx(np.mean(used))


def test_who_changes_arms_does_not_take_the_action_along() -> None:
    tables: dict[str, Any] = {"share": 0.01, "by": "user", "baseline": "other"}
    bench = Bench(
        held({"kind": "fixed-mix", "shares": [1.0, 0.0, 0.0]}, holdout=tables, sticky=STICKY),
        accept_changes=True,
    )
    users = [f"u{i}" for i in range(20)]
    for i, user in enumerate(users):
        assert read(bench.decide(body(i, user)))["name"] == "icu"
    bench.spec = held(
        {"kind": "fixed-mix", "shares": [1.0, 0.0, 0.0]}, holdout={**tables, "share": 0.6}, sticky=STICKY
    )
    bench.reopened()
    answers = [read(bench.decide(body(100 + i, user))) for i, user in enumerate(users)]
    for one in answers:
        control = one["arm"] == "control"
        assert (one["name"], "repeats" in one) == (("other", False) if control else ("icu", True))
    assert {one["arm"] for one in answers} == {"policy", "control"}


def test_without_a_control_group_there_is_no_lift() -> None:
    assert code(Bench(held(sticky=STICKY)).ask(show_lift)) == (404, "unknown")
    assert code(Bench(held()).ask(show_lift)) == (404, "unknown")


def test_a_lift_begins_anew_when_what_it_compares_changes() -> None:
    bench = Bench(held(holdout={"share": 0.4, "policy": SHADOW}), accept_changes=True)
    serve(bench, 50)
    read(bench.decide(body(50)))
    own = assignment_of(bench).baseline.policy.rounds
    bench.spec = held(holdout={"share": 0.4, "policy": SHADOW}, reward={"range": [-1, 1]})
    bench.reopened()
    assert lift_of(bench)["decisions"] != {"policy": 0, "control": 0}, "nothing that it compares"
    bench.spec = held(holdout={"share": 0.5, "policy": SHADOW})
    bench.reopened()
    shown = lift_of(bench)
    assert (shown["decisions"], shown["sequence"]) == ({"policy": 0, "control": 0}, 51)
    bench.learn("visit-50", reward=1.0, usage={"hours": 1.0})
    assert lift_of(bench)["reward"]["counted"] == {"policy": 0, "control": 0}, "decided before"
    assert assignment_of(bench).baseline.policy.rounds == own, "the baseline goes on"
    bench.spec = held(holdout={"share": 0.5, "policy": {**SHADOW, "seed": 7}})
    bench.reopened()
    assert assignment_of(bench).baseline.policy.rounds == 0, "another one begins"
    serve(bench, 30, first=100)
    bench.spec = held()
    bench.reopened()
    assert assignment_of(bench) is None
    serve(bench, 10, first=200)
    assert verify(bench.journal).digest == bench.digest()


def test_a_user_keeps_an_action_for_its_time_and_repeats_say_so() -> None:
    bench = Bench(held({"kind": "uniform"}, sticky=STICKY))
    first = read(bench.decide(body(0, "ann")))
    again = [read(bench.decide(body(i, "ann"))) for i in range(1, 20)]
    assert {one["name"] for one in again} == {first["name"]}
    assert {(one["repeats"], one["probability"]) for one in again} == {(0, 1.0)}
    assert "repeats" not in first
    assert first["probability"] == pytest.approx(1 / 3)
    others = {read(bench.decide(body(100 + i, f"u{i}")))["name"] for i in range(30)}
    assert len(others) == 3
    bench.now += 59.0
    bench.reopened()
    assert read(bench.decide(body(20, "ann")))["repeats"] == 0
    bench.now += 1.0
    fresh = read(bench.decide(body(21, "ann")))
    assert "repeats" not in fresh
    assert read(bench.decide(body(22, "ann")))["repeats"] == fresh["sequence"]
    assert bench.state()["repeats"] == 21


def test_what_is_not_on_offer_is_not_kept() -> None:
    bench = Bench(held({"kind": "uniform"}, sticky=STICKY))
    first = read(bench.decide(body(0, "ann")))["name"]
    others = [name for name in ("icu", "surgery", "other") if name != first]
    other = read(bench.decide(body(1, "ann", actions=others)))
    assert other["name"] in others
    assert "repeats" not in other
    kept = read(bench.decide(body(2, "ann")))
    assert (kept["name"], kept["repeats"]) == (other["name"], 1), "the new one is kept from then on"


def test_hard_caps_override_what_is_kept() -> None:
    rules = [{"kind": "capacity", "action": "a", "at_most": 0.9, "hard": True, "total": 3}]
    policy = {"kind": "fixed-mix", "shares": [1.0, 0.0]}
    spec = tr.spec.make_spec(
        {"name": "caps", "actions": ["a", "b"], "rule": rules, "policy": policy, "sticky": STICKY}
    )
    bench = Bench(spec)
    answers = [read(bench.decide({"event_id": str(i), "keys": {"user": "ann"}})) for i in range(6)]
    assert [one["name"] for one in answers] == ["a", "a", "a", "b", "b", "b"]
    assert ["repeats" in one for one in answers] == [False, True, True, False, True, True]


def test_shadow_mode_knows_no_arms() -> None:
    bench = Bench(held(holdout={"share": 0.9, "by": "user", "baseline": "other"}, sticky=STICKY))
    read(bench.ask(handlers.change_mode, ModeRequest(mode="shadow", default="icu")))
    for i in range(5):
        answer = read(bench.decide(body(i)))
        assert answer["name"] == "icu"
        assert "arm" not in answer
    assert lift_of(bench)["decisions"] == {"policy": 0, "control": 0}


def test_keys_are_asked_for_by_name() -> None:
    bench = Bench(held(holdout={"share": 0.3, "by": "user", "baseline": "other"}))
    missing = bench.decide(body(0))
    assert code(missing) == (422, "invalid")
    assert b"keys.user is missing" in missing.body
    unknown = bench.decide({**body(0, "ann"), "keys": {"user": "ann", "usr": "x"}})
    assert b"keys.usr is not a key that the spec uses (did you mean 'user'?)" in unknown.body
    assert b"keys.user" in Bench(held()).decide(body(0, "ann")).body
    assert len(bench.experiment.state.tally.actions) == 0  # type: ignore[union-attr]
    assert read(bench.decide(body(0, "ann")))["sequence"] == 0
    arms = [read(bench.decide({**body(i, "ann"), "keys": {"user": [7, "7"][i % 2]}}))["arm"] for i in (2, 3)]
    assert arms[0] == arms[1]
    assert lift_of(bench)["users"]["policy"] + lift_of(bench)["users"]["control"] == 2, (
        "7 and '7' are one user"
    )


@pytest.mark.parametrize("restore", ["learnt", "all"])
def test_a_rollback_takes_the_baseline_back_and_leaves_the_lift(restore: Any) -> None:
    bench = Bench(held(holdout={"share": 0.4, "policy": SHADOW}))
    serve(bench, 40)
    then = assignment_of(bench).baseline.hooks.state()
    read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="then")))
    at = bench.journal.snapshots()[-1].position
    serve(bench, 40, first=40)
    before = lift_of(bench)
    read(bench.ask(handlers.roll_back, RollbackRequest(position=at, restore=restore)))
    now = assignment_of(bench).baseline.hooks.state()
    learnt = [name for name in then if name.startswith("reward/")]
    assert learnt
    for name in learnt:
        np.testing.assert_array_equal(now[name], then[name], err_msg=name)
    assert lift_of(bench) == before
    serve(bench, 20, first=100)
    alive = bench.digest()
    assert verify(bench.journal).digest == alive
    bench.reopened()
    assert bench.digest() == alive


def test_an_erasure_forgets_whose_sums_and_actions_they_were() -> None:
    bench = Bench(held(holdout={"share": 0.3, "by": "user", "baseline": "other"}, sticky=STICKY))
    serve(bench, 30, users=10)
    read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="before")))
    read(bench.decide(body(500, "secret")))
    read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="between")))
    read(bench.decide(body(501, "secret")))
    bits = drawn("ward", "user secret")
    users, marks = lift_of(bench)["users"], (struct.pack(">Q", bits), struct.pack("<Q", bits), b"secret")

    def left() -> bool:
        kept = [bench.journal.snapshot(one.position) for one in bench.journal.snapshots()]
        texts = [one.state for one in kept if one is not None] + [row.data for row in bench.journal.rows()]
        return any(mark in text for mark in marks for text in texts)

    assert left()
    erase = Op(handlers.erase, ErasureRequest(event_ids=["visit-500", "visit-501"]))
    read(bench.experiment.process([erase])[0])
    while bench.experiment.purging:
        bench.experiment.process([])
    assert not left()
    assert lift_of(bench)["users"] == users, "the sums stay, of nobody"
    assert "repeats" not in read(bench.decide(body(502, "secret"))), "nothing is kept"
    assert sum(lift_of(bench)["users"].values()) == sum(users.values()) + 1, (
        "who comes back counts as another"
    )
    serve(bench, 20, users=10, first=600)
    assert verify(bench.journal).digest == bench.digest()
    bench.reopened()


def test_the_baselines_memory_of_an_erased_decision_goes_too() -> None:
    bench = Bench(held(holdout={"share": 0.9, "policy": SHADOW}), expire_after=1e6)
    serve(bench, 20)
    answer = next(one for one in serve(bench, 40, first=20) if one["arm"] == "control")
    number = next(
        one.assigned.own for one in told(bench)[0] if one.event_id == answer["event_id"] and one.assigned
    )
    read(bench.ask(handlers.erase, ErasureRequest(event_ids=[answer["event_id"]])))
    assert number not in assignment_of(bench).baseline.hooks.pending
    entry = next(e for e in reversed([entry_of(row) for row in bench.journal.rows()]) if hasattr(e, "own"))
    assert entry.own == [number]  # type: ignore[union-attr]
    assert verify(bench.journal).digest == bench.digest()


def test_an_erasure_after_a_new_beginning_reaches_nobody_else() -> None:
    """Rows of users and numbers of the baseline begin again at 0, and old decisions had others."""
    tables = {"share": 0.5, "by": "user", "policy": SHADOW}
    bench = Bench(held(holdout=tables), accept_changes=True)
    read(bench.decide(body(0, "ann")))
    first = next(f"u{i}" for i in range(99) if is_held_out(drawn("ward", f"user u{i}"), 0.5))
    read(bench.decide(body(1, first)))
    bench.spec = held(holdout={**tables, "policy": {**SHADOW, "seed": 5}})
    bench.reopened()
    read(bench.decide(body(2, first)))
    read(bench.decide(body(3, "ann")))
    pending = dict(assignment_of(bench).baseline.hooks.pending)
    assert next(iter(pending)) == 0
    bits = {user: drawn("ward", f"user {user}") for user in ("ann", first)}
    read(bench.ask(handlers.erase, ErasureRequest(event_ids=["visit-0", "visit-1"])))
    assert dict(assignment_of(bench).baseline.hooks.pending) == pending
    assert [assignment_of(bench).lift.row_of(one) for one in bits.values()] == [-1, -1], (
        "both had an erased event"
    )
    read(bench.decide(body(4, "bob")))
    read(bench.ask(handlers.erase, ErasureRequest(event_ids=["visit-2"])))
    assert assignment_of(bench).lift.row_of(drawn("ward", "user bob")) >= 0
    assert 0 not in assignment_of(bench).baseline.hooks.pending
    assert verify(bench.journal).digest == bench.digest()


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lift_accounts, "MOST_USERS", 5)
    monkeypatch.setattr(kept_actions, "MOST_KEPT", 4)
    bench = Bench(held(holdout={"share": 0.3, "by": "user", "baseline": "other"}, sticky=STICKY))
    for i in range(20):
        read(bench.decide(body(i, f"u{i}")))
    for i in range(20):
        bench.learn(f"visit-{i}", reward=1.0 if i < 5 else 100.0, usage={"hours": 0.5})
    shown = lift_of(bench)
    assert (sum(shown["users"].values()), shown["unmeasured"]) == (5, 15)
    means = [shown["reward"][arm] for arm in ("policy", "control") if shown["users"][arm]]
    assert set(means) == {1.0}, "outcomes of the others do not count"
    kept = assignment_of(bench).kept
    assert (len(kept), kept.forgotten) == (4, 16)
    assert "repeats" in read(bench.decide(body(100, "u19")))
    assert "repeats" not in read(bench.decide(body(101, "u3")))
    assert verify(bench.journal).digest == bench.digest()


def test_those_whose_time_is_over_leave_no_trace() -> None:
    bench = Bench(held(sticky=STICKY))
    for i in range(200):
        bench.now += 2.0
        read(bench.decide(body(i, f"u{i}")))
    kept = assignment_of(bench).kept
    assert len(kept) <= 31
    assert kept.forgotten == 0


def test_a_baseline_that_works_in_the_background_is_refused() -> None:
    with pytest.raises(SpecError, match=r"holdout\.policy: .* works in the background or counts seconds"):
        Bench(held(holdout={"share": 0.1, "policy": {**SHADOW, "reward": "auto"}}))
    with pytest.raises(SpecError, match="works in the background or counts seconds"):
        Bench(
            held(
                holdout={"share": 0.1, "policy": {**SHADOW, "reward": {"model": "linear", "half_life": "2h"}}}
            )
        )


def test_an_expired_decision_is_forgotten_by_the_baseline() -> None:
    bench = Bench(held(holdout={"share": 0.9, "policy": SHADOW}), expire_after=10.0)
    for i in range(20):
        read(bench.decide(body(i)))
    assert len(assignment_of(bench).baseline.hooks.pending) > 10
    bench.now += 20.0
    bench.decide(body(20))
    assert len(assignment_of(bench).baseline.hooks.pending) <= 1
    assert len(assignment_of(bench)._notes) == 1
    assert verify(bench.journal).digest == bench.digest()
