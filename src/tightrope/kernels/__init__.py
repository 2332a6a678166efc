"""The formulas of the algorithm, compiled: arrays in, arrays out, one function for each formula.

`decide`, `learn` and the simulator's loop all call these functions, so that a formula stands in one place. They avoid BLAS and
`fastmath`, and run only independent elements side by side (`tightrope.kernels.lanes`): sums are formed in the same order wherever a
function is inlined, hence the same bits on every path. All of them live in this one file, because Numba's cache on disk does
not notice a change in a function that is called from another file. Where Numba is not installed they run as plain Python.

None of them allocates: what they need is passed to them, so that they are compiled without Numba's counting of references, which
would cost every array argument and every view. Arrays are read by flat addresses: an array and the index of a first element.

Small quantities are packed into flat vectors:

`core` (CORE_HEAD + 3K + ROOM_COLUMNS·p + ROOM,): round counter, schedules and K, then Q (K,), cumulative costs (K,), 1 where a cost
is seen before acting (K,), and room for intermediate results.
`flat`: all arrays of a ridge model in one, in the order of `ridge_parts`.
`stat` (STAT_SIZE,): one model's count of learnt outcomes and its settings.
`trace` (2J + JK + K + 2,): r̂ (J,), values (J,), W as used (J, K), Q before the step (K,), V_t, ε_t.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tightrope.kernels.lanes import (
    eight,
    first,
    fold4,
    four,
    high4,
    joined,
    load4,
    load8,
    low4,
    positive,
    spread4,
    spread8,
    store4,
    store8,
    with_first,
)
from tightrope.validation import COST_LIMIT, COST_ROUNDING, NORM_LIMIT, VIOLATION

try:
    import numba
    from numba.core.cpu import CPUTargetOptions
except ModuleNotFoundError:

    def kernel(function):
        """The function as it is, in the compiler's place."""
        return function

    released = inlined = kernel

    def entry(function, *_):
        """The function as it is."""
        return function

