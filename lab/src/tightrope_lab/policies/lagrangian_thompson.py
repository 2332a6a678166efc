"""LagrangianThompson: posterior sampling less a price for every rule that climbs with what the rule is exceeded by."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tightrope.models import Model
from tightrope.offer import Offer
from tightrope.policies.choices import Choice
from tightrope.policies.registry import register
from tightrope.validation import Array, finite_number
from tightrope_lab.policies.priced_thompson import PricedThompson, Units


@register("lag-ts")
class LagrangianThompson(PricedThompson):
    """Dual ascent on the posterior of the default policy: `lagrangian` with Thompson sampling in place of confidence bounds.

    Setting: K ≥ 1 costs in [−1, 1], seen before acting, or after it with a model of them; rewards and features in any unit.
    Steps, in round t: draw rewards and unknown costs from the posterior, play the largest reward less λ·cost, with
    λ_k = step · ρ Q_k / (m_k² √t); then Q_k ← [Q_k + w_k + margin · m_k / √t]⁺, a projected sub-gradient step. ρ is the typical
    difference between the rewards of a round and m_k the typical size of cost k, its noise included, both measured. A cost that is
    seen later takes the place of its estimate in Q; one that never comes stays estimated.
    Guarantee: none.
    Source: dual gradient descent (Zinkevich, *Online convex programming*, ICML 2003) on Thompson sampling; `lagrangian` has
    the reasons for the margin.
    Choices: step and margin are those of `lagrangian`, 2 and 0.5, in measured units in place of told ones.

    Parameters
    ----------
    reward, cost, explore, cost_range, seed
        As in `ShadowPrice`.
    n_constraints, step, margin
        As in `Lagrangian`.

    Examples
    --------
    >>> from tightrope import ArmMeans
    >>> policy = LagrangianThompson(ArmMeans(2), n_constraints=1)
    >>> for _ in range(500):
    ...     decision = policy.decide(costs=[[-0.2], [0.3]])
    ...     policy.learn(decision, (0.1, 0.9)[decision.action])
    >>> bool(policy.totals[0] <= 0), policy.hooks.dual().round(1).tolist()
    (True, [1.6])
    """

    _shown = ("reward", "cost", "n_constraints", "step", "margin")
    _own_arrays = ("queue",)

    def __init__(
        self,
        reward: Model,
        *,
        n_constraints: int,
        cost: Model | None = None,
        step: float = 2.0,
        margin: float = 0.5,
        explore: float = 1.0,
        cost_range: Any = None,
        seed: int = 0,
    ) -> None:
        PricedThompson.__init__(self, reward, n_constraints, cost, explore, cost_range, seed)
        self.step = finite_number("step", step, low=0.0)
        self.margin = finite_number("margin", margin, low=0.0)
        self._queue = np.zeros(self._n_constraints)

    def _prices_at(self, t: int, units: Units) -> Array:
        m = units.m * units.noise
        return np.asarray(self.step * units.rho * np.maximum(0.0, self._queue) / (m**2 * math.sqrt(t)))

    def _move_prices(self, offer: Offer, choice: Choice) -> None:
        units = self._units()
        margin = self.margin * units.m * units.noise / math.sqrt(self._pending.made + 1)
        self._queue[...] = np.maximum(0.0, self._queue + self._costs_of(choice) + margin)

    def _correct_prices(self, error: Array) -> None:
        # As far as the totals take it in.
        self._queue += (self._expected + error) - self._expected
