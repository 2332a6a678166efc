"""PrimalDualBwK, arms with budgets (Badanidiyuru, Kleinberg, Slivkins, FOCS 2013)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from tightrope.models import ArmMeans
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row
from tightrope.policies.comparator import known_action
from tightrope.policies.pending import Pending
from tightrope.policies.registry import register
from tightrope.policies.state_file import Arrays
from tightrope.problem import Setting, usage_within
from tightrope.validation import Array, whole_number
from tightrope_lab.policies.arms import ArmComparator
from tightrope_lab.policies.budgets import Budgets


@register("primal-dual-bwk")
class PrimalDualBwK(ArmComparator):
    """Arms that use up resources: maximise reward until a budget is spent, and never spend more.

    Setting: J arms, rewards in [0, 1], K resources with usage in [0, 1] seen after acting, budget B_k = limit_k · T; an arm
    known to use nothing (the no-op). In Tightrope's terms a cost is usage − limit_k.
    Steps: usage is scaled to one budget B = b T, b = min_k limit_k, and time is a further resource of which every arm uses b. Play
    each arm once; then the arm with the highest bang per buck, UCB(reward) / Σ_i y_i LCB(usage_i), where y is Hedge's weight of the
    d = K + 1 resources: v_i ← v_i (1 + ε)^{LCB(usage_i)}, y = v / Σv, ε = sqrt(log d / B). An outcome of average ν in N pulls
    has radius sqrt(C ν / N) + C / N.
    Guarantee: no budget is ever overspent, with certainty. Expected reward at least OPT − O(sqrt(J OPT) + OPT sqrt(J / B)), up to
    logarithms.
    Source: *Bandits with knapsacks* (FOCS 2013; J. ACM 2018), algorithm PrimalDualBwK.
    Choices: C = log(d J T), where the paper asks for that order; bounds are projected on [0, 1]. There a run ends when a budget
    is exceeded; here the no-op is played from the moment on when one more pull *could* exceed one (outcomes still to come count as
    1), and after round T. The no-op's usage is taken as 0, its reward is learnt.

    Parameters
    ----------
    n_arms : int
    limits : float or (K,) array
        What may be used a round on average, in (0, 1].
    horizon : int
        T.
    noop : int
        The arm that uses nothing.

    Examples
    --------
    >>> policy = PrimalDualBwK(3, limits=0.25, horizon=4)
    >>> for _ in range(4):
    ...     decision = policy.decide()
    ...     policy.learn(decision, 1.0, [-0.25 if decision.action == 0 else 0.75])
    >>> (policy.totals + 0.25 * 4).tolist()
    [1.0]
    """

    _shown = ("n_arms", "limits", "horizon", "noop")
    _refuses: ClassVar[tuple[tuple[str, ...], str]] = (
        ("features", "costs", "actions"),
        "arms without features, costs seen after, all on offer",
    )
    _usage: ArmMeans

    def __init__(self, n_arms: int, *, limits: Any, horizon: int, noop: int = 0) -> None:
        self._n_actions = self.n_arms = whole_number("n_arms", n_arms, low=1)
        self.noop = known_action("noop", noop, self.n_arms)
        self._account = Budgets(limits, horizon)
        self.limits, self.horizon = self._account.limits, self._account.horizon
        self._n_constraints = len(self.limits)
        d = self._n_constraints + 1
        b = self._account.rate
        self._C = math.log(d * self.n_arms * self.horizon)
        self._log_step = math.log1p(math.sqrt(math.log(d) / (b * self.horizon)))
        self._log_v = np.zeros(d)
        self._rewards = ArmMeans(self.n_arms)
        self._usage = ArmMeans(self.n_arms, n_outputs=self._n_constraints)

    @property
    def _cost_bounds(self) -> Array:
        return self._account.cost_bounds

    def _choose(self, offer: Offer) -> Choice:
        number, usage, rewards = self._pending.made, self._lower_usage(), self._upper_rewards()
        y = np.exp(self._log_v - self._log_v.max())
        y /= y.sum()
        # Time's weight is positive, but may underflow.
        values = rewards / np.maximum(usage @ y, 1e-300)
        moves = None
        if number >= self.horizon or not self._account.affords():
            row = self.noop
        elif number < self.n_arms:
            row = number
        else:
            row, moves = best_row(values), usage
        return Choice(row, rewards, values, note=moves)

    def _chosen(self, offer: Offer, choice: Choice) -> None:
        if choice.note is not None:
            self._log_v += choice.note[choice.row] * self._log_step
        # The no-op is also what is played when no more is to be had.
        if choice.row != self.noop:
            self._account.reserve()

    def _learn_costs(self, pending: Pending, costs: Array) -> None:
        usage = self._account.usage(costs)
        if pending[1] != self.noop:
            self._account.settle(usage)
        self._usage.learn(None, self._account.scaled(usage), pending[1])

    def _arrays(self) -> Arrays:
        return {"log_v": self._log_v, **self._account.arrays(), **super()._arrays()}

    def _setting(self) -> Setting:
        return self._asks(
            takes_contexts=False,
            takes_sleep=False,
            unit_rewards=True,
            counts_on=(("the no-op", self.noop),),
            told=(usage_within(self.limits, self.noop),),
        )

    def _upper_rewards(self) -> Array:
        n = self._rewards.counts
        mean = self._rewards.sums[:, 0] / np.maximum(n, 1.0)
        return np.where(n == 0.0, 1.0, np.minimum(1.0, mean + self._radius(mean, n)))

    def _lower_usage(self) -> Array:
        """Lower bounds of the scaled usage by arm, (J, d), time last."""
        n = self._usage.counts[:, None]
        mean = self._usage.sums / np.maximum(n, 1.0)
        low = np.where(n == 0.0, 0.0, np.maximum(0.0, mean - self._radius(mean, n)))
        low[self.noop] = 0.0
        return np.column_stack([low, np.full(self.n_arms, self._account.rate)])

    def _radius(self, mean: Array, n: Array) -> Array:
        pulls = np.maximum(n, 1.0)
        return np.sqrt(self._C * mean / pulls) + self._C / pulls