else:
    _OPTIONS = {"cache": True, **({"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {})}
    kernel = numba.njit(**_OPTIONS)
    released = numba.njit(nogil=True, **_OPTIONS)
    # For what is called so often that a call would cost more than the work.
    inlined = numba.njit(forceinline=True, **_OPTIONS)

    def entry(function, *arguments):
        """The code of `function` for arguments of the types of these, without the look at every argument of every call.

        Whoever calls it has made sure of the types: NumPy arrays of that dtype and number of dimensions, C-contiguous and aligned.
        """
        return function.compile(tuple(map(numba.typeof, arguments)))


# core
ROUNDS, HORIZON, V_SCALE, V_EXPONENT, V_LOG, E_SCALE, E_EXPONENT, E_LOG, CONSTRAINTS = range(9)
CORE_HEAD = 9
# Room at the end of core: eight rows of features side by side, as much for sums, eight widths, and one outcome.
ROOM_COLUMNS, ROOM = 16, 9
# flat starts with the number of blocks G, of features p and of outputs M
FLAT_HEAD = 3
# stat
LEARNT, BONUS, NORM, RIDGE, DIMENSION = range(5)
STAT_SIZE = 5
# wear, for each block of a ridge model
SINCE, DRIFT = range(2)

TIE = 1e-12
REFRESH_EVERY = 256
REFRESH_ROWS = 8
REFRESH_ROUNDING = 2e-8
REFRESH_GROWTH = 8.0
EPSILON = 2.220446049250313e-16
# From how many rows on it pays to compute eight side by side.
ENOUGH_ROWS = 4
# From how many columns on a matrix is read in tiles of few rows: it fits no cache then, and rows far apart are slow to come.
LARGE, TILE = 512, 8
NOTHING = 0.0
NO_IDS = np.empty(0, dtype=np.int64)


@kernel
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


@kernel
def radius(n, d, T, m, ridge):
    """√β = √λ·m + sqrt(2 log T + d log(1 + n/(dλ))), n outcomes learnt so far (Abbasi-Yadkori et al. 2011, Theorem 2)."""
    return math.sqrt(ridge) * m + math.sqrt(2.0 * math.log(T) + d * math.log(1.0 + n / (d * ridge)))


@kernel
def horizon_at(core, t):
    """T, or t where no horizon is set."""
    return core[HORIZON] if core[HORIZON] > 0.0 else t


# Sums and products. A vector or matrix is an array and the address of its first element; rows are contiguous.


@inlined
def inner(A, a, B, b, n):
    """⟨a, b⟩ of n numbers in four running sums."""
    s = spread4(0.0)
    i = 0
    while i + 4 <= n:
        s = s + load4(A, a + i) * load4(B, b + i)
        i += 4
    if i < n:
        s0 = first(s)
        while i < n:
            s0 += A[a + i] * B[b + i]
            i += 1
        s = with_first(s, s0)
    return fold4(s)


@inlined
def add_scaled(out, at, factor, B, b, n):
    """out += factor · b, n numbers.

    What is left over after blocks of eight is the end of one more block, worked out before the others overwrite where it starts:
    that is faster than a vector of which a part is masked.
    """
    if n >= 8:
        f = spread8(factor)
        end = load8(out, at + n - 8) + f * load8(B, b + n - 8)
        i = 0
        while i + 8 < n:
            store8(out, at + i, load8(out, at + i) + f * load8(B, b + i))
            i += 8
        store8(out, at + n - 8, end)
    elif n >= 4:
        f4 = spread4(factor)
        start = load4(out, at) + f4 * load4(B, b)
        end4 = load4(out, at + n - 4) + f4 * load4(B, b + n - 4)
        store4(out, at, start)
        store4(out, at + n - 4, end4)
    else:
        if n > 2:
            out[at + 2] += factor * B[b + 2]
        if n > 1:
            out[at + 1] += factor * B[b + 1]
        if n > 0:
            out[at] += factor * B[b]


@inlined
def copy(out, at, B, b, n):
    """out = b, n numbers, which overlap wholly or not at all."""
    if n >= 8:
        i = 0
        while i + 8 < n:
            store8(out, at + i, load8(B, b + i))
            i += 8
        store8(out, at + n - 8, load8(B, b + n - 8))
    elif n >= 4:
        store4(out, at, load4(B, b))
        store4(out, at + n - 4, load4(B, b + n - 4))
    else:
        if n > 2:
            out[at + 2] = B[b + 2]
        if n > 1:
            out[at + 1] = B[b + 1]
        if n > 0:
            out[at] = B[b]


@kernel
def tile_of(n):
    """How many rows of a matrix (n, n) to read at a time."""
    return TILE if n >= LARGE else n


@inlined
def begun(out, at, top):
    """Eight sums: nothing yet, or what rows above `top` have given."""
    return spread8(0.0) if top == 0 else load8(out, at)


@kernel
def matvec(A, a, X, x, n, out, at):
    """out = Ax for symmetric A (n, n), each element a sum over the rows in their order."""
    if n < 8:
        for j in range(n):
            element = 0.0
            for i in range(n):
                element += X[x + i] * A[a + i * n + j]
            out[at + j] = element
        return
    tile = tile_of(n)
    for top in range(0, n, tile):
        bottom = min(n, top + tile)
        # The last eight columns may be among those before them: as in `add_scaled`, they are read first and written last.
        end = begun(out, at + n - 8, top)
        j = 0
        while j + 32 < n:
            s0 = begun(out, at + j, top)
            s1 = begun(out, at + j + 8, top)
            s2 = begun(out, at + j + 16, top)
            s3 = begun(out, at + j + 24, top)
            for i in range(top, bottom):
                f = spread8(X[x + i])
                row = a + i * n + j
                s0 = s0 + f * load8(A, row)
                s1 = s1 + f * load8(A, row + 8)
                s2 = s2 + f * load8(A, row + 16)
                s3 = s3 + f * load8(A, row + 24)
            store8(out, at + j, s0)
            store8(out, at + j + 8, s1)
            store8(out, at + j + 16, s2)
            store8(out, at + j + 24, s3)
            j += 32
        while j + 16 < n:
            s0 = begun(out, at + j, top)
            s1 = begun(out, at + j + 8, top)
            for i in range(top, bottom):
                f = spread8(X[x + i])
                row = a + i * n + j
                s0 = s0 + f * load8(A, row)
                s1 = s1 + f * load8(A, row + 8)
            store8(out, at + j, s0)
            store8(out, at + j + 8, s1)
            j += 16
        if j + 8 < n:
            s0 = begun(out, at + j, top)
            for i in range(top, bottom):
                f = spread8(X[x + i])
                s0 = s0 + f * load8(A, a + i * n + j)
                end = end + f * load8(A, a + i * n + n - 8)
            store8(out, at + j, s0)
        else:
            for i in range(top, bottom):
                end = end + spread8(X[x + i]) * load8(A, a + i * n + n - 8)
        store8(out, at + n - 8, end)


@inlined
def corner(A, a, X, x, n):
    """Of four columns of `quadratic_form` what lies on the diagonal and in the three rows below it."""
    b = a + n
    c = b + n
    d = c + n
    diagonal = spread4(0.5) * four(A[a], A[b + 1], A[c + 2], A[d + 3]) * load4(X, x)
    below = spread4(X[x + 1]) * four(A[b], NOTHING, NOTHING, NOTHING)
    below = below + spread4(X[x + 2]) * four(A[c], A[c + 1], NOTHING, NOTHING)
    below = below + spread4(X[x + 3]) * four(A[d], A[d + 1], A[d + 2], NOTHING)
    return diagonal + below


@kernel
def quadratic_form(A, a, X, x, n):
    """xᵀAx for symmetric A (n, n) from its lower triangle: 2 Σ_j x_j (½ A_jj x_j + Σ_{i>j} A_ij x_i), summed in four parts."""
    s = spread4(0.0)
    whole = n - n % 4
    j = 0
    while j + 8 <= whole:
        at = a + j * n + j
        low = corner(A, at, X, x + j, n)
        for i in range(4, 8):
            low = low + spread4(X[x + j + i]) * load4(A, at + i * n)
        columns = joined(low, corner(A, at + 4 * n + 4, X, x + j + 4, n))
        for i in range(8, n - j):
            columns = columns + spread8(X[x + j + i]) * load8(A, at + i * n)
        s = s + low4(columns) * load4(X, x + j)
        s = s + high4(columns) * load4(X, x + j + 4)
        j += 8
    if j < whole:
        at = a + j * n + j
        low = corner(A, at, X, x + j, n)
        for i in range(4, n - j):
            low = low + spread4(X[x + j + i]) * load4(A, at + i * n)
        s = s + low * load4(X, x + j)
        j += 4
    if j < n:
        s0 = first(s)
        while j < n:
            at = a + j * n + j
            column = 0.5 * A[at] * X[x + j]
            for i in range(1, n - j):
                column += X[x + j + i] * A[at + i * n]
            s0 += column * X[x + j]
            j += 1
        s = with_first(s, s0)
    return 2.0 * fold4(s)


@kernel
def eight_quadratic_forms(A, a, T, t, n, out, at, r):
    """`quadratic_form` of each of the eight columns of T (n, 8) into out, by the same sums.

    There are 8n numbers of room in T at r.
    """
    s0 = spread8(0.0)
    s1 = spread8(0.0)
    s2 = spread8(0.0)
    s3 = spread8(0.0)
    j = 0
    tile = tile_of(n)
    for top in range(0, n, tile):
        bottom = min(n, top + tile)
        j = 0
        while j + 4 <= bottom:
            x0 = load8(T, t + 8 * j)
            x1 = load8(T, t + 8 * j + 8)
            x2 = load8(T, t + 8 * j + 16)
            x3 = load8(T, t + 8 * j + 24)
            if j < top:
                r0 = load8(T, r + 8 * j)
                r1 = load8(T, r + 8 * j + 8)
                r2 = load8(T, r + 8 * j + 16)
                r3 = load8(T, r + 8 * j + 24)
            else:
                b = a + j * n + j
                c = b + n
                d = c + n
                e = d + n
                r0 = spread8(0.5 * A[b]) * x0
                r0 = r0 + (x1 * spread8(A[c]) + x2 * spread8(A[d]) + x3 * spread8(A[e]))
                r1 = spread8(0.5 * A[c + 1]) * x1 + (x2 * spread8(A[d + 1]) + x3 * spread8(A[e + 1]))
                r2 = spread8(0.5 * A[d + 2]) * x2 + x3 * spread8(A[e + 2])
                r3 = spread8(0.5 * A[e + 3]) * x3
            for i in range(max(top, j + 4), bottom):
                row = a + i * n + j
                x = load8(T, t + 8 * i)
                r0 = r0 + x * spread8(A[row])
                r1 = r1 + x * spread8(A[row + 1])
                r2 = r2 + x * spread8(A[row + 2])
                r3 = r3 + x * spread8(A[row + 3])
            if bottom < n:
                store8(T, r + 8 * j, r0)
                store8(T, r + 8 * j + 8, r1)
                store8(T, r + 8 * j + 16, r2)
                store8(T, r + 8 * j + 24, r3)
            else:
                s0 = s0 + r0 * x0
                s1 = s1 + r1 * x1
                s2 = s2 + r2 * x2
                s3 = s3 + r3 * x3
            j += 4
    while j < n:
        x0 = load8(T, t + 8 * j)
        r0 = spread8(0.5 * A[a + j * n + j]) * x0
        for i in range(j + 1, n):
            r0 = r0 + load8(T, t + 8 * i) * spread8(A[a + i * n + j])
        s0 = s0 + r0 * x0
        j += 1
    store8(out, at, spread8(2.0) * ((s0 + s1) + (s2 + s3)))


@kernel
def side_by_side(X, x, rows, n, T, t):
    """Eight rows of X as the columns of T (n, 8); the last of fewer rows stands in for those that are missing."""
    a = x
    b = x + n * min(1, rows - 1)
    c = x + n * min(2, rows - 1)
    d = x + n * min(3, rows - 1)
    e = x + n * min(4, rows - 1)
    f = x + n * min(5, rows - 1)
    g = x + n * min(6, rows - 1)
    h = x + n * min(7, rows - 1)
    for i in range(n):
        column = eight(X[a + i], X[b + i], X[c + i], X[d + i], X[e + i], X[f + i], X[g + i], X[h + i])
        store8(T, t + 8 * i, column)


# A ridge model


@inlined
def ridge_parts(flat):
    """G, p, M, and where in flat Θ (G, M, p), Σ⁻¹ (G, p, p), Σ (G, p, p), b (G, M, p) and wear (G, 2) are; stat is at FLAT_HEAD."""
    G = int(flat[0])
    p = int(flat[1])
    M = int(flat[2])
    theta = FLAT_HEAD + STAT_SIZE
    inverse = theta + G * M * p
    sigma = inverse + G * p * p
    b = sigma + G * p * p
    return G, p, M, theta, inverse, sigma, b, b + G * M * p


@kernel
def ridge_bonus(flat, core):
    """bonus·√β_t of a model for the round to come."""
    s = FLAT_HEAD
    T = horizon_at(core, core[ROUNDS] + 1.0)
    return flat[s + BONUS] * radius(flat[s + LEARNT], flat[s + DIMENSION], T, flat[s + NORM], flat[s + RIDGE])


@inlined
def width(square):
    """√square, 0 where rounding has made it negative."""
    return math.sqrt(max(0.0, square))


@kernel
def ridge_width(flat, g, X, x):
    """‖x‖_{Σ⁻¹} by block g."""
    _, p, _, _, inverse, _, _, _ = ridge_parts(flat)
    return width(quadratic_form(flat, inverse + g * p * p, X, x, p))


@kernel
def ridge_widths(flat, phi, at, one_row, ids, room, r, out, o, step):
    """‖φ_j‖_{Σ⁻¹} of every action on offer into out[o + j·step]: by one block for all, or by block ids[j]; one_row stands for all.

    There are sixteen columns and eight numbers of room at r.
    """
    G, p, _, _, inverse, _, _, _ = ridge_parts(flat)
    J = ids.shape[0]
    j = 0
    if G == 1 and not one_row:
        enough = ENOUGH_ROWS if p < LARGE else 1
        while J - j >= enough:
            rows = min(8, J - j)
            side_by_side(phi, at + j * p, rows, p, room, r)
            eight_quadratic_forms(flat, inverse, room, r, p, room, r + 16 * p, r + 8 * p)
            for i in range(rows):
                out[o + (j + i) * step] = width(room[r + 16 * p + i])
            j += rows
    while j < J:
        out[o + j * step] = ridge_width(flat, ids[j] if G > 1 else 0, phi, at if one_row else at + j * p)
        j += 1


# What a policy is shown


@kernel
def rows_are_valid(phi):
    """Whether every ‖φ_j‖ of phi (J, p) is at most 1 (false for NaN and Inf too)."""
    J, p = phi.shape
    return rows_in_ball(phi.reshape(phi.size), J, p)


@inlined
def rows_in_ball(phi, J, p):
    """`rows_are_valid` by address."""
    for j in range(J):  # noqa: SIM110 - Numba compiles the loop, not the generator
        if not inner(phi, j * p, phi, j * p, p) <= NORM_LIMIT:
            return False
    return True


@inlined
def rows_fit(phi, flat, J):
    """Whether phi holds valid features of a model: a row for each of J actions, or one for all where each has its own block."""
    p = int(flat[1])
    rows = phi.size // p
    if phi.shape[-1] != p or not (rows == J or (rows == 1 and flat[0] > 1.0)):
        return False
    return rows_in_ball(phi.reshape(phi.size), rows, p)


@inlined
def keep_row(phi, row, J, x):
    """The features of the row that was chosen into x."""
    p = x.shape[0]
    copy(x, 0, phi.reshape(phi.size), row * p if phi.size == J * p else 0, p)


@kernel
def costs_are_valid(W, J, core):
    """Whether W has a row for each of J ≥ 1 actions, and every |W_jk| seen before acting is ≤ 1 (false for NaN and Inf too)."""
    K = int(core[CONSTRAINTS])
    if J < 1 or W.shape[0] != J * K:
        return False
    unknown = 0
    for k in range(K):
        unknown += core[CORE_HEAD + 2 * K + k] == 0.0
    bad = 0
    if unknown == 0:
        # Without a way out of the loop it vectorises.
        for i in range(J * K):
            bad += not abs(W[i]) <= COST_LIMIT
    else:
        for j in range(J):
            for k in range(K):
                bad += core[CORE_HEAD + 2 * K + k] != 0.0 and not abs(W[j * K + k]) <= COST_LIMIT
    return bad == 0


# Optimism


@kernel
def optimistic_rewards_ridge(flat, phi, at, one_row, ids, core, trace):
    """r̂_j = min(1, ⟨θ̂, φ_j⟩ + bonus·√β_t·‖φ_j‖_{Σ⁻¹}) into trace[:J].

    One block of (Θ, Σ⁻¹) serves every action (shared model), or block ids[j] serves action j (disjoint model: φ = e_j ⊗ x, whose
    radius is that of the whole J·p dimensions). With one_row one row of phi stands for all actions.
    """
    G, p, M, theta, _, _, _, _ = ridge_parts(flat)
    root_beta = ridge_bonus(flat, core)
    ridge_widths(flat, phi, at, one_row, ids, core, room_in(core, p), trace, 0, 1)
    for j in range(ids.shape[0]):
        block = theta + (ids[j] * M * p if G > 1 else 0)
        x = at if one_row else at + j * p
        trace[j] = min(1.0, inner(flat, block, phi, x, p) + root_beta * trace[j])


@kernel
def room_in(core, p):
    """The address in core of room for p features."""
    return core.shape[0] - ROOM_COLUMNS * p - ROOM


@kernel
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


@kernel
def optimistic_costs_ridge(flat, psi, at, one_row, ids, core, ranges, columns, W, K):
    """W̌_jk = clip(⟨μ̂_k, ψ_j⟩ − bonus·√β_t·‖ψ_j‖_{Σ_w⁻¹}, low_k, high_k) into the columns of W (J, K) that are seen after acting."""
    G, p, M, theta, _, _, _, _ = ridge_parts(flat)
    root_beta = ridge_bonus(flat, core)
    ridge_widths(flat, psi, at, one_row, ids, core, room_in(core, p), W, columns[0], K)
    for j in range(ids.shape[0]):
        block = theta + (ids[j] * M * p if G > 1 else 0)
        x = at if one_row else at + j * p
        stretch = root_beta * W[j * K + columns[0]]
        for i in range(columns.shape[0]):
            low = inner(flat, block + i * p, psi, x, p) - stretch
            W[j * K + columns[i]] = max(ranges[i, 0], min(ranges[i, 1], low))


@kernel
def optimistic_costs_arms(ids, counts, sums, stat, core, ranges, columns, W, K):
    """W̌_jk = clip(mean_jk − bonus·sqrt(log t / N_j), low_k, high_k); low_k for an arm without an outcome."""
    log_t = math.log(core[ROUNDS] + 1.0)
    for j in range(ids.shape[0]):
        a = ids[j]
        n = counts[a]
        half = 0.0 if n == 0.0 else stat[BONUS] * math.sqrt(log_t / n)
        for i in range(columns.shape[0]):
            if n == 0.0:
                W[j * K + columns[i]] = ranges[i, 0]
            else:
                W[j * K + columns[i]] = max(ranges[i, 0], min(ranges[i, 1], sums[a, i] / n - half))


# The choice, and what follows from it


@kernel
def penalties(W, w, Q, q, K, J, out, o):
    """Σ_k W_jk Q_k of every action."""
    for j in range(J):
        out[o + j] = inner(W, w + j * K, Q, q, K)


@kernel
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


@kernel
def steps(core):
    """V_t and ε_t of the round to come; 1 and 0 without constraints."""
    if core[CONSTRAINTS] == 0.0:
        return 1.0, 0.0
    t = core[ROUNDS] + 1.0
    T = horizon_at(core, t)
    return (
        schedule(t, core[V_SCALE], core[V_EXPONENT], core[V_LOG], T),
        schedule(t, core[E_SCALE], core[E_EXPONENT], core[E_LOG], T),
    )


@kernel
def take(W, w, eps_t, core):
    """Q ← max(0, Q + W_a + ε_t), the known totals and the round counter, for the costs W_a of what was chosen."""
    K = int(core[CONSTRAINTS])
    Q = CORE_HEAD
    totals = Q + K
    known = totals + K
    if K >= 8:
        # As in `add_scaled`.
        eps = spread8(eps_t)
        end = K - 8
        costs = load8(W, w + end)
        last_totals = load8(core, totals + end) + load8(core, known + end) * costs
        last_queues = positive(load8(core, Q + end) + costs + eps)
        k = 0
        while k + 8 < K:
            costs = load8(W, w + k)
            store8(core, totals + k, load8(core, totals + k) + load8(core, known + k) * costs)
            store8(core, Q + k, positive(load8(core, Q + k) + costs + eps))
            k += 8
        store8(core, totals + end, last_totals)
        store8(core, Q + end, last_queues)
    else:
        for k in range(K):
            core[totals + k] += core[known + k] * W[w + k]
            core[Q + k] = max(0.0, core[Q + k] + W[w + k] + eps_t)
    core[ROUNDS] += 1.0


def trace_size(J, K):
    """How many numbers are behind a decision."""
    return 2 * J + J * K + K + 2


@kernel
def act(J, W, w, core, trace):
    """Choose by r̂ in trace[:J] and W, move the queue, the known totals and the round counter; return the row."""
    K = int(core[CONSTRAINTS])
    V_t, eps_t = steps(core)
    if K > 0:
        penalties(W, w, core, CORE_HEAD, K, J, trace, J)
        for j in range(J):
            trace[J + j] = trace[j] - trace[J + j] / V_t
    else:
        copy(trace, J, trace, 0, J)
    row = first_of_the_best(trace[J : 2 * J])
    at = 2 * J
    copy(trace, at, W, w, J * K)
    at += J * K
    copy(trace, at, core, CORE_HEAD, K)
    trace[at + K] = V_t
    trace[at + K + 1] = eps_t
    take(W, w + row * K, eps_t, core)
    return row


@kernel
def decide_ridge(phi, ids, W, flat, core, trace, x):
    """One decision on a ridge reward model, its features also into x; −1, with nothing else changed, where an input is not valid.

    phi (J, p), or (p,) or (1, p) where each action has a block of its own; W (J, K).
    """
    J = ids.shape[0]
    costs = W.reshape(W.size)
    if W.shape[1] != core[CONSTRAINTS] or not (rows_fit(phi, flat, J) and costs_are_valid(costs, J, core)):
        return -1
    optimistic_rewards_ridge(flat, phi.reshape(phi.size), 0, phi.size < J * x.shape[0], ids, core, trace)
    row = act(J, costs, 0, core, trace)
    keep_row(phi, row, J, x)
    return row


@kernel
def decide_after(phi, psi, ids, flat, cost_flat, ranges, columns, core, trace, x, z):
    """`decide_ridge` where every cost is seen after acting, on ridge models of both; the features of both also into x and z."""
    J = ids.shape[0]
    K = columns.shape[0]
    if core[CONSTRAINTS] != K or not (rows_fit(phi, flat, J) and rows_fit(psi, cost_flat, J)):
        return -1
    W = trace[2 * J : 2 * J + J * K]
    one_row = psi.size < J * z.shape[0]
    optimistic_costs_ridge(cost_flat, psi.reshape(psi.size), 0, one_row, ids, core, ranges, columns, W, K)
    optimistic_rewards_ridge(flat, phi.reshape(phi.size), 0, phi.size < J * x.shape[0], ids, core, trace)
    row = act(J, trace, 2 * J, core, trace)
    keep_row(phi, row, J, x)
    keep_row(psi, row, J, z)
    return row


@kernel
def decide_many_ridge(phis, ids, Ws, flat, core, traces, rows):
    """Successive decisions on one state of a model for all actions; False, with nothing changed, where an input is not valid."""
    p = int(flat[1])
    n, J, K = Ws.shape
    if phis.shape[1] != J or phis.shape[2] != p or core[CONSTRAINTS] != K:
        return False
    features = phis.reshape(phis.size)
    costs = Ws.reshape(Ws.size)
    if not rows_in_ball(features, n * J, p):
        return False
    for i in range(n):
        if not costs_are_valid(costs[i * J * K : (i + 1) * J * K], J, core):
            return False
    for i in range(n):
        optimistic_rewards_ridge(flat, features, i * J * p, False, ids, core, traces[i])
        rows[i] = act(J, costs, i * J * K, core, traces[i])
    return True


@kernel
def decide_arms(ids, W, counts, sums, stat, core, trace):
    """One decision on arm means, W (J, K); −1, with nothing changed, where a cost is not valid."""
    J = ids.shape[0]
    costs = W.reshape(W.size)
    if W.shape[1] != core[CONSTRAINTS] or not costs_are_valid(costs, J, core):
        return -1
    optimistic_rewards_arms(ids, counts, sums, stat, core, trace)
    return act(J, costs, 0, core, trace)


# Learning


@kernel
def invert(S, s, n, out, at, room):
    """Σ⁻¹ = L⁻ᵀL⁻¹ from the Cholesky factor of Σ (n, n); 2n² numbers of room."""
    for i in range(2 * n * n):
        room[i] = 0.0
    for j in range(n):
        for i in range(j, n):
            room[i * n + j] = S[s + i * n + j] - inner(room, i * n, room, j * n, j)
        root = math.sqrt(room[j * n + j])
        for i in range(j, n):
            room[i * n + j] /= root
    # Rows of R = L⁻¹ from RL = I, not from LR = I: ΣRᵀR − I = L(RL)ᵀR − I, so it is RL − I that must be small.
    R = n * n
    for i in range(n):
        row = R + i * n
        room[row + i] = 1.0
        for k in range(i, -1, -1):
            room[row + k] /= room[k * n + k]
            add_scaled(room, row, -room[row + k], room, k * n, k)
    for i in range(n * n):
        out[at + i] = 0.0
    for k in range(n):
        for i in range(k + 1):
            add_scaled(out, at + i * n, room[R + k * n + i], room, R + k * n, k + 1)


@kernel
def refresh(flat, g, room):
    """Σ⁻¹ and Θ = B Σ⁻¹ of block g afresh from the sums, which carry no drift; 2p² numbers of room."""
    _, p, M, theta, inverse, sigma, b, wear = ridge_parts(flat)
    block = inverse + g * p * p
    invert(flat, sigma + g * p * p, p, flat, block, room)
    for i in range(M):
        row = (g * M + i) * p
        matvec(flat, block, flat, b + row, p, flat, theta + row)
    flat[wear + 2 * g + SINCE] = 0.0
    flat[wear + 2 * g + DRIFT] = 0.0


@kernel
def ridge_learn(flat, g, X, x, Y, y, room, r):
    """Σ ← Σ + xxᵀ, b ← b + xy and, by Sherman–Morrison, Σ⁻¹ and θ̂ of block g, one θ̂ for each of M outcomes; whether to refresh.

    It is time for `refresh` every max(256, 8p) updates, and sooner where the error R = ΣX − I of X ≈ Σ⁻¹ could matter. With
    u = Xx and s = 1/(1 + xᵀu) an update turns R into R(I − s·xuᵀ), plus rounding of the order of eps·‖Σ‖·‖X‖: the wear adds up
    this rounding, in units of what is allowed, and the logarithm of the growth s·‖x‖·‖u‖, which exceeds 1 only where λ < 1.
    There are p numbers of room at r.
    """
    _, p, M, theta, inverse, sigma, b, wear = ridge_parts(flat)
    inverse += g * p * p
    sigma += g * p * p
    wear += 2 * g
    matvec(flat, inverse, X, x, p, room, r)
    s = 1.0 / (1.0 + inner(X, x, room, r, p))
    growth = s * math.sqrt(inner(X, x, X, x, p) * inner(room, r, room, r, p))
    top = 0.0
    trace = 1.0
    for i in range(p):
        top = max(top, flat[inverse + i * p + i])
        trace += flat[sigma + i * p + i]
    for i in range(p):
        add_scaled(flat, inverse + i * p, -(s * room[r + i]), room, r, p)
        add_scaled(flat, sigma + i * p, X[x + i], X, x, p)
    for i in range(M):
        row = (g * M + i) * p
        gain = s * (Y[y + i] - inner(flat, theta + row, X, x, p))
        add_scaled(flat, b + row, Y[y + i], X, x, p)
        add_scaled(flat, theta + row, gain, room, r, p)
    flat[FLAT_HEAD + LEARNT] += 1.0
    flat[wear + SINCE] += 1.0
    flat[wear + DRIFT] += EPSILON * trace * top / REFRESH_ROUNDING
    if growth > 1.0:
        flat[wear + DRIFT] += math.log(growth) / math.log(REFRESH_GROWTH)
    return flat[wear + SINCE] >= max(REFRESH_EVERY, REFRESH_ROWS * p) or flat[wear + DRIFT] >= 1.0


@kernel
def learn_reward(g, x, reward, flat, core):
    """`ridge_learn` of one reward."""
    core[core.shape[0] - 1] = reward
    return ridge_learn(flat, g, x, 0, core, core.shape[0] - 1, core, room_in(core, x.shape[0]))


@kernel
def learn_outcome(g, h, x, z, reward, w, flat, cost_flat, ranges, columns, core):
    """`ridge_learn` of a reward at x by block g, and of costs w at z by block h; −1, with nothing changed, for a cost out of range.

    Otherwise 1 where the reward model is to be refreshed, plus 2 where the cost model is.
    """
    K = columns.shape[0]
    if w.shape[0] != K:
        return -1
    for i in range(K):
        if not (w[i] >= ranges[i, 0] - COST_ROUNDING and w[i] <= ranges[i, 1] + COST_ROUNDING):
            return -1
    due = 1 if learn_reward(g, x, reward, flat, core) else 0
    if ridge_learn(cost_flat, h, z, 0, w, 0, core, room_in(core, z.shape[0])):
        due += 2
    totals = CORE_HEAD + int(core[CONSTRAINTS])
    for i in range(K):
        core[totals + columns[i]] += w[i]
    return due


@kernel
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


@kernel
def philox(c0, c1, c2, c3, k0, k1):
    """The four 32-bit words of one block, as two 64-bit words (uint64 in, uint64 out)."""
    for _ in range(10):
        p0 = PHILOX_M0 * c0
        p1 = PHILOX_M1 * c2
        c0, c1, c2, c3 = (p1 >> SHIFT) ^ c1 ^ k0, p1 & MASK, (p0 >> SHIFT) ^ c3 ^ k1, p0 & MASK
        k0 = (k0 + PHILOX_W0) & MASK
        k1 = (k1 + PHILOX_W1) & MASK
    return c0 | (c1 << SHIFT), c2 | (c3 << SHIFT)


@kernel
def uniforms(seed, replication, t, slot):
    """Two uniforms in [0, 1) for one slot of round t."""
    key, count = np.uint64(seed), np.uint64(t)
    a, b = philox(
        count & MASK, count >> SHIFT, np.uint64(slot), np.uint64(replication), key & MASK, key >> SHIFT
    )
    return (a >> np.uint64(11)) * TO_UNIT, (b >> np.uint64(11)) * TO_UNIT


@kernel
def normal(seed, replication, t, slot):
    """One standard normal for one slot of round t (Box–Muller)."""
    u, v = uniforms(seed, replication, t, slot)
    return math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)


@kernel
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


@kernel
def draw_reward(seed, replication, t, u, mean, kind, scale):
    """One reward; u is the second uniform of the round's context slot."""
    if kind == BERNOULLI:
        return 1.0 if u < mean else 0.0
    if kind == GAUSSIAN:
        return mean + scale * normal(seed, replication, t, GAUSSIAN_REWARD_SLOT)
    return mean


@kernel
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


@kernel
def account(tally, t, action, mean_reward, reward, costs, c, mean_costs, m, last_violation):
    """Add one round to the tally, and note for each constraint the last round whose cumulated cost is above 0."""
    K = last_violation.shape[0]
    tally[0] += mean_reward
    tally[1] += reward
    add_scaled(tally, 2, 1.0, costs, c, K)
    add_scaled(tally, 2 + K, 1.0, mean_costs, m, K)
    for k in range(K):
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
    """A ridge model's features: of context c those of action a at (c·per_context + a)·p, or one row for all; and its `flat`.

    buffer has room for a row for each action.
    """

    rows: Any
    per_context: Any
    flat: Any
    buffer: Any


class ArmArrays(NamedTuple):
    """The arrays of an `ArmMeans`."""

    counts: Any
    sums: Any
    stat: Any


class Room(NamedTuple):
    """What the loop needs beside its state: for J actions, K constraints, C contexts and p features.

    trace as above, costs (JK,), y (1,), inverse (2p²,), bounds of the widths (CJ,), penalty, rewards and values (J,), and
    fresh (J,), which says where values are exact.
    """

    trace: Any
    costs: Any
    y: Any
    inverse: Any
    bounds: Any
    penalty: Any
    rewards: Any
    values: Any
    fresh: Any


NO_MODEL, RIDGE_MODEL, ARM_MODEL = 0, 1, 2


@kernel
def gathered(model, c, ids, J):
    """Where in model.rows the features of the actions on offer in context c are; −1 where they had to be put into model.buffer."""
    R = model.per_context
    p = int(model.flat[1])
    if R == 1 or ids.shape[0] == J:
        return c * R * p
    for i in range(ids.shape[0]):
        copy(model.buffer, i * p, model.rows, (c * R + ids[i]) * p, p)
    return -1


@kernel
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


@kernel
def offered_costs(world, seed, replication, t, c, ids, out):
    """The costs of the actions on offer, seen before acting."""
    K = world.spans.shape[0]
    for i in range(ids.shape[0]):
        chosen_costs(world, seed, replication, t, c, ids[i], out[i * K : (i + 1) * K])


@kernel
def learnt_costs(kind, ridge, arms, c, ids, J, core, ranges, columns, W, K):
    """Optimistic costs into W, of a model of either kind."""
    if kind == RIDGE_MODEL:
        at = gathered(ridge, c, ids, J)
        psi = ridge.rows if at >= 0 else ridge.buffer
        one_row = ridge.per_context == 1
        optimistic_costs_ridge(ridge.flat, psi, max(0, at), one_row, ids, core, ranges, columns, W, K)
    elif kind == ARM_MODEL:
        optimistic_costs_arms(ids, arms.counts, arms.sums, arms.stat, core, ranges, columns, W, K)


@kernel
def simulated_choice(ridge, c, ids, J, W, w, core, room):
    """One decision on a ridge reward model, computing only the widths that could change it; moves the queue, returns the row."""
    at = gathered(ridge, c, ids, J)
    n = ids.shape[0]
    K = int(core[CONSTRAINTS])
    V_t, eps_t = steps(core)
    race = Race(
        n,
        ridge.flat,
        ridge.rows if at >= 0 else ridge.buffer,
        max(0, at),
        ridge.per_context == 1,
        ids,
        ridge_bonus(ridge.flat, core),
        room.penalty,
        V_t,
        room.bounds[c * J : (c + 1) * J],
        room.rewards,
        room.values,
        room.fresh,
    )
    penalties(W, w, core, CORE_HEAD, K, n, room.penalty, 0)
    for j in range(n):
        # r̂ is at most 1.
        room.values[j] = 1.0 - room.penalty[j] / V_t
        room.fresh[j] = False
    top = lead(race)
    tighten(top, race)
    row = settle(top, race)
    take(W, w + row * K, eps_t, core)
    return row


@kernel
def simulated_learning(kind, ridge, arms, c, a, Y, core, room):
    """Outcomes Y of action a in context c into a model of either kind."""
    if kind == RIDGE_MODEL:
        p = int(ridge.flat[1])
        x = (c * ridge.per_context + (a if ridge.per_context > 1 else 0)) * p
        g = a if ridge.flat[0] > 1.0 else 0
        if ridge_learn(ridge.flat, g, ridge.rows, x, Y, 0, core, room_in(core, p)):
            refresh(ridge.flat, g, room.inverse)
    elif kind == ARM_MODEL:
        arms_learn(a, Y, arms.counts, arms.sums, arms.stat)


@released
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
    room,
    seed,
    replication,
    rounds,
    grid,
    records,
    last_violation,
    choices,
    tally,
    drawn,
    stop,
):
    """One replication of the pessimistic-optimistic policy; returns the rounds that were run (fewer when stopped)."""
    J = world.rewards.shape[1]
    K = world.means.shape[2]
    means = world.means.reshape(world.means.size)
    blind = not constrained or not world.before
    K_policy = K if constrained else 0
    size = tally.shape[0]
    written = records.reshape(records.size)
    at = 0
    for t in range(1, rounds + 1):
        if t % 1024 == 0 and stop[0] != 0:
            return t - 1
        u, v = uniforms(seed, replication, t, CONTEXT_SLOT)
        c = pick(world.cdf, u)
        ids = world.ids[world.offsets[c] : world.offsets[c + 1]]
        W = room.costs
        w = 0
        if blind:
            learnt_costs(cost_kind, cost_ridge, cost_arms, c, ids, J, core, ranges, columns, W, K_policy)
        elif world.cost_kind == FIXED and ids.shape[0] == J:
            W = means
            w = c * J * K
        else:
            offered_costs(world, seed, replication, t, c, ids, W)
        if reward_kind == RIDGE_MODEL:
            row = simulated_choice(reward_ridge, c, ids, J, W, w, core, room)
        else:
            optimistic_rewards_arms(
                ids, reward_arms.counts, reward_arms.sums, reward_arms.stat, core, room.trace
            )
            row = act(ids.shape[0], W, w, core, room.trace)
        a = ids[row]
        mean = world.rewards[c, a]
        reward = draw_reward(seed, replication, t, v, mean, world.reward_kind, world.reward_scale)
        room.y[0] = reward
        simulated_learning(reward_kind, reward_ridge, reward_arms, c, a, room.y, core, room)
        if blind:
            chosen_costs(world, seed, replication, t, c, a, drawn)
            account(tally, t, a, mean, reward, drawn, 0, means, (c * J + a) * K, last_violation)
            simulated_learning(cost_kind, cost_ridge, cost_arms, c, a, drawn, core, room)
        else:
            account(tally, t, a, mean, reward, W, w + row * K, W, w + row * K, last_violation)
        if choices.shape[0] > 0:
            choices[t - 1] = a
        if t == grid[at]:
            copy(written, at * size, tally, 0, size)
            at += 1
    return rounds


# Comparators. Their own randomness comes from a stream keyed by the policy's seed, one slot a decision.

UNIFORM, STATIC, ROUND_ROBIN, OPB = 0, 1, 2, 3
# opb settings
OPB_THRESHOLD_ARM, OPB_SAFE_COST, OPB_HIGH, OPB_ALPHA_REWARD, OPB_ALPHA_COST, OPB_LOG = range(6)


@kernel
def uniform_choice(ids, u):
    """One of the ids, each as likely as the other."""
    return ids[min(ids.shape[0] - 1, int(u * ids.shape[0]))]


@kernel
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


@kernel
def opb_mixture(counts, sums, settings, room):
    """The mixture of at most two arms that solves max Σπu^r s.t. Σπu^w ≤ 0 (Pacchiano et al. 2021, Lemma 5): (i, j, weight of j).

    u^r = mean + α_r w is not clipped; u^w = min(high, mean + α_c w), high for an arm without an outcome, and the known cost for
    the safe arm; w = sqrt(2 log(1/p) / max(n, 1)), p = 1/T². There is room (2, J) for both.
    """
    J = counts.shape[0]
    safe = int(settings[OPB_THRESHOLD_ARM])
    u_r = room[0]
    u_w = room[1]
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


@kernel
def own_uniform(policy_seed, number):
    """The uniform that a randomised policy uses for its decision of that number."""
    u, _ = uniforms(policy_seed, 0, number, 0)
    return u


@released
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
    tally,
    drawn,
    stop,
    mixture,
):
    """One replication of a policy that looks at neither features nor costs before acting."""
    J = world.rewards.shape[1]
    K = world.means.shape[2]
    means = world.means.reshape(world.means.size)
    written = records.reshape(records.size)
    size = tally.shape[0]
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
            i, j, weight = opb_mixture(counts, sums, settings, mixture)
            a = j if own_uniform(policy_seed, made) < weight else i
        made += 1
        mean = world.rewards[c, a]
        reward = draw_reward(seed, replication, t, v, mean, world.reward_kind, world.reward_scale)
        chosen_costs(world, seed, replication, t, c, a, drawn)
        counts[a] += 1.0
        if kind == OPB:
            sums[a, 0] += reward
            sums[a, 1] += drawn[0]
        account(tally, t, a, mean, reward, drawn, 0, means, (c * J + a) * K, last_violation)
        if choices.shape[0] > 0:
            choices[t - 1] = a
        if t == grid[at]:
            copy(written, at * size, tally, 0, size)
            at += 1
    return rounds


