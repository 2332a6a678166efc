"""Random worlds by a seed: 2 to 30 actions, 1 to 50 rules, Slater's constant from 0.01, random units, skewed contexts.

Half of them show their costs before acting, half after it, with or without noise; in some each action has parameters of its own, in
some actions sleep. Costs and features come in units that a policy is not told.

>>> world = random_world(7)
>>> world.env.n_actions, world.env.n_constraints, round(world.slater, 3), world.env.costs_seen
(16, 2, 0.017, 'after')
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tightrope import lp
from tightrope.environments.tabular import Noise, Tabular, changed
from tightrope.errors import TightropeError
from tightrope.validation import Array

ATTEMPTS = 50
LARGEST = 320  # actions times rules
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class RandomWorld:
    """An environment, Slater's constant in units of the largest cost, and that largest cost of each rule, (K,)."""

    env: Tabular
    slater: float
    units: Array

    @property
    def about(self) -> str:
        """In words."""
        env = self.env
        seen = "before" if env.costs_seen == "before" else f"after, noise {env.cost_noise}"
        own = "each action its own parameters" if env.disjoint else "shared parameters"
        sleeping = "" if env.available.all() else ", sleeping actions"
        size = f"{env.n_actions} actions, {env.n_constraints} rules, {env.n_features} features, {env.n_contexts} contexts"
        return f"{size}, δ = {self.slater:.3f}, costs {seen}, {own}{sleeping}"

    def in_unit_costs(self) -> Tabular:
        """The same world with |W| <= 1 and ‖φ‖ <= 1, for policies that ask for that."""
        env, phi = self.env, np.asarray(self.env.features)
        longest = float(np.linalg.norm(phi, axis=-1).max())
        costs = env.cost_locations / self.units
        scale = float(env.cost_scale / self.units[0]) if env.cost_noise == "gaussian" else env.cost_scale
        ends = {"cost_range": (-1.0, 1.0), "cost_scale": scale, "cost_features": None}
        return changed(env, features=phi / longest, costs=costs, **ends)


def random_world(seed: int) -> RandomWorld:
    """The world of a seed, the same on every machine."""
    for attempt in range(ATTEMPTS):
        found = _attempt(np.random.default_rng([seed, attempt]), f"world-{seed}")
        if found is not None:
            return found
    raise TightropeError(f"no world was found for seed {seed} in {ATTEMPTS} attempts.")


def _attempt(rng: np.random.Generator, name: str) -> RandomWorld | None:
    J = round(math.exp(rng.uniform(math.log(2), math.log(30))))
    K = round(math.exp(rng.uniform(0, math.log(50))))
    if J * K > LARGEST:
        return None
    d, C = int(rng.integers(3, 20)), int(rng.integers(20, 120))
    delta = math.exp(rng.uniform(math.log(0.01), math.log(0.3)))
    after, disjoint = rng.random() < 0.5, rng.random() < 0.4
    sleeping = rng.random() < 0.25 and J > 3
    weights = np.maximum(rng.dirichlet(np.full(C, 0.5)), 1e-4)
    weights /= weights.sum()
    # What earns also costs, so that the rules bind.
    good = _directions(rng, (J,) if disjoint else (), d - 1)
    dear = _directions(rng, (K, J) if disjoint else (K,), d - 1)
    dear = np.where((dear * good).sum(-1, keepdims=True) < 0, -dear, dear) + 0.5 * good
    dear /= np.linalg.norm(dear, axis=-1, keepdims=True)
    if disjoint:
        x = _directions(rng, (C,), d - 1)
        base = rng.uniform(-0.3, 0.3, J)
        rewards = 0.5 + 0.5 * np.clip(base + 0.7 * x @ good.T, -1, 1)
        costs = np.einsum("cd,kjd->cjk", x, dear) * 0.7 + rng.uniform(-0.3, 0.3, (J, K))
    else:
        x = _directions(rng, (C, J), d - 1)
        rewards, costs = 0.5 + 0.5 * x @ good, x @ dear.T
    phi = np.concatenate([np.ones((*x.shape[:-1], 1)), x], axis=-1)
    available = np.ones((C, J), dtype=bool)
    if sleeping:
        available = rng.random((C, J)) < 0.6
        available[np.arange(C), rng.integers(0, J, C)] = True
    offsets = None if available.all() else np.concatenate([[0], np.cumsum(available.sum(axis=1))])
    shown = slice(None) if offsets is None else available
    slater = lp.slater(weights, costs[shown], offsets=offsets).value
    if slater >= 1:
        return None
    costs = np.clip((1 - delta) / (1 + abs(slater)) * (costs + slater) - delta, -1, 1)
    if abs(lp.slater(weights, costs[shown], offsets=offsets).value - delta) > ROUNDING:
        return None
    units = np.exp(rng.uniform(math.log(0.02), math.log(5), K))
    noise: Noise = "none"
    if after:
        noise = str(rng.choice(["none", "bernoulli", "gaussian"], p=[0.2, 0.5, 0.3]))  # type: ignore[assignment]
    if noise == "gaussian":  # its standard deviation is one for all rules
        units = np.full(K, units[0])
    env = Tabular(
        weights,
        phi * math.exp(rng.uniform(-3, 3)),
        np.clip(rewards, 0, 1),
        costs * units,
        cost_noise=noise,
        cost_scale=0.2 * float(units[0]),
        cost_range=np.column_stack([-units, units]),
        costs_seen="after" if after else "before",
        available=available,
        name=name,
    )
    return RandomWorld(env, delta, units)


def _directions(rng: np.random.Generator, shape: tuple[int, ...], d: int) -> Array:
    raw = rng.normal(size=(*shape, d))
    return np.asarray(raw / np.linalg.norm(raw, axis=-1, keepdims=True))
