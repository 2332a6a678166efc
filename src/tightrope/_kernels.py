"""The formulas of the algorithm, compiled: arrays in, arrays out, one function for each formula.

`decide`, `learn` and the simulator's loop all call these functions, so that a formula stands in one place. They avoid BLAS and
`fastmath`, and let only independent elements run side by side in a vector register: sums are formed in the same order wherever a
function is inlined, hence the same bits on every path. All of them live in this one file, because Numba's cache on disk does
not notice a change in a function that is called from another file. Where Numba is not installed they run as plain Python.

Small quantities are packed into flat vectors, for every array argument costs a call about 0.15 µs:

`core` (CORE_HEAD + 3K + 2p,): round counter, schedules and K, then Q (K,), cumulative costs (K,), 1 where a cost is seen before
acting (K,), and room for intermediate results (2p,).
`flat`: all arrays of a ridge model in one, taken apart by `ridge_views`.
`stat` (STAT_SIZE,): one model's count of learnt outcomes and its settings.
`trace` (2J + JK + K + 2,): r̂ (J,), values (J,), W as used (J, K), Q before the step (K,), V_t, ε_t.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

try:
    from numba import njit
except ModuleNotFoundError:

    def njit(**_):  # type: ignore[no-redef]
        """The identity, in Numba's place."""
        return lambda function: function


# core
ROUNDS, HORIZON, V_SCALE, V_EXPONENT, V_LOG, E_SCALE, E_EXPONENT, E_LOG, CONSTRAINTS = range(9)
CORE_HEAD = 9
# stat
LEARNT, BONUS, NORM, RIDGE, DIMENSION = range(5)
STAT_SIZE = 5
# wear, for each block of a ridge model
SINCE, DRIFT = range(2)

TIE = 1e-12
NORM_LIMIT = (1.0 + 1e-6) ** 2
COST_LIMIT = 1.0 + 1e-9
REFRESH_EVERY = 256
REFRESH_ROWS = 8
REFRESH_ROUNDING = 2e-8
REFRESH_GROWTH = 8.0
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
def row_dot(A, i, B, j):
    """⟨A_i, B_j⟩ by the same sums as `dot`; indices instead of views, which cost a count of references each."""
    n = A.shape[1]
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    k = 0
    while k + 4 <= n:
        s0 += A[i, k] * B[j, k]
        s1 += A[i, k + 1] * B[j, k + 1]
        s2 += A[i, k + 2] * B[j, k + 2]
        s3 += A[i, k + 3] * B[j, k + 3]
        k += 4
    while k < n:
        s0 += A[i, k] * B[j, k]
        k += 1
    return (s0 + s1) + (s2 + s3)


@njit(cache=True)
def quadratic_form(A, X, a, room):
    """xᵀAx for the row x = X_a and symmetric A, from its lower triangle, four rows at a time; room for n numbers."""
    n = X.shape[1]
    for j in range(n):
        room[j] = 0.5 * A[j, j] * X[a, j]
    i = 0
    while i + 4 <= n:
        x0, x1, x2, x3 = X[a, i], X[a, i + 1], X[a, i + 2], X[a, i + 3]
        for j in range(i):
            room[j] = room[j] + x0 * A[i, j] + x1 * A[i + 1, j] + x2 * A[i + 2, j] + x3 * A[i + 3, j]
        room[i] += x1 * A[i + 1, i] + x2 * A[i + 2, i] + x3 * A[i + 3, i]
        room[i + 1] += x2 * A[i + 2, i + 1] + x3 * A[i + 3, i + 1]
        room[i + 2] += x3 * A[i + 3, i + 2]
        i += 4
    while i < n:
        x0 = X[a, i]
        for j in range(i):
            room[j] += x0 * A[i, j]
        i += 1
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    i = 0
    while i + 4 <= n:
        s0 += room[i] * X[a, i]
        s1 += room[i + 1] * X[a, i + 1]
        s2 += room[i + 2] * X[a, i + 2]
        s3 += room[i + 3] * X[a, i + 3]
        i += 4
    while i < n:
        s0 += room[i] * X[a, i]
        i += 1
    return 2.0 * ((s0 + s1) + (s2 + s3))


