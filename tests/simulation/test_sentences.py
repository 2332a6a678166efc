"""Sentences about runs, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tightrope.result import Result
from tightrope.simulation.page import earned, kept, told


def runs(last: list[list[int]], reward: float = 9.0, **changes: Any) -> Result:
    """Ten rounds of as many runs as there are rows of last violated rounds."""
    R, K = np.asarray(last).shape
    totals = np.where(np.asarray(last) == 10, 1.0, -1.0)[:, None, :]
    values: dict[str, Any] = {
        "policy": "safe",
        "scenario": "by hand",
        "rounds": [10],
        "reward": np.full((R, 1), reward),
        "observed_reward": np.full((R, 1), reward),
        "cost": totals,
        "mean_cost": totals,
        "counts": np.full((R, 1, 1), 10),
        "last_violation": last,
        "optimum": 1.0,
        "optimum_interval": None,
        "baseline": "given",
        "seed": 0,
        "actions": ["a"],
        "constraints": [f"rule {k}" for k in range(K)],
        "seconds": 0.0,
    }
    return Result(**{**values, **changes})


def test_what_was_earned() -> None:
    assert earned(runs([[0]])) == "earned 0.9 per round, 90.0\u00a0% of the optimum"
    assert earned(runs([[0]], optimal_reward=[18.0])) == "earned 0.9 per round, 50.0\u00a0% of the optimum"
    assert earned(runs([[0]], optimum=None)) == "earned 0.9 per round"
    assert earned(runs([[0]], optimum=-1.0)) == "earned 0.9 per round", "no part of nothing"


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ([[0, 0], [0, 0]], "all rules held in every round of all 2 runs"),
        ([[0]], "the rule held in every round of the run"),
        ([[3, 0], [0, 5]], "all rules held from round 6 on in all 2 runs (on average from round 5)"),
        ([[4]], "the rule held from round 5 on in the run"),
        ([[0, 10], [9, 0]], "in 1 of 2 runs a rule was still broken in the last round, most often “rule 1”"),
        (np.zeros((2, 0), dtype=int), "there are no rules"),
    ],
)
def test_which_rules_held_when(last: Any, said: str) -> None:
    assert kept(runs(last)) == said
    assert told("safe", runs(last)).endswith(f"; {said}.")
