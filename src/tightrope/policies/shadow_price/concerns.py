"""What the shadow-price policy can't do: meet rules that can't be met on what it has seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tightrope.concerns import Concern
from tightrope.policies.hooks import Watched
from tightrope.policies.watch import FIRST_LOOK, constraint_words, costs_awaited

_CONFLICT = (
    "`policy.conflict()` in Python, or `tightrope oracle SPEC`, names the rules that exclude each other and the smallest change of "
    "their limits that would help."
)


def hopeless(policy: Watched, unmet: NDArray[np.bool_], late: NDArray[np.int64]) -> list[Concern]:
    """Rules whose price is at its limit while their mean cost stays above zero; not if their costs were hardly ever seen."""
    if policy.rounds < FIRST_LOOK or not unmet.any():
        return []
    if 2 * costs_awaited(policy.hooks) >= policy.rounds:
        unmet[late] = False
    found = np.flatnonzero(unmet)
    if not len(found):
        return []
    words = constraint_words(policy.hooks.rules, len(unmet))
    which = "; ".join(words[k] for k in found[:3].tolist()) + (
        f"; and {len(found) - 3} others" if len(found) > 3 else ""
    )
    return [
        Concern(
            "rules that can't be met",
            f"In the {policy.rounds:,} rounds seen, no choice of actions keeps this along with the other rules: {which}.",
            f"{_CONFLICT} You can change a limit while the policy runs.",
        )
    ]


def remedy_of_totals(unmet: NDArray[np.bool_], constraints: Sequence[int]) -> str:
    if unmet[list(constraints)].any():
        return _CONFLICT
    return (
        "The excess is being paid back if some mix of actions leaves slack: `policy.conflict()`, or `tightrope oracle SPEC`, "
        "says whether one does. More `caution`, the `guard` for costs that are known before acting, or a log of past rounds to "
        "start from keep totals further from zero."
    )