# Many actions or many constraints: penalties first, then widths only where they can still matter.

LEADERS = 16
SHOWN = 10
# A width that was computed earlier bounds today's in exact arithmetic, and a sum in another order is the same; this is more than
# rounding may take from either.
WIDTH_SLACK = 1.0 + 1e-6
MEAN_SLACK = 1e-12


class Race(NamedTuple):
    """The rows among which one is chosen, J of them, and what is known of each.

    Row j has its features in phi, from `at` on (with one_row they are the same for all), and stands for action ids[j], or j where
    ids is empty. bounds, by action, are upper bounds of the widths, 0 where none is known yet, and outlast the round. rewards and
    values, by row, are exact where fresh is true, else upper bounds.
    """

    J: Any
    flat: Any
    phi: Any
    at: Any
    one_row: Any
    ids: Any
    root_beta: Any
    penalty: Any
    V_t: Any
    bounds: Any
    rewards: Any
    values: Any
    fresh: Any


@kernel
def runner(j, race):
    """Of row j: the action, the address of its θ̂, that of its features, and the block of its model."""
    G, p, M, theta, _, _, _, _ = ridge_parts(race.flat)
    action = race.ids[j] if race.ids.shape[0] > 0 else j
    block = action if G > 1 else 0
    return action, theta + block * M * p, race.at if race.one_row else race.at + j * p, block


