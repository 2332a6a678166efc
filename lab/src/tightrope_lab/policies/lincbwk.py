"""LinCBwK, linear contextual bandits with knapsacks (Agrawal, Devanur, NeurIPS 2016)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tightrope.models import Model
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row, copy_of_model, estimates, failure_probability
from tightrope.policies.comparator import Comparator
from tightrope.policies.pending import Pending
from tightrope.policies.registry import register
from tightrope.policies.state_file import Arrays
from tightrope.problem import Setting, usage_within
from tightrope.validation import Array, finite_number, whole_number
from tightrope_lab.policies.budgets import Budgets


@register("lincbwk")
class LinCBwK(Comparator):
    """Linear rewards and resource usage: maximise reward until a budget is spent, and never spend more.

    Setting: mean reward in [0, 1] and usage of K resources in [0, 1], both linear in features, seen after acting; budget
    B_k = limit_k · T; an action known to use nothing (the no-op), always on offer. In Tightrope's terms a cost is usage − limit_k.
    Steps: usage v is scaled to one budget B = b T, b = min_k limit_k. Play
    argmax_j  ⟨θ̂, φ_j⟩ + √β ‖φ_j‖_{Σ⁻¹} − Z Σ_k λ_k (⟨ŵ_k, ψ_j⟩ − √β ‖ψ_j‖_{Σ_w⁻¹}); the λ come from multiplicative weights on
    g = v − b: u_k ← u_k (1 + ε)^{g_k} for g_k > 0, u_k (1 − ε)^{−g_k} otherwise, λ_k = u_k / (1 + Σu), ε = sqrt(log(K + 1) / T).
    Guarantee: no budget is ever overspent, with certainty. With probability 1 − p regret of order (OPT/B + 1) d √T up to
    logarithms, for OPT/B ≤ Z ≤ O(OPT/B + 1).
    Source: *Linear contextual bandits with knapsacks* (NeurIPS 2016).
    Choices: Z = 1/b = T/B by default, which is at least OPT/B because no round earns more than 1, and loose only where OPT is much
    smaller than T; the paper estimates OPT in opening rounds, which needs B of order T^{3/4}. In the league it is told OPT/B + 1.
    p is shared equally by the reward and the K resources; indices are not clipped. The model of the costs learns usage, not usage −
    limit: the paper's linear model has no constant term. There a run ends when a budget is spent; here the no-op is played
    from the moment on when one more action *could* exceed one (outcomes still to come count as 1), and after round T. The
    no-op's usage is taken as 0; its reward is learnt, so a no-op with φ = 0 is worth exactly 0, as there.

    Parameters
    ----------
    reward, cost : Model
        Models of the reward and of the usage; the policy works on copies.
    limits : float or (K,) array
        What may be used a round on average, in (0, 1].
    horizon : int
        T.
    noop : int
        The action that uses nothing.
    Z : float, optional
        What a unit of scaled budget is worth at most; 1/b by default.
    failure : float
        p in (0, 1).

    Examples
    --------
    >>> from tightrope import Ridge
    >>> policy = LinCBwK(Ridge(2), cost=Ridge(2), limits=0.5, horizon=2)
    >>> for _ in range(2):
    ...     decision = policy.decide([[0.0, 0.0], [1.0, 0.0]])
    ...     policy.learn(decision, 1.0 * decision.action, [decision.action - 0.5])
    >>> decision.action, (policy.totals + 0.5 * 2).tolist()
    (0, [1.0])
    """

    _shown = ("reward", "cost", "limits", "horizon", "noop", "Z")
    _reward: Model
    _cost: Model

    def __init__(
        self,
        reward: Model,
        *,
        cost: Model,
        limits: Any,
        horizon: int,
        noop: int = 0,
        Z: float | None = None,
        failure: float = 0.01,
    ) -> None:
        self._account = Budgets(limits, horizon)
        self.limits, self.horizon = self._account.limits, self._account.horizon
        self._n_constraints = len(self.limits)
        self.noop = whole_number("noop", noop)
        self.Z = 1.0 / self._account.rate if Z is None else finite_number("Z", Z, low=0.0, open_low=True)
        self.failure = failure_probability(failure)
        self._reward = copy_of_model("reward", reward)
        self._cost = copy_of_model("cost", cost, self._n_constraints)
        self._step = min(0.5, math.sqrt(math.log(self._n_constraints + 1) / self.horizon))
        self._log_u = np.zeros(self._n_constraints)

    @property
    def _prices(self) -> Array:
        """λ by resource, (K,): at least 0, with a sum below 1."""
        top = max(0.0, float(self._log_u.max()))
        u = np.exp(self._log_u - top)
        prices: Array = u / (math.exp(-top) + u.sum())
        return prices

    def _dual(self) -> Array:
        return self.Z * self._prices * self._account.rate / self.limits

    @property
    def _cost_bounds(self) -> Array:
        return self._account.cost_bounds

    def _choose(self, offer: Offer) -> Choice:
        noop = offer.row_of("noop", self.noop)
        r, widths = estimates(self._reward, offer.phi, offer.ids)
        v, usage_widths = estimates(self._cost, offer.psi, offer.ids)
        usage = v - self._confidence_radius(self._cost) * usage_widths
        usage[noop] = 0.0
        rewards = r[:, 0] + self._confidence_radius(self._reward) * widths[:, 0]
        values = rewards - self.Z * (usage @ self._prices)
        if self._pending.made < self.horizon and self._account.affords():
            row = best_row(values)
        else:
            row, values = noop, np.where(np.arange(len(values)) == noop, values, -np.inf)
        return Choice(row, rewards, values)

    def _chosen(self, offer: Offer, choice: Choice) -> None:
        if offer.ids[choice.row] != self.noop:
            self._account.reserve()

    def _learn_costs(self, pending: Pending, costs: Array) -> None:
        usage = self._account.usage(costs)
        v = self._account.scaled(usage)
        if pending[1] != self.noop:
            self._account.settle(usage)
            super()._learn_costs(pending, v)
        g = v - self._account.rate
        self._log_u += np.where(g > 0.0, g * math.log1p(self._step), -g * math.log1p(-self._step))

    def _arrays(self) -> Arrays:
        return {"log_u": self._log_u, **self._account.arrays()}

    def _setting(self) -> Setting:
        return self._asks(counts_on=(("the no-op", self.noop),), told=(usage_within(self.limits, self.noop),))
