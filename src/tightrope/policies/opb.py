"""OPB, the optimistic-pessimistic bandit of Pacchiano, Ghavamzadeh, Bartlett, Jiang (AISTATS 2021)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.offer import Offer
from tightrope.policies.choices import Choice
from tightrope.policies.comparator import Comparator, known_action
from tightrope.policies.pending import Pending
from tightrope.policies.registry import register
from tightrope.policies.state_file import Arrays
from tightrope.problem import Problem, Setting, Truth
from tightrope.validation import Array, finite_number, real_array, whole_number


@register("opb")
class OPB(Comparator):
    """A multi-armed bandit whose *mixture* of arms must satisfy one constraint in expectation in every round.

    Setting: J arms, one cost seen after acting, one safe arm whose mean cost is known and strictly below 0.
    Each round it mixes at most two arms so as to maximise an optimistic reward under a pessimistic cost, in closed form (Lemma 5
    of the paper), and draws from the mixture.
    Guarantee: with high probability every round's mixture has expected cost ≤ 0; regret of order sqrt(J T) / (−safe_cost).
    The constants are the paper's: radii sqrt(2 log(1/p) / n) with p = 1/T², times α_c = 1 and α_r = 1 + 2/(τ − c₀), here
    1 + 2/(−safe_cost), for noise that is 1-sub-Gaussian. If it is known to be R_r- and R_c-sub-Gaussian (½ for rewards in
    [0, 1], half the range for costs), α_c = R_c and α_r = R_r + 2R_c/(−safe_cost), by the same proof. The reward index is not
    clipped at 1: with the clip all indices tie at 1 for most of a run and the outcome depends on how ties are broken.

    Parameters
    ----------
    n_arms : int
    safe_cost : float
        Mean cost of the safe arm, below 0 (usage minus limit).
    horizon : int
        T.
    safe_arm : int
    cost_range : pair
        The range of the costs; the pessimistic index is clipped at its high end.
    reward_noise, cost_noise : float
        R_r and R_c > 0.
    seed : int
        Seed of the draws from the mixture.

    Examples
    --------
    >>> policy = OPB(4, safe_cost=-0.5, horizon=1000, cost_range=(-0.5, 0.5))
    >>> decision = policy.decide()
    >>> policy.learn(decision, 1.0, [-0.5])
    >>> policy.propose().probabilities
    array([1., 0., 0., 0.])
    """

    _shown = ("n_arms", "safe_cost", "horizon")
    _randomised: ClassVar[bool] = True
    _loop: ClassVar[str | None] = "opb"
    _refuses: ClassVar[tuple[tuple[str, ...], str]] = (
        ("features", "costs", "actions"),
        "arms without features, costs seen after, all on offer",
    )
    _n_constraints = 1
    _n_actions: int

    def __init__(
        self,
        n_arms: int,
        *,
        safe_cost: float,
        horizon: int,
        safe_arm: int = 0,
        cost_range: Any = (-1.0, 1.0),
        reward_noise: float = 1.0,
        cost_noise: float = 1.0,
        seed: int = 0,
    ) -> None:
        self._n_actions = self.n_arms = whole_number("n_arms", n_arms, low=1)
        self.horizon = whole_number("horizon", horizon, low=1)
        self.safe_arm = known_action("safe_arm", safe_arm, self.n_arms)
        self.cost_range = real_array("cost_range", cost_range, (2,)).copy()
        self.safe_cost = finite_number("safe_cost", safe_cost)
        if not self.cost_range[0] <= self.safe_cost < 0:
            must = f"lie in [{self.cost_range[0]:g}, 0), for the safe arm's mean cost is strictly below 0"
            raise InvalidInput(field="safe_cost", must=must, got=safe_cost)
        self.reward_noise = finite_number("reward_noise", reward_noise, low=0.0, open_low=True)
        self.cost_noise = finite_number("cost_noise", cost_noise, low=0.0, open_low=True)
        self.seed = whole_number("seed", seed)
        self.counts = np.zeros(self.n_arms)
        self.sums = np.zeros((self.n_arms, 2))
        # In the order in which the kernel reads them.
        self.constants = np.array(
            [
                float(self.safe_arm),
                self.safe_cost,
                self.cost_range[1],
                self.reward_noise + 2.0 * self.cost_noise / -self.safe_cost,
                self.cost_noise,
                2.0 * math.log(float(self.horizon) ** 2),
            ]
        )

    def _choose(self, offer: Offer) -> Choice:
        indices = np.empty((2, self.n_arms))
        i, j, weight = kernels.opb_mixture(self.counts, self.sums, self.constants, indices)
        pi = np.zeros(self.n_arms)
        pi[i] += 1.0 - weight
        pi[j] += weight
        return Choice(int(j if self._uniform() < weight else i), indices[0], indices[0] - indices[1], pi)

    def _kept_features(self, offer: Offer, choice: Choice) -> tuple[Array | None, Array | None]:
        """Room for reward and cost: an arm counts an outcome once all of it is known."""
        return np.zeros(2), None

    def _kept_lengths(self) -> tuple[int, int]:
        return 2, 0

    def _learn_outcome(
        self, pending: Pending, reward: float | None, costs: Array | None, complete: bool
    ) -> None:
        _, arm, outcome, *_ = pending
        assert outcome is not None
        if reward is not None:
            outcome[0] = reward
        if costs is not None:
            outcome[1] = costs[0]
        if complete:
            self.counts[arm] += 1.0
            self.sums[arm] += outcome

    def _arrays(self) -> Arrays:
        return {"rewards/counts": self.counts, "rewards/sums": self.sums}

    @property
    def _cost_bounds(self) -> Array:
        return self.cost_range[None] + [[-1e-9, 1e-9]]

    def _setting(self) -> Setting:
        return self._asks(
            takes_features=False, takes_contexts=False, takes_sleep=False, told=(self._told_cost,)
        )

    def _told_cost(self, problem: Problem, truth: Truth) -> Iterator[str]:
        if problem.n_constraints != 1 or self.safe_arm >= problem.n_actions:
            return
        low, high = np.asarray(problem.cost_range).reshape(-1, 2)[0]
        if low < self.cost_range[0] - 1e-9 or high > self.cost_range[1] + 1e-9:
            yield (
                f"its costs lie in [{low:g}, {high:g}], but the policy expects "
                f"[{self.cost_range[0]:g}, {self.cost_range[1]:g}]"
            )
        real = truth.costs[0, self.safe_arm, 0]
        if abs(real - self.safe_cost) > 1e-9:
            yield f"the safe arm {self.safe_arm} has a mean cost of {real:.4g}, but {self.safe_cost:.4g} was given"
