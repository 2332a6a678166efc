"""CLUCB, linear UCB that stays above a share of a baseline (Kazerouni, Ghavamzadeh, Abbasi-Yadkori, Van Roy, NeurIPS 2017)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.models import DisjointRidge, ridge_widths
from tightrope.policies.decision import Decision
from tightrope.policies.ledger import Ledger
from tightrope.policies.linear import (
    Linear,
    Seen,
    action_misfits,
    estimates,
    failure_probability,
    feature_misfits,
    linear_model,
    offered,
    teach,
)
from tightrope.policies.registry import register
from tightrope.validation import Array, finite_number, real_array, require_range, whole_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular


@register("clucb")
class CLUCB:
    """Learn while the cumulative mean reward never falls below (1 − α) of a baseline's.

    Setting: rewards linear in the features, noise 1-sub-Gaussian, ‖θ*‖ within the model's `m`; a baseline action, always on offer,
    whose mean reward r_b is known (in each context). Costs are neither seen nor learnt: the reward itself is what is guarded.
    Steps, in round t: a' = argmax_j ⟨θ̂, φ_j⟩ + √β ‖φ_j‖_{Σ⁻¹}; with z the sum of the features of all optimistic choices so far
    and of a', play a' if

        ⟨θ̂, z⟩ − √β ‖z‖_{Σ⁻¹} + Σ_{conservative rounds} r_b  ≥  (1 − α) Σ_{all rounds, this one too} r_b,

    and the baseline otherwise. Only optimistic rounds teach the model.
    Guarantee: with probability 1 − p, in every round Σ mean reward ≥ (1 − α) Σ r_b; regret of order d √T up to logarithms, plus a
    constant of order 1/(α r_b) for being conservative.
    Source: *Conservative contextual linear bandits* (NeurIPS 2017), the form with a known baseline reward.
    Choices: the index is not clipped. A baseline reward that depends on the context is given as an array; the policy is then told
    the number of the context (`sees_context`).

    Parameters
    ----------
    reward : Ridge or DisjointRidge
        The policy works on a copy.
    baseline : int
        The baseline action.
    baseline_reward : float or (C,) array
        Its mean reward, in [0, 1]; one number, or one for each context.
    alpha : float
        α in (0, 1]: the share of the baseline's reward that may be risked.
    failure : float
        p in (0, 1).

    Examples
    --------
    >>> from tightrope import Ridge
    >>> policy = CLUCB(Ridge(2), baseline=0, baseline_reward=0.5, alpha=0.1)
    >>> [policy.decide([[1.0, 0.0], [0.0, 1.0]]).action for _ in range(3)]
    [0, 0, 0]
    """

    kind: str
    n_constraints = 0

    def __init__(
        self,
        reward: Linear,
        *,
        baseline: int,
        baseline_reward: Any,
        alpha: float,
        failure: float = 0.01,
    ) -> None:
        self._reward = linear_model("reward", reward, 1)
        self.baseline = whole_number("baseline", baseline)
        self.baseline_reward = real_array("baseline_reward", baseline_reward, (), (None,)).copy()
        require_range("baseline_reward", self.baseline_reward, 0.0, 1.0)
        self.alpha = finite_number("alpha", alpha, low=0.0, high=1.0, open_low=True)
        self.failure = failure_probability(failure)
        blocks = self._reward.n_actions if isinstance(self._reward, DisjointRidge) else 1
        self._z = np.zeros((blocks, self._reward.n_features))
        self._conservative = 0.0
        self._owed = 0.0
        self._ledger = Ledger[Seen | None]()

    @property
    def sees_context(self) -> bool:
        """Whether `decide` is told the number of the context: where the baseline's reward depends on it."""
        return self.baseline_reward.ndim == 1

    @property
    def reward_model(self) -> Linear:
        """A copy of the model of the reward."""
        return self._reward.copy()

    def decide(
        self, features: Any, costs: Any = None, *, actions: Any = None, context: int | None = None
    ) -> Decision:
        """The optimistic action if the guarantee would bear the worst of it, else the baseline; costs are not looked at."""
        offer = offered("features", features, actions, self._reward)
        fallback = offer.row_of("baseline", self.baseline)
        r_b = self._reward_of_baseline(context)
        root_beta = self._reward.radius(1.0 / self.failure)
        means, widths = estimates(self._reward, offer)
        row = int(kernels.first_of_the_best(means[:, 0] + root_beta * widths))
        block = int(offer.ids[row]) if isinstance(self._reward, DisjointRidge) else 0
        z = self._z.copy()
        z[block] += offer.rows[row]
        owed = self._owed + r_b
        optimistic = self._least(z, root_beta) + self._conservative >= (1.0 - self.alpha) * owed
        self._owed = owed
        if optimistic:
            self._z = z
        else:
            row = fallback
            self._conservative += r_b
        return self._ledger.add(int(offer.ids[row]), row, offer.seen(row) if optimistic else None)

    def learn(self, decision: Decision | int, reward: Any, costs: Any = None) -> None:
        """Take in the reward of a decision; a conservative round teaches nothing, and costs are not looked at."""
        number = self._ledger.find(decision)
        y = finite_number("reward", reward)
        seen = self._ledger.take(number)
        if seen is not None:
            teach(self._reward, seen, y)

    def copy(self, seed: int | None = None) -> CLUCB:
        """An independent policy in the same state."""
        twin = CLUCB(
            self._reward,
            baseline=self.baseline,
            baseline_reward=self.baseline_reward,
            alpha=self.alpha,
            failure=self.failure,
        )
        twin._z[...] = self._z
        twin._conservative, twin._owed = self._conservative, self._owed
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        reasons = [
            *feature_misfits(env, "reward", self._reward),
            *action_misfits(env, "the baseline", self.baseline),
        ]
        if self.sees_context and len(self.baseline_reward) != env.n_contexts:
            reasons.append(
                f"it has {env.n_contexts} contexts, but baseline_reward has {len(self.baseline_reward)} entries"
            )
        elif self.baseline < env.n_actions:
            met = env.weights > 0
            truth, told = (
                env.rewards[met, self.baseline],
                np.broadcast_to(self.baseline_reward, env.n_contexts)[met],
            )
            if np.abs(truth - told).max() > 1e-9:
                c = int(np.argmax(np.abs(truth - told)))
                reasons.append(
                    f"the baseline's mean reward is {truth[c]:.4g} in some context, but {told[c]:.4g} was given"
                )
        return reasons

    def __repr__(self) -> str:
        return f"CLUCB({self._reward!r}, baseline={self.baseline}, alpha={self.alpha:g}, failure={self.failure:g})"

    def _least(self, z: Array, root_beta: float) -> float:
        """min over the confidence set of ⟨θ, z⟩."""
        squares = float((ridge_widths(self._reward, z, np.arange(len(z))) ** 2).sum())
        mean = float(np.einsum("gp,gp->", self._reward.Theta[:, 0], z))
        return mean - root_beta * math.sqrt(squares)

    def _reward_of_baseline(self, context: int | None) -> float:
        if not self.sees_context:
            return float(self.baseline_reward)
        C = len(self.baseline_reward)
        if context is None or whole_number("context", context) >= C:
            raise InvalidInput(f"context must be a whole number below {C}, but got {context!r}.")
        return float(self.baseline_reward[context])
