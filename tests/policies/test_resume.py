"""`Policy.resume` where the new configuration has more actions: what was learnt of the others stays as it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tightrope as tr
from tightrope.policies.policy import Policy

P = 2
POLICIES: dict[str, Callable[[int], Policy]] = {
    "shadow-price": lambda n: tr.ShadowPrice(
        reward=tr.DisjointRidge(n, P), cost=tr.DisjointRidge(n, P), constraints=1
    ),
    "shadow-price, by the plain path": lambda n: tr.ShadowPrice(
        reward=tr.Logistic(n, P), cost=tr.Logistic(n, P, low=-1.0), constraints=1
    ),
    "pessimistic-optimistic": lambda n: tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(n, P), cost=tr.DisjointRidge(n, P), constraints=1, slater=0.1, horizon=100
    ),
    "any other": lambda n: tr.policies.LinTS(tr.DisjointRidge(n, P)),
}


@pytest.mark.parametrize("name", POLICIES)
def test_its_models_grow(name: str) -> None:
    old, new = POLICIES[name](3), POLICIES[name](5)
    rng = np.random.default_rng(0)
    for _ in range(30):
        decision = old.decide(rng.uniform(-0.7, 0.7, P))
        costs = None if old.hooks.cost_model() is None else [float(rng.uniform(-0.5, 0.5))]
        old.learn(decision, float(rng.random()), costs)
    pending = old.decide(rng.uniform(-0.7, 0.7, P))
    x, ids = rng.uniform(-0.7, 0.7, (3, P)), np.arange(3)
    before = [
        model.means(x, ids)
        for model in (old.hooks.reward_model(), old.hooks.cost_model())
        if model is not None
    ]
    new.hooks.resume(old, same_costs=True)
    for model, said in zip([new.hooks.reward_model(), new.hooks.cost_model()], before, strict=False):
        np.testing.assert_array_equal(model.means(x, ids), said)
        assert model.n_actions == 5
    assert (new.rounds, list(new.pending)) == (31, [pending.number])
    costs = None if old.hooks.cost_model() is None else [0.1]
    new.learn(pending.number, 0.5, costs)
    assert 0 <= new.decide(x[0]).action < 5
