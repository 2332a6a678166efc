"""What a simulated policy could not do as it was asked to: from its state at the end of a run, and from its totals."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.concerns import Concern
from tightrope.environments.custom import Custom
from tightrope.environments.tabular import Tabular
from tightrope.policies import Policy
from tightrope.policies.watch import FIRST_LOOK, never_tried, totals_above
from tightrope.rules import Units
from tightrope.validation import Array


class Offered(NamedTuple):
    """What a run is judged by: its constraints in words, their units, and how often each action was on offer, (J,)."""

    constraints: tuple[str, ...]
    units: Units
    counts: Array


def offered(env: Tabular, rounds: int) -> Offered:
    """The same of a tabular environment, in expectation."""
    return Offered(worded(env), env.units, (env.weights @ env.available) * float(rounds))


def worded(env: Tabular | Custom) -> tuple[str, ...]:
    """The constraints of an environment in words: its rules, where it has some."""
    return env.constraints if env.rules is None else tuple(str(column.rule) for column in env.rules.columns)


def of_run(policy: Any, world: Offered, records: Array, grid: NDArray[np.int64]) -> list[Concern]:
    """The concerns of one run that `policy` is at the end of: none before round 512, nor for a policy of a user's own making.

    `records` are the tallies at the rounds of `grid`, at which totals are looked at.
    """
    if not isinstance(policy, Policy) or grid[-1] < FIRST_LOOK:
        return []
    found = [*policy.own_concerns()]
    found += never_tried(policy, policy.reward_model, world.counts)
    K = policy.n_constraints
    if K and len(world.constraints) == K:
        totals = kernels.tally_views(records, len(world.counts), K).costs
        found += _totals(policy, totals, grid, world)
    return found


def _totals(policy: Policy, totals: Array, grid: NDArray[np.int64], world: Offered) -> list[Concern]:
    """Of totals (G, K): those that stayed above zero for long, as they stood in the last recorded round that found one."""
    above, at = totals > 0.0, np.arange(len(grid))
    begun = np.maximum.accumulate(np.where(above, -1, at[:, None])) + 1
    since = np.where(above, grid[np.minimum(begun, len(grid) - 1)], 0)
    for g in np.flatnonzero((above & (2 * since <= grid[:, None])).any(axis=1))[::-1].tolist():
        found = totals_above(policy, totals[g], since[g], int(grid[g]), world.constraints, world.units)
        if found:
            return found
    return []
