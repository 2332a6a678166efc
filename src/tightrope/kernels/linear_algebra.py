"""Sums, products and the inverse; each sum has one order whatever calls it, so every path gets the same bits.

A vector or matrix is an array and the address of its first element; rows are contiguous. Nothing allocates.
"""

from __future__ import annotations

import math

from tightrope.kernels import lanes
from tightrope.kernels.compile import inlined, kernel

# From this many columns on, a matrix is read in tiles of few rows: it fits in no cache then, and distant rows load slowly.
LARGE, TILE = 512, 8
# The least pivot, relative to the diagonal of its row.
LEAST_PIVOT = 1e-15


@inlined
def inner(A, a, B, b, n):
    """⟨a, b⟩ of n numbers in four running sums."""
    s = lanes.spread4(0.0)
    i = 0
    while i + 4 <= n:
        s = s + lanes.load4(A, a + i) * lanes.load4(B, b + i)
        i += 4
    if i < n:
        s0 = lanes.first(s)
        while i < n:
            s0 += A[a + i] * B[b + i]
            i += 1
        s = lanes.with_first(s, s0)
    return lanes.fold4(s)


@inlined
def add_scaled(out, at, factor, B, b, n):
    """out += factor · b, n numbers.

    The remainder after blocks of eight is the end of one more block, computed before the others overwrite its start:
    that is faster than a masked vector.
    """
    if n >= 8:
        f = lanes.spread8(factor)
        end = lanes.load8(out, at + n - 8) + f * lanes.load8(B, b + n - 8)
        i = 0
        while i + 8 < n:
            lanes.store8(out, at + i, lanes.load8(out, at + i) + f * lanes.load8(B, b + i))
            i += 8
        lanes.store8(out, at + n - 8, end)
    elif n >= 4:
        f4 = lanes.spread4(factor)
        start = lanes.load4(out, at) + f4 * lanes.load4(B, b)
        end4 = lanes.load4(out, at + n - 4) + f4 * lanes.load4(B, b + n - 4)
        lanes.store4(out, at, start)
        lanes.store4(out, at + n - 4, end4)
    else:
        if n > 2:
            out[at + 2] += factor * B[b + 2]
        if n > 1:
            out[at + 1] += factor * B[b + 1]
        if n > 0:
            out[at] += factor * B[b]


@inlined
def copy(out, at, B, b, n):
    """out = b, n numbers; they overlap completely or not at all."""
    if n >= 8:
        i = 0
        while i + 8 < n:
            lanes.store8(out, at + i, lanes.load8(B, b + i))
            i += 8
        lanes.store8(out, at + n - 8, lanes.load8(B, b + n - 8))
    elif n >= 4:
        lanes.store4(out, at, lanes.load4(B, b))
        lanes.store4(out, at + n - 4, lanes.load4(B, b + n - 4))
    else:
        if n > 2:
            out[at + 2] = B[b + 2]
        if n > 1:
            out[at + 1] = B[b + 1]
        if n > 0:
            out[at] = B[b]


@kernel
def matvec(A, a, X, x, n, out, at):
    """out = Ax for symmetric A (n, n); each element is a sum over the rows in order."""
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
        # The last eight columns may overlap those before them: as in `add_scaled`, they are read first and written last.
        end = sums_so_far(out, at + n - 8, top)
        j = 0
        while j + 32 < n:
            s0 = sums_so_far(out, at + j, top)
            s1 = sums_so_far(out, at + j + 8, top)
            s2 = sums_so_far(out, at + j + 16, top)
            s3 = sums_so_far(out, at + j + 24, top)
            for i in range(top, bottom):
                f = lanes.spread8(X[x + i])
                row = a + i * n + j
                s0 = s0 + f * lanes.load8(A, row)
                s1 = s1 + f * lanes.load8(A, row + 8)
                s2 = s2 + f * lanes.load8(A, row + 16)
                s3 = s3 + f * lanes.load8(A, row + 24)
            lanes.store8(out, at + j, s0)
            lanes.store8(out, at + j + 8, s1)
            lanes.store8(out, at + j + 16, s2)
            lanes.store8(out, at + j + 24, s3)
            j += 32
        while j + 16 < n:
            s0 = sums_so_far(out, at + j, top)
            s1 = sums_so_far(out, at + j + 8, top)
            for i in range(top, bottom):
                f = lanes.spread8(X[x + i])
                row = a + i * n + j
                s0 = s0 + f * lanes.load8(A, row)
                s1 = s1 + f * lanes.load8(A, row + 8)
            lanes.store8(out, at + j, s0)
            lanes.store8(out, at + j + 8, s1)
            j += 16
        if j + 8 < n:
            s0 = sums_so_far(out, at + j, top)
            for i in range(top, bottom):
                f = lanes.spread8(X[x + i])
                s0 = s0 + f * lanes.load8(A, a + i * n + j)
                end = end + f * lanes.load8(A, a + i * n + n - 8)
            lanes.store8(out, at + j, s0)
        else:
            for i in range(top, bottom):
                end = end + lanes.spread8(X[x + i]) * lanes.load8(A, a + i * n + n - 8)
        lanes.store8(out, at + n - 8, end)


