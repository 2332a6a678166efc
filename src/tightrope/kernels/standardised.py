"""Linear models in any unit: ridge regression that scales its features, centres its outcomes and estimates their noise.

It predicts a mean and a standard deviation in the user's units. Neither depends on the unit of any feature, or on the unit and
offset of centred outcomes. Three things make this work.

- Each feature is centred on its mean and divided by its standard deviation over all rows learnt, and a constant is appended. The
  ridge is RIDGE in that unit, however many features there are, and RIDGE_OF_ARMS for the effect of the constant. A block updates
  its units each time the number of rows it has learnt has grown by half; before the first time it takes a feature as it is, in
  units of its root mean square. A feature that was 0 in all rows so far gets the unit it would have if it were learnt now. Without
  the constant an action with φ = 0 would be worth the mean outcome for ever.
- Outcomes are centred on their running mean c. The model keeps θ for the raw outcomes and θ¹ for an outcome that is
  always 1, both by the same rank-one updates: θ for the centred outcomes is θ − c θ¹, whatever c has become.
- The noise σ̂² is a mean of e²/(1 + h), where e is the error of a prediction made before learning its outcome, h = xᵀΣ⁻¹x, with
  the spread of outcomes as one more observation. Weights √(2h/(1 + h)) make rare rows count: if all errors counted alike, an
  action that is often taken and hardly varies would make the noise of all others look small, and a good one would be dropped early.

The variance of a prediction is h σ̂² if outcomes were learnt there, and h s² if none were, where s² is the spread of the outcomes
(or σ̂² if that is larger). If rewards hardly vary, σ̂ falls at once, but an action that was never tried must stay uncertain. In
between the variance is h (σ̂² + u⁴ (s² − σ̂²)), where u = λ‖Σ⁻¹x‖²/h is the part of h that the ridge hides: 1 before anything is
learnt, and soon too small to matter. Here h counts as at most 1: no prediction is less certain than outcomes are noisy, not even
for a category that appears for the first time.

Posterior sampling pays for information. If contexts vary, much of it is free, because an action is taken in other rounds anyway.
So the model looks ahead. Its draws use only the part e of a block's deviation that would be left after LOOK times as many rounds,
all decided by the estimates alone:

    e² = tr((Σ + LOOK·t·G)⁻¹ M) / tr(Σ⁻¹ M),

where M is the mean of xxᵀ over rounds, and G is the same mean with 0 for rounds in which the estimates choose another block. Round
t has weight t in both. A block that the estimates never choose keeps e = 1. e is recomputed when the number of rounds has grown by
a quarter.

A model is two vectors. `flat` is a ridge model's, as everywhere in the kernels, with M + 1 outputs, the last of which learns the
constant 1. `spread` is laid out in `kernels.spread`.
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.kernels import change, forgetting, lanes
from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.layout import LEARNT, STAT_SIZE, ridge_parts
from tightrope.kernels.layout import STAT as FLAT_HEAD
from tightrope.kernels.linear_algebra import inner, matvec, rows_as_columns
from tightrope.kernels.models import ridge_learn, ridge_refresh
from tightrope.kernels.spread import (
    BLOCK_HEAD,
    BLOCK_LEARNT,
    BLOCK_LEFT,
    BLOCK_NEXT,
    BLOCKS,
    CENTRED,
    ERROR_WEIGHT,
    FEATURES,
    FORGETS,
    LEARNT_OUTCOMES,
    NEXT_LOOK,
    OUTPUTS,
    ROUNDS,
    SPREAD_HEAD,
    ages_at,
    block_at,
    forgets,
    spread_parts,
    squares_at,
    watch_at,
)

# Passed as arguments: Numba would compile a function again for each literal number, but not for these.
ZERO, ONE = np.int64(0), np.int64(1)
# The ridge, in rows of usual size; and that of the constant, which is all that arms have.
RIDGE, RIDGE_OF_ARMS = 4.0, 1.0
# The constant beside features: the one ridge for all then is RIDGE_OF_ARMS for its effect.
CONSTANT = math.sqrt(RIDGE / RIDGE_OF_ARMS)
# xᵀΣ⁻¹x counts as at most this.
WIDEST = 1.0
# A block updates its units when it has learnt this many times the rows.
UNITS_GROWTH = 1.5
# How far the look ahead goes, in rounds so far; the round of the first one; and the growth from one to the next.
LOOK, FIRST_LOOK, LOOK_GROWTH = 10.0, 8.0, 1.25
# Rewards are drawn with this part of the deviation that is left; with all of it if one block serves all actions, because then e
# is a mean over rows that are known well and rows that are not.
DRAWN, DRAWN_OF_ONE = 0.75, 1.0
# A feature counts as at most this many times its unit, so that squares and sums stay finite; below SMALLEST it counts as 0.
LARGEST_RATIO, SMALLEST = 1e12, 1e-50
# Noise below this fraction of the mean square is rounding.
ROUNDING = 1e-20
# A feature whose variance is below this fraction of its mean square has not varied.
UNVARIED = 1e-12


@inlined
def faded(spread, g):
    """w of block g, by which everything it has learnt has faded; 1 for a model that does not forget."""
    return forgetting.weight(spread, ages_at(spread), g) if forgets(spread) else 1.0


def flat_size(G, p, M):
    """Length of `flat` for G blocks, p features and M outputs."""
    q = p + 1
    return FLAT_HEAD + STAT_SIZE + 2 * G * (q * q + (M + 1) * q + 1)


@kernel
def begin_model(flat, spread, G, p, M, centred, forgetful, prior):
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
    spread[FEATURES] = p
    spread[BLOCKS] = G
    spread[FORGETS] = 1.0 if forgetful else 0.0
    spread[NEXT_LOOK] = FIRST_LOOK
    for i in range(M):
        spread[SPREAD_HEAD + 3 * M + i] = prior[i]
    for g in range(G):
        own = block_at(spread, g)
        spread[own + BLOCK_NEXT] = 2.0
        spread[own + BLOCK_LEFT] = 1.0
    if not forgetful:
        change.begin_watch(spread, watch_at(spread))


@kernel
def ridge_of(p):
    """λ, in the model's own units."""
    return RIDGE if p > 0 else RIDGE_OF_ARMS


