"""OPLB, the optimistic-pessimistic linear bandit (Pacchiano, Ghavamzadeh, Bartlett, Jiang, AISTATS 2021), in a tractable form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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
)
from tightrope.policies.reference import mixture_cdf
from tightrope.policies.registry import register
from tightrope.validation import Array, finite_number, whole_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular
    from tightrope.lp import MixtureProgram

REWARD_BOUND = 1.0


@register("oplb")
class OPLB:
    """Linear rewards and costs; the *mixture* of actions played in a round has expected cost ≤ 0, in every round.

    Setting: mean reward in [0, 1] and K mean costs linear in features, costs seen after acting, ‖θ*‖ and ‖μ*_k‖ within the models'
    `m`, noise 1-sub-Gaussian (costs in [−1, 1] are). One action is known to be safe: always on offer, every mean cost ≤ −ξ < 0.
    Steps, with radii C_r and C_w (√β) and widths β_j = ‖φ_j‖_{Σ⁻¹}, β'_j = ‖ψ_j‖_{Σ_w⁻¹}:

    1. while C_w β'_safe > ξ/2, play the safe action;
    2. else draw from the π that maximises Σ_j π_j (⟨θ̂, φ_j⟩ + C_r β_j + (2B/ξ) C_w β'_j)
       subject to Σ_j π_j (⟨μ̂_k, ψ_j⟩ + C_w β'_j) ≤ 0 for all k.

    For one set of features the bonus is C_u (1 + 2B/ξ) β_π. For K = 1 a mixture of at most two actions solves the program, in
    closed form; for K > 1 it is an LP.
    Guarantee: with probability 1 − p every round's mixture has expected costs ≤ 0; regret of order d √T / ξ up to logarithms.
    Source: *Stochastic bandits with linear constraints* (AISTATS 2021). Its own program maximises a convex function of π (the width
    of the mean feature); the expected width, used here as in its tractable successors, makes it linear. The bonus is what the proof
    needs: on the mixture of the optimum with the safe action that just meets the pessimistic constraint, (2 C_w/ξ) β'_π equals the
    weight of the safe action, so the value of the program is at least the optimum.
    Choices: B = 1 bounds the mean reward; p is shared equally by the reward and the K costs; indices are not clipped. Where the
    program has no solution, which has probability at most p, the safe action is played.

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
        Of the draws from the mixture.

    Examples
    --------
    >>> from tightrope import Ridge
    >>> policy = OPLB(Ridge(2), cost=Ridge(2), safe_action=0, safe_cost=-0.5)
    >>> decision = policy.decide([[1.0, 0.0], [0.0, 1.0]])
    >>> policy.learn(decision, 0.2, [-0.5])
    >>> decision.action, policy.mixture([[1.0, 0.0], [0.0, 1.0]]).tolist()
    (0, [1.0, 0.0])
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
        self._program: MixtureProgram | None = None

    @property
    def reward_model(self) -> Linear:
        """A copy of the model of the reward."""
        return self._reward.copy()

    @property
    def cost_model(self) -> Linear:
        """A copy of the model of the costs."""
        return self._cost.copy()

    def mixture(self, features: Any, costs: Any = None, *, actions: Any = None) -> Array:
        """The probabilities π (J,), by row, that `decide` would draw from."""
        return self._mixture(*offered_both(features, costs, actions, self._reward, self._cost))

    def decide(self, features: Any, costs: Any = None, *, actions: Any = None) -> Decision:
        """Draw an action from the mixture.

        `features` are φ (J, d), or (p,) for a `DisjointRidge`; `costs` are the features ψ of the costs, by default the same.
        """
        phi, psi = offered_both(features, costs, actions, self._reward, self._cost)
        pi = self._mixture(phi, psi)
        u = kernels.own_uniform(self.seed, self._ledger.made)
        row = int(kernels.pick(mixture_cdf(pi[None])[0], u))
        kept = SeenBoth(phi.seen(row), psi.seen(row))
        return self._ledger.add(int(phi.ids[row]), row, kept, probability=float(pi[row]))

    def learn(self, decision: Decision | int, reward: Any, costs: Any) -> None:
        """Take in reward and K costs of a decision."""
        learn_both(self._ledger, decision, reward, costs, self._reward, self._cost)

    def copy(self, seed: int | None = None) -> OPLB:
        """An independent policy in the same state."""
        twin = OPLB(
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
            *action_misfits(env, "the safe action", self.safe_action),
            *mean_cost_misfits(env, self.safe_action, self.safe_cost),
        ]

    def __repr__(self) -> str:
        return (
            f"OPLB({self._reward!r}, cost={self._cost!r}, safe_action={self.safe_action}, "
            f"safe_cost={self.safe_cost:g}, n_constraints={self.n_constraints}, failure={self.failure:g})"
        )

    def _mixture(self, phi: Offer, psi: Offer) -> Array:
        safe = phi.row_of("safe_action", self.safe_action)
        xi = -self.safe_cost
        quantities = (1 + self.n_constraints) / self.failure
        C_r, C_w = self._reward.radius(quantities), self._cost.radius(quantities)
        w, cost_widths = estimates(self._cost, psi)
        pi = np.zeros(len(phi.ids))
        if C_w * cost_widths[safe] > xi / 2.0:
            pi[safe] = 1.0
            return pi
        r, widths = estimates(self._reward, phi)
        optimistic = r[:, 0] + C_r * widths + (2.0 * REWARD_BOUND / xi) * C_w * cost_widths
        if self._program is None and self.n_constraints > 1:
            from tightrope.lp import MixtureProgram

            self._program = MixtureProgram()
        best = best_mixture(optimistic, w + C_w * cost_widths[:, None], self._program)
        if best is None:
            pi[safe] = 1.0
            return pi
        return best


def safe_margin(safe_cost: Any) -> float:
    """An upper bound on the mean costs of a safe action, in [−1, 0)."""
    bound = finite_number("safe_cost", safe_cost)
    if not -1.0 <= bound < 0.0:
        raise InvalidInput(
            f"safe_cost must lie in [-1, 0), for the safe action's mean costs are strictly below 0, but got {safe_cost!r}."
        )
    return bound


def best_mixture(u: Array, W: Array, program: MixtureProgram | None = None) -> Array | None:
    """The π that maximises Σ_j π_j u_j subject to Σ_j π_j W_jk ≤ 0 for all k, or None where there is none.

    One constraint has a closed form; several are a linear program, which `program` solves from where it was.

    >>> best_mixture(np.array([0.1, 0.7]), np.array([[-0.1], [0.3]])).tolist()
    [0.75, 0.25]
    """
    if program is not None:
        return program.solve(u, W)
    w = W[:, 0]
    inside, outside = np.flatnonzero(w <= 0.0), np.flatnonzero(w > 0.0)
    if not len(inside):
        return None
    pi = np.zeros(len(u))
    single = inside[kernels.first_of_the_best(u[inside])]
    if len(outside):
        weight = -w[inside, None] / (w[outside] - w[inside, None])
        values = (1.0 - weight) * u[inside, None] + weight * u[outside]
        best = int(kernels.first_of_the_best(values.reshape(-1)))
        i, j = divmod(best, len(outside))
        if values[i, j] > u[single] + kernels.TIE:
            pi[inside[i]], pi[outside[j]] = 1.0 - weight[i, j], weight[i, j]
            return pi
    pi[single] = 1.0
    return pi
