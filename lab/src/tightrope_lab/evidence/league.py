"""The league with all defaults, against the regret that is asked for in each scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tightrope_lab.evidence.contestants import DEFAULT, PAPER, default_policy
from tightrope_lab.evidence.outcome import outcome_of
from tightrope_lab.evidence.size import Size
from tightrope_lab.league import ROSTER
from tightrope_lab.league.scenarios import scenario

# The most regret that the default may have after 10,000 rounds, on average over runs.
ASKED = {
    "bandit-slack": 30,
    "bandit-binding": 130,
    "hospital": 80,
    "fair-jobs": 85,
    "ads-budget": 60,
    "model-routing": 115,
    "safe-dosing": 45,
    "sleeping-fractions": 45,
    "knapsack-stop": 170,
    "conservative-baseline": 30,
    "tight-slater": 80,
    "loose-slater": 90,
    "many-constraints": 40,
    "changing-actions": 70,
}


def steps(size: Size) -> int:
    """How many times `run` advances."""
    return len(size.scenarios)


def run(size: Size, seed: int, workers: int, advance: Callable[[], None]) -> dict[str, Any]:
    """The default and the paper's policy, on the same draws; `tightrope compare` has all others beside them."""
    rows: list[dict[str, Any]] = []
    for name in size.scenarios:
        found = scenario(name)
        made = {"default": default_policy(found.env), "paper": ROSTER[PAPER].make(found, size.league_rounds)}
        for role, policy in made.items():
            T, R, called = size.league_rounds, size.league_runs, DEFAULT if role == "default" else PAPER
            one = outcome_of(policy, found.env, T, R, seed, workers=workers, name=called)
            rows += one.rows(found.optimum, part="league", role=role, asked=ASKED[name])
        advance()
    return {"rounds": size.league_rounds, "runs": size.league_runs, "rows": rows}