@kernel
def constant_of(p):
    """The constant that is appended to p features."""
    return CONSTANT if p > 0 else 1.0


# Units


@inlined
def per_unit(flat, spread, g, i, x):
    """1/unit of feature i in block g, for the value x: the block's own, else that of all rows, else as if x were learnt now."""
    own = spread[block_at(spread, g) + BLOCK_HEAD + i]
    if own > 0.0:
        return own
    squares = spread[squares_at(spread) + i]
    learnt = flat[FLAT_HEAD + LEARNT]
    if squares > 0.0:
        return math.sqrt(learnt / squares)
    return math.sqrt(learnt + 1.0) / abs(x) if abs(x) > SMALLEST else 0.0


@kernel
def extend_row(flat, spread, g, X, x, p, out, at):
    """A row in the units of block g, with the constant, into p + 1 numbers of out."""
    units = block_at(spread, g) + BLOCK_HEAD
    for i in range(p):
        scale = spread[units + i]
        if scale == 0.0:
            scale = per_unit(flat, spread, g, i, X[x + i])
        out[at + i] = max(-LARGEST_RATIO, min(LARGEST_RATIO, X[x + i] * scale + spread[units + p + i]))
    out[at + p] = constant_of(p)


@kernel
def note_row(flat, spread, g, X, x, p):
    """Before block g learns a row: add its squares, and set units of features that are new to the block."""
    squares = squares_at(spread)
    own = block_at(spread, g)
    n = flat[FLAT_HEAD + LEARNT] + 1.0
    for i in range(p):
        if abs(X[x + i]) > SMALLEST:
            spread[squares + i] += X[x + i] * X[x + i]
            spread[squares + p + i] += X[x + i]
            if spread[own + BLOCK_HEAD + i] == 0.0:
                spread[own + BLOCK_HEAD + i] = math.sqrt(n / spread[squares + i])
    spread[own + BLOCK_LEARNT] += 1.0