@kernel
def finish(j, race):
    """Make row j exact; its width takes the place of the bound."""
    action, theta, x, block = runner(j, race)
    race.bounds[action] = ridge_width(race.flat, block, race.phi, x)
    mean = inner(race.flat, theta, race.phi, x, int(race.flat[1]))
    race.rewards[j] = min(1.0, mean + race.root_beta * race.bounds[action])
    race.values[j] = race.rewards[j] - race.penalty[j] / race.V_t
    race.fresh[j] = True


@kernel
def lead(race):
    """Make exact the row with the highest bound, which is returned."""
    top = 0
    for j in range(1, race.J):
        if race.values[j] > race.values[top]:
            top = j
    finish(top, race)
    return top


@kernel
def tighten(top, race):
    """Better bounds, by means and earlier widths, for the rows that row `top`, which is exact, leaves in the running."""
    # No width is above that of an untaught model.
    widest = math.sqrt(NORM_LIMIT / race.flat[FLAT_HEAD + RIDGE])
    for j in range(race.J):
        if j != top and race.values[j] >= race.values[top] - TIE:
            action, theta, x, _ = runner(j, race)
            mean = inner(race.flat, theta, race.phi, x, int(race.flat[1]))
            known = race.bounds[action]
            bonus = race.root_beta * WIDTH_SLACK * (known if known > 0.0 else widest)
            race.rewards[j] = min(1.0, mean + bonus + MEAN_SLACK)
            race.values[j] = race.rewards[j] - race.penalty[j] / race.V_t


