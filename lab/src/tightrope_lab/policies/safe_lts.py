"""Safe-LTS, linear Thompson sampling among the actions shown to be safe (Moradipari, Amani, Alizadeh, Thrampoulidis 2019, 2021)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tightrope.models import Model
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row, estimates
from tightrope.policies.lints import sampled_values
from tightrope.policies.registry import register
from tightrope.problem import Setting, mean_costs_at_most
from tightrope_lab.policies.safe_action import REWARD_BOUND, OneSafeAction, known_safe


@register("safe-lts")
class SafeLTS(OneSafeAction):
    """Thompson sampling with linear rewards and costs; *every action* played has mean cost ≤ 0.

    Setting: as `SafeLUCB`, and one of the safe actions has a margin: always on offer, every mean cost ≤ −ξ < 0.
    Steps: draw θ̃ = θ̂ + k √β Σ^{-1/2} η, η ~ N(0, I), k = 1 + 2B/ξ; play argmax ⟨θ̃, φ_j⟩ among
    D_t = known safe actions ∪ {j : ⟨μ̂_k, ψ_j⟩ + √β ‖ψ_j‖_{Σ_w⁻¹} ≤ 0 for all k}. No exploration phase: the randomness does it.
    Guarantee: with probability 1 − p no action with a mean cost above 0 is ever played. Regret, over a convex set of actions
    that holds the safe one, of order d^{3/2} √T up to logarithms.
    Source: *Safe linear Thompson sampling with side information* (2019; IEEE Transactions on Signal Processing 2021).
    Choices: there the safe action is the origin, with margin ξ = C, and k = 1 + 2 L S / C, L S a bound on |mean reward|; here that
    bound is B = 1. p is shared equally by the reward and the K costs. Safety needs nothing of the set of actions; the
    regret bound needs a convex one, in which small steps from the origin are safe in every direction: here the known safe
    actions must span all features, see `SafeLUCB`. `decision.probability` is nan, for it has no closed form.

    Parameters
    ----------
    reward, cost, safe_action, safe_cost, n_constraints, failure, seed
        As in `OPLB`.
    safe_actions : sequence of int
        Further actions known to be safe: mean costs ≤ 0.

    Examples
    --------
    >>> from tightrope import Ridge
    >>> policy = SafeLTS(Ridge(2), cost=Ridge(2), safe_action=1, safe_cost=-0.5)
    >>> policy.decide([[1.0, 0.0], [0.0, 1.0]]).action
    1
    """

    def __init__(
        self,
        reward: Model,
        *,
        cost: Model,
        safe_action: int,
        safe_cost: float,
        safe_actions: Sequence[int] = (),
        n_constraints: int = 1,
        failure: float = 0.01,
        seed: int = 0,
    ) -> None:
        OneSafeAction.__init__(
            self, reward, cost=cost, safe_action=safe_action, safe_cost=safe_cost, n_constraints=n_constraints, failure=failure,
            seed=seed,
        )  # fmt: skip
        self.safe_actions = known_safe(safe_actions)

    def _choose(self, offer: Offer) -> Choice:
        offer.row_of("safe_action", self.safe_action)
        shown = self._rows_shown_safe(offer, self.safe_action, *self.safe_actions)
        scale = (1.0 + 2.0 * REWARD_BOUND / -self.safe_cost) * self._confidence_radius(self._reward)
        sampled = sampled_values(self._reward, offer, scale, self.seed, self._pending.made)
        values = np.where(shown, sampled, -np.inf)
        means = estimates(self._reward, offer.phi, offer.ids)[0][:, 0]
        alone = None if shown.sum() == 1 else np.where(shown, math.nan, 0.0)
        return Choice(best_row(values), means, values, alone)

    def _setting(self) -> Setting:
        return self._asks(
            shared_costs=True,
            spanned_by=(self.safe_action, *self.safe_actions),
            counts_on=(("the safe action", self.safe_action),),
            told=(
                mean_costs_at_most(self.safe_action, self.safe_cost),
                *(mean_costs_at_most(action, 0.0) for action in self.safe_actions),
            ),
        )
