"""Draws: Philox4x32-10 (Salmon et al. 2011), keyed by the seed, counting (round, slot, replication).

A draw is a function of these only, so it does not depend on the action, the engine or the order in which replications
finish.
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.kernels import layout
from tightrope.kernels.compile import kernel

MASK, SHIFT = np.uint64(0xFFFFFFFF), np.uint64(32)


@kernel
def philox(c0, c1, c2, c3, k0, k1):
    """The four 32-bit words of one block, as two 64-bit words (uint64 in, uint64 out)."""
    for _ in range(layout.PHILOX_ROUNDS):
        p0 = layout.PHILOX_M0 * c0
        p1 = layout.PHILOX_M1 * c2
        c0, c1, c2, c3 = (p1 >> SHIFT) ^ c1 ^ k0, p1 & MASK, (p0 >> SHIFT) ^ c3 ^ k1, p0 & MASK
        k0 = (k0 + layout.PHILOX_W0) & MASK
        k1 = (k1 + layout.PHILOX_W1) & MASK
    return c0 | (c1 << SHIFT), c2 | (c3 << SHIFT)


@kernel
def uniforms(seed, replication, t, slot):
    """Two uniforms in [0, 1) for one slot of round t."""
    key, count, at, r = np.uint64(seed), np.uint64(t), np.uint64(slot), np.uint64(replication)
    a, b = philox(count & MASK, count >> SHIFT, at, r, key & MASK, key >> SHIFT)
    return (a >> np.uint64(11)) * layout.TO_UNIT, (b >> np.uint64(11)) * layout.TO_UNIT


@kernel
def normal(seed, replication, t, slot):
    """One standard normal for one slot of round t (Box–Muller)."""
    u, v = uniforms(seed, replication, t, slot)
    return math.sqrt(-2.0 * math.log(1.0 - u)) * math.cos(2.0 * math.pi * v)


@kernel
def pick(cdf, u):
    """The first index whose cumulative probability exceeds u."""
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
    if kind == layout.BERNOULLI:
        return 1.0 if u < mean else 0.0
    if kind == layout.GAUSSIAN:
        return mean + scale * normal(seed, replication, t, layout.GAUSSIAN_REWARD_SLOT)
    return mean


@kernel
def draw_costs(seed, replication, t, action, location, kind, scale, spans, out):
    """The K costs of one action into out: potential outcomes, the same whatever is chosen."""
    K = out.shape[0]
    for k in range(K):
        low = spans[k, 0]
        high = spans[k, 1]
        if kind == layout.FIXED or low == high:
            out[k] = location[k]
        elif kind == layout.BERNOULLI:
            u, _ = uniforms(seed, replication, t, layout.COST_SLOT + action * K + k)
            out[k] = high if u * (high - low) < location[k] - low else low
        else:
            z = location[k] + scale * normal(seed, replication, t, layout.COST_SLOT + action * K + k)
            out[k] = max(low, min(high, z))


@kernel
def own_uniform(policy_seed, number):
    """The uniform that a randomised policy uses for the decision with that number."""
    u, _ = uniforms(policy_seed, 0, number, 0)
    return u
