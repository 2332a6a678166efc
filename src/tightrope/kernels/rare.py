"""What to expect of an action where it was never tried, if others are known to be worth something quite different there.

Where each action has parameters of its own, a context that comes once in 300 rounds and earns a hundred times as much is learnt
by one action at a time. The others would still be expected to earn there what they earn elsewhere, and the action that was tried
there first would be taken for good. So where the known actions are FAR standard deviations of all outcomes from the centre, those
that have learnt nothing in this direction are expected to earn what the known ones earn here, give or take their distance from
the centre.
"""

from __future__ import annotations

import math

from tightrope.kernels import standardised
from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.layout import ridge_parts
from tightrope.kernels.linear_algebra import inner, matvec
from tightrope.kernels.spread import forgets
from tightrope.kernels.standardised import (
    ZERO,
    centre,
    extend_row,
    faded,
    noise_and_signal,
    ridge_of,
    uncertainty,
)

# In standard deviations of all outcomes. Only contexts rarer than 1 in FAR² can stand out that far.
FAR = 4.0


@kernel
def predict_rewards(flat, spread, phi, a, one_row, ids, out, means, deviations, room):
    """`standardised.predict_rewards`, but an action that was never tried where others stand out is expected to be like them."""
    standardised.predict_rewards(flat, spread, phi, a, one_row, ids, out, means, deviations, room)
    if flat[0] > 1.0 and flat[1] > 1.0 and stands_out(spread, ids.shape[0], out, means):
        liken(flat, spread, phi, a, one_row, ids, out, means, deviations, room)


@inlined
def stands_out(spread, J, out, means):
    """Whether the mean of any action, known or not, is far from the centre of all outcomes."""
    c = centre(spread, ZERO)
    most = 0.0
    for j in range(J):
        most = max(most, abs(out[means + j] - c))
    _, signal = noise_and_signal(spread, ZERO)
    return most * most > FAR * FAR * signal


@kernel
def liken(flat, spread, phi, a, one_row, ids, out, means, deviations, room):
    """Where the known actions are far out, move means and deviations by the part of each that is unknown. room has 2q numbers."""
    p = int(flat[1]) - 1
    c = centre(spread, ZERO)
    known, mean, square = 0.0, 0.0, 0.0
    for j in range(ids.shape[0]):
        weight = 1.0 - unknown_part(flat, spread, ids[j], phi, a if one_row else a + j * p, room)
        known += weight
        mean += weight * (out[means + j] - c)
        square += weight * ((out[means + j] - c) * (out[means + j] - c))
    _, signal = noise_and_signal(spread, ZERO)
    if not square > FAR * FAR * signal * known:
        return
    for j in range(ids.shape[0]):
        unknown = unknown_part(flat, spread, ids[j], phi, a if one_row else a + j * p, room)
        s = out[deviations + j]
        out[means + j] += unknown * (c + mean / known - out[means + j])
        out[deviations + j] = math.sqrt(s * s + unknown * (square / known))


@kernel
def unknown_part(flat, spread, g, phi, a, room):
    """u² of the row at phi[a] in block g: 1 where the block has learnt nothing in its direction, and soon near 0 elsewhere."""
    _, q, _, _, inverse, _, _, _ = ridge_parts(flat)
    extend_row(flat, spread, g, phi, a, q - 1, room, 0)
    matvec(flat, inverse + g * q * q, room, 0, q, room, q)
    ridge = ridge_of(q - 1)
    most = inner(room, 0, room, 0, q) / ridge if forgets(spread) else math.inf
    whole, hidden = uncertainty(
        inner(room, 0, room, q, q), inner(room, q, room, q, q), ridge, faded(spread, g), most
    )
    part = hidden / whole if whole > 0.0 else 0.0
    return part * part