@njit(cache=True)
def two_quadratic_forms(A, X, a, room):
    """Of the rows a and a + 1, each by the same sums as `quadratic_form`, reading A once; room for 2n numbers."""
    n = X.shape[1]
    b = a + 1
    for j in range(n):
        room[j] = 0.5 * A[j, j] * X[a, j]
        room[n + j] = 0.5 * A[j, j] * X[b, j]
    i = 0
    while i + 4 <= n:
        x0, x1, x2, x3 = X[a, i], X[a, i + 1], X[a, i + 2], X[a, i + 3]
        y0, y1, y2, y3 = X[b, i], X[b, i + 1], X[b, i + 2], X[b, i + 3]
        for j in range(i):
            p, q, r, s = A[i, j], A[i + 1, j], A[i + 2, j], A[i + 3, j]
            room[j] = room[j] + x0 * p + x1 * q + x2 * r + x3 * s
            room[n + j] = room[n + j] + y0 * p + y1 * q + y2 * r + y3 * s
        room[i] += x1 * A[i + 1, i] + x2 * A[i + 2, i] + x3 * A[i + 3, i]
        room[i + 1] += x2 * A[i + 2, i + 1] + x3 * A[i + 3, i + 1]
        room[i + 2] += x3 * A[i + 3, i + 2]
        room[n + i] += y1 * A[i + 1, i] + y2 * A[i + 2, i] + y3 * A[i + 3, i]
        room[n + i + 1] += y2 * A[i + 2, i + 1] + y3 * A[i + 3, i + 1]
        room[n + i + 2] += y3 * A[i + 3, i + 2]
        i += 4
    while i < n:
        x0, y0 = X[a, i], X[b, i]
        for j in range(i):
            room[j] += x0 * A[i, j]
            room[n + j] += y0 * A[i, j]
        i += 1
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    t0 = 0.0
    t1 = 0.0
    t2 = 0.0
    t3 = 0.0
    i = 0
    while i + 4 <= n:
        s0 += room[i] * X[a, i]
        s1 += room[i + 1] * X[a, i + 1]
        s2 += room[i + 2] * X[a, i + 2]
        s3 += room[i + 3] * X[a, i + 3]
        t0 += room[n + i] * X[b, i]
        t1 += room[n + i + 1] * X[b, i + 1]
        t2 += room[n + i + 2] * X[b, i + 2]
        t3 += room[n + i + 3] * X[b, i + 3]
        i += 4
    while i < n:
        s0 += room[i] * X[a, i]
        t0 += room[n + i] * X[b, i]
        i += 1
    return 2.0 * ((s0 + s1) + (s2 + s3)), 2.0 * ((t0 + t1) + (t2 + t3))


@njit(cache=True)
def ridge_width(Sigma_inv, phi, room):
    """‖φ‖_{Σ⁻¹} of one vector."""
    return math.sqrt(max(0.0, quadratic_form(Sigma_inv, phi.reshape((1, phi.shape[0])), 0, room)))


@njit(cache=True)
def ridge_widths(Sigma_inv, phi, ids, room, out):
    """‖φ_j‖_{Σ⁻¹} of every action on offer into out: by one block for all, or by block ids[j]; one row may stand for all."""
    J = ids.shape[0]
    if Sigma_inv.shape[0] > 1:
        for j in range(J):
            row = 0 if phi.shape[0] < J else j
            out[j] = math.sqrt(max(0.0, quadratic_form(Sigma_inv[ids[j]], phi, row, room)))
        return
    A = Sigma_inv[0]
    j = 0
    while j + 2 <= J:
        a, b = two_quadratic_forms(A, phi, j, room)
        out[j] = math.sqrt(max(0.0, a))
        out[j + 1] = math.sqrt(max(0.0, b))
        j += 2
    if j < J:
        out[j] = math.sqrt(max(0.0, quadratic_form(A, phi, j, room)))


@njit(cache=True)
def rows_are_valid(phi):
    """Whether every ‖φ_j‖ is at most 1 (false for NaN and Inf too)."""
    for j in range(phi.shape[0]):  # noqa: SIM110 - Numba compiles the loop, not the generator
        if not row_dot(phi, j, phi, j) <= NORM_LIMIT:
            return False
    return True


@njit(cache=True)
def fits(W, J, core):
    """Whether W has a row for each action on offer, at least one, and a column for each constraint."""
    return J > 0 and W.shape[0] == J and W.shape[1] == core[CONSTRAINTS]


@njit(cache=True)
def costs_are_valid(W, core):
    """Whether every |W_jk| that is seen before acting is at most 1 (false for NaN and Inf too)."""
    J, K = W.shape
    unknown = 0
    for k in range(K):
        unknown += core[CORE_HEAD + 2 * K + k] == 0.0
    bad = 0
    if unknown == 0:
        # Without a way out of the loop it vectorises.
        for j in range(J):
            for k in range(K):
                bad += not abs(W[j, k]) <= COST_LIMIT
    else:
        for j in range(J):
            for k in range(K):
                bad += core[CORE_HEAD + 2 * K + k] != 0.0 and not abs(W[j, k]) <= COST_LIMIT
    return bad == 0


