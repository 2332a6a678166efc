"""A solve for shadow prices: its deadline, drawing the remembered rounds, and applying the result."""

from __future__ import annotations

import math

from tightrope.kernels import prices
from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.rare import predict_rewards
from tightrope.kernels.shadow import (
    AT_CAP,
    BUDGET,
    CAP,
    CARRY_KEPT,
    CHANGED,
    CONSTRAINTS,
    CORRECTION,
    COST_DRAWS,
    ENOUGH_ROUNDS,
    ERRORS_ABOVE,
    EXPLORE,
    INFEASIBLE,
    LAST_BUDGETS,
    LEAST_RHO,
    NOT_PACED,
    PACING,
    PRICE,
    RHO,
    ROW_WORK,
    SAME,
    SOLVE_SLOT,
    SOLVES,
    SOLVES_IN_HALF_LIFE,
    UNIT_OFF,
    USUAL_PASSES,
    at,
    half_life,
    typical_size,
)
from tightrope.kernels.shadow_trace import two_normals
from tightrope.kernels.standardised import SMALLEST, ZERO, predict_costs


@kernel
def draw_work(reward_row, cost_row, cost_outputs):
    """How many multiplications it takes to draw a row, for models with rows of that length; 0 if there is no cost model."""
    return reward_row * reward_row + 2.0 * reward_row + cost_row * cost_row + cost_outputs * cost_row


@inlined
def solve_work(row_work, K):
    """How many multiplications a row takes until the prices are solved."""
    return row_work + USUAL_PASSES * (2.0 * K + ROW_WORK + 0.25 * K * K)


@kernel
def rows_allowed(t, row_work, K):
    """How many rows the sample of a solve that starts in round t may have, so that no decision waits long for it."""
    return math.floor(BUDGET * (math.floor(0.5 * t) + LAST_BUDGETS) / solve_work(row_work, K))


@kernel
def deadline(t, rows, row_work, K):
    """The round in which the prices of a solve that starts in round t take effect: depends only on its size."""
    return t + min(math.ceil(rows * solve_work(row_work, K) / BUDGET) - 1.0, math.floor(0.5 * t))


@kernel
def next_solve(t, over, core):
    """The round of the solve after one in rounds t … `over`: when rounds have doubled, or part of the half-life has passed.

    Rounds count from the last change of the world.
    """
    part = half_life(core) / SOLVES_IN_HALF_LIFE
    doubled = max(over + 1.0, 2.0 * t - core[CHANGED])
    return min(doubled, max(over + 1.0, math.floor(t + part) + 1.0)) if part < math.inf else doubled


