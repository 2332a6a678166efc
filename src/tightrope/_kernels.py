"""The formulas of the algorithm, compiled: arrays in, arrays out, one function for each formula.

`decide`, `learn` and the simulator's loop all call these functions, so that a formula stands in one place. They avoid BLAS and
`fastmath`, and let only independent elements run side by side in a vector register: sums are formed in the same order wherever a
function is inlined, hence the same bits on every path. All of them live in this one file, because Numba's cache on disk does
not notice a change in a function that is called from another file.

Small quantities are packed into flat vectors, for every array argument costs a call about 0.15 µs:

`core` (CORE_HEAD + 3K + p,): round counter and schedules, then Q (K,), cumulative costs (K,), 1 where a cost is seen before acting
(K,), and room for intermediate results (p,).
`stat` (STAT_SIZE,): one model's count of learnt outcomes and its settings.
`trace` (2J + JK + K + 2,): r̂ (J,), values (J,), W as used (J, K), Q before the step (K,), V_t, ε_t.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# core
ROUNDS, HORIZON, V_SCALE, V_EXPONENT, V_LOG, E_SCALE, E_EXPONENT, E_LOG = range(8)
CORE_HEAD = 8
# stat
LEARNT, BONUS, NORM, RIDGE, DIMENSION = range(5)
STAT_SIZE = 5
# wear, for each block of a ridge model
SINCE, DRIFT = range(2)

TIE = 1e-12
NORM_LIMIT = (1.0 + 1e-6) ** 2
COST_LIMIT = 1.0 + 1e-9
REFRESH_EVERY = 256
REFRESH_DRIFT = 1e-9
EPSILON = 2.220446049250313e-16


@njit(cache=True)
def schedule(t, scale, exponent, log_power, T):
    """scale · t^exponent · log(1 + T)^log_power."""
    if exponent == 0.5:
        value = scale * math.sqrt(t)
    elif exponent == -0.5:
        value = scale / math.sqrt(t)
    else:
        value = scale * math.pow(t, exponent)
    if log_power != 0.0:
        value *= math.pow(math.log(1.0 + T), log_power)
    return value


@njit(cache=True)
def radius(n, d, T, m, ridge):
    """√β = √λ·m + sqrt(2 log T + d log(1 + n/(dλ))), n outcomes learnt so far (Abbasi-Yadkori et al. 2011, Theorem 2)."""
    return math.sqrt(ridge) * m + math.sqrt(2.0 * math.log(T) + d * math.log(1.0 + n / (d * ridge)))


@njit(cache=True)
def horizon_at(core, t):
    """T, or t where no horizon is set."""
    return core[HORIZON] if core[HORIZON] > 0.0 else t


@njit(cache=True)
def dot(a, b):
    """⟨a, b⟩ in four running sums."""
    n = a.shape[0]
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    i = 0
    while i + 4 <= n:
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        i += 4
    while i < n:
        s0 += a[i] * b[i]
        i += 1
    return (s0 + s1) + (s2 + s3)


@njit(cache=True)
def matvec(A, x, out):
    """out = A x for symmetric A, column by column so that it vectorises without reordering sums."""
    n = x.shape[0]
    for j in range(n):
        out[j] = 0.0
    for i in range(n):
        a = x[i]
        row = A[i]
        for j in range(n):
            out[j] += a * row[j]


@njit(cache=True)
def quadratic_form(A, x, scratch):
    """xᵀAx for symmetric A, from its lower triangle."""
    n = x.shape[0]
    for j in range(n):
        scratch[j] = 0.5 * A[j, j] * x[j]
    for i in range(1, n):
        a = x[i]
        row = A[i]
        for j in range(i):
            scratch[j] += a * row[j]
    return 2.0 * dot(scratch[:n], x)


@njit(cache=True)
def ridge_width(Sigma_inv, phi, scratch):
    """‖φ‖_{Σ⁻¹}."""
    return math.sqrt(max(0.0, quadratic_form(Sigma_inv, phi, scratch)))


@njit(cache=True)
def rows_are_valid(phi):
    """Whether every ‖φ_j‖ is at most 1 (false for NaN and Inf too)."""
    for j in range(phi.shape[0]):  # noqa: SIM110 - Numba compiles the loop, not the generator
        if not dot(phi[j], phi[j]) <= NORM_LIMIT:
            return False
    return True


@njit(cache=True)
def costs_are_valid(W, core):
    """Whether every |W_jk| that is seen before acting is at most 1 (false for NaN and Inf too)."""
    J, K = W.shape
    known = core[CORE_HEAD + 2 * K : CORE_HEAD + 3 * K]
    for j in range(J):
        for k in range(K):
            if known[k] != 0.0 and not abs(W[j, k]) <= COST_LIMIT:
                return False
    return True


@njit(cache=True)
def optimistic_rewards_ridge(phi, ids, Theta, Sigma_inv, stat, core, trace):
    """r̂_j = min(1, ⟨θ̂, φ_j⟩ + bonus·√β_t·‖φ_j‖_{Σ⁻¹}) into trace[:J].

    One block of (Θ, Σ⁻¹) serves every action (shared model), or block ids[j] serves action j (disjoint model: φ = e_j ⊗ x, whose
    radius is that of the whole J·p dimensions). One row of phi stands for all actions.
    """
    J = ids.shape[0]
    p = phi.shape[1]
    t = core[ROUNDS] + 1.0
    root_beta = stat[BONUS] * radius(
        stat[LEARNT], stat[DIMENSION], horizon_at(core, t), stat[NORM], stat[RIDGE]
    )
    disjoint = Theta.shape[0] > 1
    one_row = phi.shape[0] < J
    scratch = core[core.shape[0] - p :]
    for j in range(J):
        g = ids[j] if disjoint else 0
        x = phi[0] if one_row else phi[j]
        width = ridge_width(Sigma_inv[g], x, scratch)
        trace[j] = min(1.0, dot(Theta[g, 0], x) + root_beta * width)


@njit(cache=True)
def optimistic_rewards_arms(ids, counts, sums, stat, core, trace):
    """r̂_j = min(1, mean_j + bonus·sqrt(log t / N_j)), 1 for an arm without an outcome, into trace[:J]."""
    log_t = math.log(core[ROUNDS] + 1.0)
    for j in range(ids.shape[0]):
        a = ids[j]
        n = counts[a]
        if n == 0.0:
            trace[j] = 1.0
        else:
            trace[j] = min(1.0, sums[a, 0] / n + stat[BONUS] * math.sqrt(log_t / n))


@njit(cache=True)
def optimistic_costs_ridge(psi, ids, Theta, Sigma_inv, stat, core, ranges, columns, W):
    """W̌_jk = clip(⟨μ̂_k, ψ_j⟩ − bonus·√β_t·‖ψ_j‖_{Σ_w⁻¹}, low_k, high_k) into the columns of W that are seen after acting."""
    t = core[ROUNDS] + 1.0
    root_beta = stat[BONUS] * radius(
        stat[LEARNT], stat[DIMENSION], horizon_at(core, t), stat[NORM], stat[RIDGE]
    )
    disjoint = Theta.shape[0] > 1
    one_row = psi.shape[0] < ids.shape[0]
    scratch = core[core.shape[0] - psi.shape[1] :]
    for j in range(ids.shape[0]):
        g = ids[j] if disjoint else 0
        x = psi[0] if one_row else psi[j]
        width = ridge_width(Sigma_inv[g], x, scratch)
        for i in range(columns.shape[0]):
            low = dot(Theta[g, i], x) - root_beta * width
            W[j, columns[i]] = max(ranges[i, 0], min(ranges[i, 1], low))


@njit(cache=True)
def optimistic_costs_arms(ids, counts, sums, stat, core, ranges, columns, W):
    """W̌_jk = clip(mean_jk − bonus·sqrt(log t / N_j), low_k, high_k); low_k for an arm without an outcome."""
    log_t = math.log(core[ROUNDS] + 1.0)
    for j in range(ids.shape[0]):
        a = ids[j]
        n = counts[a]
        width = 0.0 if n == 0.0 else stat[BONUS] * math.sqrt(log_t / n)
        for i in range(columns.shape[0]):
            if n == 0.0:
                W[j, columns[i]] = ranges[i, 0]
            else:
                W[j, columns[i]] = max(ranges[i, 0], min(ranges[i, 1], sums[a, i] / n - width))


@njit(cache=True)
def pseudo_action_values(W, Q, V_t, J, trace):
    """r̂_j − (1/V_t) Σ_k W_jk Q_k into trace[J:2J], from r̂ in trace[:J]."""
    K = Q.shape[0]
    for j in range(J):
        value = trace[j]
        if K > 0:
            value -= dot(W[j], Q) / V_t
        trace[J + j] = value


@njit(cache=True)
def first_of_the_best(values):
    """The lowest row whose value is ≥ max − 1e-12."""
    best = values[0]
    for j in range(1, values.shape[0]):
        if values[j] > best:
            best = values[j]
    for j in range(values.shape[0]):
        if values[j] >= best - TIE:
            return j
    return 0


@njit(cache=True)
def queue_step(Q, W_a, eps_t):
    """Q ← max(0, Q + W_a + ε_t)."""
    for k in range(Q.shape[0]):
        Q[k] = max(0.0, Q[k] + W_a[k] + eps_t)


@njit(cache=True)
def act(ids, W, core, trace):
    """Choose by r̂ in trace[:J] and W, move the queue, the known totals and the round counter; return the row."""
    J = ids.shape[0]
    K = W.shape[1]
    t = core[ROUNDS] + 1.0
    Q = core[CORE_HEAD : CORE_HEAD + K]
    totals = core[CORE_HEAD + K : CORE_HEAD + 2 * K]
    known = core[CORE_HEAD + 2 * K : CORE_HEAD + 3 * K]
    V_t = 1.0
    eps_t = 0.0
    if K > 0:
        T = horizon_at(core, t)
        V_t = schedule(t, core[V_SCALE], core[V_EXPONENT], core[V_LOG], T)
        eps_t = schedule(t, core[E_SCALE], core[E_EXPONENT], core[E_LOG], T)
    pseudo_action_values(W, Q, V_t, J, trace)
    row = first_of_the_best(trace[J : 2 * J])
    at = 2 * J
    for j in range(J):
        for k in range(K):
            trace[at] = W[j, k]
            at += 1
    for k in range(K):
        trace[at] = Q[k]
        at += 1
    trace[at] = V_t
    trace[at + 1] = eps_t
    for k in range(K):
        if known[k] != 0.0:
            totals[k] += W[row, k]
    queue_step(Q, W[row], eps_t)
    core[ROUNDS] = t
    return row


@njit(cache=True)
def decide_ridge(phi, ids, W, Theta, Sigma_inv, stat, core, trace):
    """One decision on a ridge reward model; −1, with nothing changed, where an input is not valid."""
    if not (rows_are_valid(phi) and costs_are_valid(W, core)):
        return -1
    optimistic_rewards_ridge(phi, ids, Theta, Sigma_inv, stat, core, trace)
    return act(ids, W, core, trace)


@njit(cache=True)
def decide_arms(ids, W, counts, sums, stat, core, trace):
    """One decision on arm means; −1, with nothing changed, where a cost is not valid."""
    if not costs_are_valid(W, core):
        return -1
    optimistic_rewards_arms(ids, counts, sums, stat, core, trace)
    return act(ids, W, core, trace)


@njit(cache=True)
def invert(Sigma, Sigma_inv):
    """Σ⁻¹ = L⁻ᵀL⁻¹ from the Cholesky factor of Σ."""
    n = Sigma.shape[0]
    L = np.zeros((n, n))
    for j in range(n):
        for i in range(j, n):
            L[i, j] = Sigma[i, j] - dot(L[i, :j], L[j, :j])
        root = math.sqrt(L[j, j])
        for i in range(j, n):
            L[i, j] /= root
    # Rows of L⁻¹ by forward substitution: row i of L⁻¹ = (e_i − Σ_{k<i} L_ik · row k) / L_ii.
    R = np.zeros((n, n))
    for i in range(n):
        R[i, i] = 1.0
        for k in range(i):
            a = L[i, k]
            for j in range(k + 1):
                R[i, j] -= a * R[k, j]
        for j in range(i + 1):
            R[i, j] /= L[i, i]
    for i in range(n):
        for j in range(n):
            Sigma_inv[i, j] = 0.0
    for k in range(n):
        for i in range(k + 1):
            a = R[k, i]
            for j in range(k + 1):
                Sigma_inv[i, j] += a * R[k, j]


@njit(cache=True)
def refresh(Sigma, Sigma_inv, B, Theta, wear):
    """Σ⁻¹ and Θ = B Σ⁻¹ afresh from the sums, which carry no drift."""
    invert(Sigma, Sigma_inv)
    for i in range(B.shape[0]):
        matvec(Sigma_inv, B[i], Theta[i])
    wear[SINCE] = 0.0
    wear[DRIFT] = 0.0


@njit(cache=True)
def ridge_learn(g, x, y, Sigma, Sigma_inv, B, Theta, wear, stat, scratch):
    """Σ ← Σ + xxᵀ, b ← b + xy and, by Sherman–Morrison, Σ⁻¹ and θ̂ of block g, one θ̂ for each entry of y.

    Σ⁻¹ is refreshed from Σ every max(256, 2p) updates, and sooner when xᵀΣ⁻¹x shows that digits were cancelled (a tiny ridge).
    """
    p = x.shape[0]
    S = Sigma[g]
    X = Sigma_inv[g]
    matvec(X, x, scratch)
    q = dot(x, scratch)
    s = 1.0 / (1.0 + q)
    for i in range(p):
        a = s * scratch[i]
        b = x[i]
        for j in range(p):
            X[i, j] -= a * scratch[j]
            S[i, j] += b * x[j]
    for i in range(y.shape[0]):
        gain = s * (y[i] - dot(Theta[g, i], x))
        for j in range(p):
            B[g, i, j] += y[i] * x[j]
            Theta[g, i, j] += gain * scratch[j]
    stat[LEARNT] += 1.0
    wear[g, SINCE] += 1.0
    wear[g, DRIFT] += EPSILON * (1.0 + q)
    if wear[g, SINCE] >= max(REFRESH_EVERY, 2 * p) or wear[g, DRIFT] > REFRESH_DRIFT:
        refresh(S, X, B[g], Theta[g], wear[g])


@njit(cache=True)
def arms_learn(a, y, counts, sums, stat):
    """One more outcome y (M,) of arm a."""
    counts[a] += 1.0
    for i in range(y.shape[0]):
        sums[a, i] += y[i]
    stat[LEARNT] += 1.0
