"""Work on prices between decisions: when a solve starts, drawing its sample by what the models say, when to look again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tightrope.kernels import shadow, shadow_solve
from tightrope.policies.shadow_price import fast_path
from tightrope.policies.shadow_price.memory import Remembered
from tightrope.policies.shadow_price.predict import Predictions, draw_sample
from tightrope.policies.shadow_price.sampling import member_of
from tightrope.policies.shadow_price.solve import PriceSolve
from tightrope.validation import Array

# A solve that a refit starts waits until the last one is over, as many rounds again, and at least so many.
LEAST_WAIT = 8.0
# The multiplications that a row of a model without kernels is taken to be worth: some microseconds.
PLAIN_ROW = 1000.0


def work(
    policy: Any, core: Array, refits: Array, solve: PriceSolve | None, models: Predictions
) -> PriceSolve | None:
    """Start a solve where it is time, and go on with the one in progress; what is left of it.

    `refits` (3,): how often the models of rewards and costs were fitted anew when the last solve began, and the round from which
    another fit is reason enough for one.
    """
    t = float(core[shadow.ROUNDS]) + 1.0
    fits = [models.reward.fits, 0 if models.cost is None else models.cost.fits]
    refitted = solve is None and t >= refits[2] and fits != refits[:2].tolist()
    if (t >= core[shadow.NEXT_SOLVE] or refitted) and len(policy._memory):
        K, row_work = policy.n_constraints, policy._row_work
        most = shadow_solve.rows_allowed(t, row_work, K)
        entries, weights = policy._memory.sample(most)
        solve = PriceSolve.start(entries, weights, t, row_work, K)
        core[shadow.NEXT_SOLVE] = shadow_solve.next_solve(t, solve.deadline, core)
        if any(fits):
            refits[:] = *fits, solve.deadline + max(LEAST_WAIT, solve.deadline - t)
    if solve is None:
        return None

    def draw(solve: PriceSolve, i: int, n: int) -> None:
        draw_rounds(policy, models, solve, i, n)

    return None if solve.work(t, core, policy._row_work, draw) else solve


def draw_rounds(policy: Any, models: Predictions, solve: PriceSolve, i: int, n: int) -> None:
    """Draw rounds i … i + n − 1 of a sample with the models of now, each of which is asked once for all of them."""
    core, columns, seed = policy._core, policy._columns, policy._seed
    entries = solve.entries[i : i + n]
    if policy._compiled:
        room = np.empty(fast_path.room_needed(policy, max(len(entry.ids) for entry in entries)))
        draw_sample(models, columns, core, solve, entries, i, seed, room)
        return
    K, explore = policy.n_constraints, core[shadow.EXPLORE]
    believed = models.rewards_of(entries)
    costs, spreads = expected_costs(entries, models, columns)
    first = int(solve.offsets[i])
    solve.costs[first * K : first * K + costs.size] = costs.reshape(-1)
    if models.sampling == "gaps":
        # All is played by its means.
        spreads[:] = 0.0
    for r, entry in enumerate(entries, start=i):
        J, row = len(entry.ids), int(solve.offsets[r])
        own = slice(row - first, row - first + J)
        means, sds = believed.means[own], believed.deviations[own]
        spread = None
        if believed.members is not None:
            spread = np.max(means + explore * sds) - np.min(means - explore * sds)
            followed = member_of(seed, solve.begun, 1 + r, len(believed.members))
            means, sds = means + explore * believed.members[followed, own], np.zeros(J)
        drawn = shadow_solve.draw_round(
            J, means, sds, spreads[own].reshape(-1), core, columns, solve.rewards, solve.costs, row, seed, solve.begun
        )  # fmt: skip
        solve.sums[:] += solve.weights[r] * (drawn if spread is None else spread), solve.weights[r]


def expected_costs(entries: Sequence[Remembered], models: Predictions, columns: Any) -> tuple[Array, Array]:
    """Costs of remembered rounds (R, K), as known or as estimated now, and their standard deviations."""
    means = np.concatenate([entry.W for entry in entries])
    spreads = np.zeros(means.shape)
    if models.cost is not None:
        found, sds = models.costs_of(entries)
        means[:, columns], spreads[:, columns] = found, sds
        end = 0
        for entry in entries:
            end += len(entry.ids)
            if entry.force is not None:
                own = slice(end - len(entry.ids), end)
                means[own, columns] *= entry.force[columns]
                spreads[own, columns] *= entry.force[columns]
    return means, spreads


def next_work(policy: Any) -> float:
    """The number of the first decision that has prices to work on."""
    core = policy._core
    if not policy.n_constraints:
        return np.inf
    if policy._solve is not None:
        return 0.0
    return float(policy._pending.made + core[shadow.NEXT_SOLVE] - core[shadow.ROUNDS] - 1.0)


def work_of_a_row(reward: Any, cost: Any, compiled: bool = True) -> float:
    """How many multiplications it takes to draw a row of a sample."""
    if reward is None:  # which has no sizes yet
        return PLAIN_ROW
    late = (0.0, 0.0) if cost is None else (cost.working_features + 1.0, float(cost.n_outputs))
    work = float(shadow_solve.draw_work(reward.working_features + 1.0, *late))
    return work if compiled else max(work, PLAIN_ROW)
