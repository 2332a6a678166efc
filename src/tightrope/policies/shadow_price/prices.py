"""Work on prices between decisions: when a solve starts, drawing its sample by what the models say, when to look again."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope.kernels import shadow
from tightrope.policies.shadow_price import fast_path
from tightrope.policies.shadow_price.memory import Remembered
from tightrope.policies.shadow_price.predict import Predictions, draw_sample
from tightrope.policies.shadow_price.solve import PriceSolve
from tightrope.validation import Array


def work(policy: Any, core: Array, solve: PriceSolve | None, models: Predictions) -> PriceSolve | None:
    """Start a solve where it is time, and go on with the one in progress; what is left of it."""
    t = float(core[shadow.ROUNDS]) + 1.0
    if t >= core[shadow.NEXT_SOLVE] and len(policy._memory):
        K, row_work = policy.n_constraints, policy._row_work
        most = shadow.rows_allowed(t, row_work, K)
        entries, weights = policy._memory.sample(most)
        solve = PriceSolve.start(entries, weights, t, row_work, K)
        core[shadow.NEXT_SOLVE] = 2.0 * t
    if solve is None:
        return None

    def draw(solve: PriceSolve, i: int, n: int) -> None:
        draw_rounds(policy, models, solve, i, n)

    return None if solve.work(t, core, policy._row_work, draw) else solve


def draw_rounds(policy: Any, models: Predictions, solve: PriceSolve, i: int, n: int) -> None:
    """Draw rounds i … i + n − 1 of a sample with the models of now."""
    core, columns, seed = policy._core, policy._columns, policy._seed
    entries = solve.entries[i : i + n]
    if policy._compiled:
        room = np.empty(fast_path.room_needed(policy, max(len(entry.ids) for entry in entries)))
        draw_sample(models, columns, core, solve, entries, i, seed, room)
        return
    K, sums = policy.n_constraints, solve.sums
    for r, entry in enumerate(entries, start=i):
        J, row = len(entry.ids), int(solve.offsets[r])
        means, sds = models.rewards(entry.phi, entry.ids)
        costs, spreads = expected_costs(entry, models, columns)
        solve.costs[row * K : (row + J) * K] = costs.reshape(-1)
        spread = shadow.draw_round(
            J,
            means,
            sds,
            spreads.reshape(-1),
            core,
            columns,
            solve.rewards,
            solve.costs,
            row,
            seed,
            solve.begun,
        )
        sums += solve.weights[r] * spread, solve.weights[r]


def expected_costs(entry: Remembered, models: Predictions, columns: Any) -> tuple[Array, Array]:
    """Costs of a remembered round (J, K), as known or as estimated now, and their standard deviations."""
    means, spreads = entry.W.copy(), np.zeros(entry.W.shape)
    if models.cost is not None:
        found, sds = models.costs(entry.psi, entry.ids)
        late = 1.0 if entry.force is None else entry.force[columns]
        means[:, columns], spreads[:, columns] = found * late, sds * late
    return means, spreads


def next_work(policy: Any) -> float:
    """The number of the first decision that has prices to work on."""
    core = policy._core
    if not policy.n_constraints:
        return np.inf
    if policy._solve is not None:
        return 0.0
    return float(policy._pending.made + core[shadow.NEXT_SOLVE] - core[shadow.ROUNDS] - 1.0)


def work_of_a_row(reward: Any, cost: Any) -> float:
    """How many multiplications it takes to draw a row of a sample."""
    late = (0.0, 0.0) if cost is None else (cost.n_features + 1.0, float(cost.n_outputs))
    return float(shadow.draw_work(reward.n_features + 1.0, *late))
