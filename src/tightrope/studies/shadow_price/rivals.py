"""Two rivals that share a learner: posterior sampling with a plain Lagrangian, and posterior sampling behind a guard.

They play in `tightrope.simulate` as any object with `decide`, `learn` and `copy` does.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tightrope.environments.tabular import Tabular
from tightrope.studies.shadow_price.learner import Ids, Learner
from tightrope.validation import Array


class Rival(ABC):
    """A learner's decisions and outcomes, round by round; what differs is `choose` and `spend`.

    Costs are in units of what they are declared to lie in. Where they are seen after acting they are estimated by their means.
    """

    def __init__(self, env: Tabular, *, seed: int = 0) -> None:
        self.env, self.seed = env, seed
        self.n_actions, self.n_constraints = env.n_actions, env.n_constraints
        self.before = env.costs_seen == "before"
        self.scale = np.abs(env.cost_range).max(axis=1)
        self.random = np.random.default_rng(seed)
        self.rewards = Learner(self.n_actions)
        self.costs = None if self.before else Learner(self.n_actions, self.n_constraints, centred=False)
        self.rounds = 0
        self._all = np.arange(self.n_actions)
        self._chosen: tuple[Array, Array | None] | None = None

    @abstractmethod
    def choose(self, values: Array, costs: Array) -> int:
        """The row to take, of the sampled values (J,) and the costs (J, K) of the actions on offer."""

    @abstractmethod
    def spend(self, costs: Array) -> None:
        """The costs of the action taken, (K,)."""

    def copy(self, seed: int) -> Any:
        """A twin that has seen nothing yet, with draws of its own."""
        return type(self)(self.env, **{**self.settings(), "seed": seed})

    def settings(self) -> dict[str, Any]:
        """What else it was made with."""
        return {}

    def decide(self, features: Array, costs: Array | None = None, actions: Sequence[int] | None = None) -> int:
        """An action; `costs` are those of the actions on offer, or the features of a cost model."""
        ids: Ids = self._all if actions is None else np.asarray(actions)
        means, deviations = self.rewards.predict(features, ids)
        values = means[:, 0] + deviations[:, 0] * self.random.normal(size=ids.size)
        shown = np.zeros((ids.size, 0)) if costs is None else np.asarray(costs)
        if self.costs is not None:
            estimated, _ = self.costs.predict(shown if costs is not None else features, ids)
        W = (shown if self.costs is None else estimated) / self.scale
        self.rounds += 1
        row = self.choose(values, W)
        psi = None if self.costs is None else _row(shown, row)
        self._chosen = _row(features, row), psi
        if self.before:
            self.spend(W[row])
        return int(ids[row])

    def learn(self, action: int, reward: float, costs: ArrayLike | None = None) -> None:
        """What the last decision brought."""
        assert self._chosen is not None
        phi, psi = self._chosen
        self.rewards.learn(phi, action, np.array([reward]))
        if self.costs is not None and psi is not None:
            drawn = np.asarray(costs, dtype=np.float64)
            self.costs.learn(psi, action, drawn)
            self.spend(drawn / self.scale)


class Lagrangian(Rival):
    """Posterior sampling with prices that climb by what is spent: λ ← [λ + η (w + margin/√t)]⁺.

    The plain code that everybody writes first. The step η and the margin have to be found.

    >>> from tightrope.environments import hospital
    >>> rival = Lagrangian(hospital(), step=0.1)
    >>> action = rival.decide(rival.env.features[0], rival.env.costs[0])
    >>> rival.price.shape, bool((rival.price >= 0).all())
    ((18,), True)
    """

    def __init__(self, env: Tabular, *, step: float = 0.03, margin: float = 0.0, seed: int = 0) -> None:
        super().__init__(env, seed=seed)
        self.step, self.margin = step, margin
        self.price = np.zeros(env.n_constraints)

    def settings(self) -> dict[str, Any]:
        """The step and the margin."""
        return {"step": self.step, "margin": self.margin}

    def choose(self, values: Array, costs: Array) -> int:
        """The largest draw, less the price of its costs."""
        return int(np.argmax(values - costs @ self.price))

    def spend(self, costs: Array) -> None:
        """Move the prices."""
        tightened = costs + self.margin / math.sqrt(self.rounds)
        self.price = np.maximum(0.0, self.price + self.step * tightened)


class Guarded(Rival):
    """Posterior sampling among the actions that leave every total at or below zero; where there is none, the least excess.

    >>> from tightrope.environments import hospital
    >>> rival = Guarded(hospital())
    >>> rival.totals += 1.0
    >>> action = rival.decide(rival.env.features[0], rival.env.costs[0])
    >>> excess = np.maximum(1.0 + rival.env.costs[0], 0.0).sum(axis=1)
    >>> bool(np.isclose(excess[action], excess.min()))
    True
    """

    def __init__(self, env: Tabular, *, seed: int = 0) -> None:
        super().__init__(env, seed=seed)
        self.totals = np.zeros(env.n_constraints)

    def choose(self, values: Array, costs: Array) -> int:
        """The largest draw of those with the least excess."""
        excess = np.maximum(self.totals + costs, 0.0).sum(axis=1)
        return int(np.argmax(np.where(excess <= excess.min() + 1e-12, values, -np.inf)))

    def spend(self, costs: Array) -> None:
        """Add to the totals."""
        self.totals = self.totals + costs


def _row(features: Array, row: int) -> Array:
    return features if features.ndim == 1 else np.asarray(features[row])