@njit(cache=True)
def penalty_of(W, j, Q):
    """Σ_k W_jk Q_k by the same sums as `dot`."""
    K = Q.shape[0]
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    k = 0
    while k + 4 <= K:
        s0 += W[j, k] * Q[k]
        s1 += W[j, k + 1] * Q[k + 1]
        s2 += W[j, k + 2] * Q[k + 2]
        s3 += W[j, k + 3] * Q[k + 3]
        k += 4
    while k < K:
        s0 += W[j, k] * Q[k]
        k += 1
    return (s0 + s1) + (s2 + s3)


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
    ridge_widths(Sigma_inv, phi, ids, core[core.shape[0] - 2 * p :], trace)
    block = Theta[0]
    for j in range(J):
        if disjoint:
            block = Theta[ids[j]]
        trace[j] = min(1.0, row_dot(block, 0, phi, 0 if one_row else j) + root_beta * trace[j])


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
    J = ids.shape[0]
    one_row = psi.shape[0] < J
    widths = np.empty(J)
    ridge_widths(Sigma_inv, psi, ids, core[core.shape[0] - 2 * psi.shape[1] :], widths)
    block = Theta[0]
    for j in range(J):
        if disjoint:
            block = Theta[ids[j]]
        for i in range(columns.shape[0]):
            low = row_dot(block, i, psi, 0 if one_row else j) - root_beta * widths[j]
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
            value -= penalty_of(W, j, Q) / V_t
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
    J = ids.shape[0]
    if phi.shape[1] != Theta.shape[2] or not (
        phi.shape[0] == J or (phi.shape[0] == 1 and Theta.shape[0] > 1)
    ):
        return -1
    if not (fits(W, J, core) and rows_are_valid(phi) and costs_are_valid(W, core)):
        return -1
    optimistic_rewards_ridge(phi, ids, Theta, Sigma_inv, stat, core, trace)
    return act(ids, W, core, trace)


@njit(cache=True)
def ridge_views(flat):
    """Σ⁻¹, Θ, Σ, b, wear and stat of a ridge model from the one array that holds them after G, p and M."""
    G = int(flat[0])
    p = int(flat[1])
    M = int(flat[2])
    at = 3 + STAT_SIZE
    stat = flat[3:at]
    Theta = flat[at : at + G * M * p].reshape((G, M, p))
    at += G * M * p
    Sigma_inv = flat[at : at + G * p * p].reshape((G, p, p))
    at += G * p * p
    Sigma = flat[at : at + G * p * p].reshape((G, p, p))
    at += G * p * p
    B = flat[at : at + G * M * p].reshape((G, M, p))
    at += G * M * p
    wear = flat[at : at + 2 * G].reshape((G, 2))
    return stat, Theta, Sigma_inv, Sigma, B, wear


@njit(cache=True)
def ridge_front(flat):
    """What `ridge_views` gives first: all that a decision reads."""
    G = int(flat[0])
    p = int(flat[1])
    M = int(flat[2])
    at = 3 + STAT_SIZE
    middle = at + G * M * p
    return (
        flat[3:at],
        flat[at:middle].reshape((G, M, p)),
        flat[middle : middle + G * p * p].reshape((G, p, p)),
    )


@njit(cache=True)
def decide_flat(phi, ids, W, flat, core, trace):
    """`decide_ridge` with fewer arguments."""
    stat, Theta, Sigma_inv = ridge_front(flat)
    return decide_ridge(phi, ids, W, Theta, Sigma_inv, stat, core, trace)


@njit(cache=True)
def decide_many_flat(phis, ids, Ws, flat, core, traces, rows):
    """Successive decisions on one state of the model; False, with nothing changed, where an input is not valid."""
    stat, Theta, Sigma_inv = ridge_front(flat)
    J = ids.shape[0]
    if phis.shape[1] != J or phis.shape[2] != Theta.shape[2]:
        return False
    for i in range(phis.shape[0]):
        if not (fits(Ws[i], J, core) and rows_are_valid(phis[i]) and costs_are_valid(Ws[i], core)):
            return False
    for i in range(phis.shape[0]):
        optimistic_rewards_ridge(phis[i], ids, Theta, Sigma_inv, stat, core, traces[i])
        rows[i] = act(ids, Ws[i], core, traces[i])
    return True


@njit(cache=True)
def learn_flat(g, x, y, flat, core):
    """`ridge_learn` of one outcome, with fewer arguments."""
    stat, Theta, Sigma_inv, Sigma, B, wear = ridge_views(flat)
    ridge_learn(g, x, y, Sigma, Sigma_inv, B, Theta, wear, stat, core[core.shape[0] - x.shape[0] :])


