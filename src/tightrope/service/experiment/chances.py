"""With which probability an action was served, as the journal keeps it."""

from __future__ import annotations

import math
from typing import Final

from tightrope.errors import InvalidInput
from tightrope.policies import Decision
from tightrope.policies.hooks import PolicyHooks

# The probability of an action that was not drawn, and those of the others.
CERTAIN: Final = (1.0, None)


def probabilities_of(decision: Decision, hooks: PolicyHooks) -> tuple[float | None, bytes | None]:
    """Probabilities for the journal: the action's, and those of all on offer unless they are 1 and 0; None if not known."""
    if not hooks.randomised and decision.probability == 1.0:
        return 1.0, None
    try:
        # Read once: a policy may compute them on access.
        chances = decision.probabilities
    except InvalidInput:
        # Too many actions to compute them. The decision stands.
        return None, None
    probability = float(chances[decision.row])
    if math.isnan(probability):
        return None, None
    return probability, None if probability == 1.0 else chances.tobytes()
