"""Greedy: the best action so far, without exploration (Bastani, Bayati, Khosravi, Management Science 2021)."""

from __future__ import annotations

from tightrope.models import Model
from tightrope.offer import Offer
from tightrope.policies.choices import Choice, best_row, copy_of_model, estimates
from tightrope.policies.comparator import Comparator
from tightrope.policies.registry import register


@register("greedy")
class Greedy(Comparator):
    """The action with the highest estimated reward: no exploration, no constraints.

    Setting: rewards linear in the features; costs are neither seen nor learnt.
    Steps: ridge regression on the outcomes seen; play argmax_j ⟨θ̂, φ_j⟩ (ties: the lowest row).
    Guarantee: none in general; it can stick to a bad action for ever. If the contexts vary enough by themselves to teach every
    action's parameters ("covariate diversity"), its regret is logarithmic for two actions.
    Source: Bastani, Bayati, Khosravi, *Mostly exploration-free algorithms for contextual bandits* (Management Science 2021).
    Choices: ridge instead of least squares, so that no opening rounds are needed; all estimates start at 0.

    Parameters
    ----------
    reward : Model
        The policy works on a copy, so you can pass a trained model as a warm start. Its `bonus` has no effect.

    Examples
    --------
    >>> from tightrope import Ridge
    >>> policy = Greedy(Ridge(2))
    >>> policy.learn(policy.decide([[1.0, 0.0], [0.0, 1.0]]), 0.8)
    >>> policy.decide([[0.5, 0.0], [1.0, 0.0]]).action
    1
    """

    _shown = ("reward",)

    def __init__(self, reward: Model) -> None:
        self._reward: Model = copy_of_model("reward", reward)

    def _choose(self, offer: Offer) -> Choice:
        means = estimates(self._reward, offer.phi, offer.ids)[0][:, 0]
        return Choice(best_row(means), means, means)
