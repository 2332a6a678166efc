"""LinTS, Thompson sampling for linear rewards (Agrawal, Goyal, ICML 2013)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope import kernels
from tightrope.models import DisjointRidge
from tightrope.policies.decision import Decision
from tightrope.policies.ledger import Ledger
from tightrope.policies.linear import (
    Linear,
    Offer,
    Seen,
    failure_probability,
    feature_misfits,
    linear_model,
    offered,
    teach,
)
from tightrope.policies.registry import register
from tightrope.validation import Array, finite_number, whole_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular


@register("lints")
class LinTS:
    """Thompson sampling for linear rewards: no constraints.

    Setting: rewards linear in the features, noise 1-sub-Gaussian, ‖θ*‖ ≤ 1, ‖φ‖ ≤ 1; costs are neither seen nor learnt.
    Steps, in round t: draw θ̃ ~ N(θ̂, v_t² Σ⁻¹), v_t = sqrt(9 d log(t / p)); play argmax_j ⟨θ̃, φ_j⟩.
    Guarantee: with probability 1 − p, regret of order d^{3/2} √T up to logarithms, against any sequence of features.
    Source: Agrawal, Goyal, *Thompson sampling for contextual bandits with linear payoffs* (ICML 2013), v_t as in its revised
    version.
    Choices: the sub-Gaussian constant R is 1, as in the rest of the package; the model's `bonus` multiplies v_t. The draw uses the
    Cholesky factor of Σ, which gives the same law as Σ^{-1/2}. `decision.probability` is nan, for it has no closed form.

    Parameters
    ----------
    reward : Ridge or DisjointRidge
    failure : float
        p in (0, 1).
    seed : int
        Of the draws.

    Examples
    --------
    >>> from tightrope import Ridge
    >>> policy = LinTS(Ridge(2), seed=3)
    >>> decision = policy.decide([[1.0, 0.0], [0.0, 1.0]])
    >>> policy.learn(decision, 1.0)
    """

    kind: str
    n_constraints = 0

    def __init__(self, reward: Linear, *, failure: float = 0.01, seed: int = 0) -> None:
        self._reward = linear_model("reward", reward, 1)
        self.failure = failure_probability(failure)
        self.seed = whole_number("seed", seed)
        self._ledger = Ledger[Seen]()

    @property
    def reward_model(self) -> Linear:
        """A copy of the model of the reward."""
        return self._reward.copy()

    def decide(self, features: Any, costs: Any = None, *, actions: Any = None) -> Decision:
        """The best by a sampled θ̃; costs are not looked at."""
        offer = offered("features", features, actions, self._reward)
        number = self._ledger.made
        v = self._reward.bonus * math.sqrt(
            9.0 * self._reward.dimension * math.log((number + 1) / self.failure)
        )
        values = sampled_values(self._reward, offer, v, self.seed, number)
        row = int(kernels.first_of_the_best(values))
        return self._ledger.add(int(offer.ids[row]), row, offer.seen(row), probability=math.nan)

    def learn(self, decision: Decision | int, reward: Any, costs: Any = None) -> None:
        """Take in the reward of a decision; costs are not looked at."""
        number = self._ledger.find(decision)
        y = finite_number("reward", reward)
        teach(self._reward, self._ledger.take(number), y)

    def copy(self, seed: int | None = None) -> LinTS:
        """An independent policy in the same state."""
        twin = LinTS(self._reward, failure=self.failure, seed=self.seed if seed is None else seed)
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        return feature_misfits(env, "reward", self._reward)

    def __repr__(self) -> str:
        return f"LinTS({self._reward!r}, failure={self.failure:g})"


def sampled_values(model: Linear, offer: Offer, scale: float, seed: int, number: int) -> Array:
    """⟨θ̃, φ_j⟩ by row for one θ̃ ~ N(θ̂, scale² Σ⁻¹), a function of the seed and the decision's number.

    >>> from tightrope import Ridge
    >>> model = Ridge(1)
    >>> offer = Offer(np.arange(1), np.ones((1, 1)))
    >>> float(np.std([sampled_values(model, offer, 2.0, 0, i)[0] for i in range(4000)]).round(1))
    2.0
    """
    p = model.n_features
    if not isinstance(model, DisjointRidge):
        sampled: Array = offer.rows @ _sampled_theta(model, 0, p, scale, seed, number)
        return sampled
    return np.array(
        [row @ _sampled_theta(model, int(g), p, scale, seed, number) for g, row in zip(offer.ids, offer.rows)]
    )


def _sampled_theta(model: Linear, block: int, p: int, scale: float, seed: int, number: int) -> Array:
    # One slot of the policy's own stream for each coordinate. Σ = LLᵀ, so L⁻ᵀz has covariance Σ⁻¹.
    z = np.array([kernels.normal(seed, 0, number, block * p + i) for i in range(p)])
    L = np.linalg.cholesky(model.Sigma[block])
    theta: Array = model.Theta[block, 0] + scale * np.linalg.solve(L.T, z)
    return theta
