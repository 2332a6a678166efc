"""Models of rewards and costs: widths, optimistic values, learning; for ridge models and for the means of arms."""

from __future__ import annotations

import math

from tightrope import schedules
from tightrope.kernels import layout
from tightrope.kernels import linear_algebra as la
from tightrope.kernels.compile import inlined, kernel

REFRESH_EVERY = 256
REFRESH_ROWS = 8
REFRESH_ROUNDING = 2e-8
REFRESH_GROWTH = 8.0
MACHINE_EPSILON = 2.220446049250313e-16
# From this many rows on, it pays to compute eight side by side.
ENOUGH_ROWS = 4

confidence_radius = kernel(schedules.confidence_radius)


@kernel
def optimistic_rewards_ridge(flat, phi, at, one_row, ids, core, trace):
    """r̂_j = `clipped_reward` of ⟨θ̂, φ_j⟩ + bonus·√β_t·‖φ_j‖_{Σ⁻¹} into trace[:J].

    One block of (Θ, Σ⁻¹) serves every action (shared model), or block ids[j] serves action j (disjoint model: φ = e_j ⊗ x, with the
    radius of all J·p dimensions). With one_row, one row of phi stands for all actions.
    """
    G, p, M, theta, _, _, _, _ = layout.ridge_parts(flat)
    root_beta = ridge_bonus(flat, core)
    least = least_reward(core)
    ridge_widths(flat, phi, at, one_row, ids, core, layout.scratch_at(core, p), trace, 0, 1)
    for j in range(ids.shape[0]):
        block = theta + (ids[j] * M * p if G > 1 else 0)
        x = at if one_row else at + j * p
        trace[j] = clipped_reward(la.inner(flat, block, phi, x, p) + root_beta * trace[j], least)


@kernel
def optimistic_costs_ridge(flat, psi, at, one_row, ids, core, ranges, columns, W, K):
    """W̌_jk = clip(⟨μ̂_k, ψ_j⟩ − bonus·√β_t·‖ψ_j‖_{Σ_w⁻¹}, low_k, high_k) into the columns of W (J, K) that are seen after acting."""
    G, p, M, theta, _, _, _, _ = layout.ridge_parts(flat)
    root_beta = ridge_bonus(flat, core)
    ridge_widths(flat, psi, at, one_row, ids, core, layout.scratch_at(core, p), W, columns[0], K)
    for j in range(ids.shape[0]):
        block = theta + (ids[j] * M * p if G > 1 else 0)
        x = at if one_row else at + j * p
        stretch = root_beta * W[j * K + columns[0]]
        for i in range(columns.shape[0]):
            low = la.inner(flat, block + i * p, psi, x, p) - stretch
            W[j * K + columns[i]] = max(ranges[i, 0], min(ranges[i, 1], low))


@kernel
def ridge_bonus(flat, core):
    """bonus·√β_t of a model for the next round."""
    T = horizon_at(core, core[layout.ROUNDS] + 1.0)
    n, bonus, m, ridge, d = layout.ridge_stat(flat)
    return bonus * confidence_radius(n, d, T, m, ridge)


@kernel
def ridge_bonuses_ahead(flat, core, out):
    """`ridge_bonus` for the next rounds, one for each place in out, with an outcome learnt in each; flat and core are used up."""
    for i in range(out.shape[0]):
        out[i] = ridge_bonus(flat, core)
        flat[layout.STAT + layout.LEARNT] += 1.0
        core[layout.ROUNDS] += 1.0


@kernel
def ridge_widths(flat, phi, at, one_row, ids, scratch, r, out, o, step):
    """‖φ_j‖_{Σ⁻¹} of every action on offer into out[o + j·step]: by one block for all, or by block ids[j]; one_row stands for all.

    scratch, `scratch_size(p)` numbers from r on, is overwritten.
    """
    G, p, _, _, inverse, _, _, _ = layout.ridge_parts(flat)
    columns, sums, widths = layout.scratch_parts(r, p)
    J = ids.shape[0]
    j = 0
    if G == 1 and not one_row:
        enough = ENOUGH_ROWS if p < la.LARGE else 1
        while J - j >= enough:
            rows = min(8, J - j)
            la.rows_as_columns(phi, at + j * p, rows, p, scratch, columns)
            la.eight_quadratic_forms(flat, inverse, scratch, columns, p, scratch, widths, sums)
            for i in range(rows):
                out[o + (j + i) * step] = root_or_zero(scratch[widths + i])
            j += rows
    while j < J:
        out[o + j * step] = ridge_width(flat, ids[j] if G > 1 else 0, phi, at if one_row else at + j * p)
        j += 1


@kernel
def ridge_width(flat, g, X, x):
    _, p, _, _, inverse, _, _, _ = layout.ridge_parts(flat)
    return root_or_zero(la.quadratic_form(flat, inverse + g * p * p, X, x, p))


