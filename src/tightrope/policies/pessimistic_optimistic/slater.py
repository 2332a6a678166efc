"""Slater's constant, measured from the costs of all actions, which are seen before acting whatever the policy does.

The largest δ that the rounds seen so far admit is

    δ̂ = max_x min_k −(1/n) Σ_i Σ_j W_i[j, k] x_ij   =   min_{λ ∈ simplex} (1/n) Σ_i max_j −⟨λ, W_i[j]⟩,

a small LP (`tightrope.lp.slater`). Since the minimum of an average is on average below the minimum of the expectation,
E[δ̂] ≤ δ: the estimate errs on the cautious side, and converges to δ as the kept matrices do. `docs/no-constants.md`
states what this guarantees.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput, SolverError
from tightrope.models.background import Result
from tightrope.models.model import NO_DECISION
from tightrope.policies.state_file import checked
from tightrope.validation import Array, finite_number

KEPT = 1024
FLOOR = 1e-3


class SlaterMeter:
    """A uniform sample of at most 1,024 cost matrices, and δ̂ recomputed on them when the number of rounds doubles.

    `measured` is called when δ̂ changes. If measuring is `deferred`, it is `BackgroundWork`.
    """

    def __init__(self, K: int, seed: int, measured: Callable[[], None] = lambda: None) -> None:
        self.K = K
        self.seen = 0
        self.value = FLOOR
        self.random = random_state(seed)[0]
        self.matrices: list[Array] = []
        # The numbers of the decisions that these matrices belong to.
        self.decisions: list[int] = []
        self.deferred = False
        self._measured = measured
        # How many rounds had been seen when δ̂ was measured, and at the last attempt, which may have failed.
        self._measured_at = 0
        self._tried_at = 0

    def offer(self, W: Array, decision: int = NO_DECISION) -> None:
        """Note the costs (J, K) behind a decision, and measure δ again if the number of rounds has doubled."""
        self.seen += 1
        if len(self.matrices) < KEPT:
            self.matrices.append(W.copy())
            self.decisions.append(decision)
        else:
            slot = self._draw() % self.seen
            if slot < KEPT:
                self.matrices[slot], self.decisions[slot] = W.copy(), decision
        if not self.deferred and (job := self.due()) is not None:
            try:
                self.take(job())
            except SolverError as error:
                # The round's decision stands whether or not the LP was solved; δ is measured again when rounds have doubled.
                warnings.warn(f"δ stays at {self.value:g}: {error}", RuntimeWarning, stacklevel=4)

    def due(self) -> Callable[[], Result] | None:
        """The measurement of δ on the rounds seen so far, if their number has doubled."""
        if self.seen.bit_length() <= max(self._measured_at, self._tried_at).bit_length() or not self.matrices:
            return None
        self._tried_at = rounds = self.seen
        sample = list(self.matrices)

        def job() -> Result:
            return [rounds, measure(sample)]

        return job

    def take(self, result: Result) -> None:
        """Continue with a δ that was measured after this many rounds."""
        rounds, value = (float(one) for one in result)
        if not self._measured_at < rounds <= self.seen:
            raise InvalidInput(
                f"Slater's constant is measured on rounds after {self._measured_at} of {self.seen}, but got {rounds:g}."
            )
        self.value = finite_number("slater", value, low=0.0, high=1.0, open_low=True)
        self._measured_at = int(rounds)
        self._measured()

    def prepare(self) -> None:
        """Don't wait for δ: the current one is good enough."""

    def forget(self, decisions: Collection[int]) -> None:
        """Drop the costs behind some decisions; δ̂ stays until it is measured again."""
        stay = [i for i, one in enumerate(self.decisions) if one not in decisions]
        self.matrices = [self.matrices[i] for i in stay]
        self.decisions = [self.decisions[i] for i in stay]

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "numbers": np.array([float(self.seen), self.value, float(self._measured_at)]),
            "random": np.array([self.random], dtype=np.uint64),
            "sizes": np.array([len(W) for W in self.matrices], dtype=np.int64),
            "decisions": np.array(self.decisions, dtype=np.int64),
            "rows": np.concatenate([np.empty((0, self.K)), *self.matrices]),
        }

    def load(self, arrays: dict[str, NDArray[Any]]) -> None:
        seen, value, measured_at = checked(arrays, "numbers", np.float64, (3,)).tolist()
        kept = len(arrays["sizes"])
        sizes = checked(arrays, "sizes", np.int64, (kept,))
        if kept > min(int(seen), KEPT) or (sizes < 1).any():
            raise ValueError(f"at most {KEPT} cost matrices of rounds seen are kept, each with a row")
        decisions = checked(arrays, "decisions", np.int64, (kept,)).tolist()
        rows = checked(arrays, "rows", np.float64, (int(sizes.sum()), self.K))
        self.random = np.uint64(checked(arrays, "random", np.uint64, (1,))[0])
        self.seen, self.value, self.decisions = int(seen), value, decisions
        self._measured_at, self._tried_at = int(measured_at), 0
        ends = np.cumsum(sizes)
        self.matrices = [m.copy() for m in np.split(rows, ends[:-1])] if len(ends) else []

    def _draw(self) -> int:
        """splitmix64: a generator whose whole state is one number, so that it is easy to save."""
        mask = 0xFFFFFFFFFFFFFFFF
        state = (int(self.random) + 0x9E3779B97F4A7C15) & mask
        self.random = np.uint64(state)
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)


def random_state(seed: int) -> NDArray[np.uint64]:
    """The initial state of a sample's draws, as it is saved."""
    return np.array([seed & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64)


def slater_meter(
    slater: Any, V: Any, capped: bool, K: int, late: int, seed: int, measured: Callable[[], None]
) -> SlaterMeter | None:
    """The measurement of δ, if V or the cap on ε needs it and it was not given; `measured` is called with a new δ."""
    if (V is not None and not capped) or slater is not None or K == 0:
        return None
    if late:
        which = "every constraint here is" if late == K else f"{late} of {K} constraints here are"
        raise InvalidInput(
            f"Slater's constant is measured from costs that are seen before acting, but {which} seen only after. "
            f"Give slater{': the cap on ε_t is δ/2' if capped else ', or V (V_t is all that needs it)'}."
        )
    return SlaterMeter(K, seed, measured)


def measure(matrices: list[Array]) -> float:
    """δ̂ on cost matrices (J_i, K), at least FLOOR and at most 1: a pure function, for any thread.

    >>> measure([np.array([[0.5], [-0.25]])])
    0.25
    """
    from tightrope import lp  # takes long to import

    # Rules often give the same costs in every round: each distinct matrix enters once, with its frequency.
    times: dict[tuple[int, bytes], int] = {}
    distinct: list[Array] = []
    for W in matrices:
        key = (len(W), W.tobytes())
        if key not in times:
            distinct.append(W)
        times[key] = times.get(key, 0) + 1
    weights = np.array(list(times.values())) / len(matrices)
    offsets = np.concatenate([[0], np.cumsum([len(W) for W in distinct])])
    estimate = lp.slater(weights, np.concatenate(distinct), offsets=offsets).value
    return min(1.0, max(FLOOR, estimate))
