"""UCB-ALP, finite contexts and one budget (Wu, Srikant, Liu, Jiang, NeurIPS 2015)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans
from tightrope.policies.decision import Decision
from tightrope.policies.ledger import Ledger
from tightrope.policies.linear import action_misfits, sleeping_misfits, unit_reward_misfits
from tightrope.policies.registry import register
from tightrope.validation import Array, finite_number, real_array, require_range, whole_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular


@register("ucb-alp")
class UCBALP:
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
    >>> policy.probabilities().tolist()
    [1.0, 0.0]
    >>> decision = policy.decide(context=0)
    >>> decision.action, policy.left
    (1, 1)
    """

    kind: str
    n_constraints = 0
    sees_context = True

    def __init__(
        self, n_actions: int, *, weights: Any, limit: float, horizon: int, noop: int = 0, seed: int = 0
    ) -> None:
        self.n_actions = whole_number("n_actions", n_actions, low=2)
        self.weights = real_array("weights", weights, (None,)).copy()
        require_range("weights", self.weights, 0.0, 1.0)
        if abs(self.weights.sum() - 1.0) > 1e-6:
            raise InvalidInput(f"weights must sum to 1, but they sum to {self.weights.sum():.9g}.")
        self.limit = finite_number("limit", limit, low=0.0, high=1.0, open_low=True)
        self.horizon = whole_number("horizon", horizon, low=1)
        self.noop = whole_number("noop", noop)
        if self.noop >= self.n_actions:
            raise InvalidInput(f"noop must be below {self.n_actions}, but got {self.noop}.")
        self.seed = whole_number("seed", seed)
        self.left = math.floor(self.limit * self.horizon + 1e-9)
        self._rewards = ArmMeans(len(self.weights) * self.n_actions, bonus=math.sqrt(0.5))
        self._ledger = Ledger[int]()

    @property
    def reward_model(self) -> ArmMeans:
        """A copy of the means of the rewards; action j in context c is arm c·J + j."""
        return self._rewards.copy()

    def probabilities(self) -> Array:
        """p (C,): with what probability the next decision spends in each context."""
        return self._probabilities(self._upper_rewards().max(axis=1))

    def decide(
        self, features: Any = None, costs: Any = None, *, actions: Any = None, context: int | None = None
    ) -> Decision:
        """Spend on this context by the threshold rule, or play the no-op."""
        c = self._known(features, costs, actions, context)
        best, p = self._rule(c)
        spends = p > 0.0 and kernels.own_uniform(self.seed, self._ledger.made) < p
        self.left -= spends
        action = best if spends else self.noop
        return self._ledger.add(
            action, action, c * self.n_actions + action, probability=p if spends else 1.0 - p
        )

    def mixture(
        self, features: Any = None, costs: Any = None, *, actions: Any = None, context: int | None = None
    ) -> Array:
        """The probabilities of the actions that `decide` would draw from."""
        best, p = self._rule(self._known(features, costs, actions, context))
        pi = np.zeros(self.n_actions)
        pi[best] = p
        pi[self.noop] += 1.0 - p
        return pi

    def learn(self, decision: Decision | int, reward: Any, costs: Any = None) -> None:
        """Take in the reward of a decision; costs are known and not looked at."""
        number = self._ledger.find(decision)
        y = np.array([finite_number("reward", reward, low=0.0, high=1.0)])
        self._rewards.learn(y, action=self._ledger.take(number))

    def copy(self, seed: int | None = None) -> UCBALP:
        """An independent policy in the same state."""
        twin = UCBALP(
            self.n_actions,
            weights=self.weights,
            limit=self.limit,
            horizon=self.horizon,
            noop=self.noop,
            seed=self.seed if seed is None else seed,
        )
        twin.left = self.left
        twin._rewards = self._rewards.copy()
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        reasons = [
            *sleeping_misfits(env),
            *unit_reward_misfits(env),
            *action_misfits(env, "the no-op", self.noop),
        ]
        if env.n_actions != self.n_actions:
            return [*reasons, f"it has {env.n_actions} actions, but the policy has {self.n_actions}"]
        if env.n_contexts != len(self.weights) or np.abs(env.weights - self.weights).max() > 1e-6:
            reasons.append("its contexts do not have the probabilities that the policy was given")
        if env.rewards[env.weights > 0, self.noop].any():
            reasons.append(f"the no-op (action {self.noop}) earns something, but must earn nothing")
        unit = (np.arange(self.n_actions) != self.noop) - self.limit
        if env.n_constraints != 1 or env.random_costs or np.abs(env.costs[:, :, 0] - unit).max() > 1e-9:
            reasons.append(f"its costs are not those of one budget with unit usage, 1 - {self.limit:g}")
        return reasons

    def __repr__(self) -> str:
        return (
            f"UCBALP({self.n_actions}, <{len(self.weights)} contexts>, limit={self.limit:g}, "
            f"horizon={self.horizon}, noop={self.noop})"
        )

    def _known(self, features: Any, costs: Any, actions: Any, context: int | None) -> int:
        for name, value in (("features", features), ("costs", costs), ("actions", actions)):
            if value is not None:
                raise InvalidInput(
                    f"UCBALP takes no {name}: it is for numbered contexts, unit costs, all actions on offer."
                )
        C = len(self.weights)
        if context is None or whole_number("context", context) >= C:
            raise InvalidInput(f"context must be a whole number below {C}, but got {context!r}.")
        return int(context)

    def _rule(self, c: int) -> tuple[int, float]:
        """The action to spend on in context c, and with what probability."""
        if self._ledger.made >= self.horizon or self.left <= 0:
            return self.noop, 0.0
        upper = self._upper_rewards()
        return int(kernels.first_of_the_best(upper[c])), float(self._probabilities(upper.max(axis=1))[c])

    def _upper_rewards(self) -> Array:
        """û (C, J): −∞ for the no-op, which is not chosen but fallen back on, and ∞ for what was never tried."""
        counts = self._rewards.counts
        means = self._rewards.sums[:, 0] / np.maximum(counts, 1.0)
        upper = (means + self._rewards.widths(self._ledger.made + 1)).reshape(-1, self.n_actions)
        upper[:, self.noop] = -np.inf
        return upper

    def _probabilities(self, best: Array) -> Array:
        to_go = self.horizon - self._ledger.made
        if to_go <= 0:
            return np.zeros(len(best))
        rate = self.left / to_go
        order = np.argsort(-best, kind="stable")
        before = np.concatenate([[0.0], np.cumsum(self.weights[order])[:-1]])
        p = np.zeros(len(best))
        p[order] = np.clip((rate - before) / np.maximum(self.weights[order], 1e-300), 0.0, 1.0)
        return p
