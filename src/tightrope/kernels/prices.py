"""Shadow prices: the dual of the allocation program on remembered rounds, by a projected Newton method that can be interrupted.

The rounds i = 0..n−1 have weights n_i (how often each was met) and rows of actions, each with a reward r_ij and K costs w_ij.
Prices minimise, over 0 ≤ p ≤ cap, the dual of "as much reward as mean costs of at most −margin allow",

    D(p) = Σ_i n_i max_j (r_ij − p·w_ij) / Σ_i n_i − p·margin,

with the maximum smoothed to τ log Σ_j exp(·/τ). τ falls from 0.3 ρ to 0.003 ρ, where ρ is the typical difference between the
rewards of a round; Newton's method, warm from the last τ, needs a few passes over the rows for each. Nothing depends on the units
of rewards and costs: prices are measured in ρ/m, where m_k is the typical size of cost k.

A pass is cut into pieces: `advance_prices` works through as many rounds as its budget allows and keeps its place in `solver`, so
that no decision waits for a whole solve. The result is the same to the bit however the work is divided.

`solver` (solver_size(K),): a head of single numbers, vectors of K and matrices of K × K, in the order of `solver_parts`.
"""

from __future__ import annotations

import math
from collections import namedtuple

from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.linear_algebra import add_scaled, inner

# the head of solver
(
    CONSTRAINTS,  # K
    PHASE,  # IDLE, SOLVING or SOLVED
    TAU,  # smoothing of this stage
    LAST_TAU,  # smoothing of the last stage
    UNIT,  # ρ
    CURSOR,  # the round at which the current pass continues
    WEIGHT,  # Σ n_i, of the rounds of this pass so far
    VALUE_SUM,  # Σ n_i τ log Σ exp, of the same
    VALUE,  # D at `price`; meaningless before the first pass of a stage
    ITERATION,  # steps taken in this stage
    TRIAL,  # of the line search: −1 while D is computed at `price` itself, then 0, 1, … for the points tried
    EXPECTED,  # the gain that the quadratic model promises for the whole step
    PASSES,  # passes over the rows so far
) = range(13)
SOLVER_HEAD = 13

IDLE, SOLVING, SOLVED = 0, 1, 2

FIRST_SMOOTHING, LAST_SMOOTHING, SMOOTHING_FACTOR = 0.3, 0.003, 0.3
# Steps for each τ, points tried on each, and how much closer each is than the one before
STEPS, TRIALS, SHORTER = 12, 12, 0.35
# Gains: the share of the slope that a step must bring, and what is too small to continue for, in ρ
ENOUGH_DESCENT, ENOUGH_GAIN = 1e-4, 1e-6
# What is added to the curvature, in m²/ρ
LEAST_CURVATURE = 1e-3
# The quadratic model is minimised price by price, in at most this many sweeps, until none moves by this much in ρ/m
SWEEPS, STILL = 100, 1e-5
# Rows less likely than this are left out of the sums
NEGLIGIBLE = 1e-15
# What a row costs beside its K products, in multiplications: mostly the exponential
ROW_WORK = 24


def solver_size(K):
    return SOLVER_HEAD + 12 * K + 2 * K * K


# Where in solver the vectors and matrices start. Of the vectors `slope` is that of the quadratic model, `bar` the mean cost of a
# round and `square` its mean square; of the matrices `curvature` is that at `price`.
SolverParts = namedtuple(
    "SolverParts",
    "price point step slope gradient bar cost_sum square_sum square cap size margin curvature curvature_sum",
)


@inlined
def solver_parts(K):
    a = SOLVER_HEAD
    b = a + 6 * K
    end = a + 12 * K
    return SolverParts(
        a, a + K, a + 2 * K, a + 3 * K, a + 4 * K, a + 5 * K,
        b, b + K, b + 2 * K, b + 3 * K, b + 4 * K, b + 5 * K,
        end, end + K * K,
    )  # fmt: skip


@kernel
def begin_prices(solver, start, cap, size, margin, unit):
    """Begin a solve from prices `start`: cap, typical cost m (`size`) and margin (K,), unit ρ. No pass is made yet."""
    K = start.shape[0]
    at = solver_parts(K)
    for i in range(SOLVER_HEAD):
        solver[i] = 0.0
    solver[CONSTRAINTS] = K
    solver[PHASE] = SOLVING
    solver[UNIT] = unit
    solver[TAU] = FIRST_SMOOTHING * unit
    solver[LAST_TAU] = LAST_SMOOTHING * unit
    for k in range(K):
        # A rule that never costs anything has no scale, and needs no price.
        solver[at.size + k] = size[k] if size[k] > 0.0 else 1.0
        solver[at.cap + k] = cap[k] if size[k] > 0.0 else 0.0
        solver[at.price + k] = max(0.0, min(start[k], solver[at.cap + k]))
        solver[at.point + k] = solver[at.price + k]
        solver[at.margin + k] = margin[k]
    begin_pass(solver)
    solver[TRIAL] = -1.0