@kernel
def ridge_learn(flat, g, X, x, Y, y, scratch, r):
    """Σ ← Σ + xxᵀ, b ← b + xy and, by Sherman–Morrison, Σ⁻¹ and θ̂ of block g, one θ̂ for each of M outcomes; whether to refresh.

    `ridge_refresh` is due every max(256, 8p) updates, and sooner if the error R = ΣX − I of X ≈ Σ⁻¹ could matter. With
    u = Xx and s = 1/(1 + xᵀu) an update turns R into R(I − s·xuᵀ), plus rounding of the order of eps·‖Σ‖·‖X‖: the wear adds up
    this rounding, in units of what is allowed, and the logarithm of the growth s·‖x‖·‖u‖, which exceeds 1 only if λ < 1.
    scratch[r : r + p] is overwritten, by u.
    """
    _, p, M, theta, inverse, sigma, b, wear = layout.ridge_parts(flat)
    inverse += g * p * p
    sigma += g * p * p
    wear += layout.WEAR_SIZE * g
    la.matvec(flat, inverse, X, x, p, scratch, r)
    # xᵀΣ⁻¹x, which only rounding can make negative.
    s = 1.0 / (1.0 + max(0.0, la.inner(X, x, scratch, r, p)))
    growth = s * math.sqrt(la.inner(X, x, X, x, p) * la.inner(scratch, r, scratch, r, p))
    top = 0.0
    trace = 1.0
    for i in range(p):
        top = max(top, flat[inverse + i * p + i])
        trace += flat[sigma + i * p + i]
    for i in range(p):
        la.add_scaled(flat, inverse + i * p, -(s * scratch[r + i]), scratch, r, p)
        la.add_scaled(flat, sigma + i * p, X[x + i], X, x, p)
    for i in range(M):
        row = (g * M + i) * p
        gain = s * (Y[y + i] - la.inner(flat, theta + row, X, x, p))
        la.add_scaled(flat, b + row, Y[y + i], X, x, p)
        la.add_scaled(flat, theta + row, gain, scratch, r, p)
    flat[layout.STAT + layout.LEARNT] += 1.0
    flat[wear + layout.SINCE] += 1.0
    flat[wear + layout.DRIFT] += MACHINE_EPSILON * trace * top / REFRESH_ROUNDING
    if growth > 1.0:
        flat[wear + layout.DRIFT] += math.log(growth) / math.log(REFRESH_GROWTH)
    since = flat[wear + layout.SINCE]
    return since >= max(REFRESH_EVERY, REFRESH_ROWS * p) or flat[wear + layout.DRIFT] >= 1.0


@kernel
def ridge_refresh(flat, g, scratch):
    """Recompute Σ⁻¹ and Θ = B Σ⁻¹ of block g from the sums, which carry no drift; scratch (2p²,) is overwritten."""
    _, p, M, theta, inverse, sigma, b, wear = layout.ridge_parts(flat)
    block = inverse + g * p * p
    la.invert(flat, sigma + g * p * p, p, flat, block, scratch)
    for i in range(M):
        row = (g * M + i) * p
        la.matvec(flat, block, flat, b + row, p, flat, theta + row)
    flat[wear + layout.WEAR_SIZE * g + layout.SINCE] = 0.0
    flat[wear + layout.WEAR_SIZE * g + layout.DRIFT] = 0.0


@kernel
def optimistic_rewards_arms(ids, counts, sums, stat, core, trace):
    """r̂_j = `clipped_reward` of mean_j + bonus·sqrt(log t / N_j), 1 for an arm without an outcome, into trace[:J]."""
    log_t = math.log(core[layout.ROUNDS] + 1.0)
    least = least_reward(core)
    for j in range(ids.shape[0]):
        a = ids[j]
        n = counts[a]
        if n == 0.0:
            trace[j] = 1.0
        else:
            trace[j] = clipped_reward(sums[a, 0] / n + stat[layout.BONUS] * math.sqrt(log_t / n), least)


@kernel
def optimistic_costs_arms(ids, counts, sums, stat, core, ranges, columns, W, K):
    """W̌_jk = clip(mean_jk − bonus·sqrt(log t / N_j), low_k, high_k); low_k for an arm without an outcome."""
    log_t = math.log(core[layout.ROUNDS] + 1.0)
    for j in range(ids.shape[0]):
        a = ids[j]
        n = counts[a]
        half = 0.0 if n == 0.0 else stat[layout.BONUS] * math.sqrt(log_t / n)
        for i in range(columns.shape[0]):
            if n == 0.0:
                W[j * K + columns[i]] = ranges[i, 0]
            else:
                W[j * K + columns[i]] = max(ranges[i, 0], min(ranges[i, 1], sums[a, i] / n - half))


@kernel
def arms_learn(a, y, counts, sums, stat):
    counts[a] += 1.0
    for i in range(y.shape[0]):
        sums[a, i] += y[i]
    stat[layout.LEARNT] += 1.0


@inlined
def clipped_reward(upper, least):
    """max(least, min(1, upper)): the paper clips r̂ only at 1, so its least is −inf."""
    return max(least, min(1.0, upper))


@inlined
def least_reward(core):
    return core[layout.limits_at(core) + 1]


@kernel
def horizon_at(core, t):
    return core[layout.HORIZON] if core[layout.HORIZON] > 0.0 else t


@inlined
def root_or_zero(square):
    return math.sqrt(max(0.0, square))
