"""Policies that balance rules over time, judged on a log: against truths that are known, and against what a frozen moment says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import tightrope as tr
from offpolicy_tools import COSTS, FEATURES, NOISE, REWARDS, WEIGHTS, measures
from policy_tools import unwatched
from tightrope.errors import InvalidInput
from tightrope.offpolicy import Log, evaluate, evaluate_live
from tightrope.policies import Policy

# Which policy, and how many rows its logs and rounds its runs have.
KINDS = {"pessimistic-optimistic": 400, "shadow-price": 400, "shadow-price, costs seen after acting": 150}


@dataclass(frozen=True)
class Live:
    """A policy that has learnt for 2,000 rounds, and its true mean reward and costs over the next ones."""

    policy: Policy
    late: bool
    rows: int
    truth: np.ndarray

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, Log]:
        """Contexts, and a log of actions that were drawn evenly."""
        n = self.rows
        c, a = rng.choice(4, n, p=WEIGHTS), rng.integers(0, 3, n)
        y = (rng.random(n) < REWARDS[c, a]).astype(float)
        costs = COSTS[c, a] + NOISE * rng.choice([-1.0, 1.0], (n, 2)) if self.late else COSTS[c]
        return c, Log(a, y, costs, propensities=np.full((n, 3), 1 / 3), contexts=FEATURES[c])

    def kept(self) -> np.ndarray:
        """Which rules it keeps: totals at or below zero after the next rounds, in expectation."""
        return np.asarray(self.policy.totals + self.rows * self.truth[1:] <= 0)

    def step(self, policy: Policy, c: int, rng: np.random.Generator, *, learns: bool) -> int:
        decision = policy.decide(FEATURES[c]) if self.late else policy.decide(FEATURES[c], COSTS[c])
        a = decision.action
        if self.late:
            policy.learn(decision, costs=COSTS[c, a] + NOISE * rng.choice([-1.0, 1.0], 2))
        if learns:
            policy.learn(decision, float(rng.random() < REWARDS[c, a]))
        else:
            policy.forget(decision)
        return a


@cache
def live(kind: str, seed: int, runs: int = 100) -> Live:
    late, rng = "after" in kind, np.random.default_rng([seed, list(KINDS).index(kind)])
    if kind.startswith("shadow"):
        cost = tr.DisjointRidge(3, 3) if late else None
        policy: Policy = tr.ShadowPrice(reward=tr.DisjointRidge(3, 3), cost=cost, constraints=2, seed=seed)
    else:
        model = tr.DisjointRidge(3, 3, bonus=0.1)
        schedules: dict[str, Any] = {"V": tr.Power(1.0, 0.5), "epsilon": tr.Power(1.0, -0.5)}
        policy = tr.PessimisticOptimistic(reward=model, constraints=2, **schedules)
    found = Live(policy, late, KINDS[kind], np.zeros(3))
    for c in rng.choice(4, 2000, p=WEIGHTS).tolist():
        found.step(policy, c, rng, learns=True)
    means = np.zeros((runs, 3))
    for i in range(runs):
        copy, contexts = policy.copy(1000 + i), rng.choice(4, found.rows, p=WEIGHTS)
        actions = np.array([found.step(copy, c, rng, learns=False) for c in contexts.tolist()])
        means[i] = REWARDS[contexts, actions].mean(), *COSTS[contexts, actions].mean(axis=0)
    return replace(found, truth=means.mean(axis=0))


def moments(one: Live, number: int, seed: int) -> tuple[float, float]:
    """Of a policy frozen at moments of its life: how often a rule that it keeps is called violated with 95 % confidence.

    And how often the intervals of its rules hold the live policy's means.
    """
    rng, policy = np.random.default_rng(seed), one.policy.copy(7)
    wrong, held = 0, 0.0
    for _ in range(number):
        for c in rng.choice(4, 7, p=WEIGHTS).tolist():
            one.step(policy, c, rng, learns=False)
        offers = [{} if one.late else {"costs": COSTS[c]} for c in range(4)]
        frozen = np.array([policy.propose(FEATURES[c], **offers[c]).probabilities for c in range(4)])
        contexts, log = one.draw(rng)
        found = evaluate(log, frozen[contexts])
        verdicts = np.array([m.verdict.startswith("violated") for m in found.constraints])
        wrong += bool((verdicts & one.kept()).any())
        held += float(np.mean([m.low <= t <= m.high for m, t in zip(found.constraints, one.truth[1:])]))
    return wrong / number, held / number


def covered(one: Live, logs: int, seed: int, runs: int = 50) -> np.ndarray:
    """Share of logs in which the intervals hold the live policy's mean reward and costs."""
    rng, hits = np.random.default_rng(seed), np.zeros(3)
    for i in range(logs):
        found = evaluate_live(one.draw(rng)[1], one.policy, runs=runs, seed=i)
        hits += [m.low - 1e-9 <= t <= m.high + 1e-9 for m, t in zip(measures(found), one.truth)]
    return hits / logs


