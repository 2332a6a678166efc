"""What `lag-ts` and `lp-ts` share: draws from the posterior that ShadowPrice has, less a price for every cost."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tightrope import kernels
from tightrope.kernels import probabilities
from tightrope.kernels.shadow import COST_DRAWS
from tightrope.models import Model, hooks
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row, copy_of_model
from tightrope.policies.comparator import ExpectedCosts
from tightrope.policies.constraints import finite_ranges
from tightrope.policies.shadow_price.beliefs import Beliefs
from tightrope.policies.state_file import Arrays
from tightrope.validation import LARGEST, Array, finite_number, whole_number

# The typical difference between rewards is a mean over rounds in which the later ones count more, as t does. It starts anew until
# so many outcomes have told the model how large rewards are.
_LATER_COUNT_MORE, _LEAST_LEARNT = 2.0, 3


class Seen(NamedTuple):
    """What is believed of an offer: rewards (J,) and costs (J, K), means and standard deviations.

    `size` and `square` (K,): the mean over actions of |cost| and cost², with their uncertainty. `spread`: the largest optimistic
    less the smallest pessimistic reward.
    """

    rewards: Array
    deviations: Array
    costs: Array
    cost_deviations: Array
    size: Array
    square: Array
    spread: float


class Units(NamedTuple):
    """ρ, the typical difference between the rewards of a round; by rule m, the typical size of a cost, and how noisy it is."""

    rho: float
    m: Array
    noise: Array


class PricedThompson(ExpectedCosts):
    """Thompson sampling on rewards less the prices of costs; a subclass says the prices.

    Models, their units and the draws are those of `ShadowPrice`: rewards and, where they are seen after acting, costs are drawn
    from normal laws, and the highest value is chosen.
    """

    _randomised: ClassVar[bool] = True
    _reward_range: ClassVar[tuple[float, float] | None] = (-LARGEST, LARGEST)
    _reward: Model
    # Names of the arrays that a subclass keeps.
    _own_arrays: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        reward: Model,
        n_constraints: int,
        cost: Model | None,
        explore: float,
        cost_range: Any,
        seed: int,
    ) -> None:
        self._n_constraints = K = whole_number("n_constraints", n_constraints, low=1)
        self.explore = finite_number("explore", explore, low=0.0)
        self.seed = whole_number("seed", seed)
        ranges = finite_ranges(K, None, cost_range)
        self.cost_range = None if ranges is None else ranges.tolist()
        self._reward = hooks.standardised(copy_of_model("reward", reward), 1, centred=True, prior=0.0)
        self._cost = None
        if cost is not None:
            half = np.zeros(K) if ranges is None else (ranges[:, 1] - ranges[:, 0]) / 2.0
            self._cost = hooks.standardised(copy_of_model("cost", cost, K), K, centred=False, prior=half)
        self._sees_costs = cost is None
        self._n_actions = self._reward.n_actions
        self._expected, self._size, self._square, self._moved = np.zeros((4, K))
        self._rho, self._measured = np.zeros(1), np.zeros(1, dtype=np.int64)

    @abstractmethod
    def _prices_at(self, t: int, units: Units) -> Array:
        """λ of round t, (K,)."""

    def _barrier(self, t: int, units: Units, costs: Array) -> Array | float:
        """What else is taken from the values in round t, (J,), for costs (J, K)."""
        return 0.0

    def _dual(self) -> Array:
        return self._prices_at(max(1, self._pending.made), self._units())

    def _choose(self, offer: Offer) -> Choice:
        t, seen = self._pending.made + 1, self._seen(offer)
        units = self._units(seen)
        prices = self._prices_at(t, units)
        means = seen.rewards - seen.costs @ prices - self._barrier(t, units, seen.costs)
        of_costs = COST_DRAWS * self.explore * seen.cost_deviations * prices
        deviations = np.sqrt((self.explore * seen.deviations) ** 2 + (of_costs**2).sum(axis=1))
        values = means + deviations * self._normals(len(means))
        chances, room = np.empty(len(means)), np.empty(probabilities.probabilities_room(len(means)))
        probabilities.largest_probabilities(means, deviations, chances, room)
        return Choice(best_row(values), seen.rewards, values, chances, note=seen)

    def _measure(self, offer: Offer, choice: Choice) -> None:
        seen: Seen = choice.note
        units = self._units(seen)
        self._rho[0] = units.rho
        self._measured[0] += hooks.n_learnt(self._reward) >= _LEAST_LEARNT
        self._size += seen.size
        self._square += seen.square
        if self._sees_costs:
            self._moved += seen.square

    def _costs_of(self, choice: Choice) -> Array:
        costs: Array = choice.note.costs[choice.row]
        return costs

    def _normals(self, n: int, slot: int = 0) -> Array:
        """Standard normals for the next decision, of the slots from this one on."""
        seed, number = np.uint64(self.seed), self._pending.made
        return np.array([kernels.normal(seed, 0, number, slot + i) for i in range(n)])

    def _measure_costs(self, costs: Array) -> None:
        self._moved += costs**2

    def _arrays(self) -> Arrays:
        names = ("expected", "size", "square", "moved", "rho", "measured", *self._own_arrays)
        return {name: getattr(self, f"_{name}") for name in names}

    def _seen(self, offer: Offer) -> Seen:
        models = Beliefs(self._reward, self._cost)
        rewards = models.rewards(offer.phi, offer.ids)
        costs, unsure = offer.W, np.zeros(offer.W.shape)
        if self._cost is not None:
            costs, unsure = models.costs(offer.psi, offer.ids)
        squares = costs**2 + unsure**2
        wide = self.explore * rewards.deviations
        spread = float((rewards.means + wide).max() - (rewards.means - wide).min())
        size, square = np.sqrt(squares).mean(axis=0), squares.mean(axis=0)
        return Seen(rewards.means, rewards.deviations, costs, unsure, size, square, spread)

    def _units(self, seen: Seen | None = None) -> Units:
        """ρ, m and noise, of all offers so far and of one more."""
        size, square, moved, rho = self._size, self._square, self._moved, float(self._rho[0])
        if seen is not None:
            size, square = size + seen.size, square + seen.square
            moved = moved + seen.square if self._sees_costs else moved
            rho += (seen.spread - rho) * min(1.0, _LATER_COUNT_MORE / (self._measured[0] + 1))
        m = np.where(size > 0.0, square / np.where(size > 0.0, size, 1.0), 1.0)
        noise = np.sqrt(np.maximum(1.0, moved / np.where(square > 0.0, square, np.inf)))
        return Units(max(rho, math.ulp(0.0)), m, noise)