@inlined
def units_are_due(spread, g):
    """Whether block g has learnt enough to update its units."""
    own = block_at(spread, g)
    return spread[FEATURES] > 0.0 and spread[own + BLOCK_LEARNT] >= spread[own + BLOCK_NEXT]


@inlined
def scale_and_shift(n, squares, total):
    """What a feature is multiplied with, and what is added then: its mean becomes 0, its standard deviation 1.

    n rows with the sum of squares and the sum of the feature. One that has hardly varied keeps its root mean square as unit.
    """
    square = squares / n
    mean = total / n
    variance = square - mean * mean
    scale = 1.0 / math.sqrt(variance if variance > UNVARIED * square else square)
    return scale, -mean * scale


@kernel
def renew_units(flat, spread, g, scratch):
    """Restate Σ and b of block g for features of mean 0 and standard deviation 1, with the same ridge.

    Σ⁻¹ and Θ must be refreshed after. scratch has 2q numbers.
    """
    _, q, outputs, _, _, sigma, b, _ = ridge_parts(flat)
    p = q - 1
    own = block_at(spread, g)
    units = own + BLOCK_HEAD
    squares = squares_at(spread)
    ridge = ridge_of(p)
    constant = constant_of(p)
    n = flat[FLAT_HEAD + LEARNT]
    spread[own + BLOCK_NEXT] = math.floor(UNITS_GROWTH * spread[own + BLOCK_LEARNT]) + 1.0
    # What a feature was becomes factor · feature + term · constant.
    for i in range(p):
        before = spread[units + i]
        scratch[i] = 1.0
        scratch[q + i] = 0.0
        if before > 0.0:
            scale, shift = scale_and_shift(n, spread[squares + i], spread[squares + p + i])
            scratch[i] = scale / before
            scratch[q + i] = (shift - scratch[i] * spread[units + p + i]) / constant
            spread[units + i] = scale
            spread[units + p + i] = shift
    at = sigma + g * q * q
    last = at + p * q
    for i in range(q):
        flat[at + i * (q + 1)] -= ridge
    for i in range(q):
        for j in range(p):
            flat[at + i * q + j] = scratch[j] * flat[at + i * q + j] + scratch[q + j] * flat[at + i * q + p]
    for i in range(p):
        for j in range(q):
            flat[at + i * q + j] = scratch[i] * flat[at + i * q + j] + scratch[q + i] * flat[last + j]
    for i in range(q):
        flat[at + i * (q + 1)] += ridge
    for i in range(g * outputs, (g + 1) * outputs):
        row = b + i * q
        for j in range(p):
            flat[row + j] = scratch[j] * flat[row + j] + scratch[q + j] * flat[row + p]


# Predictions


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
def uncertainty(whole, product, ridge, w, most):
    """xᵀΣ⁻¹x, and the part λ‖Σ⁻¹x‖² of it that the ridge hides, after fading by w; at most `most` and WIDEST."""
    whole = min(most, w * max(0.0, whole))
    hidden = min(whole, w * ridge * product)
    over = max(1.0, whole / WIDEST)
    return whole / over, hidden / over


@inlined
def deviation(noise, signal, whole, hidden):
    """The standard deviation of a prediction with xᵀΣ⁻¹x = `whole`, of which the ridge hides a part."""
    unknown = hidden / whole if whole > 0.0 else 0.0
    unknown *= unknown
    return math.sqrt(whole * (noise + (signal - noise) * unknown * unknown))


