"""Linear models in any unit: ridge regression that scales its features, centres its outcomes and estimates their noise.

It predicts a mean and a standard deviation in the user's units. Neither depends on the unit of the features, or on the
unit and offset of centred outcomes. Three things make this work.

- Features are divided by √(mean ‖φ‖²) of the first round, and a constant 1 is appended; the ridge is the squared norm of such a
  row, so before anything is learnt a prediction is as uncertain as the signal is large. Without the constant an action with φ = 0
  would be worth the mean outcome for ever.
- Outcomes are centred on their running mean c. The model keeps θ for the raw outcomes and θ¹ for an outcome that is
  always 1, both by the same rank-one updates: θ for the centred outcomes is θ − c θ¹, whatever c has become.
- The noise σ̂² is a mean of e²/(1 + h), where e is the error of a prediction made before learning its outcome, h = xᵀΣ⁻¹x, with
  the spread of outcomes as one more observation. Weights √(2h/(1 + h)) make rare rows count: if all errors counted alike, an
  action that is often taken and hardly varies would make the noise of all others look small, and a good one would be dropped early.

The variance of a prediction has two parts: σ̂² (xᵀΣ⁻¹x − λ‖Σ⁻¹x‖²) from the noise of the outcomes learnt, and
s² λ‖Σ⁻¹x‖² from what the ridge still hides, where s² is the spread of the outcomes (or σ̂² if that is larger). If rewards
hardly vary, σ̂ falls at once, but an action that was never tried must stay uncertain.

A model is two vectors. `flat` is a ridge model's, as everywhere in the kernels, with M + 1 outputs, the last of which learns the
constant 1. `spread` (SPREAD_HEAD + 4M,): the head, with the unit of the features (0 until `begin_unit`), then for each output the
running mean, the sum of squares about it (about 0 if outcomes are not centred), the weighted sum of e²/(1 + h), and the prior
standard deviation (0: none declared). A model that forgets has `forgetting`'s ages after that, and all its sums over outcomes fade.
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.kernels import forgetting, lanes
from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.layout import STAT as FLAT_HEAD
from tightrope.kernels.layout import STAT_SIZE, ridge_parts
from tightrope.kernels.linear_algebra import inner, matvec, rows_as_columns
from tightrope.kernels.models import ridge_learn, ridge_refresh

# the head of spread
OUTPUTS, CENTRED, UNIT, LEARNT_OUTCOMES, ERROR_WEIGHT = range(5)
SPREAD_HEAD = 5

# Passed as arguments: Numba would compile a function again for each literal number, but not for these.
ZERO, ONE = np.int64(0), np.int64(1)
# A feature counts as at most this many times those of the first round, so that its squares and sums stay finite; if those
# are smaller than SMALLEST, they count as 0.
LARGEST_RATIO, SMALLEST = 1e12, 1e-50
# Noise below this fraction of the mean square is rounding.
ROUNDING = 1e-20


def spread_size(M, ages=0):
    """Length of `spread` for this many outputs and ages."""
    return SPREAD_HEAD + 4 * M + ages


@inlined
def ages_at(spread):
    """Where the ages of a model that forgets start; the end of the vector if it does not forget."""
    return SPREAD_HEAD + 4 * int(spread[OUTPUTS])


@inlined
def forgets(spread):
    """Whether the model forgets."""
    return spread.shape[0] > ages_at(spread)


@inlined
def faded(spread, g):
    """w of block g, by which everything it has learnt has faded; 1 for a model that does not forget."""
    return forgetting.weight(spread, ages_at(spread), g) if forgets(spread) else 1.0


def flat_size(G, p, M):
    """Length of `flat` for G blocks, p features and M outputs."""
    q = p + 1
    return FLAT_HEAD + STAT_SIZE + 2 * G * (q * q + (M + 1) * q + 1)


@kernel
def begin_model(flat, spread, G, p, M, centred, prior):
    """A model that has learnt nothing; prior (M,): declared standard deviations, 0 if none is declared."""
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
    """λ: the squared norm of a typical row in the model's own unit, p features and the constant."""
    return 2.0 if p > 0 else 1.0


@kernel
def begin_unit(spread, X, x, rows, p):
    """The unit of the features, from the first rows offered; 1 if they are all 0."""
    total = inner(X, x, X, x, rows * p) / rows
    spread[UNIT] = math.sqrt(total) if total > SMALLEST * SMALLEST else 1.0


