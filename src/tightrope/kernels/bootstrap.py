"""The online bootstrap: how often each outcome counts for each member, and which outcomes stay in a sample.

Both are functions of the seed and of the outcome's number alone: what an outcome counts for is the same in every fit.
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.kernels.compile import kernel
from tightrope.kernels.draws import uniforms

# In the place of the replication, so that these draws share no block with those of a policy of the same seed.
STREAM = 0x626F6F74
PRIORITY_SLOT = 0x70726900


@kernel
def poisson(u):
    """The Poisson(1) variable whose distribution function first exceeds u."""
    count, term = 0, math.exp(-1.0)
    below = term
    while u >= below and count < 255:
        count += 1
        term /= count
        below += term
    return count


@kernel
def poisson_weights(seed, numbers, out):
    """Into `out` (n, M), how often outcome number `numbers[i]` counts for member m: Poisson(1)."""
    n, M = out.shape
    for i in range(n):
        for m in range(0, M, 2):
            u, v = uniforms(seed, STREAM, numbers[i], m // 2)
            out[i, m] = np.uint8(poisson(u))
            if m + 1 < M:
                out[i, m + 1] = np.uint8(poisson(v))


@kernel
def priorities(seed, numbers, out):
    """Into `out` (n,) a uniform for each outcome: those with the highest of all that were ever seen are an even sample of them."""
    for i in range(numbers.shape[0]):
        out[i], _ = uniforms(seed, STREAM, numbers[i], PRIORITY_SLOT)
