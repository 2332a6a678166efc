"""A solve for prices that is spread over decisions: its sample, and its progress."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tightrope.kernels import prices, shadow, shadow_solve
from tightrope.kernels.shadow_loop import (
    BEGUN,
    DEADLINE,
    DRAWN,
    SAMPLE_STATE,
    SAMPLED,
    SPREAD,
    STARTED,
    WEIGHT,
)
from tightrope.policies.shadow_price.memory import Remembered
from tightrope.policies.shadow_price.pacing.pacer import Pacer, Sample
from tightrope.policies.state_file import Arrays
from tightrope.validation import Array

# Draws this many rounds of the sample, from the first undrawn one on, with the current models; adds to `sums`.
Draw = Callable[["PriceSolve", int, int], None]


class PriceSolve:
    """The remembered rounds as of the start of the solve, drawn as the work proceeds; its prices take effect at `deadline`.

    `entries`, `weights`, `offsets`: the rounds and where their rows are in `rewards` (R,) and `costs` (R·K,). `numbers` is the
    state of a solve in the layout of `shadow_loop`.
    """

    def __init__(self, entries: list[Remembered], weights: Array, K: int, paced: Array | None = None) -> None:
        self.entries, self.weights = entries, weights
        # What each round weighs for each limit per window, and what those limits charged it: (2, n, M).
        self.paced = np.zeros((2, len(entries), 0)) if paced is None else paced
        # Rewards minus what paced limits charge, once all rounds are drawn; only other rules need it.
        self._charged: Array | None = None
        self.offsets = np.concatenate([[0], np.cumsum([len(entry.ids) for entry in entries])]).astype(
            np.int64
        )
        rows = int(self.offsets[-1])
        self.rewards, self.costs = np.zeros(rows), np.zeros(rows * K)
        self.solver = np.zeros(prices.solver_size(K))
        self.numbers = np.zeros(SAMPLE_STATE)
        self.numbers[SAMPLED] = len(entries)
        self.room = np.empty(max((len(entry.ids) for entry in entries), default=1) + 3 * K)

    @classmethod
    def start(
        cls,
        entries: list[Remembered],
        weights: Array,
        t: float,
        row_work: float,
        K: int,
        pacer: Pacer | None = None,
        paced: Array | None = None,
    ) -> PriceSolve:
        solve = cls(entries, weights, K, paced)
        rows = float(solve.offsets[-1])
        solve.numbers[BEGUN] = t
        if pacer is None or pacer.leaves(K):
            solve.numbers[DEADLINE] = shadow_solve.deadline(t, rows, row_work, K)
        else:
            solve.numbers[DEADLINE] = pacer.deadline(t, rows, row_work)
        return solve

    @property
    def sums(self) -> Array:
        """Σ of weighted spreads and Σ of weights, over the rounds already drawn."""
        return self.numbers[SPREAD : WEIGHT + 1]

    @property
    def begun(self) -> float:
        return float(self.numbers[BEGUN])

    @property
    def deadline(self) -> float:
        return float(self.numbers[DEADLINE])

    def work(self, t: float, core: Array, row_work: float, draw: Draw, pacer: Pacer | None = None) -> bool:
        """Continue in round t as long as a decision may wait, in the last round to the end; returns whether it is done.

        Limits that a `pacer` paces are charged at its prices.
        """
        numbers, n = self.numbers, len(self.entries)
        last = bool(t >= numbers[DEADLINE])
        budget = math.inf if last else shadow.BUDGET
        i = int(numbers[DRAWN])
        if i < n:
            # Enough rounds to use up the budget.
            used = (self.offsets[i + 1 :] - self.offsets[i]) * row_work
            drawn = min(int(np.searchsorted(used, budget)) + 1, n - i)
            draw(self, i, drawn)
            numbers[DRAWN] += drawn
            budget -= float(used[drawn - 1])
        if numbers[DRAWN] < n:
            return False
        if not numbers[STARTED]:
            rho = shadow_solve.typical_difference(core, numbers[SPREAD], numbers[WEIGHT])
            shadow_solve.begin_solve(core, self.solver, rho, self.room)
            numbers[STARTED] = 1.0
        K = int(core[shadow.CONSTRAINTS])
        if budget > 0.0 and (pacer is None or pacer.leaves(K)):
            prices.advance_prices(
                self.solver, self._worth(pacer, K), self.costs, self.offsets, self.weights, self.room, budget
            )
        if last:
            shadow_solve.finish_solve(core, self.solver, float(numbers[WEIGHT]))
            if pacer is not None:
                pacer.solved(core, self.sample(K))
        return last

    def sample(self, K: int) -> Sample:
        """The rounds, once all are drawn."""
        return Sample(self.rewards, self.costs.reshape(-1, K), self.offsets, *self.paced)

    def _worth(self, pacer: Pacer | None, K: int) -> Array:
        """The rewards of the sample's rows, minus what paced limits charge."""
        if pacer is None:
            return self.rewards
        if self._charged is None:
            self._charged = pacer.charged(self.sample(K))
        return self._charged

    def copy(self) -> PriceSolve:
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        for name in ("rewards", "costs", "solver", "numbers", "room"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def arrays(self) -> Arrays:
        names = ("weights", "paced", "rewards", "costs", "solver", "numbers")
        return {name: getattr(self, name).copy() for name in names}

    @classmethod
    def restore(cls, arrays: Arrays, entries: list[Remembered], K: int) -> PriceSolve:
        solve = cls(entries, arrays["weights"].copy(), K, arrays["paced"].copy())
        for name in ("rewards", "costs", "solver", "numbers"):
            getattr(solve, name)[...] = arrays[name]
        return solve
