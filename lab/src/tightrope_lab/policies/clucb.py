"""CLUCB, linear UCB that stays above a share of a baseline (Kazerouni, Ghavamzadeh, Abbasi-Yadkori, Van Roy, NeurIPS 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tightrope.models import Model, hooks
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row, copy_of_model, estimates, failure_probability
from tightrope.policies.comparator import Comparator, known_context
from tightrope.policies.pending import Pending
from tightrope.policies.registry import register
from tightrope.policies.state_file import Arrays
from tightrope.problem import Problem, Setting, Truth
from tightrope.validation import Array, finite_number, real_array, require_range, whole_number


@register("clucb")
class CLUCB(Comparator):
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
    the number of the context (`sees_context`). A model that is not linear can't add features up: the lower bounds of the optimistic
    choices are then summed as they were when each was made.

    Parameters
    ----------
    reward : Model
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

    _shown = ("reward", "baseline", "alpha", "failure")

    def __init__(
        self, reward: Model, *, baseline: int, baseline_reward: Any, alpha: float, failure: float = 0.01
    ) -> None:
        self._reward: Model = copy_of_model("reward", reward)
        self.baseline = whole_number("baseline", baseline)
        self.baseline_reward = real_array("baseline_reward", baseline_reward, (), (None,)).copy()
        require_range("baseline_reward", self.baseline_reward, 0.0, 1.0)
        self.alpha = finite_number("alpha", alpha, low=0.0, high=1.0, open_low=True)
        self.failure = failure_probability(failure)
        self._sees_context = self.baseline_reward.ndim == 1
        self._z = np.zeros((self._reward.n_actions or 1, self._reward.n_features))
        # Sums of the rewards of conservative rounds, of the baseline's in all rounds, of lower bounds of optimistic ones.
        self._sums = np.zeros(3)

    def _choose(self, offer: Offer) -> Choice:
        fallback = offer.row_of("baseline", self.baseline)
        root_beta = self._confidence_radius(self._reward)
        means, widths = estimates(self._reward, offer.phi, offer.ids)
        values = means[:, 0] + root_beta * widths[:, 0]
        row = best_row(values)
        conservative, owed, _ = self._sums
        owed += self._reward_of_baseline(offer.context)
        lower = np.maximum(0.0, means[:, 0] - root_beta * widths[:, 0])
        summed = hooks.of_sum(self._reward, self._with_features(offer, row))
        least = self._sums[2] + lower[row] if summed is None else summed[0] - root_beta * summed[1]
        optimistic = least + conservative >= (1.0 - self.alpha) * owed
        row = row if optimistic else fallback
        return Choice(row, means[:, 0], values, note=(row if optimistic else None, lower))

    def _chosen(self, offer: Offer, choice: Choice) -> None:
        r_b = self._reward_of_baseline(offer.context)
        self._sums[1] += r_b
        if self._is_conservative(offer, choice):
            self._sums[0] += r_b
        else:
            self._z[...] = self._with_features(offer, choice.row)
            self._sums[2] += choice.note[1][choice.row]

    def _kept_features(self, offer: Offer, choice: Choice) -> tuple[Array | None, Array | None]:
        """φ of an optimistic round; a conservative one teaches nothing."""
        return (None, None) if self._is_conservative(offer, choice) else super()._kept_features(offer, choice)

    def _learn_reward(self, pending: Pending, reward: float) -> None:
        if pending[2] is not None or not self._reward.n_features:
            super()._learn_reward(pending, reward)

    def _arrays(self) -> Arrays:
        return {"z": self._z, "sums": self._sums}

    def _setting(self) -> Setting:
        return self._asks(
            n_contexts=len(self.baseline_reward) if self._sees_context else None,
            counts_on=(("the baseline", self.baseline),),
            told=(self._told_reward,),
        )

    def _is_conservative(self, offer: Offer, choice: Choice) -> bool:
        return choice.row != choice.note[0] and bool(offer.ids[choice.row] == self.baseline)

    def _with_features(self, offer: Offer, row: int) -> Array:
        """The features of all optimistic choices, summed, with those of a row."""
        z = self._z.copy()
        if offer.phi is not None:
            z[int(offer.ids[row]) if self._reward.n_actions is not None else 0] += offer.phi[row]
        return z

    def _told_reward(self, problem: Problem, truth: Truth) -> Iterator[str]:
        C = len(truth.weights)
        if self.baseline < problem.n_actions and self.baseline_reward.size in (1, C):
            real = truth.rewards[truth.met, self.baseline]
            told = np.broadcast_to(self.baseline_reward, C)[truth.met]
            if np.abs(real - told).max() > 1e-9:
                c = int(np.argmax(np.abs(real - told)))
                yield f"the baseline's mean reward is {real[c]:.4g} in some context, but {told[c]:.4g} was given"

    def _reward_of_baseline(self, context: int | None) -> float:
        if not self._sees_context:
            return float(self.baseline_reward)
        return float(self.baseline_reward[known_context(context, len(self.baseline_reward))])
