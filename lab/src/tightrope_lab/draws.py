"""The draws that `tightrope.simulate` makes, for loops of the laboratory that are compared with it run by run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.engine.replication import tabular_arrays
from tightrope.environments.drifting import Environment, phases_of
from tightrope.validation import Array


def context_draws(seed: int, replication: int, rounds: int) -> Array:
    """The two uniforms of each round's first slot, (rounds, 2): which context comes, and a Bernoulli reward."""
    slot = kernels.CONTEXT_SLOT
    return np.array([kernels.uniforms(seed, replication, t, slot) for t in range(1, rounds + 1)])


class EnvironmentDraws(NamedTuple):
    """What an environment draws in one replication.

    The contexts and a uniform for the reward, (T,) each; and where costs are random those of all actions, (T, J, K), of no
    meaning for actions that are not on offer.
    """

    contexts: NDArray[np.int64]
    uniforms: Array
    costs: Array | None


def environment_draws(env: Environment, seed: int, replication: int, rounds: int) -> EnvironmentDraws:
    """The draws of one replication under `simulate(..., seed=seed)`."""
    phases, drawn = phases_of(env, rounds), context_draws(seed, replication, rounds)
    contexts, everything = np.zeros(rounds, dtype=np.int64), np.arange(env.n_actions)
    random = any(phase.env.random_costs for phase in phases)
    costs = np.zeros((rounds, env.n_actions, env.n_constraints)) if random else None
    for first, last, now in phases:
        world = tabular_arrays(now)
        contexts[first - 1 : last] = np.searchsorted(world.cdf, drawn[first - 1 : last, 0], side="right")
        if costs is not None:
            for t in range(first, last + 1):
                shown = costs[t - 1].reshape(-1)
                kernels.offered_costs(world, seed, replication, t, contexts[t - 1], everything, shown)
    return EnvironmentDraws(contexts, drawn[:, 1].copy(), costs)
