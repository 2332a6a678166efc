"""Rewards and costs in any unit: powers of two change no choice at all, other units change nothing that can be told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tightrope as tr

MEANS = np.array([0.2, 0.5, 0.9])
COSTS = np.array([[-0.4], [0.1], [0.5]])
REWARDS = {
    "always the same": lambda rng, a: MEANS[a],
    "0 or 1": lambda rng, a: float(rng.random() < MEANS[a]),
    "normal": lambda rng, a: rng.normal(MEANS[a], 0.3),
    "seldom": lambda rng, a: float(rng.random() < 0.1 * MEANS[a]),
}


def played(
    reward: float = 1.0,
    cost: float = 1.0,
    kind: str = "normal",
    late: bool = False,
    rounds: int = 400,
    **rest: Any,
) -> tuple[list[int], tr.ShadowPrice]:
    models: dict[str, Any] = {"reward": tr.ArmMeans(3)}
    if late:
        models |= {"cost": tr.ArmMeans(3), "cost_range": (-0.5 * cost, 0.5 * cost)}
    policy = tr.ShadowPrice(constraints=1, **models, **rest)
    rng, chosen = np.random.default_rng(1), []
    for _ in range(rounds):
        decision = policy.decide(costs=None if late else COSTS * cost, actions=[0, 1, 2] if late else None)
        told = {"costs": COSTS[decision.row] * cost} if late else {}
        policy.learn(decision, reward=reward * REWARDS[kind](rng, decision.row), **told)
        chosen.append(decision.row)
    return chosen, policy


@pytest.mark.parametrize("kind", REWARDS)
@pytest.mark.parametrize(
    ("reward", "cost"), [(2.0**-40, 1.0), (2.0**40, 1.0), (1.0, 2.0**-40), (2.0**-13, 2.0**40)]
)
def test_powers_of_two_change_no_choice(kind: str, reward: float, cost: float) -> None:
    chosen, policy = played(kind=kind)
    other, scaled = played(reward, cost, kind)
    assert chosen == other
    assert len(set(chosen)) == 3
    np.testing.assert_array_equal(scaled.totals, policy.totals * cost)
    np.testing.assert_array_equal(scaled.prices, policy.prices * reward / cost)


@pytest.mark.parametrize(
    "rest", [{"late": True}, {"guard": True}, {"sampling": "gaps"}, {"explore": 0.0}], ids=str
)
def test_so_it_is_with_costs_seen_late_a_guard_gaps_and_no_exploration(rest: dict[str, Any]) -> None:
    assert played(**rest)[0] == played(2.0**-40, 2.0**20, **rest)[0]


@pytest.mark.parametrize("compiled", [True, False])
def test_so_it_is_in_simulations(compiled: bool) -> None:
    def choices(unit: float) -> Any:
        env = tr.environments.Tabular(
            [1.0], rewards=[MEANS * unit], costs=[COSTS], reward_noise="gaussian", reward_scale=0.25 * unit
        )
        policy = tr.ShadowPrice(reward=tr.ArmMeans(3), constraints=1)
        return tr.simulate(
            policy, env, 300, 2, seed=3, keep_choices=True, compile=compiled, warn=False
        ).choices

    np.testing.assert_array_equal(choices(1.0), choices(2.0**-40))


@pytest.mark.parametrize(("k", "m"), [(-12, 0), (-12, 12), (-7, -12), (-1, 3), (4, -5), (12, 12)])
def test_powers_of_ten_earn_and_keep_as_much(k: int, m: int) -> None:
    plain = np.mean([MEANS[played(seed=s)[0]].mean() for s in range(3)])
    found = []
    for seed in range(3):
        chosen, policy = played(10.0**k, 10.0**m, seed=seed)
        found.append(MEANS[chosen].mean())
        assert policy.totals[0] <= 3 * 10.0**m
    assert np.mean(found) == pytest.approx(plain, abs=0.03)


def test_rewards_of_1e_minus_12_are_told_apart() -> None:
    """Without rules, where nothing but rewards decides, and by policies whose ties were as wide as the rewards."""
    best = tr.ShadowPrice(reward=tr.ArmMeans(2))
    greedy = tr.policies.POLICIES.find("greedy")(tr.ArmMeans(2))
    for policy in (best, greedy):
        taken = 0
        for action, reward in ((0, 1e-12), (1, 3e-12)):
            policy.learn(policy.commit(policy.quote(), action), reward=reward)
        for _ in range(300):
            decision = policy.decide()
            policy.learn(decision, reward=(1e-12, 3e-12)[decision.action])
            taken += decision.action
        assert taken > 280


def test_of_values_that_do_not_vary_the_lowest_of_equals_has_all_the_probability() -> None:
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), explore=0.0)
    for action, reward in ((0, 1e-12), (1, 3e-12)):
        policy.learn(policy.commit(policy.quote(), action), reward=reward)
    assert policy.decide().probabilities.tolist() == [0.0, 1.0]
