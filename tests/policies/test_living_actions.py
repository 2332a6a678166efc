"""`policy.actions`: actions that join, pause, go and get other names while a policy runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.models import hooks

RULES = [tr.Capacity("a", at_most=0.4), tr.Budget("hours", at_most=0.6, seen="after")]
POLICIES: dict[str, Any] = {
    "shadow-price": lambda: tr.ShadowPrice(tr.Rules(RULES, ["a", "b", "c"])),
    "pessimistic-optimistic": lambda: tr.PessimisticOptimistic(tr.Rules(RULES, ["a", "b", "c"]), slater=0.2),
}


def play(policy: Any, rounds: int, seed: int) -> list[Any]:
    rng, made = np.random.default_rng(seed), []
    for _ in range(rounds):
        x = rng.uniform(-0.4, 0.4, 3)
        decision = policy.decide(x)
        policy.learn(decision, float(x[0] + 0.2 * decision.action + 0.3), usage={"hours": 0.5})
        made.append(decision)
    return made


def known(policy: Any, rows: Any) -> list[Any]:
    """What is believed of the first three actions, and where the rules stand."""
    prices = policy.prices if isinstance(policy, tr.ShadowPrice) else policy.queue
    return [policy.hooks.reward_model().means(rows, np.arange(3)), policy.totals, prices]


@pytest.mark.parametrize("kind", POLICIES)
def test_what_is_known_of_the_others_stays_and_the_policy_is_saved_with_its_actions(
    kind: str, tmp_path: Path
) -> None:
    policy = POLICIES[kind]()
    play(policy, 60, 1)
    waiting = policy.decide(np.full(3, 0.1))
    rows = np.random.default_rng(2).uniform(-0.4, 0.4, (3, 3))
    before = known(policy, rows)
    policy.actions.add("d")
    after = known(policy, rows)
    for was, now in zip(before, after, strict=True):
        np.testing.assert_array_equal(was, now)
    policy.learn(waiting, 0.5, usage={"hours": 0.4})
    assert {one.name for one in play(policy, 80, 3)} >= {"d"}
    policy.actions.pause("d")
    policy.actions.rename("a", "first")
    assert {one.name for one in play(policy, 60, 4)} <= {"first", "b", "c"}
    policy.save(tmp_path / "policy")
    again = tr.load(tmp_path / "policy")
    assert again.actions.state("d") == "paused"
    assert [one.action for one in play(again, 40, 5)] == [one.action for one in play(policy, 40, 5)]
    policy.actions.resume("d")
    assert {one.name for one in play(policy, 80, 6)} >= {"d"}


def test_paused_actions_are_on_offer_on_no_path() -> None:
    policy = POLICIES["pessimistic-optimistic"]()
    play(policy, 20, 1)
    policy.actions.pause("b")
    assert all(one.name != "b" for one in policy.decide_many(np.full((20, 3), 0.1)))
    with pytest.raises(
        tr.InvalidInput, match="actions must name actions on offer, but got 'b', which is paused"
    ):
        policy.decide(np.full(3, 0.1), actions=["a", "b"])
    assert policy.decide(np.full(3, 0.1), actions=["a", "c"]).name in ("a", "c")
    assert not policy.hooks.compiles()


def test_a_change_that_leaves_rules_that_can_not_be_met_is_refused_and_nothing_changes() -> None:
    policy = tr.ShadowPrice(tr.Rules([tr.Share("a", at_least=0.2)], ["a", "b"]), reward=tr.ArmMeans(2))
    policy.learn(policy.decide(), 0.5)
    before = policy.hooks.state()
    with pytest.raises(
        tr.InfeasibleProblem, match=r"lower 'a: at least 20% of decisions' by 0\.2"
    ) as refused:
        policy.actions.retire("a")
    [rule] = refused.value.rules
    assert str(rule) == "a: at least 20% of decisions"
    for wrong, words in (
        (lambda: policy.actions.add("b"), "'b' comes twice"),
        (lambda: policy.actions.add("c", like="d"), "like is the unknown name 'd'"),
        (lambda: policy.actions.pause("d"), "is the unknown name 'd'"),
    ):
        with pytest.raises(tr.InvalidInput, match=words):
            wrong()
    after = policy.hooks.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert list(policy.actions) == ["a", "b"]


def test_without_names_or_before_the_first_decision_there_is_nothing_to_change() -> None:
    with pytest.raises(tr.InvalidInput, match="make the policy with constraints=Rules"):
        tr.ShadowPrice(reward=tr.ArmMeans(2)).actions.add("c")
    with pytest.raises(tr.InvalidInput, match="before the first decision"):
        tr.ShadowPrice(tr.Rules(RULES, ["a", "b", "c"])).actions.add("d")


@pytest.mark.parametrize(
    "model",
    [
        lambda: tr.Standardised(3, 2),
        lambda: tr.Standardised(3, 2, half_life=100.0),
        lambda: tr.DisjointRidge(3, 2),
        lambda: tr.DisjointRidge(3, 2, half_life=100.0),
        lambda: tr.Auto(3, 2, candidates=["standardised"]),
    ],
    ids=["standardised", "standardised, forgetting", "disjoint", "disjoint, forgetting", "auto"],
)
def test_an_action_begins_like_another_less_certain(model: Any) -> None:
    own, rng = model(), np.random.default_rng(0)
    for i in range(300):
        x = rng.uniform(-0.5, 0.5, 2)
        own.learn(x, float(x[0] + 0.3 * (i % 3)), i % 3)
    own.grow(4)
    rows = rng.uniform(-0.5, 0.5, (3, 2))
    before = own.means(rows, np.arange(3)), own.deviations(rows, np.arange(3))
    hooks.resemble(own, 3, 1)
    for was, now in zip(
        before, (own.means(rows, np.arange(3)), own.deviations(rows, np.arange(3))), strict=True
    ):
        np.testing.assert_array_equal(was, now)
    alike = own.means(np.repeat(rows[:1], 2, 0), np.array([1, 3]))
    assert alike[0] == pytest.approx(alike[1])
    known, new = own.deviations(np.repeat(rows[:1], 2, 0), np.array([1, 3]))
    assert 1.5 * known < new < 6 * known
