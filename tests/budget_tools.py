"""Problems with budgets: a knapsack with features, arms, contexts of known worth."""

from __future__ import annotations

import math

import numpy as np

import tightrope as tr

LIMIT = 0.25


def knapsack() -> tr.environments.Tabular:
    """Five contexts, three actions and a no-op with φ = 0; rewards and usage linear, usage Bernoulli."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(5, 3, 2))
    u /= np.linalg.norm(u, axis=2, keepdims=True)
    phi = np.concatenate([np.ones((5, 3, 1)), u], axis=2) / math.sqrt(2)
    phi = np.concatenate([np.zeros((5, 1, 3)), phi], axis=1)
    reward = phi @ np.array([1.0, 0.8, 0.6]) / math.sqrt(2)
    usage = phi @ np.array([1.0, 0.6, -0.8]) / math.sqrt(2)
    return tr.environments.Tabular(
        np.full(5, 0.2),
        phi,
        reward,
        (usage - LIMIT)[..., None],
        cost_noise="bernoulli",
        cost_range=(-LIMIT, 1 - LIMIT),
        costs_seen="after",
    )


KNAPSACK = knapsack()


ARMS = tr.environments.bandit(threshold=0.1)


Q = [0.3, 0.3, 0.4]


# Context 0 is worth 0.9, context 1 is worth 0.5, context 2 is worth 0.2: with a rate of 0.45 all of 0 and half of 1 are served.
CONTEXTS = tr.environments.Tabular(
    Q,
    None,
    [[0, 0.9, 0.2], [0, 0.3, 0.5], [0, 0.1, 0.2]],
    np.array([[[-0.45], [0.55], [0.55]]] * 3),
    costs_seen="after",
)
