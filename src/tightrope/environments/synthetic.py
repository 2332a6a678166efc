"""Random instances that meet every assumption of the paper, with the Slater constant asked for."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from tightrope.environments.tabular import Tabular
from tightrope.errors import InvalidInput, SolverError
from tightrope.problem import Seen
from tightrope.validation import Array, finite_number, whole_number


def synthetic(
    contexts: int = 100,
    actions: int = 5,
    features: int = 8,
    constraints: int = 2,
    slater: float = 0.1,
    *,
    seed: int = 0,
    costs_seen: Seen = "before",
    cost_noise: Literal["none", "bernoulli"] = "none",
) -> Tabular:
    """A random instance with rewards and costs linear in φ, ‖φ‖ ≤ 1, ‖θ‖ ≤ 1, ‖μ_k‖ ≤ 1 and the given δ.

    Costs rise partly with the reward, so that constraints usually bind at the optimum.

    `contexts`, `actions`, `features` and `constraints` are C, J, d (at least 2) and K; Bernoulli costs jump between −1 and 1.
    `slater` is exact to 1e-9 (meaningless when K = 0); if no costs with ‖μ_k‖ ≤ 1 reach it, the error names the largest possible.

    Examples
    --------
    >>> env = synthetic(contexts=50, actions=4, features=5, constraints=3, slater=0.05, seed=1)
    >>> import tightrope as tr
    >>> round(tr.solve(env).slater, 9)
    0.05
    """
    n_contexts = whole_number("contexts", contexts, low=1)
    n_actions = whole_number("actions", actions, low=1)
    d = whole_number("features", features, low=2)
    n_constraints = whole_number("constraints", constraints)
    delta = finite_number("slater", slater, low=0.0, high=1.0, open_low=True)
    if cost_noise not in ("none", "bernoulli"):
        raise InvalidInput(field="cost_noise", must="be 'none' or 'bernoulli'", got=cost_noise)
    draw = np.random.default_rng(whole_number("seed", seed))
    weights = draw.dirichlet(np.ones(n_contexts))
    # φ = (1, u)/√2 and θ = (1, v)/√2 with ‖u‖ = ‖v‖ = 1, so ⟨θ, φ⟩ = (1 + u·v)/2 lies in [0, 1].
    u = _directions(draw, (n_contexts, n_actions), d - 1)
    v = _directions(draw, (), d - 1)
    phi = np.concatenate([np.ones((n_contexts, n_actions, 1)), u], axis=2) / math.sqrt(2.0)
    theta = np.append(1.0, v) / math.sqrt(2.0)
    costs = _costs(weights, u @ _tilted(draw, v, n_constraints).T, delta)
    rewards = np.clip(phi @ theta, 0.0, 1.0)
    options: dict[str, Any] = {"cost_noise": cost_noise, "costs_seen": costs_seen, "name": "synthetic"}
    return Tabular(weights, phi, rewards, costs, **options)


def _directions(draw: np.random.Generator, shape: tuple[int, ...], dimension: int) -> Array:
    raw = draw.normal(size=(*shape, dimension))
    return np.asarray(raw / np.linalg.norm(raw, axis=-1, keepdims=True))


def _tilted(draw: np.random.Generator, v: Array, count: int) -> Array:
    raw = _directions(draw, (count,), v.size)
    raw = np.where((raw @ v)[:, None] < 0.0, -raw, raw)
    raw = raw + 0.5 * v
    return np.asarray(raw / np.linalg.norm(raw, axis=-1, keepdims=True))


def _costs(weights: Array, slopes: Array, delta: float) -> Array:
    """a + γ b_k·u with Slater constant δ and the largest γ that keeps ‖μ_k‖² = 2 (a² + γ²) ≤ 1.

    Scaling costs scales Slater's constant (as long as its cap of 1 is not met) and a shift shifts it, so
    a = γ δ₀ − δ where δ₀ is the constant of the slopes alone. Then |cost| ≤ |a| + γ ≤ 1 as well.
    """
    from tightrope.lp import slater as slater_program  # the LP solver takes long to import

    if slopes.shape[2] == 0:
        return slopes
    base = slater_program(weights, slopes).value
    square = 1.0 + base * base
    discriminant = (delta * base) ** 2 - square * (delta * delta - 0.5)
    if discriminant < 0.0:
        wanted = f"be at most {math.sqrt(square / 2.0):.6g} here"
        raise InvalidInput(field="slater", must=wanted, got=delta)
    gamma = (delta * base + math.sqrt(discriminant)) / square
    costs = np.clip(gamma * (slopes + base) - delta, -1.0, 1.0)
    reached = slater_program(weights, costs).value
    if abs(reached - delta) > 1e-9:
        raise SolverError(f"the instance has Slater constant {reached:.12g}, not {delta}; change the seed")
    return np.asarray(costs)
