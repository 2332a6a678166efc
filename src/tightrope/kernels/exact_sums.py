"""Running totals that are never below the exact sum of the costs.

A total is two numbers: `total`, and `rest`, the remainder after rounding. Their sum is rounded once per step, in `rest`, and
upwards: if it is at or below zero, so is the exact sum of all costs. `total` is their sum as one number, so it has its sign.

This makes a guard certain: from total + rest ≤ 0 a cost w ≤ 0 leads to a sum ≤ 0 again, because the least number not below a
sum ≤ 0 is not above 0.
"""

from __future__ import annotations

import math

from tightrope.kernels.compile import inlined, kernel


@inlined
def two_sum(a, b):
    """a + b rounded, and the exact rounding error (Knuth)."""
    s = a + b
    c = s - a
    return s, (a - (s - c)) + (b - c)


@inlined
def sum_rounded_up(a, b):
    """The least number that is not below a + b."""
    s, missing = two_sum(a, b)
    return math.nextafter(s, math.inf) if missing > 0.0 else s


@inlined
def total_after(total, rest, cost):
    """The total and its rest after adding a cost."""
    s, missing = two_sum(total, cost)
    return two_sum(s, sum_rounded_up(rest, missing))


@kernel
def add_costs(totals, rests, costs):
    for k in range(costs.shape[0]):
        totals[k], rests[k] = total_after(totals[k], rests[k], costs[k])


@kernel
def totals_with(totals, rests, W, out):
    """Where each row of W (J, K) would lead: the totals into out (J, K)."""
    for j in range(W.shape[0]):
        for k in range(W.shape[1]):
            out[j, k], _ = total_after(totals[k], rests[k], W[j, k])
