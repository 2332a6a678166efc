"""Linear models in any unit: ridge regression that scales its features, centres its outcomes and estimates their noise.

What it predicts is a mean and a standard deviation in the user's units, and neither depends on the unit of the features, nor on the
unit and offset of outcomes that are centred. Three things make it so.

- Features are divided by √(mean ‖φ‖²) of the first round, and a constant 1 is appended; the ridge is the square norm of such a row,
  so that before anything is learnt a prediction is as uncertain as the signal is large. Without the constant an action with φ = 0
  would be worth the mean outcome for ever.
- Outcomes are centred on their running mean c. The model keeps θ of the outcomes as they are and θ¹, that of an outcome which is
  always 1, both by the same rank-one updates: θ of the centred outcomes is θ − c θ¹, whatever c has become.
- The noise σ̂² is the mean of e²/(1 + xᵀΣ⁻¹x), e the error of a prediction made before its outcome was learnt, with the spread of
  the outcomes as one more observation.

The variance of a prediction has two parts: σ̂² (xᵀΣ⁻¹x − λ‖Σ⁻¹x‖²) from the noise of the outcomes that were learnt, and
s² λ‖Σ⁻¹x‖² from what the ridge still hides, where s² is the spread of the outcomes (σ̂² where that is larger). With rewards that
hardly vary σ̂ falls at once, and an action that was never tried must stay uncertain all the same.

A model is two vectors. `flat`: a ridge model's, as everywhere in the kernels, with M + 1 outputs, of which the last learns the
constant 1. `spread` (SPREAD_HEAD + 4M,): the head, with the unit of the features (0 until `begin_unit`), then for each output the
running mean, the sum of squares about it (about 0 where outcomes are not centred), the sum of e²/(1 + xᵀΣ⁻¹x), and the prior
standard deviation (0: none declared).
"""

from __future__ import annotations

import math

from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.layout import STAT as FLAT_HEAD
from tightrope.kernels.layout import STAT_SIZE, ridge_parts
from tightrope.kernels.linear_algebra import inner, matvec
from tightrope.kernels.models import ridge_learn

# the head of spread
OUTPUTS, CENTRED, UNIT, LEARNT_OUTCOMES = range(4)
SPREAD_HEAD = 4


def spread_size(M):
    """Length of `spread` for M outputs."""
    return SPREAD_HEAD + 4 * M


def flat_size(G, p, M):
    """Length of `flat` for G blocks, p features and M outputs."""
    q = p + 1
    return FLAT_HEAD + STAT_SIZE + 2 * G * (q * q + (M + 1) * q + 1)


@kernel
def begin_model(flat, spread, G, p, M, centred, prior):
    """A model that has learnt nothing; prior (M,): declared standard deviations, 0 where there is none."""
    flat[0] = G
    flat[1] = p + 1
    flat[2] = M + 1
    _, q, _, _, inverse, sigma, _, _ = ridge_parts(flat)
    for i in range(FLAT_HEAD, flat.shape[0]):
        flat[i] = 0.0
    for g in range(G):
        for i in range(q):
            at = g * q * q + i * (q + 1)
            flat[inverse + at] = 1.0 / ridge_of(p)
            flat[sigma + at] = ridge_of(p)
    for i in range(spread.shape[0]):
        spread[i] = 0.0
    spread[OUTPUTS] = M
    spread[CENTRED] = 1.0 if centred else 0.0
    for i in range(M):
        spread[SPREAD_HEAD + 3 * M + i] = prior[i]


@inlined
def spread_parts(spread):
    """M, and where the means, the sums of squares, the sums of squared errors and the priors are."""
    M = int(spread[OUTPUTS])
    return M, SPREAD_HEAD, SPREAD_HEAD + M, SPREAD_HEAD + 2 * M, SPREAD_HEAD + 3 * M


@kernel
def ridge_of(p):
    """λ: the square norm of a typical row in the model's own unit, p features and the constant."""
    return 2.0 if p > 0 else 1.0


@kernel
def begin_unit(spread, X, x, rows, p):
    """The unit of the features, from the first rows that were offered; 1 where they are all 0."""
    total = inner(X, x, X, x, rows * p) / rows
    spread[UNIT] = math.sqrt(total) if total > 0.0 else 1.0


