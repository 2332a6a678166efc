"""A policy that draws, with probabilities that anyone can check: most often the best by its model, else any action on offer."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope.policies import Choice, Policy
from tightrope.policies.choices import best_row, copy_of_model, estimates


class EpsilonGreedy(Policy):
    """With probability 1 − ε the best by the model, else one of all, each as likely as the other."""

    _randomised = True

    def __init__(self, reward: Any, *, epsilon: float = 0.4, seed: int = 0) -> None:
        self._reward = copy_of_model("reward", reward)
        self.epsilon, self.seed = epsilon, seed

    def _choose(self, offer: Any) -> Choice:
        means = estimates(self._reward, offer.phi, offer.ids)[0][:, 0]
        pi = np.full(len(means), self.epsilon / len(means))
        pi[best_row(means)] += 1.0 - self.epsilon
        row = int(np.searchsorted(np.cumsum(pi)[:-1], self._uniform(), side="right"))
        return Choice(row, means, means, pi)