@njit(cache=True)
def decide_arms(ids, W, counts, sums, stat, core, trace):
    """One decision on arm means; −1, with nothing changed, where a cost is not valid."""
    if not (fits(W, ids.shape[0], core) and costs_are_valid(W, core)):
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
    # Rows of R = L⁻¹ from RL = I, not from LR = I: ΣRᵀR − I = L(RL)ᵀR − I, so it is RL − I that must be small.
    R = np.zeros((n, n))
    for i in range(n):
        R[i, i] = 1.0
        for k in range(i, -1, -1):
            R[i, k] /= L[k, k]
            a = R[i, k]
            for j in range(k):
                R[i, j] -= a * L[k, j]
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

    Σ⁻¹ is refreshed from Σ every max(256, 8p) updates, and sooner where the error R = ΣX − I of X ≈ Σ⁻¹ could matter. With
    u = Xx and s = 1/(1 + xᵀu) an update turns R into R(I − s·xuᵀ), plus rounding of the order of eps·‖Σ‖·‖X‖: the wear adds up
    this rounding, in units of what is allowed, and the logarithm of the growth s·‖x‖·‖u‖, which exceeds 1 only where λ < 1.
    """
    p = x.shape[0]
    S = Sigma[g]
    X = Sigma_inv[g]
    matvec(X, x, scratch)
    s = 1.0 / (1.0 + dot(x, scratch))
    growth = s * math.sqrt(dot(x, x) * dot(scratch, scratch))
    top = 0.0
    trace = 1.0
    for i in range(p):
        top = max(top, X[i, i])
        trace += S[i, i]
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
    wear[g, DRIFT] += EPSILON * trace * top / REFRESH_ROUNDING
    if growth > 1.0:
        wear[g, DRIFT] += math.log(growth) / math.log(REFRESH_GROWTH)
    if wear[g, SINCE] >= max(REFRESH_EVERY, REFRESH_ROWS * p) or wear[g, DRIFT] >= 1.0:
        refresh(S, X, B[g], Theta[g], wear[g])


@njit(cache=True)
def arms_learn(a, y, counts, sums, stat):
    """One more outcome y (M,) of arm a."""
    counts[a] += 1.0
    for i in range(y.shape[0]):
        sums[a, i] += y[i]
    stat[LEARNT] += 1.0


# Draws: Philox4x32-10 (Salmon et al. 2011), keyed by the seed, counting (round, slot, replication). A draw is a function of these
# alone, so that it does not depend on the action, on the engine or on the order in which replications finish.

MASK = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)
PHILOX_M0, PHILOX_M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
PHILOX_W0, PHILOX_W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
TO_UNIT = 2.0**-53

# Slots of a round: 0 holds two uniforms, for the context and for a Bernoulli reward; then one slot for each normal or jump.
CONTEXT_SLOT, GAUSSIAN_REWARD_SLOT, COST_SLOT = 0, 1, 2

FIXED, BERNOULLI, GAUSSIAN = 0, 1, 2

# A cumulated cost counts as a violation above this: it is what rounding can leave of an exact 0.
VIOLATION = 1e-9


@njit(cache=True)
def philox(c0, c1, c2, c3, k0, k1):
    """The four 32-bit words of one block, as two 64-bit words (uint64 in, uint64 out)."""
    for _ in range(10):
        p0 = PHILOX_M0 * c0
        p1 = PHILOX_M1 * c2
        c0, c1, c2, c3 = (p1 >> SHIFT) ^ c1 ^ k0, p1 & MASK, (p0 >> SHIFT) ^ c3 ^ k1, p0 & MASK
        k0 = (k0 + PHILOX_W0) & MASK
        k1 = (k1 + PHILOX_W1) & MASK
    return c0 | (c1 << SHIFT), c2 | (c3 << SHIFT)


@njit(cache=True)
def uniforms(seed, replication, t, slot):
    """Two uniforms in [0, 1) for one slot of round t."""
    key, count = np.uint64(seed), np.uint64(t)
    a, b = philox(
        count & MASK, count >> SHIFT, np.uint64(slot), np.uint64(replication), key & MASK, key >> SHIFT
    )
    return (a >> np.uint64(11)) * TO_UNIT, (b >> np.uint64(11)) * TO_UNIT


@njit(cache=True)
def normal(seed, replication, t, slot):
    """One standard normal for one slot of round t (Box–Muller)."""
    u, v = uniforms(seed, replication, t, slot)
    return math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)


@njit(cache=True)
def pick(cdf, u):
    """The first index whose cumulated probability exceeds u."""
    low = 0
    high = cdf.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if cdf[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True)
def draw_reward(seed, replication, t, u, mean, kind, scale):
    """One reward; u is the second uniform of the round's context slot."""
    if kind == BERNOULLI:
        return 1.0 if u < mean else 0.0
    if kind == GAUSSIAN:
        return mean + scale * normal(seed, replication, t, GAUSSIAN_REWARD_SLOT)
    return mean


@njit(cache=True)
def draw_costs(seed, replication, t, action, location, kind, scale, spans, out):
    """The K costs of one action into out: potential outcomes, the same whatever is chosen."""
    K = out.shape[0]
    for k in range(K):
        low = spans[k, 0]
        high = spans[k, 1]
        if kind == FIXED or low == high:
            out[k] = location[k]
        elif kind == BERNOULLI:
            u, _ = uniforms(seed, replication, t, COST_SLOT + action * K + k)
            out[k] = high if u * (high - low) < location[k] - low else low
        else:
            z = location[k] + scale * normal(seed, replication, t, COST_SLOT + action * K + k)
            out[k] = max(low, min(high, z))


