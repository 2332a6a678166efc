"""The optimal mixture itself, if you know the truth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from tightrope import kernels
from tightrope.errors import InvalidInput
from tightrope.offer import Offer
from tightrope.policies.choices import Choice
from tightrope.policies.comparator import Comparator, known_context
from tightrope.policies.registry import register
from tightrope.problem import Problem, Setting, Truth
from tightrope.validation import Array, real_array, require_range, whole_number
from tightrope.words import Place


@register("oracle")
class Oracle(Comparator):
    """A fixed mixture of actions for each context, such as the LP's optimum: `Oracle(tr.solve(env, baseline="fluid").policy)`.

    It gets the number of the context (`sees_context`), which no learner does.

    >>> policy = Oracle([[0.5, 0.5], [0.0, 1.0]])
    >>> policy.decide(context=1).action
    1
    """

    _randomised: ClassVar[bool] = True
    _loop: ClassVar[str | None] = "table"
    _learns: ClassVar[bool] = False
    _sees_context = True
    _n_actions: int

    def __init__(self, x: Any, *, seed: int = 0) -> None:
        self.x = real_array("x", x, (None, None)).copy()
        require_range("x", self.x, -1e-9, 1.0 + 1e-9)
        bad = np.abs(self.x.sum(axis=1) - 1.0) > 1e-6
        if bad.any():
            c = int(np.argmax(bad))
            must = f"sum to 1, but it sums to {self.x[c].sum():.9g}"
            raise InvalidInput(field=Place("x", c), must=must)
        self._n_actions = self.x.shape[1]
        self.seed = whole_number("seed", seed)
        self.cdf = mixture_cdf(self.x)

    def _choose(self, offer: Offer) -> Choice:
        c = known_context(offer.context, len(self.x))
        action = int(kernels.pick(self.cdf[c], self._uniform()))
        pi = np.diff(self.cdf[c], prepend=0.0)[offer.ids]
        return Choice(int(np.argmax(offer.ids == action)), np.zeros(len(pi)), pi, pi)

    def _setting(self) -> Setting:
        return self._asks(n_contexts=len(self.x), told=(self._told_contexts,))

    def _told_contexts(self, problem: Problem, truth: Truth) -> Iterator[str]:
        if self.x.shape != truth.rewards.shape:
            return
        asleep = (self.x > 0.0) & ~truth.available & truth.met[:, None]
        if asleep.any():
            c, j = np.argwhere(asleep)[0]
            yield f"action {j} is not on offer in context {c}, but the policy plays it there"

    def __repr__(self) -> str:
        return f"Oracle(<{self.x.shape[0]} contexts, {self.x.shape[1]} actions>)"


def mixture_cdf(x: Array) -> Array:
    """Cumulative probabilities by row, exactly 1 from the last possible action on."""
    positive = np.maximum(x, 0.0)
    cdf: Array = np.cumsum(positive / positive.sum(axis=1, keepdims=True), axis=1)
    last = positive.shape[1] - 1 - np.argmax(positive[:, ::-1] > 0, axis=1)
    cdf[np.arange(positive.shape[1]) >= last[:, None]] = 1.0
    return cdf
