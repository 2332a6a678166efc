"""Lagrangian: LinUCB minus a price per rule that climbs as the rule is exceeded; with a guard, or the guard alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.ledger.totals import Totals
from tightrope.models import Model, hooks
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row, copy_of_model, estimates
from tightrope.policies.comparator import ExpectedCosts
from tightrope.policies.registry import register
from tightrope.policies.state_file import Arrays
from tightrope.validation import COST_ROUNDING, Array, finite_number, real_array, whole_number


@register("lagrangian")
class Lagrangian(ExpectedCosts):
    """Dual ascent: what most people write first to keep running costs at or below 0.

    Setting: mean reward by the reward model; K ≥ 1 costs, seen before acting, or after it with a model of them.
    Steps, in round t: r̂ = the reward model's upper confidence bound, w = the costs or their estimated means. Play
    argmax_j r̂_j − λ·w_j, with λ_k = step · Q_k / (m_k² √t), m_k the largest |cost| in `cost_range`; then
    Q_k ← [Q_k + w_k + margin · m_k / √t]⁺. A cost seen later replaces its estimate, in Q and in the totals; if it never
    arrives, the estimate stays.
    With `guard`, only actions that leave every total at or below 0 are compared; if there are none, those with the least excess.
    With `step=0` only the guard acts: LinUCB among the actions that the totals can bear.
    Guarantee: with the guard and costs seen before acting, every total is ≤ 0 in every round, with certainty, if every round
    offers an action with no cost above 0. Otherwise none: `margin=0` is the plain Lagrangian, whose totals end above 0 by
    λ* m² √T / step wherever a rule with price λ* binds; a margin pays that back for λ* m ≤ 2 step · margin. With costs seen
    after acting, the guard uses estimates, and totals hover around 0.
    Source: dual gradient descent (Zinkevich, *Online convex programming*, ICML 2003); Mahdavi, Jin, Yang, *Trading regret for
    efficiency: online convex optimization with long term constraints* (JMLR 2012).
    Choices: the step falls with 1/√t, which needs no horizon. step · margin = 1 covers prices up to 2 rewards for the
    largest cost. At λ* m = 1 the margin then costs 2√T/step; the step costs step √T E w²/m², which is step √T/2 if squared costs
    are half the largest: equal for step = 2. The confidence bound of round t fails with probability 1/(t + 1); never tried is ∞.

    Parameters
    ----------
    reward : Model
        The policy works on a copy, so you can pass a trained model as a warm start.
    n_constraints : int
        K ≥ 1.
    cost : Model, optional
        Model of the costs, if they are seen after acting.
    step : float
        How fast prices climb, for rewards in [0, 1]; 0 for none.
    margin : float
        How much the queue adds to every cost, in m_k / √t.
    guard : bool
        Never take an action that would leave a total above 0, as known or estimated, if there is another.
    clip : float, optional
        An upper bound on mean rewards: r̂ is clipped there.
    cost_range : pair, or (K, 2) array
        The range of the costs.

    Examples
    --------
    >>> from tightrope import ArmMeans
    >>> policy = Lagrangian(ArmMeans(2), n_constraints=1, guard=True)
    >>> for _ in range(200):
    ...     decision = policy.decide(costs=[[-0.2], [0.3]])
    ...     policy.learn(decision, (0.1, 0.9)[decision.action])
    >>> bool(policy.totals[0] <= 0), policy.hooks.dual().round(1).tolist()
    (True, [1.7])
    """

    _shown = ("reward", "cost", "n_constraints", "step", "margin", "guard")

    def __init__(
        self,
        reward: Model,
        *,
        n_constraints: int,
        cost: Model | None = None,
        step: float = 2.0,
        margin: float = 0.5,
        guard: bool = False,
        clip: float | None = None,
        cost_range: Any = (-1.0, 1.0),
    ) -> None:
        self._reward: Model = copy_of_model("reward", reward)
        self._n_actions = self._reward.n_actions
        self._n_constraints = whole_number("n_constraints", n_constraints, low=1)
        self._cost = None if cost is None else copy_of_model("cost", cost, self._n_constraints)
        self._sees_costs = cost is None
        self.step = finite_number("step", step, low=0.0)
        self.margin = finite_number("margin", margin, low=0.0)
        if not isinstance(guard, bool):
            raise InvalidInput(field="guard", must="be true or false", got=guard)
        self.guard = guard
        self.clip = None if clip is None else finite_number("clip", clip)
        self.cost_range = real_array("cost_range", cost_range, (2,), (self._n_constraints, 2)).copy()
        self._unit = np.abs(self.cost_range).max(axis=-1) * np.ones(self._n_constraints)
        if not self._unit.all():
            raise InvalidInput(field="cost_range", must="hold a cost other than 0", got=cost_range)
        self._queue = np.zeros(self._n_constraints)
        self._expected = np.zeros(self._n_constraints)

    def _dual(self) -> Array:
        rate = self.step / math.sqrt(self._pending.made + 1)
        prices: Array = rate * np.maximum(0.0, self._queue) / self._unit**2
        return prices

    def _choose(self, offer: Offer) -> Choice:
        means, widths = estimates(self._reward, offer.phi, offer.ids)
        radius = hooks.radius(self._reward, self._pending.made + 2)
        with np.errstate(invalid="ignore"):
            upper = means[:, 0] + radius * widths[:, 0]
        rewards = np.where(np.isinf(widths[:, 0]), np.inf, upper)
        if self.clip is not None:
            rewards = np.minimum(rewards, self.clip)
        W = offer.W if self._cost is None else estimates(self._cost, offer.psi, offer.ids)[0]
        values = rewards - W @ self._dual()
        if self.guard:
            # Totals of known costs are exact; estimates are rounded in any case.
            expected = (
                self._ledger
                if self._cost is None
                else Totals.on(self._expected, np.zeros_like(self._expected))
            )
            values = np.where(expected.kept_rows(W), values, -np.inf)
        return Choice(best_row(values), rewards, values, note=W)

    def _move_prices(self, offer: Offer, choice: Choice) -> None:
        margin = self.margin * self._unit / math.sqrt(self._pending.made + 1)
        self._queue[...] = np.maximum(0.0, self._queue + self._costs_of(choice) + margin)

    def _costs_of(self, choice: Choice) -> Array:
        costs: Array = choice.note[choice.row]
        return costs

    def _correct_prices(self, error: Array) -> None:
        self._queue += error

    def _arrays(self) -> Arrays:
        return {"queue": self._queue, "expected": self._expected}

    @property
    def _cost_bounds(self) -> Array:
        bounds: Array = self.cost_range * np.ones((self._n_constraints, 1)) + [-COST_ROUNDING, COST_ROUNDING]
        return bounds
