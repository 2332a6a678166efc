"""How much the evidence is made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class Size:
    """Rounds and runs of each part; with which seed and on how many cores, and the folder of public tables."""

    scenarios: tuple[str, ...] = tuple(ASKED)
    league_rounds: int = 10_000
    league_runs: int = 20
    tables: tuple[str, ...] = ("digits", "breast-cancer", "wine", "satimage", "coupons")
    table_rounds: tuple[int, ...] = (500, 2_000, 10_000, 50_000)
    table_runs: int = 4
    worlds: int = 60
    world_rounds: int = 10_000
    world_runs: int = 4
    example_seeds: int = 100
    seed: int = 0
    workers: int = 1
    data: Path | None = None

    @property
    def steps(self) -> dict[str, int]:
        """How many times each part advances."""
        example, worlds = 2 * self.example_seeds + 1, self.worlds
        return {
            "example": example,
            "league": len(self.scenarios),
            "tables": len(self.tables),
            "worlds": worlds,
        }


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
