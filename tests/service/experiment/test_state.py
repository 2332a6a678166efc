"""State = f(journal): replay gives the same bits, and the service decides as the library does."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tightrope as tr
from tightrope.service.journal.entries import Decided
from tightrope.service.journal.rows import entry_of
from tightrope.service.offline.replay import verify
from tightrope.spec import make_spec
from workbench import PAPER, Bench, arms, play, read, visit, ward


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
        x = spec.encoder.vector(context)
        answer = read(bench.decide({"event_id": str(i), "context": context}))
        decision = policy.decide(x, cost_features=x)
        assert answer["action"] == decision.action
        reward, hours = float(random.uniform()), float(random.uniform())
        bench.learn(str(i), reward=reward, usage={"hours": hours})
        policy.learn(decision, reward, usage={"hours": hours})
        state = bench.state()
        assert [column["queue"] for column in state["constraints"]] == policy.queue.tolist()
        assert [column["cumulative_cost"] for column in state["constraints"]] == policy.totals.tolist()


@pytest.mark.parametrize("model", ["ridge", "disjoint-ridge", "arm-means"])
def test_every_model_can_be_served(model: str) -> None:
    bench = Bench(
        ward(
            policy={
                **PAPER,
                "reward": {"model": model},
                "cost": {"model": model},
            }
        )
    )
    for i in range(30):
        assert bench.decide(visit(i)).status == 200
        bench.learn(f"visit-{i}", reward=0.5, usage={"hours": 0.5})
    assert verify(bench.journal).digest == bench.digest()


@pytest.mark.parametrize("model", ["ridge", "disjoint-ridge"])
def test_vectors_without_names_are_taken_as_they_are_declared(model: str) -> None:
    vector = {"count": 2, "min": -1, "max": 1}
    policy = {**PAPER, "reward": {"model": model}, "cost": {"model": model}}
    bench = Bench(ward(policy=policy, context={}, features=vector))
    assert bench.decide({"event_id": "1", "features": [0.5, -0.5]}).status == 200
    rows = [[0.5, 0.1], [0.5, 0.2]]
    assert bench.decide({"event_id": "2", "features": rows, "actions": ["other", "icu"]}).status == 200
    for event_id in ("1", "2"):
        assert bench.learn(event_id, reward=0.5, usage={"hours": 0.5}).status == 200
    before = bench.digest()
    for body, words in (
        ({"features": [0.5, 1e20]}, "features[1] must lie in [-1, 1], but got 1e+20"),
        ({"features": [[0.5, 0.5], [0.5, -1.5], [0, 0]]}, "features[1, 1] must lie in [-1, 1], but got -1.5"),
        ({"features": [0.5]}, "features must have shape"),
        ({"context": {"age": 3}}, "the spec declares no [context]"),
        ({}, "features are missing; send 2 numbers"),
    ):
        answer = bench.decide(body)
        assert answer.status == 422, answer
        assert words in answer.body.decode()
    assert bench.digest() == before
    assert verify(bench.journal).digest == before


@pytest.mark.parametrize(
    "reward",
    [
        {"model": "disjoint-ridge", "half_life": "10min"},
        {"model": "logistic", "half_life": "10min"},
        {
            "model": "features",
            "transformer": {"kind": "fourier", "n_components": 20},
            "first": 30,
            "half_life": "10min",
        },
    ],
)
def test_a_half_life_in_seconds_is_counted_by_the_clock_and_replayed(reward: dict[str, object]) -> None:
    bench = Bench(ward(policy={"kind": "shadow-price", "reward": reward}), snapshot_every=25)

    x = bench.spec.encoder.vector(json.loads(visit(0))["context"])

    def width() -> float:
        policy = bench.experiment._state.policy  # type: ignore[union-attr]
        return float(policy.hooks.reward_model().deviations(np.array([x] * 3), np.arange(3)).sum())

    for i in range(240):
        bench.now += 0.5
        assert bench.decide(visit(i)).status == 200
        bench.learn(f"visit-{i}", reward=float(i % 3 == 0), usage={"hours": 0.5})
    before = width()
    assert bench.decide({"event_id": "refused", "context": {"age": 500, "sex": "f"}}).status == 422
    assert width() == before, "a refused decision leaves no trace"
    bench.now += 3600.0
    assert bench.decide(visit(240)).status == 200
    assert width() > 1.2 * before, "six half-lives"
    assert verify(bench.journal).digest == bench.digest()
    alive = bench.digest()
    bench.reopened()
    assert bench.digest() == alive, "snapshot plus replay"


def test_usage_and_groups_by_the_caller() -> None:
    rules = [
        {"kind": "share", "action": "a", "at_least": 0.2, "among": "young"},
        {"kind": "budget", "name": "fuel", "at_most": 0.5},
        {"kind": "budget", "name": "time", "at_most": 0.5, "usage": {"a": 0.2, "b": 0.4}},
    ]
    bench = Bench(arms(rules=rules))
    assert bench.decide({"usage": {"fuel": [0.1, 0.9]}, "group": "young"}).status == 200
    assert bench.decide({"usage": {"fuel": {"a": 0.1, "b": 0.9}}, "group": []}).status == 200
    assert bench.decide({"usage": {"fuel": 0.3}, "group": ["young"], "actions": ["b"]}).status == 200
    for body, words in [
        ({"usage": {"fuel": 0.3}}, "group is missing"),
        ({"group": "young"}, "usage.fuel is missing"),
        ({"usage": {"fuel": 0.3, "time": 0.1}, "group": []}, "usage.time is fixed"),
        ({"usage": {"fuel": [0.3]}, "group": []}, "usage.fuel must be one number or 2"),
        ({"usage": {"fuel": 51.0}, "group": []}, "must lie in [0, 50]"),
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


def test_outcomes_of_decisions_in_groups_are_learnt_after_a_restart() -> None:
    rules = [
        {"kind": "share", "action": "a", "at_least": 0.2, "among": "young"},
        {"kind": "budget", "name": "fuel", "at_most": 0.5, "range": [0.0, 1.0], "seen": "after"},
    ]
    bench = Bench(make_spec({"name": "arms", "actions": ["a", "b"], "rule": rules}))
    for i in range(6):
        read(bench.decide({"event_id": f"v-{i}", "group": "young" if i % 2 else []}))
    bench.experiment.close()
    bench.reopened()
    for i in range(6):
        read(bench.learn(f"v-{i}", reward=0.5, usage={"fuel": 0.25}))
    assert verify(bench.journal).digest == bench.digest()
