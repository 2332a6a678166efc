"""UCB-ALP, finite contexts and one budget (Wu, Srikant, Liu, Jiang, NeurIPS 2015)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row
from tightrope.policies.comparator import known_action, known_context
from tightrope.policies.pending import Pending
from tightrope.policies.registry import register
from tightrope.policies.state_file import Arrays
from tightrope.problem import Problem, Setting, Truth
from tightrope.validation import Array, finite_number, real_array, require_range, whole_number
from tightrope_lab.policies.arms import ArmComparator


@register("ucb-alp")
class UCBALP(ArmComparator):
    """A budget of B actions over T rounds: spend it on the contexts that are worth most.

    Setting: finitely many contexts, drawn independently with known probabilities q_c, whose number is told (`sees_context`);
    rewards in [0, 1]; every action uses one unit of the budget B = ⌊limit · T⌋ but the no-op, which uses and earns nothing.
    In Tightrope's terms the cost is 1{a ≠ no-op} − limit, known beforehand, so costs are not asked for.
    Steps: û_{c,j} = mean + sqrt(log t / (2 N_{c,j})), best action j*(c). With b left of the budget and τ rounds to go, solve
    max Σ_c q_c p_c û*_c subject to Σ_c q_c p_c ≤ b/τ, 0 ≤ p ≤ 1: contexts in falling order of û*, 1 while the budget rate lasts, a
    fraction for the next, 0 below. Play j*(c) with probability p_c, else the no-op.
    Guarantee: no more than B actions, with certainty. Regret of order log T, unless the rate B/T lies exactly at a jump of the
    threshold rule, then √T.
    Source: *Algorithms with logarithmic or sublinear regret for constrained contextual bandits* (NeurIPS 2015), the case of unit
    costs and known context probabilities.
    Choices: an action that was never tried in a context ranks first there (û = ∞); the lowest context and action of equals goes
    first. After the budget is spent, and after round T, only the no-op is played.

    Parameters
    ----------
    n_actions : int
        J, the no-op among them.
    weights : (C,) array
        q, the probabilities of the contexts.
    limit : float
        Budget a round, in (0, 1].
    horizon : int
        T.
    noop : int
    seed : int
        Of the draws.

    Examples
    --------
    >>> policy = UCBALP(2, weights=[0.5, 0.5], limit=0.5, horizon=4)
    >>> [policy.propose(context=c).probabilities.tolist() for c in range(2)]
    [[0.0, 1.0], [1.0, 0.0]]
    >>> policy.decide(context=0).action
    1
    """

    _randomised: ClassVar[bool] = True
    _refuses: ClassVar[tuple[tuple[str, ...], str]] = (
        ("features", "costs", "actions"),
        "numbered contexts, unit costs, all actions on offer",
    )
    _sees_context = True

    def __init__(
        self, n_actions: int, *, weights: Any, limit: float, horizon: int, noop: int = 0, seed: int = 0
    ) -> None:
        self._n_actions = whole_number("n_actions", n_actions, low=2)
        self.weights = real_array("weights", weights, (None,)).copy()
        require_range("weights", self.weights, 0.0, 1.0)
        if abs(self.weights.sum() - 1.0) > 1e-6:
            raise InvalidInput(field="weights", must=f"sum to 1, but they sum to {self.weights.sum():.9g}")
        self.limit = finite_number("limit", limit, low=0.0, high=1.0, open_low=True)
        self.horizon = whole_number("horizon", horizon, low=1)
        self.noop = known_action("noop", noop, self._n_actions)
        self.seed = whole_number("seed", seed)
        self._spent = np.zeros(1, dtype=np.int64)
        self._rewards = ArmMeans(len(self.weights) * self._n_actions, bonus=math.sqrt(0.5))

    @property
    def _left(self) -> int:
        """What is left of the budget."""
        return math.floor(self.limit * self.horizon + 1e-9) - int(self._spent[0])

    def _choose(self, offer: Offer) -> Choice:
        c = known_context(offer.context, len(self.weights))
        upper = self._upper_rewards()
        best, p = self.noop, 0.0
        if self._pending.made < self.horizon and self._left > 0:
            best, p = best_row(upper[c]), float(self._probabilities(upper.max(axis=1))[c])
        pi = np.zeros(self._n_actions)
        pi[best] = p
        pi[self.noop] += 1.0 - p
        return Choice(best if p > 0.0 and self._uniform() < p else self.noop, upper[c], upper[c], pi)

    def _chosen(self, offer: Offer, choice: Choice) -> None:
        self._spent[0] += choice.row != self.noop

    def _kept_features(self, offer: Offer, choice: Choice) -> tuple[Array | None, Array | None]:
        """The number of the context."""
        return np.array([float(offer.context or 0)]), None

    def _kept_lengths(self) -> tuple[int, int]:
        return 1, 0

    def _learn_reward(self, pending: Pending, reward: float) -> None:
        assert pending[2] is not None
        self._rewards.learn(None, reward, int(pending[2][0]) * self._n_actions + pending[1])

    def _arrays(self) -> Arrays:
        return {"spent": self._spent, **super()._arrays()}

    def _setting(self) -> Setting:
        return self._asks(
            n_contexts=len(self.weights),
            takes_sleep=False,
            unit_rewards=True,
            counts_on=(("the no-op", self.noop),),
            told=(self._told_budget,),
        )

    def _told_budget(self, problem: Problem, truth: Truth) -> Iterator[str]:
        if problem.n_actions != self._n_actions:
            return
        if len(truth.weights) != len(self.weights) or np.abs(truth.weights - self.weights).max() > 1e-6:
            yield "its contexts do not have the probabilities that the policy was given"
        if truth.rewards[truth.met, self.noop].any():
            yield f"the no-op (action {self.noop}) earns something, but must earn nothing"
        unit = (np.arange(self._n_actions) != self.noop) - self.limit
        fixed = problem.n_constraints == 1 and not truth.random_costs
        if not fixed or np.abs(truth.costs[:, :, 0] - unit).max() > 1e-9:
            yield f"its costs are not those of one budget with unit usage, 1 - {self.limit:g}"

    def __repr__(self) -> str:
        return (
            f"UCBALP({self._n_actions}, <{len(self.weights)} contexts>, limit={self.limit:g}, "
            f"horizon={self.horizon}, noop={self.noop})"
        )

    def _upper_rewards(self) -> Array:
        """û (C, J): −∞ for the no-op, which is not chosen but fallen back on, and ∞ for what was never tried."""
        counts = self._rewards.counts
        means = self._rewards.sums[:, 0] / np.maximum(counts, 1.0)
        upper = (means + self._rewards.widths_at(self._pending.made + 1)).reshape(-1, self._n_actions)
        upper[:, self.noop] = -np.inf
        return upper

    def _probabilities(self, best: Array) -> Array:
        """p (C,): with what probability a round before the last spends in each context, by û* (C,)."""
        rate = self._left / (self.horizon - self._pending.made)
        order = np.argsort(-best, kind="stable")
        before = np.concatenate([[0.0], np.cumsum(self.weights[order])[:-1]])
        p = np.zeros(len(best))
        p[order] = np.clip((rate - before) / np.maximum(self.weights[order], 1e-300), 0.0, 1.0)
        return p
