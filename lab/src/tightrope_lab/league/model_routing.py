"""Queries of three kinds to one of four language models, in worlds that change: a switch, a slow drift, seasons, another limit.

The average price is capped, and the dearest model takes 10 % at most. Two models, blue and green, cost the same; which of them is
better is what changes, or the cap.

>>> seasons().split(1000)[1][:2]
(251, 500)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tightrope.environments.drifting import Drifting
from tightrope.environments.tabular import Tabular
from tightrope.rules import Budget, Capacity, Rules

__all__ = ["seasons", "slow_drift", "switching_best", "tightened_limit"]

MODELS = ("house", "blue", "green", "reasoning")
LIMIT, TIGHTER = 0.35, 0.25
STEPS = 20
_KINDS = (0.5, 0.3, 0.2)
_PRICE = np.array([[0.02, 0.36, 0.36, 0.70], [0.03, 0.44, 0.44, 0.90], [0.03, 0.48, 0.48, 1.00]])
_QUALITY = np.array([[0.70, 0.86, 0.62, 0.88], [0.40, 0.80, 0.50, 0.90], [0.25, 0.60, 0.36, 0.92]])


def switching_best() -> Drifting:
    """Half-way blue and green change places."""
    return _worlds("switching-best", [0.0, 1.0])


def slow_drift() -> Drifting:
    """Blue loses to green what it is ahead by, in steps that nobody would notice."""
    return _worlds("slow-drift", np.linspace(0.0, 1.0, STEPS + 1).tolist())


def seasons() -> Drifting:
    """Blue and green change places, back, and once more."""
    return _worlds("seasons", [0.0, 1.0, 0.0, 1.0])


def tightened_limit() -> Drifting:
    """Half-way the cap on the average price falls."""
    return _worlds("tightened-limit", [0.0, 0.0], [LIMIT, TIGHTER])


def _worlds(name: str, progress: Sequence[float], limits: Sequence[float] | None = None) -> Drifting:
    """One phase after another: how far blue and green have changed places in each, and the cap."""
    limits = limits or [LIMIT] * len(progress)
    rules = [
        Rules([Budget("price", at_most=limit), Capacity("reasoning", at_most=0.1)], actions=list(MODELS))
        for limit in limits
    ]
    ranges = np.array([one.cost_range for one in rules])
    ends = np.column_stack([ranges[:, :, 0].min(axis=0), ranges[:, :, 1].max(axis=0)])
    swapped = _QUALITY[:, [0, 2, 1, 3]]
    phases = []
    for share, one in zip(progress, rules):
        quality = (1.0 - share) * _QUALITY + share * swapped
        costs = np.stack([one.costs({"price": price}) for price in _PRICE])
        about: dict[str, Any] = {"cost_range": ends, "actions": MODELS, "rules": one, "name": "tabular"}
        phases.append(Tabular(_KINDS, np.eye(3), quality, costs, **about))
    return Drifting(phases, name=name)
