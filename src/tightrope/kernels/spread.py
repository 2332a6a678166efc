"""The layout of `spread`, what a standardised model keeps beside `flat`.

It has a head; for each output the running mean, the sum of squares about it (about 0 if outcomes are not centred), the weighted sum
of e²/(1 + h), and the prior standard deviation (0: none declared); for each feature the sum of squares, and then the sum; the sum
for M; and for each block the rows learnt, the number at which it updates its units, e, its units (1/unit, 0 if there is none yet),
what is added to its features in these units, and the sum for G, in the user's units. A model that forgets does not look ahead,
because what it learns does not last: it has no such sums. It has `forgetting`'s ages at the end, and all its sums over outcomes
fade. Any other has what `change` keeps there.
"""

from __future__ import annotations

from tightrope.kernels.change import watch_size
from tightrope.kernels.compile import inlined

# The head of spread. ROUNDS: how many offers the look ahead has seen; NEXT_LOOK: when e is recomputed.
OUTPUTS, CENTRED, FEATURES, BLOCKS, FORGETS, LEARNT_OUTCOMES, ERROR_WEIGHT, ROUNDS, NEXT_LOOK = range(9)
SPREAD_HEAD = 9
# a block of spread, before its units
BLOCK_LEARNT, BLOCK_NEXT, BLOCK_LEFT = range(3)
BLOCK_HEAD = 3


def spread_size(G, p, M, ages=0):
    """Length of `spread` for G blocks, p features, M outputs and this many ages; 0 ages if the model does not forget."""
    q2 = 0 if ages else (p + 1) ** 2
    return SPREAD_HEAD + 4 * M + 2 * p + q2 + G * (BLOCK_HEAD + 2 * p + q2) + (ages or watch_size(G, M))


@inlined
def forgets(spread):
    """Whether the model forgets."""
    return spread[FORGETS] > 0.0


@inlined
def squares_at(spread):
    """Where the sums of squares of features start; their sums and then the sum for M follow them."""
    return SPREAD_HEAD + 4 * int(spread[OUTPUTS])


@inlined
def blocks_at(spread):
    """Where the blocks of spread start, and how long each is."""
    p = int(spread[FEATURES])
    sums = 0 if forgets(spread) else (p + 1) * (p + 1)
    return squares_at(spread) + 2 * p + sums, BLOCK_HEAD + 2 * p + sums


@inlined
def block_at(spread, g):
    """Where block g of spread starts."""
    first, size = blocks_at(spread)
    return first + g * size


@inlined
def ages_at(spread):
    """Where the ages of a model that forgets start."""
    return block_at(spread, int(spread[BLOCKS]))


@inlined
def watch_at(spread):
    """Where the watch of a model that does not forget starts."""
    return block_at(spread, int(spread[BLOCKS]))


def spread_views(spread):
    """By name: what all blocks share, the blocks, and the ages or the watch."""
    first, size = blocks_at(spread)
    end = ages_at(spread)
    return {
        "spread": spread[LEARNT_OUTCOMES:first],
        "blocks": spread[first:end].reshape(-1, size),
        "ages" if forgets(spread) else "watch": spread[end:],
    }


@inlined
def spread_parts(spread):
    """M, and where the means, the sums of squares, the sums of squared errors and the priors are."""
    M = int(spread[OUTPUTS])
    return M, SPREAD_HEAD, SPREAD_HEAD + M, SPREAD_HEAD + 2 * M, SPREAD_HEAD + 3 * M
