"""LinCBwK, linear contextual bandits with knapsacks (Agrawal, Devanur, NeurIPS 2016)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tightrope import kernels
from tightrope.policies.budget import Account
from tightrope.policies.decision import Decision
from tightrope.policies.ledger import Ledger
from tightrope.policies.linear import (
    Linear,
    Seen,
    cost_misfits,
    estimates,
    failure_probability,
    feature_misfits,
    linear_model,
    offered_both,
    teach,
)
from tightrope.policies.registry import register
from tightrope.validation import Array, finite_number, whole_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular


class _Kept(NamedTuple):
    reward: Seen
    usage: Seen | None


@register("lincbwk")
class LinCBwK:
    """Linear rewards and resource usage: maximise reward until a budget is spent, and never spend more.

    Setting: mean reward in [0, 1] and usage of K resources in [0, 1], both linear in features, seen after acting; budget
    B_k = limit_k · T; an action known to use nothing (the no-op), always on offer. In Tightrope's terms a cost is usage − limit_k.
    Steps: usage v is scaled to one budget B = b T, b = min_k limit_k. Play
    argmax_j  ⟨θ̂, φ_j⟩ + √β ‖φ_j‖_{Σ⁻¹} − Z Σ_k λ_k (⟨ŵ_k, ψ_j⟩ − √β ‖ψ_j‖_{Σ_w⁻¹}); the λ come from multiplicative weights on
    g = v − b: u_k ← u_k (1 + ε)^{g_k} for g_k > 0, u_k (1 − ε)^{−g_k} otherwise, λ_k = u_k / (1 + Σu), ε = sqrt(log(K + 1) / T).
    Guarantee: no budget is ever overspent, with certainty. With probability 1 − p regret of order (OPT/B + 1) d √T up to
    logarithms, for OPT/B ≤ Z ≤ O(OPT/B + 1).
    Source: *Linear contextual bandits with knapsacks* (NeurIPS 2016).
    Choices: Z = 1/b = T/B by default, which is at least OPT/B because no round earns more than 1, and loose only where OPT is much
    smaller than T; the paper estimates OPT in opening rounds, which needs B of order T^{3/4} and pays only in that case.
    p is shared equally by the reward and the K resources; indices are not clipped. The model of the costs learns usage, not usage −
    limit: the paper's linear model has no constant term. There a run ends when a budget is spent; here the no-op is played
    from the moment on when one more action *could* exceed one (outcomes still to come count as 1), and after round T. The
    no-op's usage is taken as 0; its reward is learnt, so a no-op with φ = 0 is worth exactly 0, as there.

    Parameters
    ----------
    reward, cost : Ridge or DisjointRidge
        Models of the reward and of the usage; the policy works on copies.
    limits : float or (K,) array
        What may be used a round on average, in (0, 1].
    horizon : int
        T.
    noop : int
        The action that uses nothing.
    Z : float, optional
        What a unit of scaled budget is worth at most; 1/b by default.
    failure : float
        p in (0, 1).

    Examples
    --------
    >>> from tightrope import Ridge
    >>> policy = LinCBwK(Ridge(2), cost=Ridge(2), limits=0.5, horizon=2)
    >>> for _ in range(2):
    ...     decision = policy.decide([[0.0, 0.0], [1.0, 0.0]])
    ...     policy.learn(decision, 1.0 * decision.action, [decision.action - 0.5])
    >>> decision.action, policy.spent.tolist()
    (0, [1.0])
    """

    kind: str

    def __init__(
        self,
        reward: Linear,
        *,
        cost: Linear,
        limits: Any,
        horizon: int,
        noop: int = 0,
        Z: float | None = None,
        failure: float = 0.01,
    ) -> None:
        self._account = Account(limits, horizon)
        self.n_constraints = len(self._account.limits)
        self.noop = whole_number("noop", noop)
        self.Z = 1.0 / self._account.rate if Z is None else finite_number("Z", Z, low=0.0, open_low=True)
        self.failure = failure_probability(failure)
        self._reward = linear_model("reward", reward, 1)
        self._cost = linear_model("cost", cost, self.n_constraints)
        self._step = min(0.5, math.sqrt(math.log(self.n_constraints + 1) / self._account.horizon))
        self._log_u = np.zeros(self.n_constraints)
        self._ledger = Ledger[_Kept]()

    @property
    def budget(self) -> Array:
        """B by resource, (K,)."""
        return self._account.budget

    @property
    def spent(self) -> Array:
        """Usage so far by resource, (K,), of the outcomes that are known."""
        return self._account.spent.copy()

    @property
    def prices(self) -> Array:
        """λ by resource, (K,): at least 0, with a sum below 1."""
        top = max(0.0, float(self._log_u.max()))
        u = np.exp(self._log_u - top)
        prices: Array = u / (math.exp(-top) + u.sum())
        return prices

    @property
    def reward_model(self) -> Linear:
        """A copy of the model of the reward."""
        return self._reward.copy()

    @property
    def cost_model(self) -> Linear:
        """A copy of the model of the scaled usage."""
        return self._cost.copy()

    def decide(self, features: Any, costs: Any = None, *, actions: Any = None) -> Decision:
        """The best by optimistic reward less the price of the optimistic usage, or the no-op.

        `features` are φ (J, d), or (p,) for a `DisjointRidge`; `costs` are the features ψ of the usage, by default the same.
        """
        phi, psi = offered_both(features, costs, actions, self._reward, self._cost)
        noop = phi.row_of("noop", self.noop)
        row = noop
        if self._ledger.made < self._account.horizon and self._account.affords():
            quantities = (1 + self.n_constraints) / self.failure
            r, widths = estimates(self._reward, phi)
            v, usage_widths = estimates(self._cost, psi)
            usage = v - self._cost.radius(quantities) * usage_widths[:, None]
            usage[noop] = 0.0
            values = r[:, 0] + self._reward.radius(quantities) * widths - self.Z * (usage @ self.prices)
            row = int(kernels.first_of_the_best(values))
        if row != noop:
            self._account.reserve()
        kept = _Kept(phi.seen(row), None if row == noop else psi.seen(row))
        return self._ledger.add(int(phi.ids[row]), row, kept)

    def learn(self, decision: Decision | int, reward: Any, costs: Any) -> None:
        """Take in reward and K costs of a decision."""
        number = self._ledger.find(decision)
        r = finite_number("reward", reward)
        usage = self._account.usage(costs)
        kept = self._ledger.take(number)
        teach(self._reward, kept.reward, r)
        v = self._account.scaled(usage)
        if kept.usage is not None:
            self._account.settle(usage)
            teach(self._cost, kept.usage, v)
        g = v - self._account.rate
        self._log_u += np.where(g > 0.0, g * math.log1p(self._step), -g * math.log1p(-self._step))

    def copy(self, seed: int | None = None) -> LinCBwK:
        """An independent policy in the same state."""
        twin = LinCBwK(
            self._reward,
            cost=self._cost,
            limits=self._account.limits,
            horizon=self._account.horizon,
            noop=self.noop,
            Z=self.Z,
            failure=self.failure,
        )
        twin._account = self._account.copy()
        twin._log_u[...] = self._log_u
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        return [
            *cost_misfits(env, self.n_constraints),
            *feature_misfits(env, "reward", self._reward),
            *feature_misfits(env, "cost", self._cost),
            *self._account.misfits(env, self.noop),
        ]

    def __repr__(self) -> str:
        limits = ", ".join(f"{limit:g}" for limit in self._account.limits)
        return (
            f"LinCBwK({self._reward!r}, cost={self._cost!r}, limits=[{limits}], "
            f"horizon={self._account.horizon}, noop={self.noop}, Z={self.Z:g})"
        )
