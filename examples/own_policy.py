"""A policy of one's own that joins the league, without a word of it in the package:

tightrope compare --quick --policy examples/own_policy.py:Prudent --scenario model-routing --out out/league
"""

from __future__ import annotations

import numpy as np


class Prudent:
    """The best average so far among the actions that the running costs can bear."""

    def __init__(self, n_actions, seed=0):
        self.n, self.sums, self.total = np.zeros(n_actions), np.zeros(n_actions), 0.0
        self.random = np.random.default_rng(seed)

    def requires(self, env):
        return [] if env.costs_seen == "before" else ["it must see the costs before acting"]

    def decide(self, features=None, costs=None, actions=None):
        ids = np.arange(len(self.n)) if actions is None else np.array(actions)
        running = self.total + costs
        bears = (running <= 0).all(axis=1)
        if not bears.any():
            bears = np.arange(len(ids)) == np.argmin(running.max(axis=1))
        score = (self.sums[ids] + 1) / (self.n[ids] + 1) + 0.05 * self.random.random(len(ids))
        row = int(np.argmax(np.where(bears, score, -np.inf)))
        self.total = running[row]
        return int(ids[row])

    def learn(self, action, reward):
        self.n[action] += 1
        self.sums[action] += reward

    def copy(self, seed):
        twin = Prudent(len(self.n), seed)
        twin.n, twin.sums, twin.total = self.n.copy(), self.sums.copy(), np.copy(self.total)
        return twin
