"""Regret of steering by shadow prices: what the prices, the buffer and the corrections cost.

The setting is that of `totals`: λ_k(t) = [p_k(t) + (S_k(t−1) + b_t)/V_t]⁺, V and b never fall, b ≥ 0, p ≥ 0. Regret is against the
linear program on the joint law of contexts and costs, whose value OPT is the least of D(λ) = E max_j(r_j − λ·W_j) over λ ≥ 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.schedules import Power
from tightrope.validation import finite_array, finite_number
from tightrope_lab.theory.arguments import Floats, Rounds, constraints, like, round_numbers
from tightrope_lab.theory.paper import linucb_bound
from tightrope_lab.theory.safeguards import Ratchet
from tightrope_lab.theory.totals import Steering, excess_bound

# V and b of the corollary: those of the ratchet before it acts.
_V, _B = Power(Ratchet().v, 0.5), Ratchet().beta


def steered_prices(price: Any, totals: Any, buffer: Any, V: Any) -> Floats:
    """λ = [p + (S + b)/V]⁺: the feed-forward price, corrected by the totals.

    >>> steered_prices(np.array([0.5, 0.0]), np.array([1.0, -9.0]), 4.0, 10.0)
    array([1., 0.])
    """
    return np.asarray(np.maximum(0.0, price + (totals + buffer) / V))


def price_cost_bound(costs: Any, prices: Any, V: Any, b: Any) -> Floats:
    """Bound on −Σ_t λ_k(t) w_k(t) along a path, for each k; their expected sum bounds regret beyond what learning costs.

    Σ_t w²/(2V_t) + (V_T p(T) + b_T)²/(2V_T) + Σ_{t<T} (b_t²/2)(1/V_t − 1/V_{t+1})
    + Σ_{t<T} S⁺(t) [Δp + Δ(b/V)]⁺ + Σ_{t<T} min(S⁻(t), b_t + V_t p(t)) [−Δp]⁺, with Δx = x_{t+1} − x_t. It holds for every path of
    costs (T, K), prices ≥ 0 (T, K), and V (T,) and b (T,) or (T, K) that never fall. E Reg(T) ≤ `linucb_bound` + its expectation,
    for an optimistic r̃.

    >>> price_cost_bound([[1.0], [-1.0]], [[0.5], [0.5]], [1.0, 1.0], [0.0, 0.0])     # ½ + ½ + ½·½²
    array([1.125])
    """
    w = finite_array("costs", costs, (None, None))
    T, K = w.shape
    p = finite_array("prices", prices, (T, K))
    weight = finite_array("V", V, (T,))[:, None]
    buffer = finite_array("b", b, (T,), (T, K)).reshape(T, -1)
    if not T:
        raise InvalidInput("costs must have a row for each round, but there is none.")
    if (p < 0.0).any() or (buffer < 0.0).any() or (weight <= 0.0).any():
        raise InvalidInput("prices >= 0, b >= 0 and V > 0 must hold in every round.")
    if (np.diff(weight, axis=0) < 0.0).any() or (np.diff(buffer, axis=0) < 0.0).any():
        raise InvalidInput("V and b must never fall.")
    S = np.cumsum(w, axis=0)[:-1]
    rise = np.diff(p, axis=0)
    moved = np.maximum(0.0, rise + np.diff(buffer / weight, axis=0))
    unwound = np.minimum(np.maximum(0.0, -S), (buffer + weight * p)[:-1])
    per_round = (w**2 / (2.0 * weight)).sum(axis=0)
    stored = (weight[-1] * p[-1] + buffer[-1]) ** 2 / (2.0 * weight[-1])
    shrunk = (buffer[:-1] ** 2 / 2.0 * -np.diff(1.0 / weight, axis=0)).sum(axis=0)
    changed = (np.maximum(0.0, S) * moved + unwound * np.maximum(0.0, -rise)).sum(axis=0)
    return np.asarray(per_round + stored + shrunk + changed)


def regret_bound_prices(
    tau: Rounds,
    *,
    K: int,
    delta: float,
    d: int,
    T: int | None,
    price_cap: float,
    m: float = 1.0,
    ridge: float = 1.0,
) -> Rounds:
    """Regret for V = ½√t, b = 2t^¼, and any prices ≤ P that change in rounds 2, 4, 8, … alone: of order √τ.

    `linucb_bound` + 2B²√τ + K(¼P²√τ + 2Pτ^¼ + 6 + 2 log τ) + KP(1.71 P√τ + 12.6 τ^¼ + Σ_i s(2^i − 1)), where B² = K and s is
    `excess_bound`, summed over the changes 2^i ≤ τ. Changed in every round, bounded prices may have a regret that is linear in τ.
    r̃ is an upper confidence bound, as for `linucb_bound`, clipped to [0, 1]. `price_cap` is P, for each price; else as
    `regret_bound`.

    >>> early, late = (regret_bound_prices(t, K=1, delta=0.5, d=4, T=t, price_cap=1.0) for t in (10**6, 10**10))
    >>> late < 10**10 and late / early < 250                        # √ of 10⁴ is 100; the rest are logarithms
    True
    """
    K, delta = constraints(K, delta)
    P = finite_number("price_cap", price_cap, low=0.0)
    t = round_numbers("tau", tau, horizon=T)
    learning = linucb_bound(t, d=d, T=T, m=m, ridge=ridge, clipped=True)
    if K == 0:
        return like(tau, np.asarray(learning))
    changes = 2.0 ** np.arange(1, 1 + max(1, math.floor(math.log2(t.max()))))
    above = excess_bound(changes - 1.0, Steering(K, delta, _V, _B, price_bound=K * P))
    excess = np.concatenate([[0.0], np.cumsum(above)])[np.searchsorted(changes, t, side="right")]
    root, fourth = np.sqrt(t), t**0.25
    stored = P**2 * root / 4.0 + 2.0 * P * fourth + 6.0 + 2.0 * np.log(t)
    changed = P * (1.71 * P * root + 12.6 * fourth + excess)
    return like(tau, np.asarray(learning + 2.0 * K * root + K * (stored + changed)))


# The identity, on a finite world ------------------------------------------------------------------


@dataclass(frozen=True)
class FiniteWorld:
    """Finitely many contexts, of probabilities (C,), with known rewards (C, J) and costs (C, J, K) that are seen before acting.

    >>> world = FiniteWorld([1.0], [[0.0, 1.0]], [[[-0.5], [0.5]]])
    >>> world.dual([0.0]), world.dual([1.0])
    (1.0, 0.5)
    """

    weights: Floats
    rewards: Floats
    costs: Floats

    def __post_init__(self) -> None:
        rewards = finite_array("rewards", self.rewards, (None, None))
        C, J = rewards.shape
        weights = finite_array("weights", self.weights, (C,))
        if (weights < 0.0).any() or abs(weights.sum() - 1.0) > 1e-9:
            raise InvalidInput(f"weights must be probabilities, but they sum to {weights.sum():.9g}.")
        object.__setattr__(self, "rewards", rewards)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "costs", finite_array("costs", self.costs, (C, J, None)))

    def choices(self, prices: Any) -> Any:
        """The action in each context that is worth most at these prices, (C,); the lowest of equals."""
        return np.argmax(self._values(prices), axis=1)

    def dual(self, prices: Any) -> float:
        """D(λ) = E max_j(r_j − λ·W_j): at least OPT for every λ ≥ 0, and OPT at the best λ."""
        return float(self.weights @ self._values(prices).max(axis=1))

    def mean_costs(self, prices: Any) -> Floats:
        """E[w | λ], (K,)."""
        chosen = self.costs[np.arange(len(self.weights)), self.choices(prices)]
        return np.asarray(self.weights @ chosen)

    def bregman_gap(self, prices: Any, optimum: Any) -> float:
        """Br(λ) = D* − D(λ) − E[w|λ]·(λ − λ*): what a round at λ loses to one at λ*, never below 0.

        >>> world = FiniteWorld([1.0], [[0.0, 1.0]], [[[-0.5], [0.5]]])
        >>> world.bregman_gap([3.0], [1.0]), world.bregman_gap([0.5], [1.0])
        (0.0, 0.0)
        >>> world.bregman_gap([3.0], [0.5])                           # from 0.5, where the other action is worth more
        0.5
        """
        price, best = (np.asarray(given, dtype=float) for given in (prices, optimum))
        return float(self.dual(best) - self.dual(price) - self.mean_costs(price) @ (price - best))

    def _values(self, prices: Any) -> Floats:
        K = self.costs.shape[2]
        price = finite_array("prices", prices, (K,))
        return np.asarray(self.rewards - self.costs @ price)


@dataclass(frozen=True)
class RegretParts:
    """`regret` = `slack` + `gaps`, exactly; `totals` is E S(T)."""

    regret: float
    slack: float
    gaps: float
    totals: Floats


def regret_parts(world: FiniteWorld, rule: Callable[[int, Floats], Any], T: int, optimum: Any) -> RegretParts:
    """E Reg(T) = −λ*·E S(T) + Σ_t E Br(λ_t), for known rewards and a rule that gives λ in round t from the totals before it.

    Slack left over costs exactly λ*·(−S(T)), and the rest is what prices away from λ* lose: both are lower bounds too. Regret is
    counted against D(λ*), which is OPT where λ* minimises D.

    The law of the totals is worked out exactly, state by state: for costs on a grid, or few rounds. `rule` gives λ (K,) for round
    t = 1, 2, … and totals (K,); `optimum` is λ* (K,).

    >>> world = FiniteWorld([0.5, 0.5], [[0.0, 1.0], [0.0, 0.4]], [[[-0.5], [0.5]]] * 2)
    >>> parts = regret_parts(world, lambda t, S: steered_prices(0.4, S, 1.0, 2.0), 6, [0.4])
    >>> round(parts.regret, 9) == round(parts.slack + parts.gaps, 9)
    True
    """
    best = np.asarray(optimum, dtype=float)
    K = world.costs.shape[2]
    law: dict[tuple[float, ...], float] = {(0.0,) * K: 1.0}
    earned = gaps = 0.0
    for t in range(1, T + 1):
        after: dict[tuple[float, ...], float] = {}
        for totals, probability in law.items():
            price = np.asarray(rule(t, np.array(totals)), dtype=float)
            gaps += probability * world.bregman_gap(price, best)
            for c, j in enumerate(world.choices(price)):
                share = probability * float(world.weights[c])
                earned += share * float(world.rewards[c, j])
                # Sums in another order are the same state.
                state = tuple(np.round(np.array(totals) + world.costs[c, j], 9).tolist())
                after[state] = after.get(state, 0.0) + share
        law = after
    mean = np.array(list(law.values())) @ np.array(list(law))
    return RegretParts(T * world.dual(best) - earned, float(-best @ mean), gaps, mean)