@kernel
def predict(flat, spread, g, Z, z, means, a, deviations, b, room):
    """Means into means[a : a + M] and standard deviations into deviations[b : b + M] for the extended row at Z[z], by block g.

    room has p + 1 numbers.
    """
    _, q, outputs, theta, inverse, _, _, _ = ridge_parts(flat)
    M, _, _, _, _ = spread_parts(spread)
    matvec(flat, inverse + g * q * q, Z, z, q, room, 0)
    ridge = ridge_of(q - 1)
    most = inner(Z, z, Z, z, q) / ridge if forgets(spread) else math.inf
    whole, hidden = uncertainty(
        inner(Z, z, room, 0, q), inner(room, 0, room, 0, q), ridge, faded(spread, g), most
    )
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
    units = block_at(spread, 0) + BLOCK_HEAD
    for i in range(p):
        column = T + 8 * i
        scale = spread[units + i]
        if scale > 0.0:
            shift = spread[units + p + i]
            lanes.store8(
                room, column, lanes.load8(room, column) * lanes.spread8(scale) + lanes.spread8(shift)
            )
        else:
            for r in range(column, column + 8):
                room[r] *= per_unit(flat, spread, 0, i, room[r])
        for r in range(column, column + 8):
            room[r] = max(-LARGEST_RATIO, min(LARGEST_RATIO, room[r]))
    lanes.store8(room, T + 8 * p, lanes.spread8(constant_of(p)))
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
        if not forgetful:
            watch_errors(spread, g, room, q + M + 1, leverage)
        for i in range(M):
            e = room[q + M + 1 + i]
            spread[errors + i] += weight * e * e * shrink
    if forgetful:
        refresh = forgetting.some_are_due(flat, spread, ages_at(spread), g)
    elif change.is_due(spread, watch_at(spread)):
        return True
    return refresh or units_are_due(spread, g)


@kernel
def watch_errors(spread, g, room, errors, leverage):
    """Note the errors at room[errors:] of predictions by block g."""
    M, _, _, _, _ = spread_parts(spread)
    at = watch_at(spread)
    spread[change.block_of_watch(at, g, M)] += 1.0
    for i in range(M):
        noise, _ = noise_and_signal(spread, i)
        change.note_error(spread, at, g, i, M, change.in_deviations(room[errors + i], leverage, noise))


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
    """Recompute block g when `learn` asks for it, or whatever is due; scratch (2q²,) is overwritten.

    Returns whether the world has changed.
    """
    changed = not forgets(spread) and change.is_due(spread, watch_at(spread))
    if changed:
        restart(flat, spread, scratch)
    units = units_are_due(spread, g)
    if units:
        renew_units(flat, spread, g, scratch)
    if units or not forgets(spread):
        ridge_refresh(flat, g, scratch)
    if forgets(spread):
        ridge = ridge_of(int(flat[1]) - 1)
        forgetting.renew_those_due(flat, spread, ages_at(spread), g, ridge, scratch)
    return changed


@kernel
def restart(flat, spread, scratch):
    """The world has changed: see `change`. Draws are in full again, and the look ahead begins anew."""
    G, q, outputs, theta, _, sigma, b, _ = ridge_parts(flat)
    M, _, _, _, _ = spread_parts(spread)
    at = watch_at(spread)
    p, ridge = q - 1, ridge_of(q - 1)
    wrong, i = int(spread[at + change.DUE]), int(spread[at + change.DUE_OUTPUT])
    noise, _ = noise_and_signal(spread, i)
    shift = spread[at + change.SHIFT] * math.sqrt(noise)
    flat[theta + (wrong * outputs + i) * q + p] += shift / constant_of(p)
    for g in range(G):
        kept = change.part_kept(spread, at, g, M)
        S = sigma + g * q * q
        for j in range(q):
            flat[S + j * (q + 1)] -= ridge
        for j in range(q * q):
            flat[S + j] *= kept
        for j in range(q):
            flat[S + j * (q + 1)] += ridge
        for m in range(g * outputs, (g + 1) * outputs):
            matvec(flat, S, flat, theta + m * q, q, scratch, 0)
            for j in range(q):
                flat[b + m * q + j] = scratch[j]
        ridge_refresh(flat, g, scratch)
    own = block_at(spread, wrong)
    spread[own + BLOCK_LEFT] = 1.0
    for j in range(q * q):
        spread[own + BLOCK_HEAD + 2 * p + j] = 0.0
    spread[NEXT_LOOK] = spread[ROUNDS] + 1.0
    change.begin_anew(spread, at, G, M)


