"""How much the evidence is made of."""

from __future__ import annotations

from dataclasses import dataclass

SCENARIOS = (
    "bandit-slack bandit-binding hospital fair-jobs ads-budget model-routing safe-dosing sleeping-fractions "
    "knapsack-stop conservative-baseline tight-slater loose-slater many-constraints changing-actions"
)


@dataclass(frozen=True)
class Size:
    """Rounds and runs of each part."""

    scenarios: tuple[str, ...] = tuple(SCENARIOS.split())
    league_rounds: int = 10_000
    league_runs: int = 20
    tables: tuple[str, ...] = ("digits", "cancer", "wine", "satimage", "coupons")
    table_rounds: tuple[int, ...] = (500, 2_000, 10_000, 50_000)
    table_runs: int = 4
    worlds: int = 60
    world_rounds: int = 10_000
    world_runs: int = 4
    example_seeds: int = 100


FULL = Size()
QUICK = Size(
    scenarios=("sleeping-fractions",),
    league_rounds=500,
    league_runs=2,
    tables=("wine", "satimage"),
    table_rounds=(100, 400),
    table_runs=2,
    worlds=3,
    world_rounds=400,
    world_runs=2,
    example_seeds=2,
)
