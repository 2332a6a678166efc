"""Who is best: every policy's runs in every scenario, side by side, measured alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tightrope.environments.scenarios import Scenario
from tightrope.intervals import mean_interval
from tightrope.result import Estimate, Result
from tightrope.result.curves import UNKNOWN
from tightrope.validation import Array

CENTRE = "shadow-price"  # whom the others are compared with
KNOWS_ALL = ("oracle",)  # has no place, since it knows the truth


@dataclass(frozen=True)
class Misfit:
    """A policy that was not run in a scenario, and why."""

    policy: str
    scenario: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Performance:
    """One policy's runs in one scenario.

    `result` is the simulation. `excess` (R,) is the mean over rounds of Σ_k (w̄_k)⁺, where w̄ are the mean costs of the mixture that
    the policy played in that round, given the context: its own `mixture` where it tells one, else the action that it took. `above`
    (R,) is the share of rounds in which some w̄_k > 0. `microseconds` (R,) is the median time of one `decide` with its `learn`.
    """

    policy: str
    kind: str
    scenario: str
    settings: str
    result: Result
    excess: Array
    above: Array
    microseconds: Array

    def row(self) -> dict[str, Any]:
        """What belongs to the whole run, as plain data."""
        row: dict[str, Any] = {"kind": self.kind, "settings": self.settings}
        measured = {"round_violation": self.excess, "rounds_violated": self.above}
        for name, values in (measured | {"decision_microseconds": self.microseconds}).items():
            row |= over_runs(values, least=0.0).columns(name)
        row |= self.result.last_violated().estimate.columns("last_violation")
        return row

    @property
    def kept(self) -> bool:
        """Whether no violation at the end is shown: no run ended in one, or the interval of the expected one reaches down to 0."""
        # The expected violation averages the noise of costs out, which hides that a budget was never overspent in any run.
        paths, expected = self.result.path_violation.paths, self.result.violation.at()
        if paths is not None and not paths[:, -1].any():
            return True
        return not (expected.low if math.isfinite(expected.low) else expected.mean) > 0.0


@dataclass(frozen=True, eq=False)
class League:
    """What `compare` found: who played where and how well, who did not and why, and the way to a table.

    `left_out` are the scenarios that could not be made, with the reasons.
    """

    scenarios: Mapping[str, Scenario]
    optima: Mapping[str, float]
    performances: tuple[Performance, ...]
    misfits: tuple[Misfit, ...]
    rounds: int
    replications: int
    seed: int
    seconds: float
    interrupted: bool = False
    command: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)

    def of(self, scenario: str) -> list[Performance]:
        """The performances in a scenario, best first: those that kept the constraints by regret, then the others by violation."""

        def order(one: Performance) -> tuple[bool, float, float]:
            return not one.kept, 0.0 if one.kept else final_violation(one), final_regret(one)

        return sorted((one for one in self.performances if one.scenario == scenario), key=order)

    def place(self, performance: Performance) -> int | None:
        """1 for the lowest regret of those that kept the constraints and did not know the truth; None for those without a place."""
        able = [one for one in self.of(performance.scenario) if one.kept and one.policy not in KNOWS_ALL]
        return able.index(performance) + 1 if performance in able else None

    def gap(self, performance: Performance) -> Array | None:
        """Regret minus that of `CENTRE`, run by run on the same draws, (R, G); None where it did not play."""
        for other in self.performances:
            if other.scenario == performance.scenario and other.policy == CENTRE and other is not performance:
                return np.asarray(other.result.reward - performance.result.reward)
        return None

    def rows(self) -> list[dict[str, Any]]:
        """One row for each performance and recorded round, ready for JSON."""
        rows = []
        for performance in self.performances:
            whole, gap = performance.row(), self.gap(performance)
            verdict = {"kept": performance.kept, "place": self.place(performance)}
            for g, row in enumerate(performance.result.rows()):
                difference = UNKNOWN if gap is None else over_runs(gap[:, g])
                rows.append({**row, **whole, **difference.columns("regret_gap"), **verdict})
        return rows

    def final_rows(self) -> list[dict[str, Any]]:
        """The rows of the last round."""
        return [row for row in self.rows() if row["round"] == self.rounds]

    def overview(self) -> list[dict[str, Any]]:
        """For each scenario the policy with the lowest regret of those that kept the constraints, and where `CENTRE` stands."""
        found = []
        for scenario in self.scenarios.values():
            performances = self.of(scenario.name)
            ranked = [one for one in performances if self.place(one) is not None]
            best = ranked[0] if ranked else None
            ours = next((one for one in performances if one.policy == CENTRE), None)
            row: dict[str, Any] = {"scenario": scenario.name, "best": best and best.policy}
            row |= {"regret": best and final_regret(best), "violation": best and final_violation(best)}
            row |= {"ours": ours and final_regret(ours), "place": ours and self.place(ours)}
            found.append({**row, "ranked": len(ranked), "ran": ours is not None})
        return found


def standing(one: Mapping[str, Any]) -> str:
    """Where `CENTRE` stands in a scenario, in words, from an entry of `League.overview`.

    >>> standing({"ran": True, "place": 2, "ranked": 5})
    '2 of 5'
    """
    if not one["ran"]:
        return "not run"
    return "violates" if one["place"] is None else f"{one['place']} of {one['ranked']}"


def final_regret(performance: Performance) -> float:
    """The mean regret after the last round."""
    return float(performance.result.regret.mean[-1])


def final_violation(performance: Performance) -> float:
    """The expected violation after the last round."""
    return float(performance.result.violation.mean[-1])


def over_runs(values: Array, least: float = -math.inf) -> Estimate:
    """Mean over runs with its 95 % t-interval, cut off at `least`; the ends are nan with one run."""
    mean, low, high = map(float, mean_interval(values))
    # In this order nan stays nan.
    return Estimate(mean, max(low, least), high)
