"""Every promise for one problem, at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from tightrope.schedules import known_costs
from tightrope.validation import whole_number
from tightrope_lab.theory.arguments import slater_constant
from tightrope_lab.theory.capped import capped_ends, regret_bound_capped, violation_ends_linear_capped
from tightrope_lab.theory.paper import (
    paper_schedules,
    regret_bound,
    regret_bound_linear,
    tail_bound,
    tail_starts,
    violation_bound,
    violation_bound_linear,
    violation_ends,
    violation_ends_linear,
    violation_ends_schedule,
)
from tightrope_lab.theory.totals import Steering, Summed, expected_violation_ends, violation_probability_ends


def _promise(words: str, trivial: str = "T") -> Any:
    """A field that the table shows under these words, beside what holds without any theorem."""
    return field(metadata={"words": words, "trivial": trivial})


@dataclass(frozen=True)
class Guarantees:
    """What is promised by round T; made by `guarantees`, printed as a table.

    Of the paper's policy, whose r̂ is not clipped at 0: what a confidence set that fails can cost in T rounds is added wherever a
    theorem does not cover it. `violation_ends_best` is the earliest of all proofs, and `paths_end` the round from which one run is
    in violation with a probability below 1 %, None where 1/T is more than that. The `_capped` fields are of the same policy with
    `tightening="capped"`. The `_linear` fields are None unless K = 1, the only case in which Theorem 2 is stated.

    >>> guarantees(K=2, delta=0.5, d=4, T=100).regret_linear is None
    True
    """

    K: int
    delta: float
    d: int
    T: int
    regret: float = _promise("regret by round T")
    violation: float = _promise("violation by round T", "KT")
    violation_ends: int = _promise("no violation from round")
    violation_ends_sharp: int | None = _promise("the same, sharper proof")
    violation_ends_best: int | None = _promise("the same, best proof")
    paths_end: int | None = _promise("a path violates: < 1 % from")
    tail: float = _promise("P(a path violates at T)", "1")
    tail_starts: int = _promise("path bound holds from round")
    regret_capped: float = _promise("capped: regret by round T")
    violation_ends_capped: int = _promise("capped: no violation from")
    paths_end_capped: int = _promise("capped: a path, < 1 % from")
    regret_linear: float | None = _promise("regret by T, learnt costs")
    violation_linear: float | None = _promise("violation by T, learnt costs", "KT")
    violation_ends_linear: int | None = _promise("none from, learnt costs")
    violation_ends_linear_capped: int | None = _promise("capped: none from, learnt")

    def __str__(self) -> str:
        """Each bound beside what holds without any theorem: regret ≤ T, violation ≤ K·T, probability ≤ 1."""
        without = {"T": self.T, "KT": self.K * self.T, "1": 1}
        lines = [f"K = {self.K}, delta = {self.delta:g}, d = {self.d}, T = {self.T}"]
        lines.append(f"{'promise':<30}{'bound':>13}{'trivial':>13}  informative")
        for one in fields(self):
            value = getattr(self, one.name)
            if one.metadata and not (value is None and "linear" in one.name):
                bound, trivial = math.inf if value is None else value, without[one.metadata["trivial"]]
                sees = "yes" if bound < trivial else "no"
                lines.append(f"{one.metadata['words']:<30}{bound:>13.7g}{trivial:>13.7g}  {sees}")
        return "\n".join(lines)


def guarantees(*, K: int, delta: float, d: int, T: int, m: float = 1.0) -> Guarantees:
    """Every promise of the theorems, mended, for one problem, with λ = 1.

    m bounds ‖θ*‖ for costs known before acting; Theorem 2 has m = 1.

    >>> guarantees(K=18, delta=0.00625, d=20, T=62_500).violation_ends > 1e16     # the hospital
    True
    """
    single, capped = K == 1, capped_ends(K=K, delta=delta) if K else (1, 1)
    V, epsilon = paper_schedules(slater_constant(delta), known_costs(max(1, whole_number("K", K, low=0))))
    steering = Steering(K, delta, V, Summed(epsilon))
    ends = (
        violation_ends(K=K, delta=delta),
        violation_ends_schedule(steering, T=T),
        expected_violation_ends(steering, T=T),
    )
    return Guarantees(
        *(K, delta, d, T),
        regret=regret_bound(float(T), K=K, delta=delta, d=d, T=T, m=m),
        violation=violation_bound(float(T), K=K, delta=delta),
        violation_ends=ends[0],
        violation_ends_sharp=ends[1],
        violation_ends_best=min(end for end in ends if end is not None),
        paths_end=violation_probability_ends(steering, 0.01, T=T),
        tail=tail_bound(float(T), K=K, delta=delta, T=T),
        tail_starts=tail_starts(K=K, delta=delta),
        regret_linear=regret_bound_linear(float(T), delta=delta, d=d, T=T) if single else None,
        violation_linear=violation_bound_linear(float(T), delta=delta, d=d, T=T) if single else None,
        violation_ends_linear=violation_ends_linear(delta=delta, d=d, T=T) if single else None,
        regret_capped=regret_bound_capped(float(T), K=K, delta=delta, d=d, T=T, m=m),
        violation_ends_capped=capped[0],
        paths_end_capped=capped[1],
        violation_ends_linear_capped=violation_ends_linear_capped(delta=delta, d=d, T=T) if single else None,
    )
