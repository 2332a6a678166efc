"""LFG, learning with a fairness guarantee for sleeping arms (Li, Liu, Ji, INFOCOM 2019)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.models import ArmMeans
from tightrope.policies.decision import Decision
from tightrope.policies.ledger import Ledger
from tightrope.policies.linear import action_ids, unit_reward_misfits
from tightrope.policies.registry import register
from tightrope.validation import Array, finite_number, real_array, require_range, whole_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular


@register("lfg")
class LFG:
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

    kind: str
    n_constraints = 0

    def __init__(self, n_actions: int, *, shares: Any, eta: float) -> None:
        self.n_actions = whole_number("n_actions", n_actions, low=1)
        self.shares = real_array("shares", shares, (self.n_actions,)).copy()
        require_range("shares", self.shares, 0.0, 1.0)
        if self.shares.sum() > 1.0 + 1e-9:
            raise InvalidInput(f"shares must sum to at most 1, but they sum to {self.shares.sum():.9g}.")
        self.eta = finite_number("eta", eta, low=0.0, open_low=True)
        self._queue = np.zeros(self.n_actions)
        self._last: int | None = None
        self._rewards = ArmMeans(self.n_actions, bonus=math.sqrt(1.5))
        self._core = kernels.new_core(0, 0, 0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), ())
        self._ledger = Ledger[int]()

    @property
    def queue(self) -> Array:
        """Q (J,) after the last decision: what each arm is behind its share."""
        return self._moved() if self._ledger.made else self._queue.copy()

    @property
    def reward_model(self) -> ArmMeans:
        """A copy of the means of the rewards."""
        return self._rewards.copy()

    def decide(self, features: Any = None, costs: Any = None, *, actions: Any = None) -> Decision:
        """The arm on offer with the highest debt plus η times its optimistic reward; features and costs are not looked at."""
        ids = action_ids(actions, self.n_actions)
        self._queue = self._moved()
        self._core[kernels.ROUNDS] = self._ledger.made
        upper = np.empty(len(ids))
        kernels.optimistic_rewards_arms(
            ids, self._rewards.counts, self._rewards.sums, self._rewards.stat, self._core, upper
        )
        row = int(kernels.first_of_the_best(self._queue[ids] + self.eta * upper))
        self._last = int(ids[row])
        return self._ledger.add(self._last, row, self._last)

    def learn(self, decision: Decision | int, reward: Any, costs: Any = None) -> None:
        """Take in the reward of a decision; costs are known and not looked at."""
        number = self._ledger.find(decision)
        y = np.array([finite_number("reward", reward, low=0.0, high=1.0)])
        self._rewards.learn(y, action=self._ledger.take(number))

    def copy(self, seed: int | None = None) -> LFG:
        """An independent policy in the same state."""
        twin = LFG(self.n_actions, shares=self.shares, eta=self.eta)
        twin._queue[...], twin._last = self._queue, self._last
        twin._rewards = self._rewards.copy()
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        if env.n_actions != self.n_actions:
            return [f"it has {env.n_actions} actions, but the policy has {self.n_actions}"]
        reasons = unit_reward_misfits(env)
        met = env.weights > 0
        awake = env.available[met]
        rewards = np.where(awake, env.rewards[met], np.nan)
        for j in range(self.n_actions):
            seen = rewards[awake[:, j], j]
            if len(seen) and np.ptp(seen) > 1e-9:
                reasons.append(f"the mean reward of action {j} depends on the context")
                break
        rules = self.shares[:, None] - np.eye(self.n_actions)
        for k in range(env.n_constraints):
            gaps = np.abs(env.costs[met][:, :, k][:, None, :] - rules)
            if not (np.where(awake[:, None, :], gaps, 0.0).max(axis=(0, 2)) <= 1e-9).any():
                reasons.append(f"constraint {k} is not one of the minimum shares that the policy was given")
        return reasons

    def __repr__(self) -> str:
        return f"LFG({self.n_actions}, eta={self.eta:g})"

    def _moved(self) -> Array:
        chosen = np.zeros(self.n_actions)
        if self._last is not None:
            chosen[self._last] = 1.0
        moved: Array = np.maximum(0.0, self._queue + self.shares - chosen)
        return moved
