"""No policy with budgets ever overspends one."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from budget_tools import ARMS, CONTEXTS, KNAPSACK, LIMIT, Q
from tightrope_lab.policies.lincbwk import LinCBwK
from tightrope_lab.policies.primal_dual_bwk import PrimalDualBwK
from tightrope_lab.policies.ucb_alp import UCBALP


@pytest.mark.parametrize("delay", [0, 1, 7])
def test_no_budget_is_ever_overspent_even_by_the_greediest_usage(delay):
    # Every action uses 1, and outcomes come late and in reversed batches: the account must reserve for what is still open.
    T = 100
    for make, shown in (
        (lambda: LinCBwK(tr.Ridge(3), cost=tr.Ridge(3), limits=[0.3, 0.21], horizon=T), KNAPSACK.features[0]),
        (lambda: PrimalDualBwK(4, limits=[0.3, 0.21], horizon=T), None),
    ):
        policy, open_ = make(), []
        used = 0
        for _ in range(2 * T):
            decision = policy.decide() if shown is None else policy.decide(shown)
            used += decision.action != 0
            assert used <= 21
            open_.append(decision)
            if len(open_) > delay:
                for late in open_[::-1]:
                    usage = 1.0 if late.action else 0.0
                    policy.learn(late, 0.9 * usage, [usage - 0.3, usage - 0.21])
                open_.clear()
        assert used == 21
        limits = np.array([0.3, 0.21])
        assert np.all(policy.totals + (2 * T - len(open_)) * limits <= limits * T + 1e-9)


def test_budgets_hold_in_every_run():
    for policy, env in (
        (LinCBwK(tr.Ridge(3, bonus=0.2), cost=tr.Ridge(3, bonus=0.2), limits=LIMIT, horizon=400), KNAPSACK),
        (PrimalDualBwK(4, limits=0.1, horizon=400), ARMS),
        (UCBALP(3, weights=Q, limit=0.45, horizon=400), CONTEXTS),
    ):
        run = tr.simulate(policy, env, 500, 10, seed=7, workers=1, record=[400])
        assert run.cost[:, 0, 0].max() <= 1e-9
        idle = run.counts[:, 1] - run.counts[:, 0]
        assert np.all(idle[:, 0] == 100), "after the horizon only the no-op is played"
