"""Policies to compare with that learn nothing: uniform, round-robin, and the optimal mixture itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.policies.decision import Decision
from tightrope.policies.ledger import Ledger
from tightrope.policies.linear import action_count_misfits, action_ids
from tightrope.policies.registry import register
from tightrope.validation import Array, real_array, require_range, whole_number

if TYPE_CHECKING:
    from tightrope.environments.tabular import Tabular


@register("uniform")
class Uniform:
    """One of the actions on offer, each as likely as the other.

    >>> policy = Uniform(3, seed=1)
    >>> decision = policy.decide()
    >>> round(decision.probability, 3)
    0.333
    """

    kind: str
    n_constraints = 0

    def __init__(self, n_actions: int, *, seed: int = 0) -> None:
        self.n_actions = whole_number("n_actions", n_actions, low=1)
        self.seed = whole_number("seed", seed)
        self._ledger = Ledger[None]()

    def mixture(self, features: Any = None, costs: Any = None, *, actions: Any = None) -> Array:
        """The probabilities by row that `decide` would draw from."""
        n = len(action_ids(actions, self.n_actions))
        return np.full(n, 1.0 / n)

    def decide(self, features: Any = None, costs: Any = None, *, actions: Any = None) -> Decision:
        """Draw an action; features and costs are not looked at."""
        ids = action_ids(actions, self.n_actions)
        action = int(kernels.uniform_choice(ids, kernels.own_uniform(self.seed, self._ledger.made)))
        return self._ledger.add(action, int(np.argmax(ids == action)), None, probability=1.0 / len(ids))

    def learn(self, decision: Decision | int, reward: Any = None, costs: Any = None) -> None:
        """Nothing is learnt; a second outcome is refused."""
        self._ledger.take(decision)

    def copy(self, seed: int | None = None) -> Uniform:
        """An independent policy in the same state."""
        twin = Uniform(self.n_actions, seed=self.seed if seed is None else seed)
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        return action_count_misfits(env, self.n_actions)

    def __repr__(self) -> str:
        return f"Uniform({self.n_actions})"


@register("round-robin")
class RoundRobin:
    """The action on offer that is furthest behind its share: balance without learning.

    Parameters
    ----------
    n_actions : int
    shares : (J,) array, optional
        The share of decisions that each action is to have; equal by default.

    Examples
    --------
    >>> policy = RoundRobin(2, shares=[0.75, 0.25])
    >>> [policy.decide().action for _ in range(8)]
    [0, 0, 1, 0, 0, 0, 1, 0]
    """

    kind: str
    n_constraints = 0

    def __init__(self, n_actions: int, *, shares: Any = None) -> None:
        self.n_actions = whole_number("n_actions", n_actions, low=1)
        given = np.full(self.n_actions, 1.0 / self.n_actions) if shares is None else shares
        self.shares = real_array("shares", given, (self.n_actions,)).copy()
        require_range("shares", self.shares, 0.0, 1.0)
        if abs(self.shares.sum() - 1.0) > 1e-6:
            raise InvalidInput(f"shares must sum to 1, but they sum to {self.shares.sum():.9g}.")
        self.counts = np.zeros(self.n_actions)
        self._ledger = Ledger[None]()

    def decide(self, features: Any = None, costs: Any = None, *, actions: Any = None) -> Decision:
        """Take the next in turn; features and costs are not looked at."""
        ids = action_ids(actions, self.n_actions)
        action = int(kernels.round_robin_choice(ids, self.shares, self.counts))
        self.counts[action] += 1.0
        return self._ledger.add(action, int(np.argmax(ids == action)), None)

    def learn(self, decision: Decision | int, reward: Any = None, costs: Any = None) -> None:
        """Nothing is learnt; a second outcome is refused."""
        self._ledger.take(decision)

    def copy(self, seed: int | None = None) -> RoundRobin:
        """An independent policy in the same state."""
        twin = RoundRobin(self.n_actions, shares=self.shares)
        twin.counts[...] = self.counts
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        return action_count_misfits(env, self.n_actions)

    def __repr__(self) -> str:
        return f"RoundRobin({self.n_actions})"


@register("oracle")
class Oracle:
    """A fixed mixture of actions for each context, such as the LP's optimum: `Oracle(tr.solve(env, baseline="fluid").policy)`.

    It is told the number of the context (`sees_context`), which no learner is.

    >>> policy = Oracle([[0.5, 0.5], [0.0, 1.0]])
    >>> policy.decide(context=1).action
    1
    """

    kind: str
    n_constraints = 0
    sees_context = True

    def __init__(self, x: Any, *, seed: int = 0) -> None:
        self.x = real_array("x", x, (None, None)).copy()
        require_range("x", self.x, -1e-9, 1.0 + 1e-9)
        bad = np.abs(self.x.sum(axis=1) - 1.0) > 1e-6
        if bad.any():
            c = int(np.argmax(bad))
            raise InvalidInput(f"x[{c}] must sum to 1, but it sums to {self.x[c].sum():.9g}.")
        self.seed = whole_number("seed", seed)
        self.cdf = mixture_cdf(self.x)
        self._ledger = Ledger[None]()

    def mixture(
        self, features: Any = None, costs: Any = None, *, actions: Any = None, context: int | None = None
    ) -> Array:
        """The probabilities by row that `decide` would draw from."""
        c = self._known(context)
        x: Array = np.diff(self.cdf[c], prepend=0.0)[action_ids(actions, self.x.shape[1])]
        return x

    def decide(
        self, features: Any = None, costs: Any = None, *, actions: Any = None, context: int | None = None
    ) -> Decision:
        """Draw from the mixture of `context`."""
        c = self._known(context)
        action = int(kernels.pick(self.cdf[c], kernels.own_uniform(self.seed, self._ledger.made)))
        ids = action_ids(actions, self.x.shape[1])
        return self._ledger.add(
            action, int(np.argmax(ids == action)), None, probability=float(self.x[c, action])
        )

    def learn(self, decision: Decision | int, reward: Any = None, costs: Any = None) -> None:
        """Nothing is learnt; a second outcome is refused."""
        self._ledger.take(decision)

    def copy(self, seed: int | None = None) -> Oracle:
        """An independent policy in the same state."""
        twin = Oracle(self.x, seed=self.seed if seed is None else seed)
        twin._ledger = self._ledger.copy()
        return twin

    def requires(self, env: Tabular) -> list[str]:
        """Why `env` is not of the policy's setting; empty where it is."""
        if self.x.shape != env.rewards.shape:
            C, J = self.x.shape
            return [
                f"it has {env.n_contexts} contexts and {env.n_actions} actions, but the policy's table has {C} and {J}"
            ]
        asleep = (self.x > 0.0) & ~env.available & (env.weights > 0)[:, None]
        if not asleep.any():
            return []
        c, j = np.argwhere(asleep)[0]
        return [f"action {j} is not on offer in context {c}, but the policy plays it there"]

    def __repr__(self) -> str:
        return f"Oracle(<{self.x.shape[0]} contexts, {self.x.shape[1]} actions>)"

    def _known(self, context: int | None) -> int:
        if context is None or not 0 <= whole_number("context", context) < len(self.x):
            raise InvalidInput(f"context must be a whole number below {len(self.x)}, but got {context!r}.")
        return context


def mixture_cdf(x: Array) -> Array:
    """Cumulated probabilities by row, exactly 1 from the last possible action on."""
    positive = np.maximum(x, 0.0)
    cdf: Array = np.cumsum(positive / positive.sum(axis=1, keepdims=True), axis=1)
    last = positive.shape[1] - 1 - np.argmax(positive[:, ::-1] > 0, axis=1)
    cdf[np.arange(positive.shape[1]) >= last[:, None]] = 1.0
    return cdf
