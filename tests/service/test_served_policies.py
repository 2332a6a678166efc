"""Every policy that a spec can name is served: it decides, explains, learns in parts, is rolled back, reconfigured and replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tightrope.policies import POLICIES
from tightrope.policies.build import build_policy
from tightrope.service.experiment.policy_input import PolicyInput
from tightrope.service.experiment.state import ExperimentState
from tightrope.service.http import handlers
from tightrope.service.journal import JournalError
from tightrope.service.offline.replay import verify
from tightrope.service.requests import (
    DecisionRequest,
    ModeRequest,
    PageQuery,
    RollbackRequest,
    SnapshotRequest,
)
from tightrope.spec import Spec, SpecError, make_spec
from workbench import CONTEXT, Bench, arguments, code, read

ACTIONS = ["none", "low", "high"]
CATEGORIES = {
    "sex": {"type": "category", "values": ["f", "m"]},
    "ward": {"type": "category", "values": ["a", "b", "c"]},
}
LATE = {"kind": "budget", "name": "hours", "at_most": 0.6, "range": [0.0, 1.0], "seen": "after"}
WAIT = {"kind": "mean", "name": "wait", "at_most": 0.7, "seen": "after"}
KNOWN = {"kind": "capacity", "action": "high", "at_most": 0.5}
MINIMUM = {"kind": "share", "action": "low", "at_least": 0.2}
OWN = f"{Path(__file__).parents[2] / 'examples' / 'own_policy.py'}:Prudent"
SAFE = {"safe_action": 0, "safe_cost": -0.6}

# By name: what the spec says of the policy, its rules, its context, and a setting that may change while it runs.
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any], dict[str, Any]]] = {
    "uniform": ({}, [KNOWN], CONTEXT, {"seed": 5}),
    "round-robin": ({}, [KNOWN, LATE], {}, {"shares": [0.2, 0.3, 0.5]}),
    "fixed-mix": ({"shares": [0.5, 0.3, 0.2]}, [KNOWN, LATE], {}, {"shares": [0.2, 0.3, 0.5]}),
    "greedy": ({}, [KNOWN, LATE], CONTEXT, {}),
    "linucb": ({}, [KNOWN], CONTEXT, {}),
    "lints": ({"reward": {"bonus": 0.1}}, [KNOWN], CONTEXT, {"failure": 0.5}),
    "clucb": ({"baseline": 0, "baseline_reward": 0.3, "alpha": 0.5}, [], CONTEXT, {"alpha": 0.7}),
    "lfg": ({"shares": [0.0, 0.2, 0.1], "eta": 0.5}, [MINIMUM], {}, {"eta": 2.0}),
    "opb": ({"safe_cost": -0.6, "horizon": 400, "cost_range": [-0.6, 0.4]}, [LATE], {}, {"safe_cost": -0.5}),
    "oplb": (SAFE, [LATE], CONTEXT, {"failure": 0.3}),
    "oplb, two costs": (
        SAFE | {"reward": {"bonus": 0.02}, "cost": {"bonus": 0.02}},
        [LATE, WAIT],
        CONTEXT,
        {},
    ),
    "safe-lucb": ({"safe_actions": [0, 1], "exploration": 9}, [LATE], CONTEXT, {"exploration": 30}),
    "lagrangian": ({"reward": {"bonus": 0.1}}, [KNOWN, MINIMUM], CONTEXT, {"guard": True}),
    "lagrangian, costs after": ({"guard": True}, [LATE, WAIT], CONTEXT, {"step": 1.0}),
    "lag-ts": ({}, [KNOWN, MINIMUM], CONTEXT, {"margin": 1.0}),
    "lag-ts, costs after": ({}, [LATE, WAIT], CONTEXT, {"step": 1.0}),
    "lp-ts": ({}, [KNOWN, MINIMUM], CONTEXT, {"caution": 3.0}),
    "lp-ts, costs after": ({"memory": 16}, [LATE, WAIT], CONTEXT, {"memory": 8}),
    "safe-lts": ({**SAFE, "reward": {"bonus": 0.01}}, [LATE], CONTEXT, {"safe_cost": -0.3}),
    "lincbwk": ({"limits": 0.6, "horizon": 300}, [LATE], CONTEXT, {"horizon": 500}),
    "primal-dual-bwk": ({"limits": [0.6], "horizon": 300}, [LATE], {}, {"horizon": 500}),
    "ucb-alp": (
        {"weights": [0.1, 0.2, 0.2, 0.2, 0.2, 0.1], "limit": 0.4, "horizon": 300},
        [],
        CATEGORIES,
        {"limit": 0.5},
    ),
    OWN: ({}, [KNOWN], {}, {"seed": 3}),
    "provable-shadow-price": ({"reward": {"bonus": 0.1}}, [KNOWN, MINIMUM], CONTEXT, {"guard": True}),
    "shadow-price": ({}, [KNOWN, LATE], CONTEXT, {"caution": 2.0}),
    "pessimistic-optimistic": ({"slater": 0.2}, [KNOWN, LATE], CONTEXT, {"slater": 0.1}),
}
WHOLE_OFFER = ("opb", "primal-dual-bwk", "ucb-alp")  # refuse to be offered a part of the actions


def spec_of(name: str, rules: list[dict[str, Any]] | None = None, **changes: Any) -> Spec:
    policy, own_rules, context, _ = CASES[name]
    return make_spec(
        {
            "name": "served",
            "actions": ACTIONS,
            "context": context,
            "rule": own_rules if rules is None else rules,
            "policy": {"kind": name.split(",")[0], **policy, **changes},
        },
        trust=name == OWN,
    )


def request(name: str, random: np.random.Generator) -> dict[str, Any]:
    """What a caller sends, some of the actions in one case of three."""
    body: dict[str, Any] = {"default": ACTIONS[int(random.integers(2))], "explain": True}
    context = CASES[name][2]
    if context:
        body["context"] = {
            field: float(random.uniform(0, 100))
            if one["type"] == "number"
            else one["values"][int(random.integers(len(one["values"])))]
            for field, one in context.items()
        }
    if name not in WHOLE_OFFER and random.integers(3) == 0:
        body["actions"] = ["low", "none"]
    return body


def outcome(name: str, random: np.random.Generator) -> dict[str, Any]:
    """A whole outcome, in the form that the rules ask for."""
    used = {rule["name"]: float(random.uniform()) for rule in CASES[name][1] if rule in (LATE, WAIT)}
    return {"reward": float(random.uniform()), **({"usage": used} if used else {})}


def play(bench: Bench, name: str, steps: int, seed: int) -> None:
    """Everything that can happen, in a random order."""
    random = np.random.default_rng(seed)
    waiting: dict[str, list[str]] = {}
    first = bench.journal.last()
    for i in range(steps):
        bench.now += float(random.uniform(0, 2))
        choice, event_id = int(random.integers(14)), f"{first}-{i}"
        if choice < 7:
            answer = bench.decide({"event_id": event_id, **request(name, random)})
            if answer.status != 200:
                assert code(answer) == (503, "paused")
                continue
            chosen = read(answer)
            rows = chosen["explanation"]["actions"]
            assert [row["action"] for row in rows if row["chosen"]] == [
                chosen.get("proposed", chosen["name"])
            ]
            waiting[event_id] = []
        elif choice < 11 and waiting:
            event_id = list(waiting)[int(random.integers(len(waiting)))]
            whole = outcome(name, random)
            parts = [part for part in whole if part not in waiting[event_id]]
            if len(parts) > 1 and random.integers(2):
                parts = parts[:: 1 if random.integers(2) else -1][:1]
            answer = bench.learn(event_id, **{part: whole[part] for part in parts})
            assert answer.status == 200 or code(answer) == (410, "late"), answer
            waiting[event_id] += parts
            if len(waiting[event_id]) == len(whole) or answer.status == 410:
                del waiting[event_id]
        elif choice == 11:
            mode = ("live", "live", "shadow", "paused")[int(random.integers(4))]
            read(bench.ask(handlers.change_mode, ModeRequest(mode=mode)))  # type: ignore[arg-type]
        elif choice == 12 and bench.journal.snapshots():
            at = bench.journal.snapshots()[-1].position
            restore = ("learnt", "all")[int(random.integers(2))]
            answer = bench.ask(handlers.roll_back, RollbackRequest(position=at, restore=restore))  # type: ignore[arg-type]
            assert answer.status == 200 or "the rules have changed" in answer.body.decode(), answer
        else:
            read(bench.ask(handlers.take_snapshot, SnapshotRequest(label=f"snapshot {i}")))
    read(bench.ask(handlers.change_mode, ModeRequest(mode="live")))


def test_every_registered_policy_is_among_the_cases() -> None:
    POLICIES.discover()
    own = {name for name, made in POLICIES.items() if made.__module__.startswith("tightrope")}
    assert own - {"oracle"} == {name.split(",")[0] for name in CASES} - {OWN}


@pytest.mark.parametrize("name", CASES)
def test_it_is_served_and_replayed_bit_for_bit(name: str) -> None:
    bench = Bench(spec_of(name), expire_after=60.0, max_pending=20, snapshot_every=60)
    play(bench, name, 220, seed=1)
    state = bench.state()
    assert state["decisions"] > 60
    assert state["outcomes"]["complete"] > 10
    assert state["outcomes"]["missing"] > 0
    assert state["shadow_decisions"] > 0
    report = verify(bench.journal)
    assert report.digest == bench.digest()
    assert report.snapshots == len(bench.journal.snapshots()) > 1
    alive = bench.digest()
    bench.reopened()
    assert bench.digest() == alive, "a snapshot and what came after it"
    play(bench, name, 60, seed=2)
    assert verify(bench.journal).digest == bench.digest()
    listed = read(bench.ask(handlers.list_decisions, PageQuery(limit=20)))["decisions"]
    assert len(listed) == 20


@pytest.mark.parametrize("name", CASES)
def test_it_decides_as_the_library_does(name: str) -> None:
    """The same offers and outcomes, given to the policy by hand, lead to the same choices and the same arrays."""
    spec = spec_of(name)
    bench, policy = Bench(spec), build_policy(spec.policies[0], spec.problem())
    reader = PolicyInput(spec, policy)
    for work in policy.hooks.background():
        work.deferred = True
    random = np.random.default_rng(3)
    for i in range(60):
        body = {"event_id": str(i), **request(name, random)}
        offer = reader.read(msgspec.convert(body, DecisionRequest))
        decision = policy.decide(**arguments(offer, policy))
        assert read(bench.decide(body))["action"] == decision.action
        whole = outcome(name, random)
        read(bench.learn(str(i), **whole))
        seen = [
            whole["usage"][rule["name"]] - rule["at_most"] for rule in CASES[name][1] if rule in (LATE, WAIT)
        ]
        policy.learn(decision, whole["reward"], seen if seen and policy.hooks.n_constraints else None)
    served = bench.experiment._state
    assert served is not None
    for array, mine in zip(served.policy.hooks.state().values(), policy.hooks.state().values(), strict=True):
        np.testing.assert_array_equal(array, mine)


@pytest.mark.parametrize("name", CASES)
def test_shadow_mode_proposes_what_it_would_have_chosen(name: str) -> None:
    bench, random = Bench(spec_of(name)), np.random.default_rng(4)
    for i in range(12):
        read(bench.decide({"event_id": str(i), **request(name, random)}))
        read(bench.learn(str(i), **outcome(name, random)))
    state = bench.experiment._state
    assert state is not None
    for i in range(8):
        body = {**request(name, random), "default": "low"}
        twin = ExperimentState.of(state.started("0"))
        twin.restore(state.snapshot()[0], state.position, state.head)
        live = twin.decide("twin", msgspec.convert(body, DecisionRequest), time=state.time)
        read(bench.ask(handlers.change_mode, ModeRequest(mode="shadow", default="none")))
        shown = read(bench.decide({"event_id": f"shadow-{i}", **body}))
        assert (shown["name"], shown["proposed"]) == ("low", ACTIONS[live.action])
        read(bench.learn(f"shadow-{i}", **outcome(name, random)))
        read(bench.ask(handlers.change_mode, ModeRequest(mode="live")))
    assert verify(bench.journal).digest == bench.digest()


@pytest.mark.parametrize("name", CASES)
def test_rolling_back_what_was_learnt_leaves_what_was_spent(name: str) -> None:
    bench, random = Bench(spec_of(name)), np.random.default_rng(6)

    def rounds(first: int, last: int) -> None:
        for i in range(first, last):
            read(bench.decide({"event_id": str(i), **request(name, random)}))
            if i % 5:
                read(bench.learn(str(i), **outcome(name, random)))

    def arrays() -> dict[str, Any]:
        assert bench.experiment._state is not None
        return bench.experiment._state.policy.hooks.state()

    rounds(0, 20)
    at = read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="here")))["position"]
    then = arrays()
    rounds(20, 45)
    before = arrays()
    read(bench.ask(handlers.roll_back, RollbackRequest(position=at, restore="learnt")))
    now = arrays()
    learnt = {one for one in now if one.startswith(("reward/", "cost/", "rewards/", "usage/"))}
    assert learnt or name in ("uniform", "round-robin", "fixed-mix")
    for array in now:
        np.testing.assert_array_equal(now[array], (then if array in learnt else before)[array], array)
    read(bench.ask(handlers.roll_back, RollbackRequest(position=at, restore="all")))
    now = arrays()
    assert set(now["pending/number"]) <= set(then["pending/number"])
    for array in now:
        if not array.startswith("pending/") and array != "made":
            np.testing.assert_array_equal(now[array], then[array], array)
    rounds(45, 55)
    assert verify(bench.journal).digest == bench.digest()


@pytest.mark.parametrize("name", CASES)
def test_it_goes_on_under_another_configuration(name: str) -> None:
    _, rules, _, change = CASES[name]
    bench, random = Bench(spec_of(name), accept_changes=True), np.random.default_rng(8)
    for i in range(25):
        read(bench.decide({"event_id": str(i), **request(name, random)}))
        if i % 4:
            read(bench.learn(str(i), **outcome(name, random)))
    known = [rule for rule in rules if rule.get("seen") != "after"]
    others = [{**MINIMUM, "at_least": 0.1}, *rules] if known or not rules else rules
    spec = spec_of(name)
    if build_policy(spec.policies[0], spec.problem()).hooks.sees_costs:
        # It keeps numbers by constraint of which nobody else knows the meaning.
        bench.spec = spec_of(name, others)
        with pytest.raises(JournalError, match="costs that are seen before acting can't change"):
            bench.reopened()
        others = rules
    bench.spec = spec_of(name, others, **change)
    before = bench.state()
    bench.reopened()
    assert bench.experiment.status == "ready", bench.experiment.trouble
    after = bench.state()
    assert after["outcomes"] == before["outcomes"]
    was = {column["name"]: column["cumulative_cost"] for column in before["constraints"]}
    assert {column["name"]: column["cumulative_cost"] for column in after["constraints"]}.items() >= {
        key: value for key, value in was.items() if key != "share low"
    }.items()
    for i in range(0, 25, 4):
        read(bench.learn(str(i), **outcome(name, random)))
    play(bench, name, 40, seed=9)
    assert verify(bench.journal).digest == bench.digest()
    other = "uniform" if name != "uniform" else "round-robin"
    bench.spec = make_spec({**bench.spec.data, "policy": {"kind": other}})
    with pytest.raises(JournalError, match=r"policy\.kind: was '[^']+', and now is"):
        bench.reopened()


@pytest.mark.parametrize("name", ["uniform", "greedy", "lints", "pessimistic-optimistic"])
def test_hard_caps_hold_whatever_the_policy(name: str) -> None:
    bench, random = Bench(spec_of(name, [{**KNOWN, "hard": True, "total": 2}])), np.random.default_rng(0)
    for i in range(25):
        read(bench.decide({"event_id": str(i), **request(name, random)}))
        read(bench.learn(str(i), reward=1.0))
    high = bench.state()["actions"][2]
    assert high["decisions"] <= 2
    assert verify(bench.journal).digest == bench.digest()


@pytest.mark.parametrize("name", ["greedy", "lfg", "lincbwk"])
def test_usage_that_does_not_fit_is_refused_without_a_trace(name: str) -> None:
    bench = Bench(spec_of(name))
    read(bench.decide({"event_id": "one", **request(name, np.random.default_rng(0))}))
    before = bench.digest()
    late = LATE in CASES[name][1]
    for used in ({"hours": 1.5}, {"hours": 0.5, "fuel": 0.5}, {}) if late else ({}, {"hours": 0.5}):
        answer = bench.learn("one", reward=0.5, usage=used)
        assert code(answer) == (422, "invalid")
        assert bench.digest() == before
    read(bench.learn("one", reward=0.5, **({"usage": {"hours": 0.7}} if late else {})))
    assert verify(bench.journal).digest == bench.digest()


def test_who_can_not_be_served_is_told_why() -> None:
    for policy, context, words in (
        ({"kind": "oracle"}, {}, "it needs the true means of an environment"),
        (
            {"kind": "ucb-alp", **CASES["ucb-alp"][0]},
            CONTEXT,
            "contexts are only numbered if all fields are categories",
        ),
        (
            {"kind": "opb", **CASES["opb"][0]},
            CONTEXT,
            "it has 0 constraints, but the policy has 1; it has features",
        ),
    ):
        spec = make_spec({"actions": ACTIONS, "context": context, "policy": policy})
        with pytest.raises(SpecError, match="can't be served here") as told:
            ExperimentState(spec)
        assert words in str(told.value)


@pytest.mark.parametrize("name", CASES)
def test_it_is_served_beside_a_control_group_that_gets_it_too(name: str) -> None:
    """As the experiment's policy, and as a baseline with a state of its own."""
    base = spec_of(name)
    held = {"share": 0.4, "policy": base.data["policy"]}
    spec = make_spec({**base.data, "holdout": held}, trust=name == OWN)
    bench = Bench(spec, expire_after=40.0, snapshot_every=31)
    play(bench, name, 90, 3)
    state = bench.experiment.state
    assert state is not None
    assert state.assignment is not None
    assert state.assignment.baseline is not None
    assert state.assignment.baseline.policy.rounds > 2
    alive = bench.digest()
    assert verify(bench.journal, trust=name == OWN).digest == alive
    bench.reopened()
    assert bench.digest() == alive