# The simulator's loop. `tally` (2 + 2K + J,) cumulates: mean reward, drawn reward, drawn costs (K,), costs with the noise averaged
# out where the action can't depend on it (K,), choices (J,).


@njit(cache=True)
def account(tally, t, action, mean_reward, reward, costs, mean_costs, last_violation):
    """Add one round to the tally, and note for each constraint the last round whose cumulated cost is above 0."""
    K = costs.shape[0]
    tally[0] += mean_reward
    tally[1] += reward
    for k in range(K):
        tally[2 + k] += costs[k]
        tally[2 + K + k] += mean_costs[k]
        if tally[2 + k] > VIOLATION:
            last_violation[k] = t
    tally[2 + 2 * K + action] += 1.0


class World(NamedTuple):
    """A tabular environment in the loop's form; the actions on offer in context c are ids[offsets[c] : offsets[c + 1]]."""

    cdf: Any
    offsets: Any
    ids: Any
    rewards: Any
    reward_kind: Any
    reward_scale: Any
    means: Any
    locations: Any
    cost_kind: Any
    cost_scale: Any
    spans: Any
    before: Any


class RidgeArrays(NamedTuple):
    """Rows of features by context, and the arrays of a `Ridge` or `DisjointRidge`."""

    rows: Any
    Sigma: Any
    Sigma_inv: Any
    B: Any
    Theta: Any
    wear: Any
    stat: Any


class ArmArrays(NamedTuple):
    """The arrays of an `ArmMeans`."""

    counts: Any
    sums: Any
    stat: Any


NO_MODEL, RIDGE_MODEL, ARM_MODEL = 0, 1, 2


@njit(cache=True)
def context_rows(rows, c, ids, buffer):
    """Feature rows of the actions on offer in context c."""
    if rows.shape[1] == 1 or ids.shape[0] == rows.shape[1]:
        return rows[c]
    for i in range(ids.shape[0]):
        for j in range(rows.shape[2]):
            buffer[i, j] = rows[c, ids[i], j]
    return buffer[: ids.shape[0]]


@njit(cache=True)
def chosen_costs(world, seed, replication, t, c, action, out):
    """The K costs of one action in context c."""
    draw_costs(
        seed,
        replication,
        t,
        action,
        world.locations[c, action],
        world.cost_kind,
        world.cost_scale,
        world.spans,
        out,
    )


@njit(cache=True)
def offered_costs(world, seed, replication, t, c, ids, buffer):
    """The costs of the actions on offer, seen before acting."""
    if world.cost_kind == FIXED and ids.shape[0] == world.rewards.shape[1]:
        return world.means[c]
    for i in range(ids.shape[0]):
        chosen_costs(world, seed, replication, t, c, ids[i], buffer[i])
    return buffer[: ids.shape[0]]


@njit(cache=True, nogil=True)
def simulate_pessimistic_optimistic(
    world,
    constrained,
    reward_kind,
    reward_ridge,
    reward_arms,
    cost_kind,
    cost_ridge,
    cost_arms,
    ranges,
    columns,
    core,
    seed,
    replication,
    rounds,
    grid,
    records,
    last_violation,
    choices,
    stop,
):
    """One replication of the pessimistic-optimistic policy; returns the rounds that were run (fewer when stopped)."""
    J = world.rewards.shape[1]
    K = world.means.shape[2]
    blind = not constrained or not world.before
    K_policy = K if constrained else 0
    tally = np.zeros(2 + 2 * K + J)
    trace = np.empty(2 * J + (J + 1) * K_policy + 2)
    rows_buffer = np.empty((J, reward_ridge.rows.shape[2]))
    cost_rows_buffer = np.empty((J, cost_ridge.rows.shape[2]))
    costs_buffer = np.zeros((J, K_policy))
    drawn = np.zeros(K)
    y = np.empty(1)
    scratch = np.empty(max(reward_ridge.rows.shape[2], cost_ridge.rows.shape[2]))
    at = 0
    for t in range(1, rounds + 1):
        if t % 1024 == 0 and stop[0] != 0:
            return t - 1
        u, v = uniforms(seed, replication, t, CONTEXT_SLOT)
        c = pick(world.cdf, u)
        ids = world.ids[world.offsets[c] : world.offsets[c + 1]]
        W = costs_buffer[: ids.shape[0]]
        if not blind:
            W = offered_costs(world, seed, replication, t, c, ids, costs_buffer)
        elif cost_kind == RIDGE_MODEL:
            psi = context_rows(cost_ridge.rows, c, ids, cost_rows_buffer)
            optimistic_costs_ridge(
                psi, ids, cost_ridge.Theta, cost_ridge.Sigma_inv, cost_ridge.stat, core, ranges, columns, W
            )
        elif cost_kind == ARM_MODEL:
            optimistic_costs_arms(
                ids, cost_arms.counts, cost_arms.sums, cost_arms.stat, core, ranges, columns, W
            )
        if reward_kind == RIDGE_MODEL:
            phi = context_rows(reward_ridge.rows, c, ids, rows_buffer)
            optimistic_rewards_ridge(
                phi, ids, reward_ridge.Theta, reward_ridge.Sigma_inv, reward_ridge.stat, core, trace
            )
        else:
            optimistic_rewards_arms(ids, reward_arms.counts, reward_arms.sums, reward_arms.stat, core, trace)
        row = act(ids, W, core, trace)
        a = ids[row]
        reward = draw_reward(
            seed, replication, t, v, world.rewards[c, a], world.reward_kind, world.reward_scale
        )
        y[0] = reward
        if reward_kind == RIDGE_MODEL:
            m = reward_ridge
            x = m.rows[c, a if m.rows.shape[1] > 1 else 0]
            g = a if m.Theta.shape[0] > 1 else 0
            ridge_learn(g, x, y, m.Sigma, m.Sigma_inv, m.B, m.Theta, m.wear, m.stat, scratch)
        else:
            arms_learn(a, y, reward_arms.counts, reward_arms.sums, reward_arms.stat)
        if blind:
            chosen_costs(world, seed, replication, t, c, a, drawn)
            account(tally, t, a, world.rewards[c, a], reward, drawn, world.means[c, a], last_violation)
        else:
            for k in range(K):
                drawn[k] = W[row, k]
            account(tally, t, a, world.rewards[c, a], reward, drawn, drawn, last_violation)
        if cost_kind == RIDGE_MODEL:
            n = cost_ridge
            x = n.rows[c, a if n.rows.shape[1] > 1 else 0]
            g = a if n.Theta.shape[0] > 1 else 0
            ridge_learn(g, x, drawn, n.Sigma, n.Sigma_inv, n.B, n.Theta, n.wear, n.stat, scratch)
        elif cost_kind == ARM_MODEL:
            arms_learn(a, drawn, cost_arms.counts, cost_arms.sums, cost_arms.stat)
        if choices.shape[0] > 0:
            choices[t - 1] = a
        if t == grid[at]:
            records[at] = tally
            at += 1
    return rounds