@kernel
def draw_round(J, means, deviations, spreads, core, columns, rewards, costs, row, seed, t):
    """Draw J rows of the sample from `row` on: rewards from means and deviations (J,), costs in place by spreads (J, K).

    Returns the largest optimistic minus the smallest pessimistic reward. The draws are those of the solve that began in round t.
    """
    K = int(core[CONSTRAINTS])
    A = columns.shape[0]
    explore = core[EXPLORE]
    high = -math.inf
    low = math.inf
    number = row * (1 + A)
    even, odd = two_normals(seed, t, SOLVE_SLOT + number // 2)
    for j in range(J):
        s = explore * deviations[j]
        high = max(high, means[j] + s)
        low = min(low, means[j] - s)
        for i in range(1 + A):
            if number % 2 == 0:
                even, odd = two_normals(seed, t, SOLVE_SLOT + number // 2)
            z = even if number % 2 == 0 else odd
            number += 1
            if i == 0:
                rewards[row + j] = means[j] + s * z
            else:
                k = columns[i - 1]
                costs[(row + j) * K + k] += COST_DRAWS * explore * spreads[j * K + k] * z
    # Rewards that differ by rounding alone do not differ.
    return high - low if high - low > SAME * max(abs(high), abs(low)) else 0.0


@kernel
def draw_remembered(
    phi, a, one_row, psi, b, one_cost_row, ids, W, w, reward, reward_spread, cost, cost_spread, columns, core, rewards, costs, row,
    seed, t, room
):  # fmt: skip
    """`draw_round` of one remembered round with compiled models: φ at phi[a], ψ at psi[b], costs known before at W[w].

    room has `room_size` and 2J numbers more.
    """
    J = ids.shape[0]
    K = int(core[CONSTRAINTS])
    spreads = room[2 * J :]
    free = room[2 * J + J * K :]
    for i in range(J * K):
        costs[row * K + i] = W[w + i]
        spreads[i] = 0.0
    predict_rewards(reward, reward_spread, phi, a, one_row, ids, room, ZERO, J, free)
    if columns.shape[0] > 0:
        predict_costs(
            cost, cost_spread, psi, b, one_cost_row, ids, columns, costs, row * K, spreads, ZERO, K, free
        )
    return draw_round(J, room, room[J:], spreads, core, columns, rewards, costs, row, seed, t)


@kernel
def draw_sample(
    phi, phi_at, psi, psi_at, ids, W, reward, reward_spread, cost, cost_spread, columns, core, rewards, costs, offsets, weights, i,
    n, seed, t, sums, room
):  # fmt: skip
    """Rounds i … i + n − 1 of a sample, whose features, ids and costs stand one after the other; adds to Σ spreads and Σ weights.

    phi_at, psi_at (n + 1,): where the features of each start; a single row stands for all actions.
    """
    K = int(core[CONSTRAINTS])
    p = int(reward[1]) - 1
    first = offsets[i]
    for r in range(n):
        row = offsets[i + r]
        J = offsets[i + r + 1] - row
        offered = ids[row - first : row - first + J]
        one_row = phi_at[r + 1] - phi_at[r] == p and J != 1
        one_cost_row = columns.shape[0] > 0 and psi_at[r + 1] - psi_at[r] == int(cost[1]) - 1 and J != 1
        spread = draw_remembered(
            phi, phi_at[r], one_row, psi, psi_at[r], one_cost_row, offered, W, (row - first) * K, reward, reward_spread, cost,
            cost_spread, columns, core, rewards, costs, row, seed, t, room
        )  # fmt: skip
        sums[0] += weights[i + r] * spread
        sums[1] += weights[i + r]


@kernel
def typical_difference(core, spread, weight):
    """ρ of a sample, from the sum of its weighted spreads; the current ρ if rewards do not differ at all."""
    return max(spread / weight, LEAST_RHO * core[RHO], SMALLEST) if spread > 0.0 else core[RHO]


@kernel
def begin_solve(core, solver, rho, room):
    """Start to solve for the prices of a sample that is fully drawn, from the current prices. room has 3K numbers.

    Rules that are paced get no price here.
    """
    K = int(core[CONSTRAINTS])
    size, cap, margin = room[:K], room[K : 2 * K], room[2 * K : 3 * K]
    for k in range(K):
        m = typical_size(core, k)
        size[k] = m
        cap[k] = CAP * rho / m if m > 0.0 and core[at(core, PACING) + k] == NOT_PACED else 0.0
        margin[k] = 0.0
    prices.begin_prices(solver, core[at(core, PRICE) : at(core, PRICE) + K], cap, size, margin, rho)


@kernel
def finish_solve(core, solver, weight):
    """End a solve on this many rounds: its prices and ρ take effect, and rules that can't be met are marked."""
    K = int(core[CONSTRAINTS])
    price, _, _, _, gradient, _, _, _, square, cap, _, _, _, _ = prices.solver_parts(K)
    fall = solver[prices.UNIT] / core[RHO]
    kept = CARRY_KEPT * fall if fall * UNIT_OFF < 1.0 else CARRY_KEPT
    for k in range(K):
        mean = -solver[gradient + k]
        error = math.sqrt(max(0.0, solver[square + k] - mean * mean) / weight)
        top = solver[cap + k]
        at_cap = top > 0.0 and solver[price + k] >= AT_CAP * top
        unmet = at_cap and weight >= ENOUGH_ROUNDS and mean > ERRORS_ABOVE * error
        core[at(core, PRICE) + k] = solver[price + k]
        core[at(core, INFEASIBLE) + k] = 1.0 if unmet else 0.0
        # What was carried while ρ was a guess may be far above any price.
        core[at(core, CORRECTION) + k] = min(kept * core[at(core, CORRECTION) + k], top)
    core[RHO] = solver[prices.UNIT]
    core[SOLVES] += 1.0
