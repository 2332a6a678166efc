"""The look ahead of the standardised model: how uncertain each block would be if the estimates alone decided for a while.

See `standardised` for the formula.
"""

from __future__ import annotations

import math

from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.layout import LEARNT, ridge_parts
from tightrope.kernels.layout import STAT as FLAT_HEAD
from tightrope.kernels.linear_algebra import add_scaled, inner, invert
from tightrope.kernels.spread import (
    BLOCK_HEAD,
    BLOCK_LEARNT,
    BLOCK_LEFT,
    BLOCKS,
    FEATURES,
    NEXT_LOOK,
    ROUNDS,
    block_at,
    forgets,
    squares_at,
)
from tightrope.kernels.standardised import LOOK, LOOK_GROWTH, constant_of, per_unit


def look_room(q):
    """How much room `look_ahead` needs for rows of q numbers, including the constant."""
    return 4 * q * q


@kernel
def look_ahead(flat, spread, phi, a, one_row, ids, best, room):
    """Note a round with rows at phi[a], of which the estimates choose number `best`; recompute e when it is time.

    If each action has a row of its own, one of them, in turn, stands for all in M.
    """
    if forgets(spread) or flat[FLAT_HEAD + LEARNT] == 0.0:
        return
    p = int(spread[FEATURES])
    t = spread[ROUNDS] + 1.0
    spread[ROUNDS] = t
    one = 0 if one_row else int(t) % ids.shape[0]
    add_row(spread, squares_at(spread) + 2 * p, phi, a + one * p, p, t)
    g = ids[best] if flat[0] > 1.0 else 0
    add_row(spread, block_at(spread, g) + BLOCK_HEAD + 2 * p, phi, a if one_row else a + best * p, p, t)
    if t >= spread[NEXT_LOOK]:
        spread[NEXT_LOOK] = math.floor(LOOK_GROWTH * t) + 1.0
        for g in range(int(spread[BLOCKS])):
            spread[block_at(spread, g) + BLOCK_LEFT] = part_left(flat, spread, g, room)


@inlined
def add_row(spread, at, X, x, p, weight):
    """Add weight · xxᵀ, x with the constant, to the matrix at spread[at]."""
    for i in range(p):
        add_scaled(spread, at + i * (p + 1), weight * X[x + i], X, x, p)
        spread[at + i * (p + 1) + p] += weight * X[x + i]
    last = at + p * (p + 1)
    add_scaled(spread, last, weight, X, x, p)
    spread[last + p] += weight


@kernel
def part_left(flat, spread, g, room):
    """e of block g; 1 if it has learnt nothing. room has 4q² numbers."""
    _, q, _, _, inverse, sigma, _, _ = ridge_parts(flat)
    p = q - 1
    own = block_at(spread, g)
    if spread[own + BLOCK_LEARNT] == 0.0:
        return 1.0
    t = spread[ROUNDS]
    of_all = 2.0 / (t * (t + 1.0))
    A = q * q
    scales = 2 * A
    for i in range(p):
        room[scales + i] = per_unit(flat, spread, g, i, 0.0)
        room[scales + q + i] = spread[own + BLOCK_HEAD + p + i]
    room[scales + p], room[scales + q + p] = constant_of(p), 0.0
    in_units(spread, squares_at(spread) + 2 * p, room, scales, q, of_all, room, 0)
    in_units(spread, own + BLOCK_HEAD + 2 * p, room, scales, q, LOOK * t * of_all, room, A)
    for i in range(A):
        room[A + i] += flat[sigma + g * A + i]
    now = inner(flat, inverse + g * A, room, 0, A)
    invert(room, A, q, room, A, room[2 * A :])
    left = inner(room, A, room, 0, A)
    return math.sqrt(min(1.0, max(0.0, left / now))) if now > 0.0 else 1.0


@inlined
def in_units(sums, a, units, u, q, weight, out, at):
    """A sum of zzᵀ at sums[a], z with the constant last, times weight, in units: factors at units[u], then what is added."""
    last = q - 1
    for i in range(q):
        f, c = units[u + i], units[u + q + i]
        for j in range(q):
            h, d = units[u + j], units[u + q + j]
            one = h * sums[a + i * q + j] + d * sums[a + i * q + last]
            other = h * sums[a + last * q + j] + d * sums[a + last * q + last]
            out[at + i * q + j] = weight * (f * one + c * other)
