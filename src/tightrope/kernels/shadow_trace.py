"""The numbers behind a decision of the shadow-price policy, and the draw of a value for each action."""

from __future__ import annotations

import math

from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.draws import uniforms
from tightrope.kernels.layout import tied_with

# The first of the slots with two normals each.
CHOICE_SLOT = 1

# Behind a decision: r̂, mean, standard deviation, drawn value (J each), a mark (J,), costs (J, K), then by rule λ, p, q, T, where
# the wall starts (z) and its slope ρ/m, 0 for a rule that can't be met. The mark of an action is 0 if it may not be taken, 1 if it
# is taken when its value is the highest; below 1 it is also the probability with which it is taken whatever its value.


@inlined
def trace_parts(J, K):
    """The addresses of means, deviations, values, marks, costs and the vectors by rule; r̂ comes first."""
    return J, 2 * J, 3 * J, 4 * J, 5 * J, 5 * J + J * K


TRACE_VECTORS = 6


def trace_size(J, K):
    """How many numbers are behind a decision."""
    return trace_parts(J, K)[5] + TRACE_VECTORS * K


@kernel
def draw_values(J, K, trace, seed, t):
    """Draw a value for each action; returns the lowest row among the highest of those that may be taken."""
    means, deviations, values, marks, _, _ = trace_parts(J, K)
    other = 0.0
    best = -math.inf
    for j in range(J):
        if j % 2 == 0:
            z, other = two_normals(seed, t, CHOICE_SLOT + j // 2)
        else:
            z = other
        v = trace[means + j] + trace[deviations + j] * z
        trace[values + j] = v
        if trace[marks + j] != 0.0:
            best = max(best, v)
    least = tied_with(best)
    for j in range(J):
        if trace[marks + j] != 0.0 and trace[values + j] >= least:
            return j
    return 0


@kernel
def best_mean(J, K, trace):
    """The row the estimates choose: the highest mean among those that may be taken, the first of equals."""
    means, _, _, marks, _, _ = trace_parts(J, K)
    best = -math.inf
    for j in range(J):
        if trace[marks + j] != 0.0:
            best = max(best, trace[means + j])
    least = tied_with(best)
    for j in range(J):
        if trace[marks + j] != 0.0 and trace[means + j] >= least:
            return j
    return 0


@inlined
def two_normals(seed, t, slot):
    """Two independent standard normals for one slot of round t (Box–Muller)."""
    u, v = uniforms(seed, 0, t, slot)
    radius = math.sqrt(-2.0 * math.log(1.0 - u))
    angle = 2.0 * math.pi * v
    return radius * math.cos(angle), radius * math.sin(angle)
