"""The mean outcome of each arm, without features."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope import kernels
from tightrope.models import hooks
from tightrope.models.model import Model, checked_outcome, known_action, register, size
from tightrope.models.standardised import standardised_like
from tightrope.validation import Array, finite_number, whole_number


@register("arm-means")
class ArmMeans(Model):
    """The mean outcome of each arm, with the width sqrt(log t / N) of the multi-armed case.

    Parameters
    ----------
    n_actions : int, optional
        Ids run from 0 to n_actions − 1. By default as many as the policy has.
    bonus : float
        Multiplies the width; 1 is the paper's.
    n_outputs : int
        How many quantities are learnt for each arm. A policy sets it to the number of costs that it learns.
    half_life : float or str, optional
        How many outcomes, of all arms together, until one counts half as much; None forgets nothing.

    Examples
    --------
    >>> model = ArmMeans(2)
    >>> model.learn(None, 1.0, action=0)
    >>> model.learn(None, 0.0, action=0)
    >>> model.means()
    array([0.5, nan])
    """

    # A model that forgets has no kernels.
    compiled: str | None = "arms"
    n_actions: int

    def __init__(
        self,
        n_actions: int | None = None,
        *,
        bonus: float = 1.0,
        n_outputs: int = 1,
        half_life: float | str | None = None,
    ) -> None:
        self.n_outputs = whole_number("n_outputs", n_outputs)
        self.bonus = finite_number("bonus", bonus, low=0.0)
        self._take_half_life(half_life)
        if self._fades is not None:
            self.compiled = None
        if not self._take_sizes(n_actions=size("n_actions", n_actions, low=1)):
            return
        self.stat = np.zeros(kernels.STAT_SIZE)
        self.stat[kernels.BONUS] = self.bonus
        self.counts = np.zeros(self.n_actions)
        self.sums = np.zeros((self.n_actions, self.n_outputs))

    @property
    def n_learnt(self) -> int:
        return int(self.stat[kernels.LEARNT])

    def learn(self, features: Any, outcome: Any, action: int | None = None) -> None:
        a = known_action(action, self.n_actions)
        y = checked_outcome(outcome, self.n_outputs)
        if self._fades is not None:
            self.elapse(self._fades.tick)
        kernels.arms_learn(a, y, self.counts, self.sums, self.stat)

    def elapse(self, time: float) -> None:
        if self._fades is not None:
            fade = 2.0 ** -(time / self._fades.length)
            self.counts *= fade
            self.sums *= fade

    def means(self, features: Any = None, actions: Any = None) -> Array:
        """The mean by arm, (J,), or (J, n_outputs); NaN for an arm without an outcome."""
        arms = slice(None) if actions is None else actions
        with np.errstate(invalid="ignore"):
            means: Array = self.sums[arms] / self.counts[arms, None]
        return self._shaped(means)

    def widths(self, features: Any = None, actions: Any = None) -> Array:
        """1/√N by arm; infinite for an arm without an outcome."""
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / np.sqrt(self.counts if actions is None else self.counts[actions]))

    def widths_at(self, t: float) -> Array:
        """bonus · sqrt(log t / N) by arm; infinite for an arm without an outcome."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.counts == 0, np.inf, self.bonus * np.sqrt(np.log(t) / self.counts))

    def never_learnt(self) -> NDArray[np.bool_]:
        return np.asarray(self.counts == 0.0)

    def least_optimism(self, radius: float) -> float | None:
        seen = self.counts > 0.0
        if not seen.any():
            return None
        n = self.counts[seen]
        return float((self.sums[seen, 0] / n + radius / np.sqrt(n)).min())

    def deviations(self, features: Any = None, actions: Any = None) -> Array:
        """½/√N: the noise of an outcome in [0, 1] has at most a standard deviation of ½."""
        return 0.5 * self.widths(features, actions)

    def correct(self, features: Any, was: Array, now: Array, action: int, decision: int) -> hooks.Corrected:
        """Move the arm's sum; a model that forgets keeps what it has learnt."""
        if self._fades is not None:
            return "not"
        self.sums[action] += now - was
        return "exactly"

    def resemble(self, action: int, like: int) -> None:
        """Expect of an arm what is expected of another, as if a part of that one's outcomes had been its own."""
        part = hooks.part_alike(float(self.counts[like]), 1)
        self.counts[action], self.sums[action] = part * self.counts[like], part * self.sums[like]

    def standardised(self, n_outputs: int, *, centred: bool, prior: Any) -> Model:
        return standardised_like(self, n_outputs, centred, prior)

    def radius(self, horizon: float) -> float:
        """bonus · sqrt(log t) at t = horizon."""
        return self.bonus * math.sqrt(math.log(finite_number("horizon", horizon, low=1.0)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"stat": self.stat, "counts": self.counts, "sums": self.sums}

    def __repr__(self) -> str:
        return self._shown(bonus=self.bonus)