# Comparators. Their own randomness comes from a stream keyed by the policy's seed, one slot a decision.

UNIFORM, STATIC, ROUND_ROBIN, OPB = 0, 1, 2, 3
# opb settings
OPB_THRESHOLD_ARM, OPB_SAFE_COST, OPB_HIGH, OPB_ALPHA_REWARD, OPB_ALPHA_COST, OPB_LOG = range(6)


@njit(cache=True)
def uniform_choice(ids, u):
    """One of the ids, each as likely as the other."""
    return ids[min(ids.shape[0] - 1, int(u * ids.shape[0]))]


@njit(cache=True)
def round_robin_choice(ids, shares, counts):
    """The id on offer that is furthest behind its share; the lowest of equals."""
    total = 1.0
    for j in range(counts.shape[0]):
        total += counts[j]
    best = ids[0]
    for i in range(1, ids.shape[0]):
        a = ids[i]
        if shares[a] * total - counts[a] > shares[best] * total - counts[best] + TIE:
            best = a
    return best


@njit(cache=True)
def opb_mixture(counts, sums, settings):
    """The mixture of at most two arms that solves max Σπu^r s.t. Σπu^w ≤ 0 (Pacchiano et al. 2021, Lemma 5): (i, j, weight of j).

    u^r = mean + α_r w is not clipped; u^w = min(high, mean + α_c w), high for an arm without an outcome, and the known cost for
    the safe arm; w = sqrt(2 log(1/p) / max(n, 1)), p = 1/T².
    """
    J = counts.shape[0]
    safe = int(settings[OPB_THRESHOLD_ARM])
    u_r = np.empty(J)
    u_w = np.empty(J)
    for a in range(J):
        n = max(1.0, counts[a])
        w = math.sqrt(settings[OPB_LOG] / n)
        u_r[a] = sums[a, 0] / n + settings[OPB_ALPHA_REWARD] * w
        if a == safe:
            u_w[a] = settings[OPB_SAFE_COST]
        elif counts[a] == 0.0:
            u_w[a] = settings[OPB_HIGH]
        else:
            u_w[a] = min(settings[OPB_HIGH], sums[a, 1] / n + settings[OPB_ALPHA_COST] * w)
    best_i = safe
    best_j = safe
    best_weight = 0.0
    best = u_r[safe]
    for i in range(J):
        if u_w[i] > 0.0:
            continue
        if u_r[i] > best + TIE:
            best, best_i, best_j, best_weight = u_r[i], i, i, 0.0
        for j in range(J):
            if u_w[j] > 0.0:
                weight = -u_w[i] / (u_w[j] - u_w[i])
                value = (1.0 - weight) * u_r[i] + weight * u_r[j]
                if value > best + TIE:
                    best, best_i, best_j, best_weight = value, i, j, weight
    return best_i, best_j, best_weight