@kernel
def settle(chosen, race):
    """The row that the full sweep would choose: makes exact what could change the choice, given one row that is."""
    values = race.values
    fresh = race.fresh
    best = values[chosen]
    # A few leaders one after the other, the highest bound first; then whatever is left in one pass.
    for _ in range(LEADERS):
        top = -1
        limit = best
        for j in range(race.J):
            v = values[j]
            if v >= limit - TIE and not fresh[j] and (v > limit or (j < chosen and top < 0)):
                top = j
                limit = max(limit, v)
        if top < 0:
            return chosen
        finish(top, race)
        if values[top] > best:
            best = values[top]
            chosen = lowest_of_the_best(race, best)
        elif values[top] >= best - TIE and top < chosen:
            chosen = top
    for j in range(race.J):
        if not fresh[j] and (values[j] > best or (j < chosen and values[j] >= best - TIE)):
            finish(j, race)
            if values[j] > best:
                best = values[j]
                if values[chosen] < best - TIE:
                    chosen = j
            elif values[j] >= best - TIE and j < chosen:
                chosen = j
    return lowest_of_the_best(race, best)


@kernel
def lowest_of_the_best(race, best):
    """The lowest row among the exact ones whose value is ≥ best − 1e-12."""
    for j in range(race.J):
        if race.fresh[j] and race.values[j] >= best - TIE:
            return j
    return -1


