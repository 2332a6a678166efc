"""Safe-LUCB, linear UCB that never leaves the actions shown to be safe (Amani, Alizadeh, Thrampoulidis, NeurIPS 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.policies.decision import Decision
from tightrope.policies.ledger import Ledger
from tightrope.policies.linear import (
    Linear,
    Offer,
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
from tightrope.policies.registry import register
from tightrope.validation import Array, whole_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular


@register("safe-lucb")
class SafeLUCB:
    """Linear rewards and costs; *every action* played has mean cost ≤ 0.

    Setting: mean reward and K mean costs linear in features, costs seen after acting, ‖θ*‖ and ‖μ*_k‖ within the models' `m`, noise
    1-sub-Gaussian (costs in [−1, 1] are). Some actions are known to be safe: mean costs ≤ 0 whatever the context.
    Steps: for T' rounds, play the known safe actions on offer uniformly at random. Then LinUCB among
    D_t = known safe actions ∪ {j : ⟨μ̂_k, ψ_j⟩ + √β ‖ψ_j‖_{Σ_w⁻¹} ≤ 0 for all k}.
    Guarantee: with probability 1 − p no action with a mean cost above 0 is ever played. Regret, over a convex set of actions, of
    order √T where the optimum is strictly inside the constraint, and T^{2/3} otherwise, up to logarithms.
    Source: *Linear stochastic bandits under safety constraints* (NeurIPS 2019).
    Choices: their constraint is a known linear map of the reward's own parameter; here costs have parameters of their own and are
    observed, as in Safe-LTS. T' = ⌈T^{2/3}⌉, their choice where the distance of the optimum to the constraint is not known. p is
    shared equally by the reward and the K costs; indices are not clipped. Safety needs nothing of the set of actions, but the
    regret bounds need a convex one: among finitely many, D_t grows only where features of safe actions tell something about
    others, so a model with parameters for each action alone never leaves the known safe ones.

    Parameters
    ----------
    reward, cost : Ridge or DisjointRidge
        Models of the reward and of the costs; the policy works on copies.
    safe_actions : sequence of int
        Actions known to be safe; one at least must be on offer in every round.
    horizon : int, optional
        T, from which T' follows.
    exploration : int, optional
        T' itself.
    n_constraints : int
        K ≥ 1.
    failure : float
        p in (0, 1).
    seed : int
        Of the exploration.

    Examples
    --------
    >>> from tightrope import Ridge
    >>> policy = SafeLUCB(Ridge(2), cost=Ridge(2), safe_actions=[1], exploration=0)
    >>> decision = policy.decide([[1.0, 0.0], [0.0, 1.0]])
    >>> decision.action
    1
    """

    kind: str

    def __init__(
        self,
        reward: Linear,
        *,
        cost: Linear,
        safe_actions: Sequence[int],
        horizon: int | None = None,
        exploration: int | None = None,
        n_constraints: int = 1,
        failure: float = 0.01,
        seed: int = 0,
    ) -> None:
        self.n_constraints = whole_number("n_constraints", n_constraints, low=1)
        if isinstance(safe_actions, (str, bytes)) or not isinstance(safe_actions, (Sequence, np.ndarray)):
            raise InvalidInput(f"safe_actions must be a sequence of action ids, but got {safe_actions!r}.")
        self.safe_actions = tuple(
            whole_number(f"safe_actions[{i}]", action) for i, action in enumerate(safe_actions)
        )
        if not self.safe_actions:
            raise InvalidInput("safe_actions must name at least one action, but it is empty.")
        self.exploration = _exploration(horizon, exploration)
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
        """Explore the known safe actions, later play the optimistic one among those shown to be safe.

        `features` are φ (J, d), or (p,) for a `DisjointRidge`; `costs` are the features ψ of the costs, by default the same.
        """
        phi, psi = offered_both(features, costs, actions, self._reward, self._cost)
        rows = self._candidates(phi, psi)
        draw = kernels.own_uniform(self.seed, self._ledger.made)
        row = int(rows[0] if len(rows) == 1 else kernels.uniform_choice(rows, draw))
        kept = SeenBoth(phi.seen(row), psi.seen(row))
        return self._ledger.add(int(phi.ids[row]), row, kept, probability=1.0 / len(rows))

    def mixture(self, features: Any, costs: Any = None, *, actions: Any = None) -> Array:
        """The probabilities by row that `decide` would draw from: one action alone once the exploration is over."""
        phi, psi = offered_both(features, costs, actions, self._reward, self._cost)
        rows = self._candidates(phi, psi)
        pi = np.zeros(len(phi.ids))
        pi[rows] = 1.0 / len(rows)
        return pi

    def learn(self, decision: Decision | int, reward: Any, costs: Any) -> None:
        """Take in reward and K costs of a decision."""
        learn_both(self._ledger, decision, reward, costs, self._reward, self._cost)

    def copy(self, seed: int | None = None) -> SafeLUCB:
        """An independent policy in the same state."""
        twin = SafeLUCB(
            self._reward,
            cost=self._cost,
            safe_actions=self.safe_actions,
            exploration=self.exploration,
            n_constraints=self.n_constraints,
            failure=self.failure,
            seed=self.seed if seed is None else seed,
        )
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        reasons = [
            *cost_misfits(env, self.n_constraints),
            *feature_misfits(env, "reward", self._reward),
            *feature_misfits(env, "cost", self._cost),
            *unshared_misfits(env),
        ]
        there = [action for action in self.safe_actions if action < env.n_actions]
        for action in self.safe_actions:
            if action >= env.n_actions:
                reasons += action_misfits(env, "a safe action", action)
            reasons += mean_cost_misfits(env, action, 0.0)
        if not env.available[env.weights > 0][:, there].any(axis=1).all():
            reasons.append("in some context no known safe action is on offer")
        return reasons

    def __repr__(self) -> str:
        return (
            f"SafeLUCB({self._reward!r}, cost={self._cost!r}, safe_actions={list(self.safe_actions)}, "
            f"exploration={self.exploration}, n_constraints={self.n_constraints}, failure={self.failure:g})"
        )

    def _candidates(self, phi: Offer, psi: Offer) -> NDArray[np.int64]:
        """The rows that the next decision is drawn from."""
        known = np.isin(phi.ids, self.safe_actions)
        if not known.any():
            raise InvalidInput(
                f"one of the safe actions {list(self.safe_actions)} must be on offer in every round, "
                f"but only {phi.ids.tolist()} are."
            )
        if self._ledger.made < self.exploration:
            return np.flatnonzero(known)
        quantities = (1 + self.n_constraints) / self.failure
        w, cost_widths = estimates(self._cost, psi)
        pessimistic = w + self._cost.radius(quantities) * cost_widths[:, None]
        rows = np.flatnonzero(known | (pessimistic <= 0.0).all(axis=1))
        r, widths = estimates(self._reward, phi)
        optimistic = r[:, 0] + self._reward.radius(quantities) * widths
        best: NDArray[np.int64] = rows[[kernels.first_of_the_best(optimistic[rows])]]
        return best


def _exploration(horizon: Any, exploration: Any) -> int:
    if exploration is not None:
        return whole_number("exploration", exploration)
    if horizon is None:
        raise InvalidInput(
            "give horizon=, from which the length of the exploration follows, or exploration=."
        )
    T = whole_number("horizon", horizon, low=1)
    return math.ceil(math.pow(T, 2.0 / 3.0) - 1e-9)
