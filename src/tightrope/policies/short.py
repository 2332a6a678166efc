"""The short ways of `decide` and `learn`: compiled code for plain arrays, called without a look at every argument."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tightrope import kernels
from tightrope.validation import FLOAT

# Of an array's flags: C-contiguous and aligned, which is what compiled code asks for.
READABLE = 0x101

_LINE, _TABLE, _IDS = np.empty(0), np.empty((0, 0)), np.empty(0, dtype=np.int64)


class ShortWays(NamedTuple):
    """`decide` by the number of dimensions of features, None where there is none, and `learn`."""

    decide: tuple[Any, ...]
    learn: Any


@cache
def learning_only() -> ShortWays:
    """`costs_before` where something else decides."""
    return ShortWays((None, None, None), kernels.entry(kernels.learn_reward, 0, _LINE, 0.0, _LINE, _LINE))


@cache
def costs_before(disjoint: bool) -> ShortWays:
    """For a ridge reward model and costs that are seen before acting."""

    def decide(features: Any) -> Any:
        return kernels.entry(kernels.decide_ridge, features, _IDS, _TABLE, _LINE, _LINE, _LINE, _LINE)

    return ShortWays((None, decide(_LINE) if disjoint else None, decide(_TABLE)), learning_only().learn)


@cache
def costs_after(disjoint: bool, cost_disjoint: bool) -> ShortWays:
    """For ridge models of the reward and of all costs, seen after acting: `decide` by 3 · dimensions of φ + dimensions of ψ."""
    ways: list[Any] = [None] * 9
    for i, phi in enumerate((_LINE, _TABLE), start=1):
        for j, psi in enumerate((_LINE, _TABLE), start=1):
            if (i == 2 or disjoint) and (j == 2 or cost_disjoint):
                ways[3 * i + j] = kernels.entry(
                    kernels.decide_with_learnt_costs,
                    phi,
                    psi,
                    _IDS,
                    _LINE,
                    _LINE,
                    _TABLE,
                    _IDS,
                    _LINE,
                    _LINE,
                    _LINE,
                    _LINE,
                )
    learn = kernels.entry(
        kernels.learn_reward_and_costs, 0, 0, _LINE, _LINE, 0.0, _LINE, _LINE, _LINE, _TABLE, _IDS, _LINE
    )
    return ShortWays(tuple(ways), learn)


def readable(value: Any) -> bool:
    """Whether compiled code can read `value` as it is."""
    return type(value) is np.ndarray and value.dtype is FLOAT and value.flags.num & READABLE == READABLE