@kernel
def sparse_penalties(offsets, indices, data, limits, Q, out):
    """Σ_k (usage_jk − limit_k) Q_k for every action: the limits' part is the same for all."""
    base = inner(limits, 0, Q, 0, Q.shape[0])
    for j in range(offsets.shape[0] - 1):
        total = 0.0
        for i in range(offsets[j], offsets[j + 1]):
            total += data[i] * Q[indices[i]]
        out[j] = total - base


@kernel
def means_by_columns(columns, V, v, out):
    """⟨v, φ_j⟩ of every action from the transposed features, which vectorises over the actions."""
    d, J = columns.shape
    for j in range(J):
        out[j] = 0.0
    i = 0
    while i + 4 <= d:
        a0, a1, a2, a3 = V[v + i], V[v + i + 1], V[v + i + 2], V[v + i + 3]
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
        a = V[v + i]
        for j in range(J):
            out[j] += a * columns[i, j]
        i += 1


@kernel
def lazy_choice(phi, columns, flat, bounds, penalty, core, rewards, values, fresh):
    """The row that the full sweep would choose, computing only the widths that could change it; the arrays are as in `Race`.

    columns is phi transposed, or empty where that would take too much memory.
    """
    _, p, _, theta, _, _, _, _ = ridge_parts(flat)
    J = phi.shape[0]
    rows = phi.reshape(phi.size)
    root_beta = ridge_bonus(flat, core)
    V_t, _ = steps(core)
    if columns.shape[0] > 0:
        means_by_columns(columns, flat, theta, rewards)
    else:
        for j in range(J):
            rewards[j] = inner(flat, theta, rows, j * p, p)
    stretch = root_beta * WIDTH_SLACK
    for j in range(J):
        fresh[j] = False
        rewards[j] = min(1.0, rewards[j] + stretch * bounds[j] + MEAN_SLACK)
        values[j] = rewards[j] - penalty[j] / V_t
    race = Race(J, flat, rows, 0, False, NO_IDS, root_beta, penalty, V_t, bounds, rewards, values, fresh)
    return settle(lead(race), race)


