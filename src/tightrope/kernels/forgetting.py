"""Forgetting: the weight of an outcome falls by half with every half-life, but the ridge does not.

At time t a block has Σ_t = λI + Σ_s 2^(−(t−s)/h) x_s x_sᵀ, and b_t likewise. Multiplying all of Σ⁻¹ in every round would cost as
much as learning, and would let the ridge fall too. So a block is kept as of its birth, and a later outcome is
learnt with the weight w = 2^(age/h) instead: Σ̃ = λI + Σ w_s x_s x_sᵀ, and the part of Σ from outcomes is Σ̃/w. Rank-one updates
still work, and θ̂ = Σ̃⁻¹b̃ needs no correction. Only the ridge fades with age, as λ/w, until `renew` divides what was learnt by w,
restores λ and recomputes Σ⁻¹: at an age of h/32, or later if that would cost more than learning does. Blocks take turns,
so that a block which learns nothing is renewed too. Weights are always exact; a variance never exceeds ‖x‖²/λ, that of a
block which has learnt nothing.

Time counts the outcomes learnt by any block, or is set from outside (`TICK` is 0), for instance by a service that counts seconds.

ages   the rate log(2)/h, the time, by how much an outcome moves it, the time of the last outcome, the age at which a block is
       renewed, then the time of each block's birth
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.kernels import layout
from tightrope.kernels.compile import inlined, kernel
from tightrope.kernels.models import REFRESH_EVERY, REFRESH_ROWS, ridge_refresh

RATE, TIME, TICK, LAST, RENEWAL, BORN = range(6)
# The age at which the ridge has fallen by a fiftieth.
SHARE_OF_HALF_LIFE = 1.0 / 32.0


def ages_size(G):
    return BORN + G


def begin_ages(ages, half_life, tick, G, p):
    """Ages of G blocks of p features that have learnt nothing."""
    ages[:] = 0.0
    ages[RATE], ages[TICK] = math.log(2.0) / half_life, tick
    ages[RENEWAL] = min(half_life, max(half_life * SHARE_OF_HALF_LIFE, float(tick * G * p)))


def new_ages(half_life, tick, G, p):
    ages = np.empty(ages_size(G))
    begin_ages(ages, half_life, tick, G, p)
    return ages


@kernel
def note_outcome(ages, at):
    """An outcome arrives: returns by how much sums over all earlier outcomes fade."""
    ages[at + TIME] += ages[at + TICK]
    fade = math.exp(-(ages[at + RATE] * (ages[at + TIME] - ages[at + LAST])))
    ages[at + LAST] = ages[at + TIME]
    return fade


@inlined
def weight(ages, at, g):
    """w of block g now: the weight of an outcome learnt at its current age."""
    return math.exp(ages[at + RATE] * (ages[at + TIME] - ages[at + BORN + g]))


@kernel
def is_due(flat, ages, at, g):
    """Whether to recompute block g: because of its age, its wear, or the number of updates since."""
    _, p, _, _, _, _, _, wear = layout.ridge_parts(flat)
    wear += layout.WEAR_SIZE * g
    return (
        ages[at + TIME] - ages[at + BORN + g] >= ages[at + RENEWAL]
        or flat[wear + layout.SINCE] >= max(REFRESH_EVERY, REFRESH_ROWS * p)
        or flat[wear + layout.DRIFT] >= 1.0
    )


@inlined
def visited(flat):
    """The block whose turn it is to be checked in this round; all take turns, because a block that learns nothing ages too."""
    return int(flat[layout.STAT + layout.LEARNT]) % int(flat[layout.BLOCKS])


@kernel
def some_are_due(flat, ages, at, g):
    """Whether block g, which has just learnt, or the one whose turn it is, is due."""
    return is_due(flat, ages, at, g) or is_due(flat, ages, at, visited(flat))


@kernel
def renew_those_due(flat, ages, at, g, ridge, scratch):
    """`renew` of block g and of the one whose turn it is, if they are due; scratch (2p²,) is overwritten."""
    if is_due(flat, ages, at, g):
        renew(flat, ages, at, g, ridge, scratch)
    other = visited(flat)
    if is_due(flat, ages, at, other):
        renew(flat, ages, at, other, ridge, scratch)


@kernel
def renew(flat, ages, at, g, ridge, scratch):
    """Block g as of now: Σ = λI + (Σ̃ − λI)/w, b = b̃/w, Σ⁻¹ and Θ recomputed; scratch (2p²,) is overwritten."""
    _, p, M, _, _, sigma, b, _ = layout.ridge_parts(flat)
    shrink = 1.0 / weight(ages, at, g)
    for i in range(p):
        row = sigma + (g * p + i) * p
        learnt = flat[row + i] - ridge
        for j in range(p):
            flat[row + j] *= shrink
        flat[row + i] = ridge + learnt * shrink
    for i in range(g * M * p, (g + 1) * M * p):
        flat[b + i] *= shrink
    ages[at + BORN + g] = ages[at + TIME]
    ridge_refresh(flat, g, scratch)
