"""OPB, the optimistic-pessimistic bandit of Pacchiano, Ghavamzadeh, Bartlett, Jiang (AISTATS 2021)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.policies.decision import Decision
from tightrope.policies.ledger import Ledger
from tightrope.policies.linear import action_count_misfits, cost_misfits, sleeping_misfits
from tightrope.policies.registry import register
from tightrope.validation import finite_number, real_array, require_range, whole_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular


@register("opb")
class OPB:
    """A multi-armed bandit whose *mixture* of arms must satisfy one constraint in expectation in every round.

    Setting: J arms, one cost seen after acting, one safe arm whose mean cost is known and strictly below 0.
    Each round it mixes at most two arms so as to maximise an optimistic reward under a pessimistic cost, in closed form (Lemma 5
    of the paper), and draws from the mixture.
    Guarantee: with high probability every round's mixture has expected cost ≤ 0; regret of order sqrt(J T) / (−safe_cost).
    The constants are the paper's: α_c = 1, α_r = 1 + 2/(τ − c₀), here 1 + 2/(−safe_cost), p = 1/T². The reward index is not
    clipped at 1: with the clip all indices tie at 1 for most of a run and the outcome depends on how ties are broken.

    Parameters
    ----------
    n_arms : int
    safe_cost : float
        Mean cost of the safe arm, below 0 (usage minus limit).
    horizon : int
        T.
    safe_arm : int
    cost_range : pair
        What costs lie in; the pessimistic index is clipped at its high end.
    seed : int
        Of the draws from the mixture.

    Examples
    --------
    >>> policy = OPB(4, safe_cost=-0.5, horizon=1000, cost_range=(-0.5, 0.5))
    >>> decision = policy.decide()
    >>> policy.learn(decision, 1.0, [-0.5])
    >>> policy.mixture()
    array([1., 0., 0., 0.])
    """

    kind: str
    n_constraints = 1

    def __init__(
        self,
        n_arms: int,
        *,
        safe_cost: float,
        horizon: int,
        safe_arm: int = 0,
        cost_range: Any = (-1.0, 1.0),
        seed: int = 0,
    ) -> None:
        self.n_arms = whole_number("n_arms", n_arms, low=1)
        self.horizon = whole_number("horizon", horizon, low=1)
        self.safe_arm = whole_number("safe_arm", safe_arm)
        if self.safe_arm >= self.n_arms:
            raise InvalidInput(f"safe_arm must be below {self.n_arms}, but got {safe_arm}.")
        self.range = real_array("cost_range", cost_range, (2,))
        self.safe_cost = finite_number("safe_cost", safe_cost)
        if not self.range[0] <= self.safe_cost < 0:
            raise InvalidInput(
                f"safe_cost must lie in [{self.range[0]:g}, 0), for the safe arm's mean cost is strictly below 0, "
                f"but got {safe_cost!r}."
            )
        self.seed = whole_number("seed", seed)
        self.counts = np.zeros(self.n_arms)
        self.sums = np.zeros((self.n_arms, 2))
        self.settings = np.array(
            [
                float(self.safe_arm),
                self.safe_cost,
                self.range[1],
                1.0 + 2.0 / -self.safe_cost,
                1.0,
                2.0 * math.log(float(self.horizon) ** 2),
            ]
        )
        self.room = np.empty((2, self.n_arms))
        self._ledger = Ledger[int]()

    def mixture(self) -> Any:
        """The probabilities π that the next decision is drawn from, (J,)."""
        i, j, weight = kernels.opb_mixture(self.counts, self.sums, self.settings, self.room)
        pi = np.zeros(self.n_arms)
        pi[i] += 1.0 - weight
        pi[j] += weight
        return pi

    def decide(self, features: Any = None, costs: Any = None, *, actions: Any = None) -> Decision:
        """Draw an arm from the mixture. There is nothing to show before acting, and all arms are always on offer."""
        for name, value in (("features", features), ("costs", costs), ("actions", actions)):
            if value is not None:
                raise InvalidInput(
                    f"OPB takes no {name}: it is for arms without features, costs seen after, all on offer."
                )
        i, j, weight = kernels.opb_mixture(self.counts, self.sums, self.settings, self.room)
        second = kernels.own_uniform(self.seed, self._ledger.made) < weight
        action = int(j if second else i)
        return self._ledger.add(action, action, action, probability=float(weight if second else 1.0 - weight))

    def learn(self, decision: Decision | int, reward: Any, costs: Any) -> None:
        """Take in reward and cost of a decision."""
        number = self._ledger.find(decision)
        r = finite_number("reward", reward)
        w = real_array("costs", costs, (1,), ()).reshape(1)
        require_range("costs", w, self.range[0] - 1e-9, self.range[1] + 1e-9)
        a = self._ledger.take(number)
        self.counts[a] += 1.0
        self.sums[a, 0] += r
        self.sums[a, 1] += w[0]

    def copy(self, seed: int | None = None) -> OPB:
        """An independent policy in the same state."""
        twin = OPB(
            self.n_arms,
            safe_cost=self.safe_cost,
            horizon=self.horizon,
            safe_arm=self.safe_arm,
            cost_range=self.range,
            seed=self.seed if seed is None else seed,
        )
        twin.counts[...], twin.sums[...] = self.counts, self.sums
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        reasons = [
            *cost_misfits(env, self.n_constraints),
            *sleeping_misfits(env),
            *action_count_misfits(env, self.n_arms),
        ]
        if env.features is not None:
            reasons.append("it has features, which the policy does not take")
        if env.n_contexts > 1:
            reasons.append(f"it has {env.n_contexts} contexts, which the policy does not look at")
        if env.n_constraints != 1 or self.safe_arm >= env.n_actions:
            return reasons
        low, high = env.cost_range[0]
        if low < self.range[0] - 1e-9 or high > self.range[1] + 1e-9:
            reasons.append(
                f"its costs lie in [{low:g}, {high:g}], but the policy expects [{self.range[0]:g}, {self.range[1]:g}]"
            )
        truth = env.costs[0, self.safe_arm, 0]
        if abs(truth - self.safe_cost) > 1e-9:
            reasons.append(
                f"the safe arm {self.safe_arm} has a mean cost of {truth:.4g}, but {self.safe_cost:.4g} was given"
            )
        return reasons

    def __repr__(self) -> str:
        return f"OPB({self.n_arms}, safe_cost={self.safe_cost:g}, horizon={self.horizon})"