@unwatched  # the paper's m, and totals that hover about zero, are not what it is about
@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_moment_misjudges_rules_that_the_live_policy_keeps(kind: str) -> None:
    one = live(kind, 1)
    assert one.kept().any()
    wrong, held = moments(one, 60, 2)
    assert wrong > 0.2
    assert held < 0.75


@unwatched  # the paper's m, and totals that hover about zero, are not what it is about
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_a_live_policy_hold_its_true_means(kind: str) -> None:
    """What chance explains of 93 % or more passes, for the reward and for each rule (one in ten thousand)."""
    logs = 40 if KINDS[kind] > 200 else 20
    hits = logs * covered(live(kind, 1), logs, 3, runs=30)
    assert (hits >= binom.ppf(1e-4, logs, 0.93)).all(), hits / logs


def test_more_rounds_narrow_the_intervals_of_known_costs() -> None:
    """They count what one run's luck adds to the total of a rule that binds, which is less in a long one."""
    one = live("shadow-price", 1)
    log = one.draw(np.random.default_rng(4))[1]
    short, long = (evaluate_live(log, one.policy, runs=20, rounds=n) for n in (400, 3200))
    binds = int(np.argmax(one.policy.prices))
    a, b = short.constraints[binds], long.constraints[binds]
    assert b.high - b.low < (a.high - a.low) / 1.5


def arms(costs: np.ndarray, n: int = 200, seed: int = 0, **more: Any) -> Log:
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 2, n)
    rewards = (rng.random(n) < np.array([0.3, 0.6])[actions]).astype(float)
    return Log(actions, rewards, costs, propensities=np.full((n, 2), 0.5), **more)


HALF = np.array([[-0.5], [0.5]])  # the second action in at most half of the rounds


def taught(seed: int = 0) -> tr.PessimisticOptimistic:
    """It knows that the second action is better, and that its share is limited."""
    model = tr.ArmMeans(2)
    for action, reward in ((0, 0.3), (1, 0.6)) * 500:
        model.learn(None, reward, action)
    return tr.PessimisticOptimistic(
        reward=model, constraints=1, V=tr.Power(1.0, 0.5), epsilon=tr.Power(0.0, 0.0)
    )


@unwatched  # the paper's m, and totals that hover about zero, are not what it is about
def test_what_a_policy_mixes_over_time_is_what_is_judged() -> None:
    """By hand: now one action, now the other, so that each is taken in half of the rounds; at any moment it is one of them."""
    log = arms(np.tile(HALF, (200, 1, 1)))
    found = evaluate_live(log, taught(), runs=20, rounds=2000)
    own = taught()
    actions = [own.decide(costs=HALF).action for _ in range(2000)]
    assert 0.5 <= np.mean(actions) < 0.51, "half, and what the queue keeps"
    # One context and no draws: every run is this one.
    assert found.constraints[0].value == pytest.approx(np.mean(actions) - 0.5, abs=1e-12)
    even = evaluate(log, np.full((200, 2), 0.5))
    assert found.reward.value == pytest.approx(even.reward.value, abs=0.01)
    assert "dr on 200 rows, worth" in str(found)
    assert "means over 20 runs of 2,000 rounds" in str(found)
    moment = taught().propose(costs=HALF).probabilities
    assert sorted(moment) == [0.0, 1.0]
    assert evaluate(log, np.tile(moment, (200, 1))).constraints[0].verdict != "undecided"


def test_the_policy_is_not_changed_and_the_seed_decides() -> None:
    policy, log = taught(), arms(np.tile(HALF, (200, 1, 1)))
    before = {name: array.copy() for name, array in policy.hooks.state().items()}
    found = evaluate_live(log, policy, runs=20, seed=3)
    for name, array in policy.hooks.state().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    assert evaluate_live(log, policy, runs=20, seed=3) == found
    assert evaluate_live(log, policy, runs=20, seed=4).reward.high != found.reward.high


