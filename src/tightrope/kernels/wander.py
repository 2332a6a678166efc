"""How far a total rises: what the buffer below zero has to hold where costs come in stretches or in large steps.

The buffer that follows from the gain assumes steps that don't depend on each other. A day of cheap contexts and a night of dear
ones lifts a total for hours, whatever the price. So every rule keeps its present rise above the last low point, counted from
where its total is steered to, and the highest rise of this window of rounds and of the one before. Windows double, so that a
period shorter than a quarter of the rounds so far is always in one of them, and the rises of the first rounds are forgotten.
"""

from __future__ import annotations

import math

from tightrope.kernels.compile import inlined

# The buffer is at least this part of `caution` times the highest rise: 1.2 times with a caution of 3. Steps that don't depend on
# each other hardly ever rise that far.
RISES = 0.4
# A total is above zero if it is by more than this part of where its wall starts; the rest is rounding.
BARELY = 1e-12


@inlined
def widened(buffer, caution, highest):
    """The buffer, or what the highest rise asks for if that is more."""
    return max(buffer, RISES * caution * highest)


@inlined
def rise_after(rise, step, counts):
    """The rise above the last low point after one more step; a step up only if it counts."""
    return max(0.0, rise + step) if counts or step < 0.0 else rise


@inlined
def window_ends(t, half_life):
    """Whether a window of rounds ends with round t: at every power of two, and after every half-life, if there is one."""
    n = int(t)
    if n & (n - 1) == 0:
        return True
    return half_life < math.inf and n % max(1, int(half_life)) == 0


@inlined
def is_above(total, start):
    """Whether a total, whose wall starts at −start, is above zero by more than rounding."""
    return total > BARELY * start
