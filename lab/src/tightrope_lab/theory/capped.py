"""The promises of the variant in which ε_t is at most δ/2 and r̂ at least 0 (`PessimisticOptimistic(tightening="capped")`).

V_t is the paper's, and so is ε_t from τ' on, the first round with ε_t ≤ δ/2. Some mixture of actions then meets the tightened rules
with δ/2 to spare in every round, so the drift argument of the paper starts in round 1: no queue has to drain what came before τ',
and no round is lost to rules that can't be met. What is given up is Σ_{t<τ'} (ε_t − δ/2) of the buffer, a constant. As r̂ ≥ 0 by
construction, the violation bounds for costs known before acting hold for any model, bonus and horizon. Derivations: docs/bounds.md.

Assumed: rounds i.i.d., costs in [−1, 1], δ Slater's constant or less. The regret bounds also assume what the paper's do.
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.schedules import Capped, Power, cap, known_costs
from tightrope.validation import whole_number
from tightrope_lab.theory.arguments import Rounds, constraints, like, round_numbers, slater_constant
from tightrope_lab.theory.paper import (
    first_round,
    learning_beyond_five,
    linear_arguments,
    linucb_bound,
    paper_schedules,
)
from tightrope_lab.theory.totals import Steering, Summed, expected_violation_ends, violation_probability_ends


def capped_schedules(*, K: int, delta: float) -> tuple[Power, Capped]:
    """The paper's V for costs known before acting, and its ε capped at δ/2: for the `_schedule` bounds and `Summed`.

    >>> V, epsilon = capped_schedules(K=1, delta=0.5)
    >>> epsilon(1), round(epsilon(600), 9)
    (0.25, 0.1)
    """
    V, epsilon = paper_schedules(slater_constant(delta), known_costs(whole_number("K", K, low=1)))
    return V, Capped(epsilon, cap(delta))


def regret_bound_capped(
    tau: Rounds, *, K: int, delta: float, d: int, T: int | None, m: float = 1.0, ridge: float = 1.0
) -> Rounds:
    """Regret: (3 + δ²/4) √6 K^0.75 √τ/δ + `linucb_bound`: that of Theorem 1 without its 60 K³/δ³.

    >>> extra = regret_bound_capped(6, K=1, delta=1, d=4, T=100) - linucb_bound(6, d=4, T=100)
    >>> round(extra, 6)                                      # 3.25·√6·√6
    19.5
    """
    K, delta = constraints(K, delta)
    t = round_numbers("tau", tau, horizon=T)
    learning = linucb_bound(t, d=d, T=T, m=m, ridge=ridge, clipped=True)
    return like(tau, np.asarray((3 + delta**2 / 4) * math.sqrt(6) * K**0.75 * np.sqrt(t) / delta + learning))


def violation_bound_capped(tau: Rounds, *, K: int, delta: float) -> Rounds:
    """Violation, summed over the constraints: K (S − sqrt(8/3) K^0.75 √τ)⁺, S = (27K/δ) log(12√K/δ) + 17K^1.5/δ + 2√K.

    For any model, bonus and horizon. `violation_bound_schedule` with `capped_schedules` has the same proof and gives nothing away.

    >>> violation_bound_capped(np.array([1, 10**6]), K=1, delta=0.5).round(1)
    array([206.,   0.])
    """
    K, delta = constraints(K, delta)
    t = round_numbers("tau", tau)
    return like(tau, K * np.maximum(0.0, _offset(K, delta) - math.sqrt(8 / 3) * K**0.75 * np.sqrt(t)))


def violation_ends_capped(*, K: int, delta: float) -> int:
    """First round from which `violation_bound_capped` is zero: of order (√K/δ²) log²(K/δ) + K^1.5/δ²; the paper's is K⁴/δ⁴.

    >>> violation_ends_capped(K=1, delta=0.5)
    16164
    """
    K, delta = constraints(K, delta)
    return first_round(_offset(K, delta) / (math.sqrt(8 / 3) * K**0.75)) if K else 1


def capped_ends(*, K: int, delta: float) -> tuple[int, int]:
    """Rounds from which every expected total is at or below 0, and one run is in violation with less than 1 %: the best proof.

    >>> capped_ends(K=1, delta=0.5)
    (721, 1542)
    """
    V, epsilon = capped_schedules(K=K, delta=delta)
    steering = Steering(K, delta, V, Summed(epsilon))
    expected, certain = expected_violation_ends(steering), violation_probability_ends(steering, 0.01)
    assert expected is not None
    assert certain is not None
    return expected, certain


# Costs learnt after acting, one constraint --------------------------------------------------------


def regret_bound_linear_capped(tau: Rounds, *, delta: float, d: int, T: int) -> Rounds:
    """Regret with costs learnt after acting: (8d + 24) √τ L/δ + 2 + 10 d √τ L, L = log(1 + T), m = 1: without 235 d⁴L⁴/δ³.

    >>> L = math.log(2)
    >>> round(regret_bound_linear_capped(1, delta=1, d=1, T=1) - (42 * L + 2), 9)
    0.0
    """
    delta, d, T, L = linear_arguments(delta, d, T)
    root = np.sqrt(round_numbers("tau", tau, horizon=T))
    return like(tau, np.asarray((8 * d + 24) * root * L / delta + 2 + 10 * d * root * L))


def violation_bound_linear_capped(tau: Rounds, *, delta: float, d: int, T: int) -> Rounds:
    """Violation with costs learnt after acting: (32 d²L²/δ + (48/δ) log(16/δ) + 13/δ − (2dL − x)√τ)⁺, L = log(1 + T).

    x is that of `violation_bound_linear`, 0 for d ≥ 2. The full radius (`bonus=1.0`) and the horizon are needed, as there.

    >>> violation_bound_linear_capped(1, delta=0.5, d=2, T=10**6) > 0
    True
    """
    delta, d, T, L = linear_arguments(delta, d, T)
    t = round_numbers("tau", tau, horizon=T)
    rate, fixed = _linear(delta, d, T, L)
    return like(tau, np.maximum(0.0, fixed - rate * np.sqrt(t)))


def violation_ends_linear_capped(*, delta: float, d: int, T: int) -> int:
    """Round from which `violation_bound_linear_capped` is zero; beyond T it promises nothing within the horizon.

    >>> violation_ends_linear_capped(delta=0.5, d=2, T=10**6) < 10**6
    True
    """
    delta, d, T, L = linear_arguments(delta, d, T)
    rate, fixed = _linear(delta, d, T, L)
    return first_round(fixed / rate)


# Pieces -------------------------------------------------------------------------------------------


def _offset(K: int, delta: float) -> float:
    if K == 0:
        return 0.0
    log_term = 27 * K / delta * math.log(12 * math.sqrt(K) / delta)
    return float(log_term + 17 * K**1.5 / delta + 2 * math.sqrt(K))


def _linear(delta: float, d: int, T: int, L: float) -> tuple[float, float]:
    """(rate, fixed) of the bound written as (fixed − rate · √τ)⁺."""
    fixed = 32 * (d * L) ** 2 / delta + 48 / delta * math.log(16 / delta) + 13 / delta
    return 2 * d * L - learning_beyond_five(d, T, L), fixed
