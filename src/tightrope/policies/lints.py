"""LinTS, Thompson sampling for linear rewards (Agrawal, Goyal, ICML 2013)."""

from __future__ import annotations

import math

import numpy as np

from tightrope import kernels
from tightrope.models import Model, hooks
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row, copy_of_model, estimates, failure_probability
from tightrope.policies.comparator import Comparator
from tightrope.policies.registry import register
from tightrope.validation import Array, whole_number


@register("lints")
class LinTS(Comparator):
    """Thompson sampling for linear rewards: no constraints.

    Setting: rewards linear in the features, noise 1-sub-Gaussian, ‖θ*‖ ≤ 1, ‖φ‖ ≤ 1; costs are neither seen nor learnt.
    Steps, in round t: draw θ̃ ~ N(θ̂, v_t² Σ⁻¹), v_t = sqrt(9 d log(t / p)); play argmax_j ⟨θ̃, φ_j⟩.
    Guarantee: with probability 1 − p, regret of order d^{3/2} √T up to logarithms, against any sequence of features.
    Source: Agrawal, Goyal, *Thompson sampling for contextual bandits with linear payoffs* (ICML 2013), v_t as in its revised
    version.
    Choices: the sub-Gaussian constant R is 1, as in the rest of the package; the model's `bonus` multiplies v_t. A model
    without a Σ is sampled action by action. The draw uses the Cholesky factor of Σ, which gives the same law as Σ^{-1/2}.
    `decision.probability` is nan, for it has no closed form.

    Parameters
    ----------
    reward : Model
    failure : float
        p in (0, 1).
    seed : int
        Seed of the draws.

    Examples
    --------
    >>> from tightrope import Ridge
    >>> policy = LinTS(Ridge(2), seed=3)
    >>> decision = policy.decide([[1.0, 0.0], [0.0, 1.0]])
    >>> policy.learn(decision, 1.0)
    """

    _shown = ("reward", "failure")

    def __init__(self, reward: Model, *, failure: float = 0.01, seed: int = 0) -> None:
        self._reward: Model = copy_of_model("reward", reward)
        self.failure = failure_probability(failure)
        self.seed = whole_number("seed", seed)

    def _choose(self, offer: Offer) -> Choice:
        t, bonus = self._pending.made + 1, float(getattr(self._reward, "bonus", 1.0))
        v = bonus * math.sqrt(9.0 * hooks.dimension(self._reward) * math.log(t / self.failure))
        values = sampled_values(self._reward, offer, v, self.seed, self._pending.made)
        means = estimates(self._reward, offer.phi, offer.ids)[0][:, 0]
        return Choice(best_row(values), means, values, np.full(len(values), math.nan))


def sampled_values(model: Model, offer: Offer, scale: float, seed: int, number: int) -> Array:
    """⟨θ̃, φ_j⟩ by row for one θ̃ ~ N(θ̂, scale² Σ⁻¹), a function of the policy's seed and the decision's number.

    >>> from tightrope import Ridge
    >>> offer = Offer(np.arange(1), np.ones((1, 1)))
    >>> float(np.std([sampled_values(Ridge(1), offer, 2.0, 0, i)[0] for i in range(4000)]).round(1))
    2.0
    """

    def normals(n: int, slot: int) -> Array:
        return np.array([kernels.normal(seed, 0, number, slot + i) for i in range(n)])

    values = np.asarray(hooks.sampled(model, offer.phi, offer.ids, scale, normals), dtype=float)
    return np.where(np.isnan(values), np.inf, values)