@kernel
def quadratic_form(A, a, X, x, n):
    """xᵀAx for symmetric A (n, n) from its lower triangle: 2 Σ_j x_j (½ A_jj x_j + Σ_{i>j} A_ij x_i), summed in four parts."""
    s = lanes.spread4(0.0)
    whole = n - n % 4
    j = 0
    while j + 8 <= whole:
        at = a + j * n + j
        low = diagonal_block(A, at, X, x + j, n)
        for i in range(4, 8):
            low = low + lanes.spread4(X[x + j + i]) * lanes.load4(A, at + i * n)
        columns = lanes.joined(low, diagonal_block(A, at + 4 * n + 4, X, x + j + 4, n))
        for i in range(8, n - j):
            columns = columns + lanes.spread8(X[x + j + i]) * lanes.load8(A, at + i * n)
        s = s + lanes.low4(columns) * lanes.load4(X, x + j)
        s = s + lanes.high4(columns) * lanes.load4(X, x + j + 4)
        j += 8
    if j < whole:
        at = a + j * n + j
        low = diagonal_block(A, at, X, x + j, n)
        for i in range(4, n - j):
            low = low + lanes.spread4(X[x + j + i]) * lanes.load4(A, at + i * n)
        s = s + low * lanes.load4(X, x + j)
        j += 4
    if j < n:
        s0 = lanes.first(s)
        while j < n:
            at = a + j * n + j
            column = 0.5 * A[at] * X[x + j]
            for i in range(1, n - j):
                column += X[x + j + i] * A[at + i * n]
            s0 += column * X[x + j]
            j += 1
        s = lanes.with_first(s, s0)
    return 2.0 * lanes.fold4(s)


@kernel
def eight_quadratic_forms(A, a, T, t, n, out, at, r):
    """`quadratic_form` of each of the eight columns of T (n, 8) into out, with the same sums; T[r : r + 8n] is overwritten."""
    s0 = lanes.spread8(0.0)
    s1 = lanes.spread8(0.0)
    s2 = lanes.spread8(0.0)
    s3 = lanes.spread8(0.0)
    j = 0
    tile = tile_of(n)
    for top in range(0, n, tile):
        bottom = min(n, top + tile)
        j = 0
        while j + 4 <= bottom:
            x0 = lanes.load8(T, t + 8 * j)
            x1 = lanes.load8(T, t + 8 * j + 8)
            x2 = lanes.load8(T, t + 8 * j + 16)
            x3 = lanes.load8(T, t + 8 * j + 24)
            if j < top:
                r0 = lanes.load8(T, r + 8 * j)
                r1 = lanes.load8(T, r + 8 * j + 8)
                r2 = lanes.load8(T, r + 8 * j + 16)
                r3 = lanes.load8(T, r + 8 * j + 24)
            else:
                b = a + j * n + j
                c = b + n
                d = c + n
                e = d + n
                r0 = lanes.spread8(0.5 * A[b]) * x0
                r0 = r0 + (x1 * lanes.spread8(A[c]) + x2 * lanes.spread8(A[d]) + x3 * lanes.spread8(A[e]))
                r1 = lanes.spread8(0.5 * A[c + 1]) * x1 + (
                    x2 * lanes.spread8(A[d + 1]) + x3 * lanes.spread8(A[e + 1])
                )
                r2 = lanes.spread8(0.5 * A[d + 2]) * x2 + x3 * lanes.spread8(A[e + 2])
                r3 = lanes.spread8(0.5 * A[e + 3]) * x3
            for i in range(max(top, j + 4), bottom):
                row = a + i * n + j
                x = lanes.load8(T, t + 8 * i)
                r0 = r0 + x * lanes.spread8(A[row])
                r1 = r1 + x * lanes.spread8(A[row + 1])
                r2 = r2 + x * lanes.spread8(A[row + 2])
                r3 = r3 + x * lanes.spread8(A[row + 3])
            if bottom < n:
                lanes.store8(T, r + 8 * j, r0)
                lanes.store8(T, r + 8 * j + 8, r1)
                lanes.store8(T, r + 8 * j + 16, r2)
                lanes.store8(T, r + 8 * j + 24, r3)
            else:
                s0 = s0 + r0 * x0
                s1 = s1 + r1 * x1
                s2 = s2 + r2 * x2
                s3 = s3 + r3 * x3
            j += 4
    while j < n:
        x0 = lanes.load8(T, t + 8 * j)
        r0 = lanes.spread8(0.5 * A[a + j * n + j]) * x0
        for i in range(j + 1, n):
            r0 = r0 + lanes.load8(T, t + 8 * i) * lanes.spread8(A[a + i * n + j])
        s0 = s0 + r0 * x0
        j += 1
    lanes.store8(out, at, lanes.spread8(2.0) * ((s0 + s1) + (s2 + s3)))


