"""The rules of a table, and their optimum against a linear program that is written out here."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from tightrope_lab.bakeoff.rules import rules_for


def linear_program(shares, costs):
    """Σ_c z[c, c] over z ≥ 0 with Σ_a z[c, a] = share of c and Σ z[c, a] cost[a] ≤ 0."""
    J = len(shares)
    found = linprog(
        -np.eye(J).ravel(),
        A_ub=np.stack([np.tile(costs[:, k], J) for k in range(costs.shape[1])]),
        b_ub=np.zeros(costs.shape[1]),
        A_eq=np.kron(np.eye(J), np.ones(J)),
        b_eq=shares,
    )
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_is_that_of_the_linear_program(seed):
    draw = np.random.default_rng(seed)
    J = 2 + seed
    y = draw.choice(J, 400, p=draw.dirichlet(np.ones(J)))
    ruled = rules_for(y, J)
    shares = np.bincount(y, minlength=J) / len(y)
    assert ruled.optimum == pytest.approx(linear_program(shares, ruled.costs))
    assert ruled.optimum < linear_program(shares, np.zeros((J, 1))) - 0.01
    assert np.abs(ruled.costs).max() <= 1


def test_shares_by_hand():
    # 0 is the commonest with 0.5, 2 the rarest with 0.2; 3 never comes.
    costs = rules_for(np.array([0] * 5 + [1] * 3 + [2] * 2), 4).costs
    assert costs[:, 0] == pytest.approx([0.65, -0.35, -0.35, -0.35])
    assert costs[:, 1] == pytest.approx([0.26, 0.26, -0.74, 0.26])


@pytest.mark.parametrize("labels", [[0, 1] * 20, [0] * 30 + [1] * 10, [1] * 30 + [0] * 10, [0, 1, 2] * 9])
def test_there_is_room_below_all_three(labels):
    """Some mix of actions keeps all totals below zero by a margin, or no first mistake could be made up for."""
    J = max(labels) + 1
    costs = rules_for(np.array(labels), J).costs
    margin = linprog(
        [*np.zeros(J), -1.0],
        A_ub=np.column_stack([costs.T, np.ones(3)]),
        b_ub=np.zeros(3),
        A_eq=[[*np.ones(J), 0.0]],
        b_eq=[1.0],
    )
    assert -margin.fun > 0.01
