"""Safe-LTS, linear Thompson sampling among the actions shown to be safe (Moradipari, Amani, Alizadeh, Thrampoulidis 2019, 2021)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope import kernels
from tightrope.policies.decision import Decision
from tightrope.policies.ledger import Ledger
from tightrope.policies.linear import (
    Linear,
    SeenBoth,
    action_misfits,
    cost_misfits,
    estimates,
    failure_probability,
    feature_misfits,
    learn_both,
    linear_model,
    mean_cost_misfits,
    offered_both,
    unshared_misfits,
)
from tightrope.policies.lints import sampled_values
from tightrope.policies.oplb import REWARD_BOUND, safe_margin
from tightrope.policies.registry import register
from tightrope.validation import whole_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular


@register("safe-lts")
class SafeLTS:
    """Thompson sampling with linear rewards and costs; *every action* played has mean cost ≤ 0.

    Setting: as `SafeLUCB`, but one action is known to be safe with a margin: always on offer, every mean cost ≤ −ξ < 0.
    Steps: draw θ̃ = θ̂ + k √β Σ^{-1/2} η, η ~ N(0, I), k = 1 + 2B/ξ; play argmax ⟨θ̃, φ_j⟩ among
    D_t = {safe action} ∪ {j : ⟨μ̂_k, ψ_j⟩ + √β ‖ψ_j‖_{Σ_w⁻¹} ≤ 0 for all k}. No exploration phase: the randomness does it.
    Guarantee: with probability 1 − p no action with a mean cost above 0 is ever played. Regret, over a convex set of actions
    that holds the safe one, of order d^{3/2} √T up to logarithms.
    Source: *Safe linear Thompson sampling with side information* (2019; IEEE Transactions on Signal Processing 2021).
    Choices: there the safe action is the origin, with margin ξ = C, and k = 1 + 2 L S / C, L S a bound on |mean reward|; here that
    bound is B = 1. p is shared equally by the reward and the K costs. Safety needs nothing of the set of actions; the
    regret bound needs a convex one, see `SafeLUCB`. `decision.probability` is nan, for it has no closed form.

    Parameters
    ----------
    reward, cost : Ridge or DisjointRidge
        Models of the reward and of the costs; the policy works on copies.
    safe_action : int
    safe_cost : float
        −ξ, in [−1, 0): an upper bound on the mean costs of the safe action.
    n_constraints : int
        K ≥ 1.
    failure : float
        p in (0, 1).
    seed : int
        Of the draws.

    Examples
    --------
    >>> from tightrope import Ridge
    >>> policy = SafeLTS(Ridge(2), cost=Ridge(2), safe_action=1, safe_cost=-0.5)
    >>> policy.decide([[1.0, 0.0], [0.0, 1.0]]).action
    1
    """

    kind: str

    def __init__(
        self,
        reward: Linear,
        *,
        cost: Linear,
        safe_action: int,
        safe_cost: float,
        n_constraints: int = 1,
        failure: float = 0.01,
        seed: int = 0,
    ) -> None:
        self.n_constraints = whole_number("n_constraints", n_constraints, low=1)
        self.safe_action = whole_number("safe_action", safe_action)
        self.safe_cost = safe_margin(safe_cost)
        self.failure = failure_probability(failure)
        self.seed = whole_number("seed", seed)
        self._reward = linear_model("reward", reward, 1)
        self._cost = linear_model("cost", cost, self.n_constraints)
        self._ledger = Ledger[SeenBoth]()

    @property
    def reward_model(self) -> Linear:
        """A copy of the model of the reward."""
        return self._reward.copy()

    @property
    def cost_model(self) -> Linear:
        """A copy of the model of the costs."""
        return self._cost.copy()

    def decide(self, features: Any, costs: Any = None, *, actions: Any = None) -> Decision:
        """The best by a sampled θ̃ among the actions shown to be safe.

        `features` are φ (J, d), or (p,) for a `DisjointRidge`; `costs` are the features ψ of the costs, by default the same.
        """
        phi, psi = offered_both(features, costs, actions, self._reward, self._cost)
        safe = phi.row_of("safe_action", self.safe_action)
        quantities = (1 + self.n_constraints) / self.failure
        w, cost_widths = estimates(self._cost, psi)
        pessimistic = w + self._cost.radius(quantities) * cost_widths[:, None]
        pessimistic[safe] = self.safe_cost
        rows = np.flatnonzero((pessimistic <= 0.0).all(axis=1))
        k = 1.0 + 2.0 * REWARD_BOUND / -self.safe_cost
        scale = k * self._reward.radius(quantities)
        values = sampled_values(self._reward, phi, scale, self.seed, self._ledger.made)
        row = int(rows[kernels.first_of_the_best(values[rows])])
        kept = SeenBoth(phi.seen(row), psi.seen(row))
        probability = 1.0 if len(rows) == 1 else math.nan
        return self._ledger.add(int(phi.ids[row]), row, kept, probability=probability)

    def learn(self, decision: Decision | int, reward: Any, costs: Any) -> None:
        """Take in reward and K costs of a decision."""
        learn_both(self._ledger, decision, reward, costs, self._reward, self._cost)

    def copy(self, seed: int | None = None) -> SafeLTS:
        """An independent policy in the same state."""
        twin = SafeLTS(
            self._reward,
            cost=self._cost,
            safe_action=self.safe_action,
            safe_cost=self.safe_cost,
            n_constraints=self.n_constraints,
            failure=self.failure,
            seed=self.seed if seed is None else seed,
        )
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        return [
            *cost_misfits(env, self.n_constraints),
            *feature_misfits(env, "reward", self._reward),
            *feature_misfits(env, "cost", self._cost),
            *unshared_misfits(env),
            *action_misfits(env, "the safe action", self.safe_action),
            *mean_cost_misfits(env, self.safe_action, self.safe_cost),
        ]

    def __repr__(self) -> str:
        return (
            f"SafeLTS({self._reward!r}, cost={self._cost!r}, safe_action={self.safe_action}, "
            f"safe_cost={self.safe_cost:g}, n_constraints={self.n_constraints}, failure={self.failure:g})"
        )
