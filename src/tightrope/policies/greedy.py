"""Greedy: the best by what was seen, without exploration (Bastani, Bayati, Khosravi, Management Science 2021)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tightrope import kernels
from tightrope.policies.decision import Decision
from tightrope.policies.ledger import Ledger
from tightrope.policies.linear import Linear, Seen, estimates, feature_misfits, linear_model, offered, teach
from tightrope.policies.registry import register
from tightrope.validation import finite_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular


@register("greedy")
class Greedy:
    """The action with the highest estimated reward: no exploration, no constraints.

    Setting: rewards linear in the features; costs are neither seen nor learnt.
    Steps: ridge regression on what was seen; play argmax_j ⟨θ̂, φ_j⟩ (ties: the lowest row).
    Guarantee: none in general, it can hold on to a bad action for ever. Where contexts alone are varied enough to teach every
    action's parameters ("covariate diversity"), its regret is logarithmic for two actions.
    Source: Bastani, Bayati, Khosravi, *Mostly exploration-free algorithms for contextual bandits* (Management Science 2021).
    Choices: ridge instead of least squares, so that no opening rounds are needed; all estimates start at 0.

    Parameters
    ----------
    reward : Ridge or DisjointRidge
        The policy works on a copy, so a model that has learnt already is a warm start. Its `bonus` has no effect.

    Examples
    --------
    >>> from tightrope import Ridge
    >>> policy = Greedy(Ridge(2))
    >>> policy.learn(policy.decide([[1.0, 0.0], [0.0, 1.0]]), 0.8)
    >>> policy.decide([[0.5, 0.0], [1.0, 0.0]]).action
    1
    """

    kind: str
    n_constraints = 0

    def __init__(self, reward: Linear) -> None:
        self._reward = linear_model("reward", reward, 1)
        self._ledger = Ledger[Seen]()

    @property
    def reward_model(self) -> Linear:
        """A copy of the model of the reward."""
        return self._reward.copy()

    def decide(self, features: Any, costs: Any = None, *, actions: Any = None) -> Decision:
        """The best by the estimates; costs are not looked at."""
        offer = offered("features", features, actions, self._reward)
        means, _ = estimates(self._reward, offer)
        row = int(kernels.first_of_the_best(means[:, 0]))
        return self._ledger.add(int(offer.ids[row]), row, offer.seen(row))

    def learn(self, decision: Decision | int, reward: Any, costs: Any = None) -> None:
        """Take in the reward of a decision; costs are not looked at."""
        number = self._ledger.find(decision)
        y = finite_number("reward", reward)
        teach(self._reward, self._ledger.take(number), y)

    def copy(self, seed: int | None = None) -> Greedy:
        """An independent policy in the same state."""
        twin = Greedy(self._reward)
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        return feature_misfits(env, "reward", self._reward)

    def __repr__(self) -> str:
        return f"Greedy({self._reward!r})"
