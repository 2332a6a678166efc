"""OPLB, the optimistic-pessimistic linear bandit (Pacchiano, Ghavamzadeh, Bartlett, Jiang, AISTATS 2021), in a tractable form."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row, estimates, one_hot
from tightrope.policies.oracle import mixture_cdf
from tightrope.policies.registry import register
from tightrope.policies.state_file import Arrays
from tightrope.validation import Array
from tightrope_lab.policies.safe_action import REWARD_BOUND, OneSafeAction

if TYPE_CHECKING:
    from tightrope.lp import MixtureProgram


@register("oplb")
class OPLB(OneSafeAction):
    """Linear rewards and costs; the *mixture* of actions played in a round has expected cost ≤ 0, in every round.

    Setting: mean reward in [0, 1] and K mean costs linear in features, costs seen after acting, ‖θ*‖ and ‖μ*_k‖ within the models'
    `m`, noise 1-sub-Gaussian (costs in [−1, 1] are). One action is known to be safe: always on offer, every mean cost ≤ −ξ < 0.
    Steps, with radii C_r and C_w (√β) and widths β_j = ‖φ_j‖_{Σ⁻¹}, β'_j = ‖ψ_j‖_{Σ_w⁻¹}: draw from the π that maximises
    Σ_j π_j (⟨θ̂, φ_j⟩ + C_r β_j + (2B/ξ) C_w β'_j) subject to Σ_j π_j w̃_jk ≤ 0 for all k, where w̃_jk = ⟨μ̂_k, ψ_j⟩ + C_w β'_j. Of
    the safe action β' is 0 and w̃ = −ξ, or the estimate where that is lower: its cost is known, so it is left in the first round.

    For one set of features the bonus is C_u (1 + 2B/ξ) β_π. For K = 1 a mixture of at most two actions solves the program, in
    closed form; for K > 1 it is an LP.
    Guarantee: with probability 1 − p every round's mixture has expected costs ≤ 0; regret of order d √T / ξ up to logarithms.
    Source: *Stochastic bandits with linear constraints* (AISTATS 2021), the form with a known cost of the safe action. Its own
    program maximises a convex function of π (the width of the mean feature); the expected width, used here as in its tractable
    successors, makes it linear. The bonus is what the proof needs: on the mixture of the optimum with the safe action that just
    meets the pessimistic constraint, (2 C_w/ξ) β'_π equals the weight of the safe action, so the value of the program is at least
    the optimum.
    Choices: what is known of the safe action is its cost; the paper also takes its feature's direction out of the regression,
    which needs a safe action with the same features in all contexts. B = 1 bounds the mean reward; p is shared equally by the
    reward and the K costs; indices are not clipped.

    Parameters
    ----------
    reward, cost : Model
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
    >>> decision.action, policy.propose([[1.0, 0.0], [0.0, 1.0]]).probabilities.round(1).tolist()
    (0, [0.9, 0.1])
    """

    _randomised: ClassVar[bool] = True

    @cached_property
    def _program(self) -> MixtureProgram | None:
        if self._n_constraints == 1:
            return None
        from tightrope.lp import MixtureProgram  # the LP solver takes long to import

        return MixtureProgram()

    @cached_property
    def _basis(self) -> NDArray[np.int8]:
        return np.empty(0, dtype=np.int8)

    def _choose(self, offer: Offer) -> Choice:
        safe = offer.row_of("safe_action", self.safe_action)
        xi, C_r, C_w = (
            -self.safe_cost,
            self._confidence_radius(self._reward),
            self._confidence_radius(self._cost),
        )
        w, cost_widths = estimates(self._cost, offer.psi, offer.ids)
        r, widths = estimates(self._reward, offer.phi, offer.ids)
        pessimistic, widest = w + C_w * cost_widths, cost_widths.max(axis=1)
        pessimistic[safe], widest[safe] = np.minimum(pessimistic[safe], self.safe_cost), 0.0
        optimistic = r[:, 0] + C_r * widths[:, 0] + (2.0 * REWARD_BOUND / xi) * C_w * widest
        if self._program is not None:
            self._program.basis = self._basis
        pi = best_mixture(optimistic, pessimistic, self._program)
        if pi is None:  # only where the solver fails: the safe action alone meets the program
            pi = one_hot(safe, len(offer.ids))
        row = int(kernels.pick(mixture_cdf(pi[None])[0], self._uniform()))
        basis = self._basis if self._program is None else self._program.basis
        return Choice(row, r[:, 0], optimistic, pi, basis)

    def _chosen(self, offer: Offer, choice: Choice) -> None:
        self._basis = choice.note  # the next program starts where this one ended

    def _state(self) -> Arrays:
        return {**super()._state(), "basis": self._basis}

    def _load(self, arrays: Arrays) -> None:
        self._basis = np.array(arrays["basis"], dtype=np.int8)
        super()._load(arrays)


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
    single = inside[best_row(u[inside])]
    if len(outside):
        weight = -w[inside, None] / (w[outside] - w[inside, None])
        values = (1.0 - weight) * u[inside, None] + weight * u[outside]
        best = best_row(values.reshape(-1))
        i, j = divmod(best, len(outside))
        if kernels.tied_with(values[i, j]) > u[single]:
            pi[inside[i]], pi[outside[j]] = 1.0 - weight[i, j], weight[i, j]
            return pi
    pi[single] = 1.0
    return pi
