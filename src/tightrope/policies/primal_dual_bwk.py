"""PrimalDualBwK, arms with budgets (Badanidiyuru, Kleinberg, Slivkins, FOCS 2013)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans
from tightrope.policies.budget import Account
from tightrope.policies.decision import Decision
from tightrope.policies.ledger import Ledger
from tightrope.policies.linear import cost_misfits, sleeping_misfits, unit_reward_misfits
from tightrope.policies.registry import register
from tightrope.validation import Array, finite_number, whole_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular


@register("primal-dual-bwk")
class PrimalDualBwK:
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
    >>> policy.spent.tolist(), policy.budget.tolist()
    ([1.0], [1.0])
    """

    kind: str

    def __init__(self, n_arms: int, *, limits: Any, horizon: int, noop: int = 0) -> None:
        self.n_arms = whole_number("n_arms", n_arms, low=1)
        self.noop = _known_arm("noop", noop, self.n_arms)
        self._account = Account(limits, horizon)
        self.n_constraints = len(self._account.limits)
        d = self.n_constraints + 1
        b = self._account.rate
        self._C = math.log(d * self.n_arms * self._account.horizon)
        self._log_step = math.log1p(math.sqrt(math.log(d) / (b * self._account.horizon)))
        self._log_v = np.zeros(d)
        self._reward = ArmMeans(self.n_arms)
        self._usage = ArmMeans(self.n_arms, n_outputs=self.n_constraints)
        self._ledger = Ledger[int]()

    @property
    def budget(self) -> Array:
        """B by resource, (K,)."""
        return self._account.budget

    @property
    def spent(self) -> Array:
        """Usage so far by resource, (K,), of the outcomes that are known."""
        return self._account.spent.copy()

    @property
    def reward_model(self) -> ArmMeans:
        """A copy of the means of the rewards."""
        return self._reward.copy()

    @property
    def cost_model(self) -> ArmMeans:
        """A copy of the means of the scaled usage."""
        return self._usage.copy()

    def decide(self, features: Any = None, costs: Any = None, *, actions: Any = None) -> Decision:
        """The arm with the highest bang per buck, or the no-op. There is nothing to show before acting."""
        for name, value in (("features", features), ("costs", costs), ("actions", actions)):
            if value is not None:
                raise InvalidInput(
                    f"PrimalDualBwK takes no {name}: it is for arms without features, costs seen after, all on offer."
                )
        number = self._ledger.made
        if number >= self._account.horizon or not self._account.affords():
            return self._ledger.add(self.noop, self.noop, self.noop)
        usage = self._lower_usage()
        if number < self.n_arms:
            action = number
        else:
            y = np.exp(self._log_v - self._log_v.max())
            y /= y.sum()
            # Time's weight is positive, but may underflow.
            price = np.maximum(usage @ y, 1e-300)
            action = int(kernels.first_of_the_best(self._upper_rewards() / price))
            self._log_v += usage[action] * self._log_step
        if action != self.noop:
            self._account.reserve()
        return self._ledger.add(action, action, action)

    def learn(self, decision: Decision | int, reward: Any, costs: Any) -> None:
        """Take in reward and K costs of a decision."""
        number = self._ledger.find(decision)
        r = np.array([finite_number("reward", reward, low=0.0, high=1.0)])
        usage = self._account.usage(costs)
        action = self._ledger.take(number)
        if action != self.noop:
            self._account.settle(usage)
        self._reward.learn(r, action=action)
        self._usage.learn(self._account.scaled(usage), action=action)

    def copy(self, seed: int | None = None) -> PrimalDualBwK:
        """An independent policy in the same state."""
        twin = PrimalDualBwK(
            self.n_arms, limits=self._account.limits, horizon=self._account.horizon, noop=self.noop
        )
        twin._account = self._account.copy()
        twin._log_v[...] = self._log_v
        twin._reward, twin._usage = self._reward.copy(), self._usage.copy()
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        reasons = [
            *cost_misfits(env, self.n_constraints),
            *sleeping_misfits(env),
            *unit_reward_misfits(env),
            *self._account.misfits(env, self.noop),
        ]
        if env.n_actions != self.n_arms:
            reasons.append(f"it has {env.n_actions} actions, but the policy has {self.n_arms}")
        if env.n_contexts > 1:
            reasons.append(f"it has {env.n_contexts} contexts, which the policy does not look at")
        return reasons

    def __repr__(self) -> str:
        limits = ", ".join(f"{limit:g}" for limit in self._account.limits)
        return f"PrimalDualBwK({self.n_arms}, limits=[{limits}], horizon={self._account.horizon}, noop={self.noop})"

    def _upper_rewards(self) -> Array:
        n = self._reward.counts
        mean = self._reward.sums[:, 0] / np.maximum(n, 1.0)
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


def _known_arm(name: str, arm: Any, n_arms: int) -> int:
    a = whole_number(name, arm)
    if a >= n_arms:
        raise InvalidInput(f"{name} must be below {n_arms}, but got {a}.")
    return a