@kernel
def extend_row(spread, X, x, p, out, at):
    """A row in the model's own unit, with the constant, into p + 1 numbers of out."""
    scale = 1.0 / spread[UNIT]
    for i in range(p):
        out[at + i] = max(-LARGEST_RATIO, min(LARGEST_RATIO, X[x + i] * scale))
    out[at + p] = 1.0


@kernel
def noise_and_signal(spread, i):
    """σ̂² and s² of output i: how much outcomes vary around their prediction, and how much they vary overall."""
    _, mean, squares, errors, prior = spread_parts(spread)
    n = spread[LEARNT_OUTCOMES]
    declared = spread[prior + i]
    weight = spread[ERROR_WEIGHT] + 1.0
    if declared > 0.0:
        noise = (declared * declared + spread[errors + i]) / weight
        return noise, max(noise, (declared * declared + spread[squares + i]) / (n + 1.0))
    if n == 0.0:
        return 1.0, 1.0
    signal = spread[squares + i] / n
    noise = (signal + spread[errors + i]) / weight
    # Equal outcomes say nothing about their noise except its unit; what remains of it is rounding.
    size = spread[mean + i] * spread[mean + i]
    if noise <= ROUNDING * (size + signal):
        return (size, size) if size > 0.0 else (1.0, 1.0)
    return noise, max(noise, signal)


@inlined
def unit_is_guessed(spread, i):
    """Whether the size of output i's outcomes is unknown: no range was declared, and all outcomes seen are 0."""
    _, _, squares, _, prior = spread_parts(spread)
    return spread[squares + i] == 0.0 and spread[prior + i] == 0.0


@inlined
def nothing_seen(spread, i):
    """Whether all outcomes of output i were 0 and no range was declared, so that their unit is unknown."""
    return spread[SPREAD_HEAD + i] == 0.0 and unit_is_guessed(spread, i)


@inlined
def centre(spread, i):
    """The value that outcomes of output i are centred on."""
    return spread[SPREAD_HEAD + i] if spread[CENTRED] > 0.0 else 0.0


@inlined
def deviation(noise, signal, whole, hidden):
    """The standard deviation of a prediction, from its two parts."""
    return math.sqrt(noise * (whole - hidden) + signal * hidden)


@kernel
def predict(flat, spread, g, Z, z, means, a, deviations, b, room):
    """Means into means[a : a + M] and standard deviations into deviations[b : b + M] for the extended row at Z[z], by block g.

    room has p + 1 numbers.
    """
    _, q, outputs, theta, inverse, _, _, _ = ridge_parts(flat)
    M, _, _, _, _ = spread_parts(spread)
    matvec(flat, inverse + g * q * q, Z, z, q, room, 0)
    w = faded(spread, g)
    whole = w * max(0.0, inner(Z, z, room, 0, q))
    if forgets(spread):
        whole = min(whole, inner(Z, z, Z, z, q) / ridge_of(q - 1))
    hidden = min(whole, w * ridge_of(q - 1) * inner(room, 0, room, 0, q))
    row = theta + g * outputs * q
    one = inner(flat, row + M * q, Z, z, q)
    for i in range(M):
        c = centre(spread, i)
        noise, signal = noise_and_signal(spread, i)
        means[a + i] = c + inner(flat, row + i * q, Z, z, q) - c * one
        deviations[b + i] = deviation(noise, signal, whole, hidden)


# Rows of a model with one block are predicted eight at a time, each with the same sums.


def eight_size(q, M):
    """How much room `predict_eight` needs."""
    return 8 * (q + M + 3)