@kernel
def advance_prices(solver, rewards, costs, offsets, weights, room, budget):
    """Work on the solve for about `budget` multiplications (at least one round's); returns the rest of the budget, at least 0.

    The rows of round i are offsets[i] to offsets[i + 1] of rewards (R,) and costs (R·K,); weights (n,), some above 0; room (J,) for
    the largest offer. The solve is over when solver[PHASE] is SOLVED.
    """
    n = weights.shape[0]
    while solver[PHASE] == SOLVING and budget > 0.0:
        budget = add_rounds(solver, rewards, costs, offsets, weights, room, budget)
        if int(solver[CURSOR]) == n:
            budget -= finish_pass(solver)
    return max(0.0, budget)


@inlined
def exp_of_negative(x):
    """e^x for x ≤ 0, 0 below −36, to about 1e−13: only products and sums, so that it has the same bits everywhere."""
    y = max(x, -36.0) * 0.00390625
    e = 1.0 / 40320.0 + y / 362880.0
    e = 1.0 / 5040.0 + y * e
    e = 1.0 / 720.0 + y * e
    e = 1.0 / 120.0 + y * e
    e = 1.0 / 24.0 + y * e
    e = 1.0 / 6.0 + y * e
    e = 0.5 + y * e
    e = 1.0 + y * e
    e = 1.0 + y * e
    for _ in range(8):
        e *= e
    return e if x > -36.0 else 0.0


@kernel
def begin_pass(solver):
    K = int(solver[CONSTRAINTS])
    at = solver_parts(K)
    solver[CURSOR] = 0.0
    solver[WEIGHT] = 0.0
    solver[VALUE_SUM] = 0.0
    for k in range(K):
        solver[at.cost_sum + k] = 0.0
        solver[at.square_sum + k] = 0.0
    for i in range(K * K):
        solver[at.curvature_sum + i] = 0.0


@inlined
def add_products(out, at, factor, B, b, n):
    """out += factor · b, n numbers; a plain loop, which is faster than `add_scaled` for a handful of numbers."""
    if n >= 8:
        add_scaled(out, at, factor, B, b, n)
    else:
        for i in range(n):
            out[at + i] += factor * B[b + i]


@kernel
def add_rounds(solver, rewards, costs, offsets, weights, room, budget):
    """Continue a pass: value, costs and curvature at `point`, summed over rounds; returns the rest of the budget."""
    K = int(solver[CONSTRAINTS])
    at = solver_parts(K)
    tau = solver[TAU]
    scale = 1.0 / tau
    n = weights.shape[0]
    i = int(solver[CURSOR])
    while i < n and budget > 0.0:
        first_row = offsets[i]
        J = offsets[i + 1] - first_row
        weight = weights[i]
        live = 0
        if weight > 0.0:
            best = -math.inf
            for j in range(J):
                v = rewards[first_row + j] - inner(costs, (first_row + j) * K, solver, at.point, K)
                room[j] = v
                best = max(best, v)
            for j in range(J):
                room[j] = exp_of_negative((room[j] - best) * scale)
            z = 0.0
            for j in range(J):
                z += room[j]
            share = 1.0 / z
            for k in range(K):
                solver[at.bar + k] = 0.0
            for j in range(J):
                room[j] *= share
                if room[j] > NEGLIGIBLE:
                    live += 1
                    e = room[j]
                    row = (first_row + j) * K
                    for k in range(K):
                        solver[at.bar + k] += e * costs[row + k]
            for k in range(K):
                solver[at.cost_sum + k] += weight * solver[at.bar + k]
                solver[at.square_sum + k] += weight * solver[at.bar + k] * solver[at.bar + k]
            if live > 1:
                # If only one row is likely, the curvature is 0.
                for j in range(J):
                    if room[j] > NEGLIGIBLE:
                        e = weight * room[j]
                        row = (first_row + j) * K
                        for k in range(K):
                            add_products(
                                solver, at.curvature_sum + k * K, e * costs[row + k], costs, row, k + 1
                            )
                for k in range(K):
                    add_products(
                        solver, at.curvature_sum + k * K, -weight * solver[at.bar + k], solver, at.bar, k + 1
                    )
                budget -= 0.5 * live * K * K
            solver[VALUE_SUM] += weight * (best + tau * math.log(z))
            solver[WEIGHT] += weight
        budget -= (J + live) * K + ROW_WORK * J
        i += 1
    solver[CURSOR] = i
    return budget


