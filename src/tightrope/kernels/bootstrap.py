"""The online bootstrap: how often each outcome counts for each member, and which outcomes stay in a sample.

Both are functions of the seed and the outcome's number, so an outcome counts equally often in every fit, or less with age.
"""

from __future__ import annotations

import math

import numpy as np

from tightrope.kernels.compile import kernel
from tightrope.kernels.draws import uniforms

# Takes the place of the replication, so that these draws share no block with those of a policy with the same seed.
STREAM = 0x626F6F74
PRIORITY_SLOT = 0x70726900


@kernel
def poisson(u, mean):
    """The Poisson variable with that mean whose distribution function first exceeds u."""
    count, term = 0, math.exp(-mean)
    below = term
    while u >= below and count < 255:
        count += 1
        term *= mean / count
        below += term
    return count


@kernel
def poisson_weights(seed, numbers, means, out):
    """Into `out` (n, M), how often outcome `numbers[i]` counts for member m: Poisson(`means[i]`), which falls as the mean falls."""
    n, M = out.shape
    for i in range(n):
        for m in range(0, M, 2):
            u, v = uniforms(seed, STREAM, numbers[i], m // 2)
            out[i, m] = np.uint8(poisson(u, means[i]))
            if m + 1 < M:
                out[i, m + 1] = np.uint8(poisson(v, means[i]))


@kernel
def priorities(seed, numbers, out):
    """A uniform for each outcome into `out` (n,): the outcomes with the highest ones ever are an even sample of all outcomes."""
    for i in range(numbers.shape[0]):
        out[i], _ = uniforms(seed, STREAM, numbers[i], PRIORITY_SLOT)