@njit(cache=True)
def own_uniform(policy_seed, number):
    """The uniform that a randomised policy uses for its decision of that number."""
    u, _ = uniforms(policy_seed, 0, number, 0)
    return u


@njit(cache=True, nogil=True)
def simulate_comparator(
    world,
    kind,
    table,
    shares,
    counts,
    sums,
    settings,
    policy_seed,
    made,
    seed,
    replication,
    rounds,
    grid,
    records,
    last_violation,
    choices,
    stop,
):
    """One replication of a policy that looks at neither features nor costs before acting."""
    J = world.rewards.shape[1]
    K = world.means.shape[2]
    tally = np.zeros(2 + 2 * K + J)
    drawn = np.zeros(K)
    at = 0
    for t in range(1, rounds + 1):
        if t % 1024 == 0 and stop[0] != 0:
            return t - 1
        u, v = uniforms(seed, replication, t, CONTEXT_SLOT)
        c = pick(world.cdf, u)
        ids = world.ids[world.offsets[c] : world.offsets[c + 1]]
        if kind == UNIFORM:
            a = uniform_choice(ids, own_uniform(policy_seed, made))
        elif kind == STATIC:
            a = pick(table[c], own_uniform(policy_seed, made))
        elif kind == ROUND_ROBIN:
            a = round_robin_choice(ids, shares, counts)
        else:
            i, j, weight = opb_mixture(counts, sums, settings)
            a = j if own_uniform(policy_seed, made) < weight else i
        made += 1
        mean = world.rewards[c, a]
        reward = draw_reward(seed, replication, t, v, mean, world.reward_kind, world.reward_scale)
        chosen_costs(world, seed, replication, t, c, a, drawn)
        counts[a] += 1.0
        if kind == OPB:
            sums[a, 0] += reward
            sums[a, 1] += drawn[0]
        account(tally, t, a, mean, reward, drawn, world.means[c, a], last_violation)
        if choices.shape[0] > 0:
            choices[t - 1] = a
        if t == grid[at]:
            records[at] = tally
            at += 1
    return rounds


# Many actions or many constraints: penalties first, then widths only where they can still matter.


@njit(cache=True)
def dense_penalties(W, Q, out):
    """Σ_k W_jk Q_k for every action."""
    for j in range(W.shape[0]):
        out[j] = penalty_of(W, j, Q)


@njit(cache=True)
def sparse_penalties(offsets, indices, data, limits, Q, out):
    """Σ_k (usage_jk − limit_k) Q_k for every action: the limits' part is the same for all."""
    base = dot(limits, Q)
    for j in range(offsets.shape[0] - 1):
        total = 0.0
        for i in range(offsets[j], offsets[j + 1]):
            total += data[i] * Q[indices[i]]
        out[j] = total - base


@njit(cache=True)
def worth(j, phi, Theta, Sigma_inv, root_beta, penalty, V_t, room, rewards, bounds):
    """The exact value of action j; leaves r̂_j and its width behind."""
    bounds[j] = math.sqrt(max(0.0, quadratic_form(Sigma_inv, phi, j, room)))
    rewards[j] = min(1.0, row_dot(Theta, 0, phi, j) + root_beta * bounds[j])
    return rewards[j] - penalty[j] / V_t


LEADERS = 16
SHOWN = 10
# A width that was computed earlier bounds today's in exact arithmetic, and a sum in another order is the same; this is what
# rounding may take from either.
WIDTH_SLACK = 1.0 + 1e-9
MEAN_SLACK = 1e-12


@njit(cache=True)
def means_by_columns(columns, theta, out):
    """⟨θ, φ_j⟩ of every action from the transposed features, which vectorises over the actions."""
    d, J = columns.shape
    for j in range(J):
        out[j] = 0.0
    i = 0
    while i + 4 <= d:
        a0, a1, a2, a3 = theta[i], theta[i + 1], theta[i + 2], theta[i + 3]
        for j in range(J):
            out[j] = (
                out[j]
                + a0 * columns[i, j]
                + a1 * columns[i + 1, j]
                + a2 * columns[i + 2, j]
                + a3 * columns[i + 3, j]
            )
        i += 4
    while i < d:
        a = theta[i]
        for j in range(J):
            out[j] += a * columns[i, j]
        i += 1


