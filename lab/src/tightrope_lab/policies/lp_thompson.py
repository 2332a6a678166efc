"""LPThompson: posterior sampling by the prices of the allocation program, solved anew again and again on what is left."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.kernels import prices
from tightrope.models import Model
from tightrope.offer import Offer
from tightrope.policies.choices import Choice
from tightrope.policies.registry import register
from tightrope.policies.shadow_price.beliefs import Beliefs
from tightrope.policies.shadow_price.memory import Remembered, RoundMemory
from tightrope.policies.state_file import Arrays, part_of
from tightrope.validation import Array, finite_number, whole_number
from tightrope_lab.policies.priced_thompson import PricedThompson, Units

# The program is solved after so many rounds, then when their number has grown by this factor, or by so many if that is more.
FIRST_SOLVE, GROWTH, LEAST_WAIT = 8, 1.25, 4
# What a total is off its buffer by is made up for within this part of the rounds so far, and so many at least.
MAKE_UP, LEAST_MAKE_UP = 0.5, 8.0
# The feedback between solves: a total that is off by m √t raises the price by this part of ρ/m.
FEEDBACK = 0.25
# The barrier starts at this part of the buffer below zero.
BARRIER = 0.6
# Prices are at most so many ρ/m.
CAP = 20.0
_MEMORY_SLOT, _SOLVE_SLOT = 2**31, 2**31 + 8
_ROUNDS = "memory/"  # their arrays in the state


@register("lp-ts")
class LPThompson(PricedThompson):
    """Re-solving: the allocation program on remembered rounds, with sampled rewards and what is left of the rules, again and again.

    Setting: K ≥ 1 costs in [−1, 1], seen before acting, or after it with a model of them; rewards and features in any unit.
    Steps: after rounds 8, 12, …, a quarter more each time, draw the rewards of all remembered offers from the posterior and solve
    "as much reward as mean costs of at most −(S + b)/(t/2) allow", so that the totals S come to −b within half as many rounds
    again. Its dual prices are p. In round t draw rewards and unknown costs, and play the largest reward less λ·cost less the climb
    on the barrier, with λ_k = [p_k + ¼ ρ (S_k + b_k) / (m_k² √t)]⁺. The buffer b_k is caution · m_k t^¼, wider where costs are
    noisy. The barrier of rule k is a parabola that starts at −0.6 b_k and has the slope ρ/m_k at 0. ρ is the typical difference
    between the rewards of a round and m_k the typical size of cost k, both measured. S counts estimates of costs to come.
    Guarantee: none.
    Source: re-solving (Jasin, Kumar, *A re-solving heuristic with bounded revenue loss for network revenue management*, Mathematics
    of Operations Research 2012; Ferreira, Simchi-Levi, Wang, *Online network revenue management using Thompson sampling*,
    Operations Research 2018), for rules on running totals in place of stocks.
    Choices: prices are played, for the solution itself is of the remembered contexts alone; with fixed prices ties would be
    broken the same way for many rounds, so the totals correct them in between. Memory is a uniform sample of past rounds. What
    was off is made up for within t/2 rounds, for that needs no horizon.

    Parameters
    ----------
    reward, cost, memory, explore, cost_range, seed
        As in `ShadowPrice`.
    n_constraints : int
        K ≥ 1.
    caution : float
        How far totals are kept below zero.

    Examples
    --------
    >>> from tightrope import ArmMeans
    >>> policy = LPThompson(ArmMeans(2), n_constraints=1)
    >>> for _ in range(500):
    ...     decision = policy.decide(costs=[[-0.2], [0.3]])
    ...     policy.learn(decision, (0.1, 0.9)[decision.action])
    >>> bool(policy.totals[0] <= 0), policy.prices.round(1).tolist()
    (True, [1.6])
    """

    _shown = ("reward", "cost", "n_constraints", "caution")
    _own_arrays = ("price", "next")

    def __init__(
        self,
        reward: Model,
        *,
        n_constraints: int,
        cost: Model | None = None,
        caution: float = 2.0,
        memory: int = 2048,
        explore: float = 1.0,
        cost_range: Any = None,
        seed: int = 0,
    ) -> None:
        PricedThompson.__init__(self, reward, n_constraints, cost, explore, cost_range, seed)
        self.caution = finite_number("caution", caution, low=0.0)
        self.memory = whole_number("memory", memory, low=1)
        self._price = np.zeros(self._n_constraints)
        self._next = np.full(1, FIRST_SOLVE, dtype=np.int64)
        self._rounds = RoundMemory()

    @property
    def prices(self) -> Array:
        """p, the prices of the last solve, (K,)."""
        return self._price.copy()

    def _prices_at(self, t: int, units: Units) -> Array:
        off = self._expected + self._buffer(t, units)
        feedback = FEEDBACK * units.rho * off / (units.m**2 * math.sqrt(t))
        return np.asarray(np.maximum(0.0, self._price + feedback))

    def _barrier(self, t: int, units: Units, costs: Array) -> Array:
        """The climb of every action: a step across zero is dear, one back is paid for."""
        if not self.caution:
            return np.zeros(len(costs))
        start = BARRIER * self._buffer(t, units)

        def height(totals: Array) -> Array:
            return np.asarray(0.5 * start * np.maximum(0.0, totals / start + 1.0) ** 2)

        climb = height(self._expected + costs) - height(self._expected)
        return np.asarray(climb @ (units.rho / units.m))

    def _move_prices(self, offer: Offer, choice: Choice) -> None:
        t = self._pending.made + 1
        self._remember(t, Remembered(offer.ids, offer.phi, offer.psi, offer.W))
        if t >= self._next[0]:
            self._next[0] = max(t + LEAST_WAIT, math.floor(GROWTH * t))
            self._price[...] = self._solved(t)

    def _more_state(self) -> Arrays:
        return {f"{_ROUNDS}{name}": array for name, array in self._rounds.arrays()[0].items()}

    def _load_more(self, arrays: Arrays) -> None:
        self._rounds, _ = RoundMemory.restore(part_of(arrays, _ROUNDS))
        self._rounds.shorten(self.memory)

    def _forget_more(self, numbers: Collection[int]) -> None:
        self._rounds.forget({*numbers})

    def _buffer(self, t: int, units: Units) -> Array:
        return np.asarray(self.caution * units.noise * units.m * t**0.25)

    def _remember(self, t: int, entry: Remembered) -> None:
        """Each of the rounds up to t is remembered with the same probability."""
        slot = len(self._rounds)
        if slot >= self.memory:
            slot = int(self._uniform(_MEMORY_SLOT) * t)
        if slot < self.memory:
            self._rounds.remember(slot, entry, entry.mark(), decision=self._pending.made)

    def _solved(self, t: int) -> Array:
        """p from what is remembered, believed and owed."""
        entries, weights = self._rounds.sample(math.inf)
        models, units = Beliefs(self._reward, self._cost), self._units()
        believed = models.rewards_of(entries)
        drawn = self.explore * believed.deviations * self._normals(len(believed.means), _SOLVE_SLOT)
        known = self._cost is None
        costs = np.concatenate([entry.W for entry in entries]) if known else models.costs_of(entries)[0]
        offsets = np.concatenate([[0], np.cumsum([len(entry.ids) for entry in entries])])
        cap = CAP * units.rho / units.m
        program = RememberedProgram(believed.means + drawn, costs, offsets, cap, weights)
        owed = (self._expected + self._buffer(t, units)) / max(LEAST_MAKE_UP, MAKE_UP * t)
        price, _ = program.solve(self._price, owed)
        return price


class RememberedProgram:
    """The allocation program on remembered rounds: rewards (R,) and costs (R, K), round i from offsets[i] to offsets[i + 1].

    `cap`: the largest prices, a number or (K,). `weights` (n,): how often each round is remembered, once by default.
    """

    def __init__(
        self,
        rewards: Array,
        costs: Array,
        offsets: NDArray[np.int64],
        cap: float | Array,
        weights: Array | None = None,
    ) -> None:
        self.rewards, self.costs, self.offsets = rewards, np.ascontiguousarray(costs), offsets
        starts = offsets[:-1]
        self.weights = np.ones(len(starts)) if weights is None else weights
        spread = np.maximum.reduceat(rewards, starts) - np.minimum.reduceat(rewards, starts)
        self.unit = max(float(np.average(spread, weights=self.weights)), 1e-9)
        self.size = (costs**2).sum(axis=0) / np.maximum(np.abs(costs).sum(axis=0), 1e-300)
        self.cap = np.full(costs.shape[1], cap)

    def solve(self, start: Array, margin: Array) -> tuple[Array, Array]:
        """Prices, and the standard deviation of the costs of a round at these prices, (K,) each."""
        K = len(start)
        solver = np.zeros(prices.solver_size(K))
        prices.begin_prices(solver, start, self.cap, self.size, margin, self.unit)
        room = np.zeros(int(np.diff(self.offsets).max()))
        prices.advance_prices(
            solver, self.rewards, self.costs.reshape(-1), self.offsets, self.weights, room, math.inf
        )
        at = prices.solver_parts(K)
        price, gradient, square = (
            solver[part : part + K].copy() for part in (at.price, at.gradient, at.square)
        )
        mean = -gradient - margin
        return price, np.sqrt(np.maximum(0.0, square - mean**2))
