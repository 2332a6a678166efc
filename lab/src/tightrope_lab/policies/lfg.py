"""LFG, learning with a fairness guarantee for sleeping arms (Li, Liu, Ji, INFOCOM 2019)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row
from tightrope.policies.registry import register
from tightrope.policies.state_file import Arrays
from tightrope.problem import Problem, Setting, Truth
from tightrope.validation import Array, finite_number, real_array, require_range, whole_number
from tightrope_lab.policies.arms import ArmComparator


@register("lfg")
class LFG(ArmComparator):
    """Arms that may be asleep, each to be chosen at least a given fraction of the time.

    Setting: rewards in [0, 1] with a mean μ_i for each arm, whatever else is on offer; which arms are awake is independent from
    round to round; minimum fractions s_i that some rule can meet. In Tightrope's terms cost i is s_i − 1{a = i}, known
    beforehand, so costs are not asked for.
    Steps, in round t: Q_i ← max(0, Q_i + s_i − 1{arm i was chosen last}); play the arm on offer with the highest
    Q_i + η min(1, mean_i + sqrt(3 log t / (2 N_i))), where an arm never seen counts as 1.
    Guarantee: every minimum fraction is met in the long run wherever some rule meets them all with a margin ε:
    lim sup (1/T) Σ_t E Σ_i Q_i ≤ (J/2 + η)/ε. By its definition the queue also bounds the debt of an arm after any number of
    rounds: choices_i ≥ s_i T − Q_i. Time-average regret at most J/(2η) plus terms of order sqrt(J log T / T).
    Source: *Combinatorial sleeping bandits with fairness constraints* (INFOCOM 2019), with one arm a round and unit weights.
    Choices: N_i counts the rewards learnt so far, the queue moves with the choices, so that late rewards do no harm to fairness.
    The paper leaves η open. By default it is 1, the largest for which an arm that is one choice behind comes before any difference
    of rewards in [0, 1]; what is paid for that is regret that grows with T, by J/(2η) a round at most.

    Parameters
    ----------
    n_actions : int
        J.
    shares : (J,) array
        s, the minimum fractions, with a sum of at most 1.
    eta : float
        η > 0 weighs reward against fairness: regret falls with 1/η, debts grow with η.

    Examples
    --------
    >>> policy = LFG(2, shares=[0.0, 0.25], eta=0.5)
    >>> chosen = []
    >>> for _ in range(400):
    ...     decision = policy.decide()
    ...     policy.learn(decision, (1.0, 0.0)[decision.action])
    ...     chosen.append(decision.action)
    >>> bool(sum(chosen) >= 0.25 * 400 - policy.queue[1])
    True
    """

    _shown = ("n_actions", "eta")
    settings_by_action = ("shares",)

    def __init__(self, n_actions: int, *, shares: Any, eta: float = 1.0) -> None:
        self._n_actions = whole_number("n_actions", n_actions, low=1)
        self.shares = real_array("shares", shares, (self._n_actions,)).copy()
        require_range("shares", self.shares, 0.0, 1.0)
        if self.shares.sum() > 1.0 + 1e-9:
            raise InvalidInput(
                field="shares", must=f"sum to at most 1, but they sum to {self.shares.sum():.9g}"
            )
        self.eta = finite_number("eta", eta, low=0.0, open_low=True)
        self._queue = np.zeros(self._n_actions)
        self._rewards = ArmMeans(self._n_actions, bonus=math.sqrt(1.5))

    @property
    def queue(self) -> Array:
        """Q (J,) after the last decision: what each arm is behind its share."""
        return self._queue.copy()

    def _choose(self, offer: Offer) -> Choice:
        # Before the first decision the queue has not grown yet by what it grows by in a round.
        debt = self._queue if self._pending.made else np.maximum(0.0, self._queue + self.shares)
        core = kernels.new_core(0, 0, 0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), ())
        core[kernels.ROUNDS] = self._pending.made
        upper = np.empty(len(offer.ids))
        kernels.optimistic_rewards_arms(
            offer.ids, self._rewards.counts, self._rewards.sums, self._rewards.stat, core, upper
        )
        values = debt[offer.ids] + self.eta * upper
        return Choice(best_row(values), upper, values, note=debt)

    def _chosen(self, offer: Offer, choice: Choice) -> None:
        chosen = np.arange(self._n_actions) == offer.ids[choice.row]
        self._queue[...] = np.maximum(0.0, choice.note + self.shares - chosen)

    def _arrays(self) -> Arrays:
        return {"queue": self._queue, **super()._arrays()}

    def _setting(self) -> Setting:
        return self._asks(unit_rewards=True, told=(self._told_shares,))

    def _told_shares(self, problem: Problem, truth: Truth) -> Iterator[str]:
        if problem.n_actions != self._n_actions:
            return
        awake = truth.available[truth.met]
        rewards = np.where(awake, truth.rewards[truth.met], np.nan)
        for j in range(self._n_actions):
            seen = rewards[awake[:, j], j]
            if len(seen) and np.ptp(seen) > 1e-9:
                yield f"the mean reward of action {j} depends on the context"
                break
        rules = self.shares[:, None] - np.eye(self._n_actions)
        for k in range(problem.n_constraints):
            gaps = np.abs(truth.costs[truth.met][:, :, k][:, None, :] - rules)
            if not (np.where(awake[:, None, :], gaps, 0.0).max(axis=(0, 2)) <= 1e-9).any():
                yield f"constraint {k} is not one of the minimum shares that the policy was given"
