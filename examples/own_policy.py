"""A policy of your own, in one file: it is simulated, compared, saved, loaded and served without a word of it in the package.

tightrope compare --quick --policy examples/own_policy.py:Prudent --scenario model-routing --out out/league
"""

from __future__ import annotations

import numpy as np

from tightrope.policies import Choice, Policy


class Prudent(Policy):
    """The best average so far among the actions that the running costs can bear."""

    _sees_costs = True

    def __init__(self, n_actions, n_constraints=1, seed=0):
        self._n_actions, self._n_constraints, self.seed = n_actions, n_constraints, seed
        self.n, self.sums = np.zeros(n_actions), np.zeros(n_actions)

    def _choose(self, offer):
        running = self.totals + offer.W
        bears = (running <= 0).all(axis=1)
        if not bears.any():
            bears = np.arange(len(bears)) == np.argmin(running.max(axis=1))
        means = (self.sums + 1)[offer.ids] / (self.n + 1)[offer.ids]
        noise = np.array([self._uniform(slot) for slot in range(len(means))])
        values = np.where(bears, means + 0.05 * noise, -np.inf)
        unknown = np.full(len(means), np.nan)  # probabilities of these draws have no closed form
        return Choice(int(np.argmax(values)), means, values, unknown)

    def _learn_reward(self, pending, reward):
        _, action, *_ = pending
        self.n[action] += 1
        self.sums[action] += reward

    def _arrays(self):
        return {"rewards/n": self.n, "rewards/sums": self.sums}
