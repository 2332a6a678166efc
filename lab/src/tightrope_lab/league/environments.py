"""The environments of the league's scenarios, beside those of the product; `scenarios.toml` names them."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from tightrope.environments.bandit import bandit
from tightrope.environments.drifting import Environment
from tightrope.environments.hospital import hospital
from tightrope.environments.synthetic import synthetic
from tightrope.environments.tabular import Tabular, changed
from tightrope.rules import Capacity, Rules, Share
from tightrope_lab.league import model_routing
from tightrope_lab.real_tables import breast_cancer, digits, wine


def budgeted(*, usage: Any, limits: Any, n_features: int = 0, **settings: Any) -> Tabular:
    """Budgets on usage (C, J, K) in [0, 1]; with `n_features` each context has a feature of its own."""
    limit = np.asarray(limits)
    features = np.eye(n_features) if n_features else None
    costs, ends = np.asarray(usage) - limit, np.column_stack([-limit, 1.0 - limit])
    return Tabular(features=features, costs=costs, cost_range=ends, **settings)


def fair_jobs() -> Tabular:
    """Jobs of four kinds, three depots, two minimum shares and a capacity."""
    rules = Rules(
        [Share("south", at_least=0.25), Share("east", at_least=0.15), Capacity("north", at_most=0.5)],
        actions=["north", "south", "east"],
    )
    return Tabular(
        [0.4, 0.3, 0.2, 0.1],
        np.eye(4),
        [[0.9, 0.8, 0.6], [0.7, 0.75, 0.5], [0.8, 0.4, 0.3], [0.6, 0.35, 0.2]],
        np.broadcast_to(rules.costs(), (4, 3, 3)),
        cost_range=rules.cost_range,
        actions=["north", "south", "east"],
        rules=rules,
        name="fair-jobs",
    )


def ads_budget() -> Tabular:
    """A feature for each kind of visitor and ad; showing nothing has φ = 0 and earns exactly nothing."""
    limit = 0.3
    phi = np.zeros((4, 3, 8))
    for c, ad in product(range(4), (1, 2)):
        phi[c, ad, 2 * c + ad - 1] = 1.0
    shown = np.broadcast_to([0.0, 1.0, 1.0], (4, 3))
    return Tabular(
        [0.15, 0.25, 0.3, 0.3],
        phi,
        [[0.0, 0.8, 0.3], [0.0, 0.2, 0.5], [0.0, 0.25, 0.3], [0.0, 0.1, 0.05]],
        (shown - limit)[:, :, None],
        cost_features=np.stack([np.ones((4, 3)), shown], axis=2) / math.sqrt(2.0),
        cost_range=(-limit, 1.0 - limit),
        costs_seen="after",
        actions=["nothing", "ad one", "ad two"],
        constraints=["budget"],
        name="ads-budget",
    )


def dosing() -> Tabular:
    """Effect and toxicity are linear in the dose, and in the dose times the patient's sensitivity."""
    dose, sensitivity = np.linspace(0.0, 1.0, 6), np.array([0.0, 0.5, 1.0])
    x, s = np.meshgrid(dose, sensitivity)
    return Tabular(
        [0.5, 0.3, 0.2],
        np.stack([np.ones_like(x), x, x * s], axis=2) / math.sqrt(3.0),
        0.2 + 0.6 * x - 0.1 * x * s,
        (-0.25 + 0.3 * x + 0.25 * x * s)[:, :, None],
        cost_noise="gaussian",
        cost_scale=0.1,
        costs_seen="after",
        actions=[f"dose {d:.1f}" for d in dose],
        constraints=["toxicity"],
    )


def sleeping_fractions() -> Tabular:
    """A context for each set of arms that are awake."""
    awake_with = np.array([0.9, 0.8, 0.7, 0.6, 0.5])
    shares = np.array([0.0, 0.1, 0.15, 0.15, 0.2])
    patterns = np.array([one for one in product((False, True), repeat=5) if any(one)])
    weights = np.where(patterns, awake_with, 1.0 - awake_with).prod(axis=1)
    C = len(patterns)
    return Tabular(
        weights / weights.sum(),
        None,
        np.broadcast_to([0.9, 0.7, 0.5, 0.4, 0.2], (C, 5)),
        np.broadcast_to((shares - np.eye(5))[:, 1:], (C, 5, 4)),
        available=patterns,
        constraints=[f"share of arm {i}" for i in range(1, 5)],
        name="sleeping-fractions",
    )


def conservative_baseline() -> Tabular:
    """Random linear rewards beside a baseline that earns 0.5; the cost of a round is 90 % of that less a success."""
    draw, C, J = np.random.default_rng(3), 10, 6
    u = draw.normal(size=(C, J, 3))
    u /= np.linalg.norm(u, axis=2, keepdims=True)
    u[:, 0] = [0.0, 0.0, 1.0]
    rewards = (1.0 + u @ np.array([0.8, 0.6, 0.0])) / 2.0
    owed = (1.0 - 0.1) * rewards[0, 0]
    return Tabular(
        np.full(C, 1.0 / C),
        np.concatenate([np.ones((C, J, 1)), u], axis=2) / math.sqrt(2.0),
        rewards,
        (owed - rewards)[:, :, None],
        cost_noise="bernoulli",
        cost_range=(owed - 1.0, owed),
        costs_seen="after",
        constraints=["behind the baseline"],
        name="conservative-baseline",
    )


def changing_actions() -> Tabular:
    """A random linear instance where each context offers four of ten actions on average, one at least."""
    env = synthetic(contexts=60, actions=10, features=4, constraints=2, slater=0.3, seed=3)
    available = np.random.default_rng(4).random((60, 10)) < 0.4
    available[np.arange(60), np.arange(60) % 10] = True
    return changed(env, name="changing-actions", available=available)


_MADE: list[Callable[..., Environment]] = [bandit, budgeted, hospital, synthetic, fair_jobs, ads_budget]
_MADE += [dosing, sleeping_fractions, conservative_baseline, changing_actions, digits, breast_cancer, wine]
_MADE += [getattr(model_routing, name) for name in model_routing.__all__]
ENVIRONMENTS: dict[str, Callable[..., Environment]] = {
    make.__name__.replace("_", "-"): make for make in _MADE
}