@kernel
def extend_row(spread, X, x, p, out, at):
    """A row in the model's own unit, with the constant, into p + 1 numbers of out."""
    for i in range(p):
        out[at + i] = X[x + i] / spread[UNIT]
    out[at + p] = 1.0


@kernel
def noise_and_signal(spread, i):
    """σ̂² and s² of output i: what outcomes vary by around their prediction, and what they vary by at all."""
    _, _, squares, errors, prior = spread_parts(spread)
    n = spread[LEARNT_OUTCOMES]
    declared = spread[prior + i]
    if declared > 0.0:
        noise = (declared * declared + spread[errors + i]) / (n + 1.0)
        return noise, max(noise, (declared * declared + spread[squares + i]) / (n + 1.0))
    if n == 0.0:
        return 1.0, 1.0
    noise = (spread[squares + i] / n + spread[errors + i]) / n
    signal = spread[squares + i] / n
    if noise <= 0.0:
        return 1.0, 1.0
    return noise, max(noise, signal)


@kernel
def predict(flat, spread, g, Z, z, means, a, deviations, b, room):
    """Means into means[a : a + M] and standard deviations into deviations[b : b + M] for the extended row at Z[z], by block g.

    room has p + 1 numbers.
    """
    _, q, outputs, theta, inverse, _, _, _ = ridge_parts(flat)
    M, mean, _, _, _ = spread_parts(spread)
    matvec(flat, inverse + g * q * q, Z, z, q, room, 0)
    whole = max(0.0, inner(Z, z, room, 0, q))
    hidden = min(whole, ridge_of(q - 1) * inner(room, 0, room, 0, q))
    row = theta + g * outputs * q
    one = inner(flat, row + M * q, Z, z, q)
    for i in range(M):
        c = spread[mean + i] if spread[CENTRED] > 0.0 else 0.0
        noise, signal = noise_and_signal(spread, i)
        means[a + i] = c + inner(flat, row + i * q, Z, z, q) - c * one
        deviations[b + i] = math.sqrt(noise * (whole - hidden) + signal * hidden)


@kernel
def learn(flat, spread, g, Z, z, Y, y, room):
    """One outcome Y[y : y + M] at the extended row Z[z] by block g; whether block g is to be refreshed. room: p + 2 + 2M numbers."""
    _, q, outputs, theta, _, _, _, _ = ridge_parts(flat)
    M, mean, squares, errors, _ = spread_parts(spread)
    row = theta + g * outputs * q
    one = inner(flat, row + M * q, Z, z, q)
    n = spread[LEARNT_OUTCOMES]
    centred = spread[CENTRED] > 0.0
    told = n > 0.0 or not centred
    for i in range(M):
        c = spread[mean + i] if centred else 0.0
        room[q + M + 1 + i] = Y[y + i] - c - inner(flat, row + i * q, Z, z, q) + c * one
        room[q + i] = Y[y + i]
        delta = Y[y + i] - c
        spread[mean + i] += (Y[y + i] - spread[mean + i]) / (n + 1.0)
        spread[squares + i] += delta * (Y[y + i] - (spread[mean + i] if centred else 0.0))
    room[q + M] = 1.0
    spread[LEARNT_OUTCOMES] = n + 1.0
    refresh = ridge_learn(flat, g, Z, z, room, q, room, 0)
    if told:
        # Learning has left Σ⁻¹x, as it was before, in room.
        shrink = 1.0 / (1.0 + max(0.0, inner(Z, z, room, 0, q)))
        for i in range(M):
            e = room[q + M + 1 + i]
            spread[errors + i] += e * e * shrink
    return refresh


@kernel
def shift_output(flat, spread, i, by):
    """All outcomes of output i, those learnt too, become larger by so much: θ gains that much of the constant, b what goes with it."""
    G, q, outputs, theta, _, sigma, b, _ = ridge_parts(flat)
    _, mean, squares, _, _ = spread_parts(spread)
    for g in range(G):
        row = (g * outputs + i) * q
        flat[theta + row + q - 1] += by
        for c in range(q):
            flat[b + row + c] += by * flat[sigma + (g * q + c) * q + q - 1]
    n = spread[LEARNT_OUTCOMES]
    if spread[CENTRED] == 0.0:
        spread[squares + i] += n * by * (2.0 * spread[mean + i] + by)
    if n > 0.0:
        spread[mean + i] += by