@kernel
def finish_pass(solver):
    """D at `point` is known: take the step or try a shorter one, go to the next τ, or end. Returns the multiplications it took."""
    K = int(solver[CONSTRAINTS])
    at = solver_parts(K)
    solver[PASSES] += 1.0
    value = solver[VALUE_SUM] / solver[WEIGHT]
    expected = 0.0
    for k in range(K):
        value -= solver[at.margin + k] * solver[at.point + k]
        expected += solver[at.gradient + k] * (solver[at.point + k] - solver[at.price + k])
    work = 0.0
    going_on = False
    if solver[TRIAL] < 0.0:
        accept(solver, value)
        going_on = True
    elif value <= solver[VALUE] + ENOUGH_DESCENT * expected:
        gain = solver[VALUE] - value
        accept(solver, value)
        solver[ITERATION] += 1.0
        going_on = gain >= ENOUGH_GAIN * solver[UNIT] and solver[ITERATION] < STEPS
    elif solver[TRIAL] + 1.0 < TRIALS:
        solver[TRIAL] += 1.0
        for k in range(K):
            solver[at.step + k] *= SHORTER
            solver[at.point + k] = solver[at.price + k] + solver[at.step + k]
        begin_pass(solver)
        return work
    if going_on:
        work = newton_step(solver)
        going_on = solver[EXPECTED] >= ENOUGH_GAIN * solver[UNIT]
        solver[TRIAL] = 0.0
    if not going_on:
        if solver[TAU] <= solver[LAST_TAU]:
            solver[PHASE] = SOLVED
        else:
            solver[TAU] = max(SMOOTHING_FACTOR * solver[TAU], solver[LAST_TAU])
            solver[ITERATION] = 0.0
            solver[TRIAL] = -1.0
            for k in range(K):
                solver[at.point + k] = solver[at.price + k]
    begin_pass(solver)
    return work


@kernel
def accept(solver, value):
    """`point` becomes `price`, with its value, gradient, mean squares and curvature."""
    K = int(solver[CONSTRAINTS])
    at = solver_parts(K)
    weight = solver[WEIGHT]
    solver[VALUE] = value
    scale = 1.0 / (weight * solver[TAU])
    for k in range(K):
        solver[at.price + k] = solver[at.point + k]
        solver[at.gradient + k] = -solver[at.cost_sum + k] / weight - solver[at.margin + k]
        solver[at.square + k] = (solver[at.square_sum + k] + solver[at.curvature_sum + k * K + k]) / weight
        for i in range(k + 1):
            c = solver[at.curvature_sum + k * K + i] * scale
            solver[at.curvature + k * K + i] = c
            solver[at.curvature + i * K + k] = c
        m = solver[at.size + k]
        solver[at.curvature + k * K + k] += LEAST_CURVATURE * m * m / solver[UNIT]


@kernel
def newton_step(solver):
    """The step to the least value of the quadratic model within the bounds, and its point. Returns the multiplications it took.

    The model is minimised over one price at a time, which needs no pass over the rows. Such a step points downhill and ends within
    the bounds, so that the line search has only its length to find; a Newton step that is cut off at the bounds may do neither.
    """
    K = int(solver[CONSTRAINTS])
    at = solver_parts(K)
    for k in range(K):
        solver[at.slope + k] = solver[at.gradient + k]
        solver[at.point + k] = solver[at.price + k]
    sweeps = 0
    moved = math.inf
    while sweeps < SWEEPS and moved > STILL * solver[UNIT]:
        sweeps += 1
        moved = 0.0
        for k in range(K):
            old = solver[at.point + k]
            new = old - solver[at.slope + k] / solver[at.curvature + k * K + k]
            new = max(0.0, min(new, solver[at.cap + k]))
            if new != old:
                solver[at.point + k] = new
                add_scaled(solver, at.slope, new - old, solver, at.curvature + k * K, K)
                moved = max(moved, abs(new - old) * solver[at.size + k])
    promised = 0.0
    for k in range(K):
        s = solver[at.point + k] - solver[at.price + k]
        solver[at.step + k] = s
        # The model's fall: −(g·s + ½ s·Hs), with g + Hs the slope at its end
        promised -= 0.5 * s * (solver[at.gradient + k] + solver[at.slope + k])
    solver[EXPECTED] = promised
    return float(sweeps * K * K)
