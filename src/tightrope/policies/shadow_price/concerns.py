"""What the shadow-price policy can't do: meet rules that can't be met on what it has seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tightrope.concerns import Concern
from tightrope.policies.hooks import Watched
from tightrope.policies.shadow_price.pacing.limits import PacedLimit
from tightrope.policies.watch import FIRST_LOOK, constraint_words, costs_awaited

# The share of rounds from which on avoidable ones are a concern.
LEAST_AVOIDABLE = 0.01
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


def too_little(
    rounds: int, limits: Sequence[PacedLimit], names: Sequence[str], unmet: NDArray[np.float64]
) -> list[Concern]:
    """Limits per window that no price keeps, at the traffic that is expected."""
    found = [name for name, one, over in zip(names, limits, unmet.tolist()) if over and not one.by]
    if rounds < FIRST_LOOK or not found:
        return []
    return [
        Concern(
            "limits per window that can't be met",
            f"With the decisions still expected in this window, even the cheapest choices exceed: {'; '.join(found[:3])}.",
            "Raise the limit, add a cheaper action, or say hard=True and offer an action that uses nothing.",
        )
    ]


def avoidable(policy: Watched, rounds: int, guarded: bool) -> list[Concern]:
    """Rounds whose action led a total above zero though another on offer would have led none there."""
    if policy.rounds < FIRST_LOOK or rounds < LEAST_AVOIDABLE * policy.rounds:
        return []
    return [
        Concern(
            "totals that need not be above zero",
            f"In {rounds:,} of {policy.rounds:,} rounds the action taken led a total above zero, though another on offer would "
            "have led none there.",
            "They were committed in place of the policy's own choice. An action with probability 0 is one that it would not take."
            if guarded
            else "With `guard=True` such an action is taken only where every action leads a total above zero.",
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
