"""`guard=True` in every policy that has one: no total above zero where some action avoids it, in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tightrope as tr
from tightrope.policies import Lagrangian, ProvableShadowPrice

# Wild scales, in one round and from round to round; and numbers whose sums are rounded.
SIZES = st.sampled_from([1e-12, 0.1, 0.3, 1.0, 2.0, 1e13, 1e15, 1e16])
COSTS = st.builds(
    lambda sign, size, part: sign * size * part, st.sampled_from([-1, 0, 1]), SIZES, st.floats(0.25, 1)
)
ROUNDS = st.lists(
    st.lists(st.lists(COSTS, min_size=2, max_size=2), min_size=3, max_size=3), min_size=1, max_size=25
)


def exact_totals(chosen: list[list[float]], K: int) -> list[Fraction]:
    return [sum((Fraction(w[k]) for w in chosen), Fraction(0)) for k in range(K)]


@given(ROUNDS, st.booleans(), st.integers(0, 3), st.sampled_from([0.0, 0.5]))
@settings(max_examples=60)
@example([[[0.0, 0.0], [1.0, 0.0], [1e15, 0.0]]] * 20, True, 0, 0.0)
@example([[[1e13, 0.0]] * 3, *[[[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]] * 20], False, 0, 0.5)
@example(
    [[[-1e16, 0.0]] * 3, *[[[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]] * 6, [[0.0, 0.0], [1e16, 0.0], [1e16, 0.0]]],
    True,
    0,
    0.5,
)
def test_where_some_action_leaves_no_exact_total_above_zero_one_of_those_is_chosen(
    rounds: list[list[list[float]]], safe: bool, seed: int, least: float
) -> None:
    """By both ways into `decide`, the compiled one and the careful one; what is excluded has probability 0."""
    ways = []
    for careful in (False, True):
        made: dict[str, Any] = {"constraints": 2, "guard": True, "seed": seed, "least_chance": least}
        policy = tr.ShadowPrice(reward=tr.ArmMeans(3), **made)
        chosen: list[list[float]] = []
        rows = []
        for t, offered in enumerate(rounds):
            W = np.array(offered)
            if safe:
                W[t % 3] = -np.abs(W[t % 3])
            before = exact_totals(chosen, 2)
            kept = [all(before[k] + Fraction(w[k]) <= 0 for k in range(2)) for w in W.tolist()]
            proposed = policy.propose(costs=W)
            decision = policy.decide(costs=W, actions=[0, 1, 2] if careful else None)
            assert decision.row == proposed.row
            if any(kept):
                # Sums of wild scales are rounded upwards, so that of what is exact to 2⁻¹⁰⁰ alone something may be left out.
                assert kept[decision.row]
                assert all(p == 0.0 for p, good in zip(decision.probabilities, kept) if not good)
                assert all(p == 0.0 for p, good in zip(decision.explain().probabilities, kept) if not good)
            chosen.append(W[decision.row].tolist())
            if safe:
                assert max(exact_totals(chosen, 2)) <= 0
                assert (policy.totals <= 0.0).all()
            rows.append(decision.row)
            # The worst of the actions pays best.
            policy.learn(decision, reward=float(np.sign(W[decision.row]).sum()))
        ways.append(rows)
    assert ways[0] == ways[1]


@pytest.mark.parametrize("first", [[], [[1e13]]], ids=["a safe action always", "a large cost at first"])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e12])
def test_costs_that_dwarf_the_others_forgive_nothing(first: list[list[float]], scale: float) -> None:
    policy = tr.ShadowPrice(reward=tr.ArmMeans(3), constraints=1, guard=True)
    offered = [np.array(first * 3) * scale] * bool(first) + [
        np.array([[0.0], [1.0], [1e15 if not first else 2.0]]) * scale
    ] * 200
    for W in offered:
        decision = policy.decide(costs=W)
        policy.learn(decision, reward=float(decision.action))
    assert policy.totals[0] == sum(map(sum, first)) * scale, "only what could not be avoided"


@pytest.mark.parametrize("least", [0.0, 0.5])
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("costs", [[-0.3, 0.1, 0.2], [0.0, 2.0**-45, 1.0], [-1.0, 2.0**-54, 0.7]])
def test_simulations_keep_every_exact_total_as_well(costs: list[float], compiled: bool, least: float) -> None:
    """The safe action earns least."""
    env = tr.environments.Tabular([1.0], rewards=[[0.1, 0.5, 0.9]], costs=[[[w] for w in costs]])
    made: dict[str, Any] = {"constraints": 1, "guard": True, "caution": 0.0, "least_chance": least}
    policy = tr.ShadowPrice(reward=tr.ArmMeans(3), **made)
    run = tr.simulate(policy, env, 300, 2, seed=1, keep_choices=True, compile=compiled, warn=False)
    assert run.choices is not None
    for choices in run.choices:
        total = Fraction(0)
        for action in choices.tolist():
            total += Fraction(costs[action])
            assert total <= 0
        assert (choices == 0).sum() > 30


@pytest.mark.parametrize(
    "make",
    [
        lambda: Lagrangian(tr.ArmMeans(3), n_constraints=1, step=0.0, guard=True),
        lambda: ProvableShadowPrice(tr.ArmMeans(3), n_constraints=1, price_cap=0.0, guard=True),
    ],
    ids=["lagrangian", "provable-shadow-price"],
)
def test_the_guards_of_other_policies_add_up_exactly(make: Any) -> None:
    """Costs within [−1, 1]: what is lost below 2⁻⁵³ is not granted again."""
    policy, chosen = make(), []
    small = 2.0**-54
    for W in [[[-1.0]] * 3, *[[[0.0], [small], [small]]] * 40, *[[[0.0], [1.0], [1.0]]] * 3]:
        decision = policy.decide(costs=np.array(W))
        policy.learn(decision, reward=float(decision.action))
        chosen.append(W[decision.row])
        assert exact_totals(chosen, 1)[0] <= 0
        assert policy.totals[0] <= 0.0
    assert any(w == [small] for w in chosen)
