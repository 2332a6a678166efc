"""Safe-LUCB, linear UCB that never leaves the actions shown to be safe (Amani, Alizadeh, Thrampoulidis, NeurIPS 2019)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.models import Model
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row, estimates
from tightrope.policies.registry import register
from tightrope.problem import Setting, mean_costs_at_most
from tightrope.validation import whole_number
from tightrope_lab.policies.safe_action import SafePolicy, known_safe


@register("safe-lucb")
class SafeLUCB(SafePolicy):
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
    regret bounds need a convex one, and known safe actions in every direction (their λ₋ > 0): among finitely many, D_t grows only
    as far as the features of the known safe ones reach. Where these do not span all features, or where a model has parameters for
    each action alone, it is outside its setting.

    Parameters
    ----------
    reward, cost : Model
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

    _randomised: ClassVar[bool] = True
    _shown = ("reward", "cost", "safe_actions", "exploration", "n_constraints", "failure")

    def __init__(
        self,
        reward: Model,
        *,
        cost: Model,
        safe_actions: Sequence[int],
        horizon: int | None = None,
        exploration: int | None = None,
        n_constraints: int = 1,
        failure: float = 0.01,
        seed: int = 0,
    ) -> None:
        SafePolicy.__init__(self, reward, cost, n_constraints, failure, seed)
        self.safe_actions = known_safe(safe_actions)
        if not self.safe_actions:
            raise InvalidInput(field="safe_actions", must="name at least one action, but it is empty")
        self.exploration = _exploration(horizon, exploration)
        self.horizon = None

    def _choose(self, offer: Offer) -> Choice:
        known = np.isin(offer.ids, self.safe_actions)
        if not known.any():
            raise InvalidInput(
                f"one of the safe actions {list(self.safe_actions)} must be on offer in every round, "
                f"but only {offer.ids.tolist()} are."
            )
        r, widths = estimates(self._reward, offer.phi, offer.ids)
        optimistic = r[:, 0] + self._confidence_radius(self._reward) * widths[:, 0]
        if self._pending.made < self.exploration:
            rows = np.flatnonzero(known)
            row = int(rows[0] if len(rows) == 1 else kernels.uniform_choice(rows, self._uniform()))
            return Choice(row, r[:, 0], np.where(known, optimistic, -np.inf), known / len(rows))
        values = np.where(self._rows_shown_safe(offer, *self.safe_actions), optimistic, -np.inf)
        return Choice(best_row(values), r[:, 0], values)

    def _setting(self) -> Setting:
        return self._asks(
            shared_costs=True,
            spanned_by=self.safe_actions,
            any_of=self.safe_actions,
            told=tuple(mean_costs_at_most(action, 0.0) for action in self.safe_actions),
        )


def _exploration(horizon: Any, exploration: Any) -> int:
    if exploration is not None:
        return whole_number("exploration", exploration)
    if horizon is None:
        raise InvalidInput("Give a horizon, which sets the length of the exploration, or exploration itself.")
    return math.ceil(math.pow(whole_number("horizon", horizon, low=1), 2.0 / 3.0) - 1e-9)
