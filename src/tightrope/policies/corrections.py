"""Outcomes that were reported wrongly and are corrected after they were learnt."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightrope.models import Model, hooks
from tightrope.models.hooks import Corrected
from tightrope.policies.policy import Policy
from tightrope.validation import Array


class Lesson(NamedTuple):
    """What a model learnt of a decision: its features, the outcome as it was reported and as it is now, and its action."""

    features: Array | None
    was: Array
    now: Array
    action: int


def correct(
    policy: Policy, number: int, reward: Lesson | None, costs: Lesson | None, late: NDArray[np.integer]
) -> Corrected:
    """Correct what was learnt of decision `number`, and the totals of the constraints `late`; returns what models made of it.

    >>> import tightrope as tr
    >>> policy = tr.ShadowPrice(reward=tr.ArmMeans(2))
    >>> decision = policy.decide()
    >>> policy.learn(decision, 10.0)
    >>> correct(policy, 0, Lesson(None, np.array([10.0]), np.array([1.0]), decision.action), None, np.arange(0))
    'exactly'
    >>> float(policy.hooks.reward_model().means()[decision.action].round(9))
    1.0
    """
    own, found = policy.hooks, set[Corrected]()
    taught = [
        (model, lesson)
        for model, lesson in ((own.reward, reward), (own.cost, costs))
        if lesson is not None and isinstance(model, Model)
    ]
    for model, lesson in taught:
        hooks.check_outcome(model, lesson.now)
    for model, lesson in taught:
        if not np.array_equal(lesson.was, lesson.now):
            found.add(hooks.correct(model, lesson.features, lesson.was, lesson.now, lesson.action, number))
    if costs is not None and own.n_constraints:
        whole = np.zeros(own.n_constraints)
        whole[late] = costs.now - costs.was
        own.book_correction(whole)
    own.pending.version += 1
    return "not" if "not" in found else "at the next fit" if "at the next fit" in found else "exactly"