def test_offers_say_what_the_policy_is_given() -> None:
    rules = tr.Rules([tr.Capacity("b", at_most=0.5)], actions=["a", "b"])
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=rules)
    log = arms(np.tile(HALF, (200, 1, 1)), constraints=rules)
    offers: list[dict[str, Any]] = [{"usage": {}, "actions": ["a"]}] * 100 + [{"usage": {}}] * 100
    found = evaluate_live(log, policy, offers, runs=20)
    assert found.constraints[0].name == "capacity b"
    assert found.constraints[0].value <= 0.0, "where only the first is on offer, it is taken"
    with pytest.raises(InvalidInput, match=r"row .* can't be put to the policy: "):
        evaluate_live(log, policy, [{"usage": {}, "actions": ["c"]}] * 200, runs=20)
    with pytest.raises(InvalidInput, match="offers must be one for each of 200 rows, but got 3"):
        evaluate_live(log, policy, offers[:3])


def test_groups_are_drawn_whole() -> None:
    """Rows that repeat each other ten times over are worth a tenth of them."""
    rng = np.random.default_rng(5)
    y, actions = np.repeat(rng.random(40), 10), np.tile(rng.integers(0, 2, 40), (10, 1)).T.ravel()
    given: dict[str, Any] = {"propensities": np.full((400, 2), 0.5)}
    alone = Log(actions, y, np.tile(HALF, (400, 1, 1)), **given)
    whole = Log(actions, y, np.tile(HALF, (400, 1, 1)), groups=np.repeat(np.arange(40), 10), **given)
    short, long = (evaluate_live(log, taught(), runs=40).reward for log in (alone, whole))
    assert 2 < (long.high - long.low) / (short.high - short.low) < 6


def test_a_frozen_policy_is_refused_with_the_remedy() -> None:
    policy, log = taught(), arms(np.tile(HALF, (200, 1, 1)), contexts=np.zeros(200, dtype=int))
    for frozen in (policy, policy.propose, policy.quote):
        with pytest.raises(
            InvalidInput, match=r"balances its rules over time.* evaluate_live\(log, policy\)"
        ):
            evaluate(log, frozen)  # type: ignore[arg-type]
    doubts = evaluate(log, np.ones(200, dtype=int)).doubts
    assert "use evaluate_live to judge it" in doubts[-1], "it may be a moment of such a policy"
    assert not evaluate(log, np.full((200, 2), 0.5)).doubts
    assert not evaluate(arms(np.empty((200, 0))), np.ones(200, dtype=int)).doubts, (
        "without rules nothing is balanced"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"log": 3}, "log must be a Log, but got 3"),
        ({"policy": "greedy"}, "policy must be a policy, but got 'greedy'"),
        ({"log": arms(np.zeros((200, 2)))}, "the costs of the policy's 1 constraints, but it has 2"),
        ({"runs": 5}, "runs must be a whole number >= 20, but got 5"),
        ({"rounds": 0}, "rounds must be a whole number >= 1, but got 0"),
        ({"rounds": 1}, r"rows came up in none of the runs: make runs × rounds, now 20, at least 4,000"),
        ({"clip": 0.1}, "clip must be finite and >= 1"),
    ],
)
def test_bad_calls_are_refused_in_words(changes: dict[str, Any], words: str) -> None:
    call: dict[str, Any] = {"log": arms(np.tile(HALF, (200, 1, 1))), "policy": taught(), "runs": 20}
    with pytest.raises(InvalidInput, match=words):
        evaluate_live(**(call | changes))


def print_coverage(policies: int = 3, logs: int = 100) -> None:
    """The table of docs/real-data.md."""
    heads = ["policy", "rows", "a kept rule called violated", "frozen: rules", "live: reward", "live: rules"]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for kind, rows in KINDS.items():
        number = logs if rows > 200 else logs // 2
        lives = [live(kind, seed, 400 if rows > 200 else 100) for seed in range(1, policies + 1)]
        wrong, held = np.mean([moments(one, 200, i) for i, one in enumerate(lives)], axis=0)
        found = np.array([covered(one, number, 10 + i) for i, one in enumerate(lives)])
        reward, rules = found[:, 0].mean(), found[:, 1:].mean()
        print(f"| `{kind}` | {rows} | {wrong:.0%} | {held:.0%} | {reward:.1%} | {rules:.1%} |", flush=True)


if __name__ == "__main__":
    print_coverage()