@inlined
def drawn_part(spread, g):
    """The part of its standard deviation that a reward of block g is drawn with; all of it if nothing was learnt."""
    own = block_at(spread, g)
    if forgets(spread) or spread[own + BLOCK_LEARNT] == 0.0:
        return 1.0
    return (DRAWN if spread[BLOCKS] > 1.0 else DRAWN_OF_ONE) * spread[own + BLOCK_LEFT]


# Offers and outcomes as given: rows in the user's units


def predictions_room(q, M):
    """How much room `predict_costs` needs for rows of q numbers, including the constant, and M outputs."""
    return eight_size(q, M)


@kernel
def predict_rewards(flat, spread, phi, a, one_row, ids, out, means, deviations, room):
    """Means of the actions' rewards into out, with the standard deviations for their draws; room as for `predict_costs`."""
    predict_costs(flat, spread, phi, a, one_row, ids, ids[:0], out, means, out, deviations, ONE, room)
    for j in range(ids.shape[0]):
        out[deviations + j] *= drawn_part(spread, ids[j] if flat[0] > 1.0 else 0)


@kernel
def predict_costs(flat, spread, psi, a, one_row, ids, columns, out, means, deviations, d, K, room):
    """Means of M quantities into `columns` of out[means:] (J, K), their standard deviations into those of deviations[d:] (J, K).

    Without `columns` there is one quantity, for column 0. room has `predictions_room` numbers.
    """
    p = int(flat[1]) - 1
    M = max(1, columns.shape[0])
    J = ids.shape[0]
    if flat[0] == 1.0 and not one_row:
        w = faded(spread, 0)
        ridge = ridge_of(p)
        forgetful = forgets(spread)
        rows = 8 * (int(flat[2]) + 2)
        for j in range(0, J, 8):
            predict_eight(flat, spread, psi, a + j * p, min(8, J - j), room)
            for r in range(min(8, J - j)):
                most = math.inf
                if forgetful:
                    most = 0.0
                    for i in range(p + 1):
                        most += room[rows + 8 * i + r] * room[rows + 8 * i + r] / ridge
                whole, hidden = uncertainty(room[r], room[8 + r], ridge, w, most)
                for i in range(M):
                    noise, signal = noise_and_signal(spread, i)
                    c = centre(spread, i)
                    at_row = (j + r) * K + (columns[i] if columns.shape[0] > 0 else 0)
                    out[means + at_row] = c + room[16 + 8 * i + r] - c * room[16 + 8 * M + r]
                    deviations[d + at_row] = deviation(noise, signal, whole, hidden)
        return
    for j in range(J):
        g = ids[j] if flat[0] > 1.0 else 0
        extend_row(flat, spread, g, psi, a if one_row else a + j * p, p, room, 0)
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
    note_row(flat, spread, g, x, 0, p)
    extend_row(flat, spread, g, x, 0, p, room, 0)
    room[p + 1] = reward
    return learn(flat, spread, g, room, 0, room, p + 1, room[p + 2 :])


@kernel
def learn_costs(g, z, costs, flat, spread, room):
    """Learn M costs at ψ = z[:p] by block g; returns whether to refresh the block. room has 2q + 2 + 2M numbers."""
    p = int(flat[1]) - 1
    note_row(flat, spread, g, z, 0, p)
    extend_row(flat, spread, g, z, 0, p, room, 0)
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
    of_constant = by / constant_of(q - 1)
    M, mean, squares, _, _ = spread_parts(spread)
    centred = spread[CENTRED] > 0.0
    for g in range(G):
        row = (g * outputs + i) * q
        one = (g * outputs + M) * q
        if not centred:
            flat[theta + row + q - 1] += of_constant
        for c in range(q):
            if centred:
                flat[theta + row + c] += by * flat[theta + one + c]
                flat[b + row + c] += by * flat[b + one + c]
            else:
                flat[b + row + c] += of_constant * flat[sigma + (g * q + c) * q + q - 1]
    n = spread[LEARNT_OUTCOMES]
    if not centred:
        spread[squares + i] += n * by * (2.0 * spread[mean + i] + by)
    if n > 0.0:
        spread[mean + i] += by
