"""What is proved where Slater's constant is measured (`PessimisticOptimistic(slater=None)`), costs being seen before acting.

After rounds 1, 2, 4, 8, … an estimate δ̂ is made on a uniform sample of at most `kept` rounds; V_t = δ̂ K^0.25 sqrt(2t/3) from the
next round on. It is above ρδ with probability at most e^{−n(ρ−1)²δ²/2}, n the size of the sample. Each doubling is a fresh chance,
so these add up over the estimates that matter; what a run with such an estimate can cost is of order √τ. Derivation:
docs/no-constants.md.

Assumed: rounds i.i.d., costs in [−1, 1], 0 ≤ r̂ ≤ 1, the paper's ε_t.
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.schedules import known_costs
from tightrope.validation import finite_number, whole_number
from tightrope_lab.theory.arguments import constraints, first_at_most
from tightrope_lab.theory.paper import (
    drift_exponent,
    drift_mean_bound,
    paper_schedules,
    queue_bound_schedule,
    sum_from_above,
    sum_from_below,
)
from tightrope_lab.theory.totals import Steering, Summed

# Rounds whose costs are kept, at most.
KEPT = 1024
RATIOS = np.arange(1.01, 1.5, 0.01)


def overestimate_probability(first: int, last: int, *, delta: float, ratio: float, kept: int = KEPT) -> float:
    """Bound on the probability that some δ̂ that is used in rounds first..last is above ratio·δ: Σ e^{−n(ratio−1)²δ²/2}.

    The sum is over the estimates in use there, made after rounds 2^i on n = min(kept, 2^i) rounds.

    >>> round(overestimate_probability(1025, 2048, delta=0.3, ratio=1.45), 6)      # e^{−1024·(0.45·0.3)²/2}
    8.9e-05
    >>> overestimate_probability(1, 1000, delta=0.3, ratio=1.45)
    1.0
    """
    _, delta = constraints(1, delta)
    first, last = whole_number("first", first, low=1), whole_number("last", last, low=1)
    ratio = finite_number("ratio", ratio, low=1.0)
    if last < first:
        raise InvalidInput(f"`first <= last` must hold, but got (first={first}, last={last}).")
    if first == 1:
        # Round 1 has the floor for an estimate, and no queue: V does not matter there.
        first = 2
    made = range((first - 1).bit_length() - 1, max(first - 1, last - 1).bit_length())
    terms = (math.exp(-min(kept, 2**i) * ((ratio - 1) * delta) ** 2 / 2) for i in made)
    return min(1.0, math.fsum(terms))


def violation_bound_measured(tau: int, *, K: int, delta: float, kept: int = KEPT) -> float:
    """Violation by round τ, in expectation, where δ is measured: the least over ρ and never above Kτ.

    K (B + p(B¹ + (1/ζ) log(1/p)) − Σ ε_t)⁺: B bounds one queue while every δ̂ in use is at most ρδ, from a round t₁ on before which
    nothing is assumed, p is the probability that one is not, and B¹ bounds a queue whatever δ̂ ≤ 1 is.

    >>> violation_bound_measured(10**6, K=1, delta=0.5)
    0.0
    >>> violation_bound_measured(10**6, K=1, delta=0.1) > 1000
    True
    """
    K, delta = constraints(K, delta)
    tau = whole_number("tau", tau, low=1)
    if K == 0:
        return 0.0
    V, epsilon = paper_schedules(1.0, known_costs(K))
    tight = int(first_at_most(epsilon, delta / 2))
    start = max(tight, math.floor(delta * tau / (16 * math.sqrt(K))))
    most = K * float(tau)
    if start > tau:
        return most
    eps, root = epsilon(tight), math.sqrt(K)
    drift = {"drift": delta / 4, "jump": root * (1 + eps)}
    zeta = drift_exponent(**drift)
    begin = float(root * (start - 1 + sum_from_above(np.array(start - 1.0), epsilon)))
    total = float(sum_from_below(np.array(float(tau)), epsilon))
    anyhow = queue_bound_schedule(float(tau + 1), Steering(K, delta, V, Summed(epsilon)))
    for ratio in RATIOS.tolist():
        p = overestimate_probability(start, tau, delta=delta, ratio=ratio, kept=kept)
        level = 4 * (ratio * delta * V(tau + 1) + K * (1 + eps**2)) / delta
        queue = drift_mean_bound(level, **drift, start=begin, elapsed=float(tau + 1 - start))
        exceeds = p * (anyhow + math.log(1 / p) / zeta) if p > 0 else 0.0
        most = min(most, K * max(0.0, queue + exceeds - total))
    return most