@kernel
def predict_eight(flat, spread, X, x, rows, room):
    """For up to eight rows at X[x], as given: xᵀΣ⁻¹x, ‖Σ⁻¹x‖² and θᵀx of each output into room, eight numbers each."""
    _, q, outputs, theta, inverse, _, _, _ = ridge_parts(flat)
    p = q - 1
    T = 8 * (outputs + 2)
    rows_as_columns(X, x, rows, p, room, T)
    scale = lanes.spread8(1.0 / spread[UNIT])
    for i in range(p):
        lanes.store8(room, T + 8 * i, lanes.load8(room, T + 8 * i) * scale)
    for i in range(T, T + 8 * p):
        room[i] = max(-LARGEST_RATIO, min(LARGEST_RATIO, room[i]))
    lanes.store8(room, T + 8 * p, lanes.spread8(1.0))
    whole = lanes.spread8(0.0)
    norm = lanes.spread8(0.0)
    i = 0
    while i + 4 <= q:
        a = inverse + i * q
        b = a + q
        c = b + q
        d = c + q
        s0 = lanes.spread8(0.0)
        s1 = lanes.spread8(0.0)
        s2 = lanes.spread8(0.0)
        s3 = lanes.spread8(0.0)
        for j in range(q):
            column = lanes.load8(room, T + 8 * j)
            s0 = s0 + column * lanes.spread8(flat[a + j])
            s1 = s1 + column * lanes.spread8(flat[b + j])
            s2 = s2 + column * lanes.spread8(flat[c + j])
            s3 = s3 + column * lanes.spread8(flat[d + j])
        whole = whole + s0 * lanes.load8(room, T + 8 * i)
        whole = whole + s1 * lanes.load8(room, T + 8 * i + 8)
        whole = whole + s2 * lanes.load8(room, T + 8 * i + 16)
        whole = whole + s3 * lanes.load8(room, T + 8 * i + 24)
        norm = norm + s0 * s0
        norm = norm + s1 * s1
        norm = norm + s2 * s2
        norm = norm + s3 * s3
        i += 4
    while i < q:
        s0 = lanes.spread8(0.0)
        for j in range(q):
            s0 = s0 + lanes.load8(room, T + 8 * j) * lanes.spread8(flat[inverse + i * q + j])
        whole = whole + s0 * lanes.load8(room, T + 8 * i)
        norm = norm + s0 * s0
        i += 1
    lanes.store8(room, 0, whole)
    lanes.store8(room, 8, norm)
    for m in range(outputs):
        s0 = lanes.spread8(0.0)
        for j in range(q):
            s0 = s0 + lanes.load8(room, T + 8 * j) * lanes.spread8(flat[theta + m * q + j])
        lanes.store8(room, 16 + 8 * m, s0)


@kernel
def learn(flat, spread, g, Z, z, Y, y, room):
    """Learn one outcome Y[y : y + M] at the extended row Z[z] by block g; returns whether to refresh it. room: p + 2 + 2M numbers.

    If the model forgets, the row is overwritten.
    """
    _, q, outputs, theta, _, _, _, _ = ridge_parts(flat)
    M, mean, squares, errors, _ = spread_parts(spread)
    forgetful = forgets(spread)
    if forgetful:
        fade_sums(spread)
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
    if forgetful:
        root = math.sqrt(faded(spread, g))
        for i in range(q):
            Z[z + i] *= root
        for i in range(M + 1):
            room[q + i] *= root
    refresh = ridge_learn(flat, g, Z, z, room, q, room, 0)
    if told:
        # Learning has left the earlier Σ⁻¹x in room.
        leverage = max(0.0, inner(Z, z, room, 0, q))
        shrink = 1.0 / (1.0 + leverage)
        weight = math.sqrt(2.0 * leverage * shrink)
        spread[ERROR_WEIGHT] += weight
        for i in range(M):
            e = room[q + M + 1 + i]
            spread[errors + i] += weight * e * e * shrink
    if forgetful:
        return forgetting.some_are_due(flat, spread, ages_at(spread), g)
    return refresh


@kernel
def fade_sums(spread):
    """An outcome arrives: earlier ones count less."""
    M, _, squares, errors, _ = spread_parts(spread)
    fade = forgetting.note_outcome(spread, ages_at(spread))
    spread[LEARNT_OUTCOMES] *= fade
    spread[ERROR_WEIGHT] *= fade
    for i in range(M):
        spread[squares + i] *= fade
        spread[errors + i] *= fade


@kernel
def refresh(flat, spread, g, scratch):
    """Recompute block g, as `learn` asks for; in a model that forgets, any block that is due. scratch (2q²,) is overwritten."""
    if forgets(spread):
        ridge = ridge_of(int(flat[1]) - 1)
        forgetting.renew_those_due(flat, spread, ages_at(spread), g, ridge, scratch)
    else:
        ridge_refresh(flat, g, scratch)


# Offers and outcomes as given: rows in the user's units


def predictions_room(q, M):
    """How much room `predict_costs` needs for rows of q numbers, including the constant, and M outputs."""
    return eight_size(q, M)


@kernel
def predict_rewards(flat, spread, phi, a, one_row, ids, out, means, deviations, room):
    """Means and standard deviations of the actions' rewards into out; room as for `predict_costs`."""
    predict_costs(flat, spread, phi, a, one_row, ids, ids[:0], out, means, out, deviations, ONE, room)