@kernel
def leaders(row, rewards, values, fresh, out, numbers):
    """The row chosen and the best of the others that were computed, at most SHOWN; how many. Their r̂ and values go into numbers."""
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
    for i in range(n):
        numbers[i] = rewards[out[i]]
        numbers[n + i] = values[out[i]]
    return n


@kernel
def decide_lazily(phi, columns, W, flat, core, scores, fresh, shown, trace):
    """One decision on a catalogue with dense costs; −1, with nothing changed, where a cost is not valid.

    scores (4, J): bounds of the widths, which outlast the round, penalties, rewards, values. trace is for the rows in shown.
    """
    J = phi.shape[0]
    K = W.shape[1]
    costs = W.reshape(W.size)
    if W.shape[0] != J or core[CONSTRAINTS] != K or not costs_are_valid(costs, J, core):
        return -1, 0
    penalties(costs, 0, core, CORE_HEAD, K, J, scores[1], 0)
    row = lazy_choice(phi, columns, flat, scores[0], scores[1], core, scores[2], scores[3], fresh)
    n = leaders(row, scores[2], scores[3], fresh, shown, trace)
    at = 2 * n
    for i in range(n):
        copy(trace, at, costs, shown[i] * K, K)
        at += K
    copy(trace, at, core, CORE_HEAD, K)
    V_t, eps_t = steps(core)
    trace[at + K] = V_t
    trace[at + K + 1] = eps_t
    take(costs, row * K, eps_t, core)
    return row, n