@njit(cache=True)
def lazy_choice(phi, columns, flat, bounds, penalty, core, constrained, rewards, values, fresh):
    """The row that the full sweep would choose, computing only the widths that could change it.

    bounds (J,) holds upper bounds of the widths, and is improved. rewards and values are exact where fresh is true, else bounds.
    columns is phi transposed, or empty where that would take too much memory.
    """
    stat, Thetas, Sigma_invs = ridge_front(flat)
    Theta = Thetas[0]
    Sigma_inv = Sigma_invs[0]
    J = phi.shape[0]
    room = core[core.shape[0] - phi.shape[1] :]
    t = core[ROUNDS] + 1.0
    T = horizon_at(core, t)
    root_beta = stat[BONUS] * radius(stat[LEARNT], stat[DIMENSION], T, stat[NORM], stat[RIDGE])
    V_t = 1.0
    if constrained:
        V_t = schedule(t, core[V_SCALE], core[V_EXPONENT], core[V_LOG], T)
    if columns.shape[0] > 0:
        means_by_columns(columns, Theta[0], rewards)
    else:
        for j in range(J):
            rewards[j] = row_dot(Theta, 0, phi, j)
    stretch = root_beta * WIDTH_SLACK
    for j in range(J):
        fresh[j] = False
        rewards[j] = min(1.0, rewards[j] + stretch * bounds[j] + MEAN_SLACK)
        values[j] = rewards[j] - penalty[j] / V_t
    top = 0
    for j in range(1, J):
        if values[j] > values[top]:
            top = j
    values[top] = worth(top, phi, Theta, Sigma_inv, root_beta, penalty, V_t, room, rewards, bounds)
    fresh[top] = True
    best = values[top]
    chosen = top
    # A few leaders one after the other, the highest bound first; then whatever is left in one pass.
    for _ in range(LEADERS):
        top = -1
        limit = best
        for j in range(J):
            v = values[j]
            if v >= limit - TIE and not fresh[j] and (v > limit or (j < chosen and top < 0)):
                top = j
                limit = max(limit, v)
        if top < 0:
            return chosen
        values[top] = worth(top, phi, Theta, Sigma_inv, root_beta, penalty, V_t, room, rewards, bounds)
        fresh[top] = True
        if values[top] > best:
            best = values[top]
            chosen = lowest_of_the_best(values, fresh, best)
        elif values[top] >= best - TIE and top < chosen:
            chosen = top
    for j in range(J):
        if not fresh[j] and (values[j] > best or (j < chosen and values[j] >= best - TIE)):
            values[j] = worth(j, phi, Theta, Sigma_inv, root_beta, penalty, V_t, room, rewards, bounds)
            fresh[j] = True
            if values[j] > best:
                best = values[j]
                if values[chosen] < best - TIE:
                    chosen = j
            elif values[j] >= best - TIE and j < chosen:
                chosen = j
    return lowest_of_the_best(values, fresh, best)


@njit(cache=True)
def leaders(row, values, fresh, out):
    """The row chosen, then the best of the others that were computed, at most SHOWN in all; how many."""
    out[0] = row
    n = 1
    for j in range(values.shape[0]):
        if not fresh[j] or j == row:
            continue
        at = n
        while at > 1 and values[out[at - 1]] < values[j]:
            at -= 1
        if at >= SHOWN:
            continue
        n = min(n + 1, SHOWN)
        for i in range(n - 1, at, -1):
            out[i] = out[i - 1]
        out[at] = j
    return n


@njit(cache=True)
def decide_lazily(phi, columns, W, flat, core, scores, fresh, shown, trace):
    """One decision on a catalogue with dense costs; −1, with nothing changed, where a cost is not valid.

    scores (4, J): bounds of the widths, which outlast the round, penalties, rewards, values. trace is for the rows in shown.
    """
    J = phi.shape[0]
    K = W.shape[1]
    if not (fits(W, J, core) and costs_are_valid(W, core)):
        return -1, 0
    Q = core[CORE_HEAD : CORE_HEAD + K]
    dense_penalties(W, Q, scores[1])
    row = lazy_choice(phi, columns, flat, scores[0], scores[1], core, K > 0, scores[2], scores[3], fresh)
    n = leaders(row, scores[3], fresh, shown)
    at = 2 * n
    for i in range(n):
        trace[i] = scores[2, shown[i]]
        trace[n + i] = scores[3, shown[i]]
        for k in range(K):
            trace[at] = W[shown[i], k]
            at += 1
    for k in range(K):
        trace[at] = Q[k]
        at += 1
    trace[at], trace[at + 1] = take(W[row], core)
    return row, n


@njit(cache=True)
def lowest_of_the_best(values, fresh, best):
    """The lowest row among those computed whose value is ≥ best − 1e-12."""
    for j in range(values.shape[0]):
        if fresh[j] and values[j] >= best - TIE:
            return j
    return -1


@njit(cache=True)
def take(W_a, core):
    """Move the queue, the totals and the round counter by the costs of what was chosen; returns V_t and ε_t."""
    K = W_a.shape[0]
    t = core[ROUNDS] + 1.0
    T = horizon_at(core, t)
    V_t = 1.0
    eps_t = 0.0
    if K > 0:
        V_t = schedule(t, core[V_SCALE], core[V_EXPONENT], core[V_LOG], T)
        eps_t = schedule(t, core[E_SCALE], core[E_EXPONENT], core[E_LOG], T)
    for k in range(K):
        core[CORE_HEAD + K + k] += W_a[k]
    queue_step(core[CORE_HEAD : CORE_HEAD + K], W_a, eps_t)
    core[ROUNDS] = t
    return V_t, eps_t
