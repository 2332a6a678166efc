"""A made world to judge policies in: what is true of it is known."""

from __future__ import annotations

import numpy as np

from tightrope.offpolicy import Evaluation, Measure

# Four contexts, three actions: the third earns most, may be taken in 40 % of the rounds, and uses the most of the hours.
WEIGHTS = np.array([0.3, 0.3, 0.2, 0.2])
FEATURES = np.array([[1.0, 0.2, 0.1], [1.0, 0.8, 0.3], [1.0, 0.4, 0.9], [1.0, 0.9, 0.8]]) / 2
REWARDS = np.array([[0.3, 0.5, 0.8], [0.4, 0.5, 0.9], [0.5, 0.55, 0.7], [0.2, 0.6, 0.85]])
HOURS = np.array([[0.1, 0.4, 0.9], [0.2, 0.5, 0.8], [0.1, 0.3, 1.0], [0.3, 0.6, 0.9]])
COSTS = np.stack([np.tile([-0.4, -0.4, 0.6], (4, 1)), HOURS - 0.5], axis=2)
NOISE = 0.1  # of costs seen after acting, either way


def measures(found: Evaluation) -> list[Measure]:
    """The reward and every constraint."""
    return [found.reward, *found.constraints]
