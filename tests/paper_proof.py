"""The paper's proof of its violation bound in exact sums, for the tests of the theory."""

import math

import numpy as np

from tightrope import schedules
from tightrope.schedules import Power


def known_costs(K, delta):
    """V_t and ε_t from the schedules that the policy itself runs on."""
    V, epsilon = schedules.known_costs(K)
    return Power(delta * V.scale, V.exponent), Power(epsilon.scale, epsilon.exponent)


def values(schedule, n):
    return schedule.scale * np.arange(1.0, n + 1) ** schedule.exponent


def paper_route(K, delta, taus):
    """K (√K · bound on E‖Q(τ+1)‖₂ − Σ ε_t)⁺ with the lemma's constants and exact sums."""
    n = int(taus.max()) + 1
    V, epsilon = known_costs(K, delta)
    total = np.cumsum(values(epsilon, n))
    start = schedules.tau_prime(K=K, delta=delta)
    pushed = math.sqrt(K) * (start - 1 + (total[start - 2] if start > 1 else 0))
    level = 4 * (V.scale * np.sqrt(taus + 1) + K * (1 + epsilon.scale**2 / (taus + 1))) / delta
    bound = 48 * K**2 / delta * math.log(16 * K / delta) + 2 * K + level + pushed
    return K * np.maximum(0, math.sqrt(K) * bound - total[taus - 1])


def run_of_queues(K, delta, V, epsilon, n):
    """Norms of the queue before each of n rounds, and the violation after it, both (n,).

    A tempting action (reward 1, costs 1) against a safe one (reward 0, costs −δ): deterministic, so a run is the mean.
    """
    Q, spent = np.zeros(K), 0.0
    totals, queues = np.empty(n), np.empty(n)
    for t in range(1, n + 1):
        queues[t - 1] = math.sqrt(Q @ Q)
        cost = 1.0 if V(t) - Q.sum() >= delta * Q.sum() else -delta
        Q = np.maximum(0, Q + cost + epsilon(t))
        spent += cost
        totals[t - 1] = max(0.0, K * spent)
    return queues, totals