@kernel
def rows_as_columns(X, x, rows, n, T, t):
    """Eight rows of X as the columns of T (n, 8); if there are fewer, the last one fills the gaps."""
    a = x
    b = x + n * min(1, rows - 1)
    c = x + n * min(2, rows - 1)
    d = x + n * min(3, rows - 1)
    e = x + n * min(4, rows - 1)
    f = x + n * min(5, rows - 1)
    g = x + n * min(6, rows - 1)
    h = x + n * min(7, rows - 1)
    for i in range(n):
        column = lanes.eight(X[a + i], X[b + i], X[c + i], X[d + i], X[e + i], X[f + i], X[g + i], X[h + i])
        lanes.store8(T, t + 8 * i, column)


@kernel
def invert(S, s, n, out, at, scratch):
    """Σ⁻¹ = L⁻ᵀL⁻¹ from the Cholesky factor of Σ (n, n), in out; scratch (2n²,) is overwritten.

    A pivot that rounding has made negative, or too small for its row, is replaced by the least one distinguishable from 0.
    """
    for i in range(2 * n * n):
        scratch[i] = 0.0
    for j in range(n):
        for i in range(j, n):
            scratch[i * n + j] = S[s + i * n + j] - inner(scratch, i * n, scratch, j * n, j)
        pivot = max(scratch[j * n + j], LEAST_PIVOT * S[s + j * n + j])
        scratch[j * n + j] = pivot
        root = math.sqrt(pivot)
        for i in range(j, n):
            scratch[i * n + j] /= root
    # Rows of R = L⁻¹ from RL = I, not from LR = I: ΣRᵀR − I = L(RL)ᵀR − I, so it is RL − I that must be small.
    R = n * n
    for i in range(n):
        row = R + i * n
        scratch[row + i] = 1.0
        for k in range(i, -1, -1):
            scratch[row + k] /= scratch[k * n + k]
            add_scaled(scratch, row, -scratch[row + k], scratch, k * n, k)
    for i in range(n * n):
        out[at + i] = 0.0
    for k in range(n):
        for i in range(k + 1):
            add_scaled(out, at + i * n, scratch[R + k * n + i], scratch, R + k * n, k + 1)


@kernel
def tile_of(n):
    return TILE if n >= LARGE else n


@inlined
def sums_so_far(out, at, top):
    """Eight sums of a product that has reached row `top`: in the first row there is nothing to read yet."""
    return lanes.spread8(0.0) if top == 0 else lanes.load8(out, at)


@inlined
def diagonal_block(A, a, X, x, n):
    """Four columns of `quadratic_form`, restricted to the block of four rows on the diagonal."""
    b = a + n
    c = b + n
    d = c + n
    diagonal = lanes.spread4(0.5) * lanes.four(A[a], A[b + 1], A[c + 2], A[d + 3]) * lanes.load4(X, x)
    below = lanes.spread4(X[x + 1]) * lanes.four(A[b], 0.0, 0.0, 0.0)
    below = below + lanes.spread4(X[x + 2]) * lanes.four(A[c], A[c + 1], 0.0, 0.0)
    below = below + lanes.spread4(X[x + 3]) * lanes.four(A[d], A[d + 1], A[d + 2], 0.0)
    return diagonal + below