@kernel
def take_sparsely(first_entry, end, indices, data, limits, eps_t, core, room):
    """`take` of usage − limits, for what was chosen uses the entries from first_entry to end; room for two numbers an entry."""
    K = limits.shape[0]
    totals = CORE_HEAD + K
    # What is used is worked out first and put in place last: in between every resource takes the step of one that is not used.
    for i in range(first_entry, end):
        k = indices[i]
        cost = -limits[k] + data[i]
        room[2 * (i - first_entry)] = core[totals + k] + cost
        room[2 * (i - first_entry) + 1] = max(0.0, core[CORE_HEAD + k] + cost + eps_t)
    eps = spread8(eps_t)
    k = 0
    while k + 8 <= K:
        limit = load8(limits, k)
        store8(core, totals + k, load8(core, totals + k) - limit)
        store8(core, CORE_HEAD + k, positive(load8(core, CORE_HEAD + k) - limit + eps))
        k += 8
    while k < K:
        core[totals + k] -= limits[k]
        core[CORE_HEAD + k] = max(0.0, core[CORE_HEAD + k] - limits[k] + eps_t)
        k += 1
    for i in range(first_entry, end):
        k = indices[i]
        core[totals + k] = room[2 * (i - first_entry)]
        core[CORE_HEAD + k] = room[2 * (i - first_entry) + 1]
    core[ROUNDS] += 1.0


@kernel
def decide_sparsely(
    phi, columns, offsets, indices, data, limits, flat, core, scores, fresh, shown, numbers, before, room
):
    """One decision with sparse costs, which are valid; the row, and how many rows are in shown.

    scores are as for `decide_lazily`. numbers (2·SHOWN + 2,): r̂ and values of the rows shown, V_t, ε_t; before (K,): Q as it was.
    """
    K = limits.shape[0]
    copy(before, 0, core, CORE_HEAD, K)
    sparse_penalties(offsets, indices, data, limits, before, scores[1])
    row = lazy_choice(phi, columns, flat, scores[0], scores[1], core, scores[2], scores[3], fresh)
    n = leaders(row, scores[2], scores[3], fresh, shown, numbers)
    V_t, eps_t = steps(core)
    numbers[2 * n] = V_t
    numbers[2 * n + 1] = eps_t
    take_sparsely(offsets[row], offsets[row + 1], indices, data, limits, eps_t, core, room)
    return row, n