@kernel
def predict_costs(flat, spread, psi, a, one_row, ids, columns, out, means, deviations, d, K, room):
    """Means of M quantities into `columns` of out[means:] (J, K), their standard deviations into those of deviations[d:] (J, K).

    Without `columns` there is one quantity, for column 0. room has `predictions_room` numbers.
    """
    p = int(flat[1]) - 1
    M = max(1, columns.shape[0])
    J = ids.shape[0]
    if spread[UNIT] == 0.0:
        begin_unit(spread, psi, a, 1 if one_row else J, p)
    if flat[0] == 1.0 and not one_row:
        w = faded(spread, 0)
        forgetful = forgets(spread)
        for j in range(0, J, 8):
            predict_eight(flat, spread, psi, a + j * p, min(8, J - j), room)
            for i in range(M):
                noise, signal = noise_and_signal(spread, i)
                c = centre(spread, i)
                for r in range(min(8, J - j)):
                    whole = w * max(0.0, room[r])
                    if forgetful:
                        x = a + (j + r) * p
                        norm = inner(psi, x, psi, x, p) / (spread[UNIT] * spread[UNIT]) + 1.0
                        whole = min(whole, norm / ridge_of(p))
                    hidden = min(whole, w * ridge_of(p) * room[8 + r])
                    at_row = (j + r) * K + (columns[i] if columns.shape[0] > 0 else 0)
                    out[means + at_row] = c + room[16 + 8 * i + r] - c * room[16 + 8 * M + r]
                    deviations[d + at_row] = deviation(noise, signal, whole, hidden)
        return
    for j in range(J):
        if j == 0 or not one_row:
            extend_row(spread, psi, a + j * p, p, room, 0)
        g = ids[j] if flat[0] > 1.0 else 0
        mean = 2 * (p + 1)
        predict(flat, spread, g, room, 0, room, mean, room, mean + M, room[p + 1 :])
        for i in range(M):
            at_row = j * K + (columns[i] if columns.shape[0] > 0 else 0)
            out[means + at_row] = room[mean + i]
            deviations[d + at_row] = room[mean + M + i]


@kernel
def learn_reward(g, x, reward, flat, spread, room):
    """Learn one reward at φ = x by block g; returns whether to refresh the block. room has 2q + 5 numbers."""
    p = int(flat[1]) - 1
    if spread[UNIT] == 0.0:
        begin_unit(spread, x, ZERO, ONE, p)
    extend_row(spread, x, 0, p, room, 0)
    room[p + 1] = reward
    return learn(flat, spread, g, room, 0, room, p + 1, room[p + 2 :])


@kernel
def learn_costs(g, z, costs, flat, spread, room):
    """Learn M costs at ψ = z[:p] by block g; returns whether to refresh the block. room has 2q + 2 + 2M numbers."""
    p = int(flat[1]) - 1
    if spread[UNIT] == 0.0:
        begin_unit(spread, z, ZERO, ONE, p)
    extend_row(spread, z, 0, p, room, 0)
    return learn(flat, spread, g, room, 0, costs, 0, room[p + 1 :])


@kernel
def fill_unseen(z, alone, outputs, unseen, costs, flat, spread, room):
    """Fill in predictions for costs that were not seen, at ψ = z of the action in `alone`.

    outputs: 0 … M − 1, unseen: the unseen ones among them. room has 2M numbers more than `predictions_room`.
    """
    M = outputs.shape[0]
    for_all = alone.shape[0] != 1
    predict_costs(flat, spread, z, ZERO, for_all, alone, outputs, room, ZERO, room, M, M, room[2 * M :])
    for i in range(unseen.shape[0]):
        costs[unseen[i]] = room[unseen[i]]


@kernel
def shift_output(flat, spread, i, by):
    """Add this much to all outcomes of output i, including those already learnt.

    Centred outcomes move with their mean, as if they had been learnt that way. Otherwise θ gains it in the constant, and b to
    match, so that a prediction moves by the full amount even if little was learnt.
    """
    G, q, outputs, theta, _, sigma, b, _ = ridge_parts(flat)
    M, mean, squares, _, _ = spread_parts(spread)
    centred = spread[CENTRED] > 0.0
    for g in range(G):
        row = (g * outputs + i) * q
        one = (g * outputs + M) * q
        if not centred:
            flat[theta + row + q - 1] += by
        for c in range(q):
            if centred:
                flat[theta + row + c] += by * flat[theta + one + c]
                flat[b + row + c] += by * flat[b + one + c]
            else:
                flat[b + row + c] += by * flat[sigma + (g * q + c) * q + q - 1]
    n = spread[LEARNT_OUTCOMES]
    if not centred:
        spread[squares + i] += n * by * (2.0 * spread[mean + i] + by)
    if n > 0.0:
        spread[mean + i] += by
