"""Who is best: every policy's runs in every scenario, side by side, measured alike; differences that runs do not show are ties."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tightrope import displays
from tightrope.frames import AsFrame
from tightrope.intervals import mean_interval
from tightrope.report import format_number
from tightrope.result import Estimate, Result
from tightrope.result.curves import UNKNOWN
from tightrope.validation import Array
from tightrope_lab.league.scenarios import Scenario

CENTRE = "shadow-price"  # whom the others are compared with
KNOWS_ALL = ("oracle",)  # has no place, since it knows the truth
MOST_ABOVE = 0.1  # share of the rounds in which some total may be above 0, on average over runs
SOFTENING = 20.0  # added to regrets before their ratio is taken: differences of a few rewards are chance

KEPT, ENDS_ABOVE, LONG_ABOVE = "kept", "ends in violation", "too long above zero"


@dataclass(frozen=True)
class Misfit:
    """A policy that was not run in a scenario, and why."""

    policy: str
    scenario: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Performance:
    """One policy's runs in one scenario.

    `result` is the simulation. With S the totals, cumulative costs as drawn, `rounds_above` (R,) counts the rounds of each run with
    some S_k > 0, and `peak` (R,) is the most that Σ_k (S_k)⁺ came to in any round. `excess` (R,) is the mean over rounds of
    Σ_k (w̄_k)⁺, where w̄ are the mean costs of the mixture that the policy played in that round, given the context: its own `mixture`
    where it tells one, else the action that it took. `above` (R,) is the share of rounds in which some w̄_k > 0. `microseconds`
    (R,) is the median time of one `decide` with its `learn`.
    """

    policy: str
    kind: str
    scenario: str
    settings: str
    result: Result
    rounds_above: Array
    peak: Array
    excess: Array
    above: Array
    microseconds: Array

    def row(self) -> dict[str, Any]:
        """What belongs to the whole run, as plain data."""
        row: dict[str, Any] = {"kind": self.kind, "settings": self.settings, "verdict": self.verdict}
        row |= self.result.last_violated().estimate.columns("last_violation")
        row |= over_runs(self.rounds_above, least=0.0).columns("rounds_above")
        row |= {"rounds_above_max": float(self.rounds_above.max())}
        row |= over_runs(self.peak, least=0.0).columns("peak_violation")
        row |= {"worst_path_violation": self.worst_path}
        measured = {"round_violation": self.excess, "rounds_violated": self.above}
        for name, values in (measured | {"decision_microseconds": self.microseconds}).items():
            row |= over_runs(values, least=0.0).columns(name)
        return row

    def __repr__(self) -> str:
        regret = self.result.regret.at()
        return f"Performance({self.policy!r} on {self.scenario!r}: regret {regret}, {self.verdict})"

    @property
    def worst_path(self) -> float:
        """The most that Σ_k (S_k)⁺ came to, in any round of any run."""
        return float(self.peak.max())

    @property
    def verdict(self) -> str:
        """Whether the rules were kept, and if not, why not."""
        if not self._kept_at_the_end:
            return ENDS_ABOVE
        share = float(self.rounds_above.mean()) / self.result.n_rounds
        return KEPT if share <= MOST_ABOVE else LONG_ABOVE

    @property
    def kept(self) -> bool:
        """No violation at the end is shown, and on average over runs at most a tenth of the rounds has some total above 0.

        None is shown at the end if no run ended in one, or if the interval of the expected one reaches down to 0.
        """
        return self.verdict == KEPT

    @property
    def _kept_at_the_end(self) -> bool:
        # The expected violation averages the noise of costs out, which hides that a budget was never overspent in any run.
        paths, expected = self.result.path_violation.paths, self.result.violation.at()
        if paths is not None and not paths[:, -1].any():
            return True
        return not (expected.low if math.isfinite(expected.low) else expected.mean) > 0.0


class Place(NamedTuple):
    """Where a policy stands in a scenario: 1 and how many are shown to be better, and with whom it is tied, best first."""

    number: int
    tied_with: tuple[str, ...]
    shared: bool

    def __str__(self) -> str:
        """The number, with = where others have it too."""
        return f"{self.number}{'=' if self.shared else ''}"


@dataclass(frozen=True, eq=False)
class League(AsFrame):
    """What `compare` found: who played where and how well, who did not and why, and the way to a table.

    `left_out` are the scenarios that could not be made, with the reasons.

    Places are of those that keep the rules and do not know the truth. Two of them are tied in a scenario if the 95 % interval of the
    difference in their regrets, run by run on the same draws, includes 0. Else the lower mean is the better. A place is 1 and the
    number of those that are better.
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

    def __repr__(self) -> str:
        size = f"rounds={self.rounds}, replications={self.replications}, seed={self.seed}"
        policies = len({one.policy for one in self.performances})
        return f"League(policies={policies}, scenarios={len(self.scenarios)}, {size})"

    def _repr_html_(self) -> str:
        """The ranking over all scenarios, and who is best in each."""
        size = f"{self.rounds:,} rounds, {self.replications:,} replications, seed {self.seed}"
        return displays.page(
            f"League: {size}{', interrupted' if self.interrupted else ''}",
            *(displays.table(head, rows) for head, rows in reversed(self.tables())),
            displays.lines_of(f"{name} is left out: {why}" for name, why in self.left_out.items()),
        )

    def tables(self) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
        """Who is best in each scenario, and every policy over all scenarios, as text: head and rows of each."""
        best: list[tuple[str, ...]] = []
        for one in self.overview():
            regrets = format_number(one["regret"]), format_number(one["ours"])
            best.append((one["scenario"], ", ".join(one["first"]) or "–", *regrets, standing(one)))
        scores: list[tuple[str, ...]] = []
        for row in self.scores():
            kept, ratios = f"{row['kept']} of {row['played']}", (row["ratio"], row["ratio_worst"])
            worst = (*map(ratio_text, ratios), row["worst_scenario"] or "–")
            scores.append((row["policy"], kept, str(row["first_or_tied"]), *worst))
        by_scenario = ("scenario", "first or tied", "lowest regret", f"regret of {CENTRE}", "its place")
        overall = "policy", "keeps the rules in", "first or tied in", "mean ratio to the best", "worst", "on"
        return [(by_scenario, best), (overall, scores)]

    def frame_rows(self) -> list[dict[str, Any]]:
        """One row for each performance and recorded round, as `rows` gives them."""
        return self.rows()

    def of(self, scenario: str) -> list[Performance]:
        """The performances in a scenario, best first: those that kept the constraints by regret, then the others by violation."""

        def order(one: Performance) -> tuple[bool, float, float]:
            return not one.kept, 0.0 if one.kept else final_violation(one), final_regret(one)

        return sorted((one for one in self.performances if one.scenario == scenario), key=order)

    def place(self, performance: Performance) -> Place | None:
        """Where it stands in its scenario; None for those without a place."""
        return self._places.get(id(performance))

    def best(self, scenario: str) -> Performance | None:
        """The lowest mean regret of those with a place; it may be tied with others."""
        return next((one for one in self.of(scenario) if self.place(one) is not None), None)

    @cached_property
    def _places(self) -> dict[int, Place]:
        found = {}
        for scenario in dict.fromkeys(one.scenario for one in self.performances):
            able = [one for one in self.of(scenario) if one.kept and one.policy not in KNOWS_ALL]
            tied = [[two is not one and are_tied(one, two) for two in able] for one in able]
            # They stand in the order of their means, so that only earlier ones can be better.
            numbers = [1 + i - sum(row[:i]) for i, row in enumerate(tied)]
            for one, number, row in zip(able, numbers, tied, strict=True):
                names = tuple(two.policy for two, same in zip(able, row, strict=True) if same)
                found[id(one)] = Place(number, names, numbers.count(number) > 1)
        return found

    def ratio(self, performance: Performance) -> float | None:
        """(regret + 20) / (regret of the best with a place + 20), regrets below 0 counted as 0; None where nobody has a place.

        1 for the lowest mean regret. Below 1 only for who knows the truth or breaks the rules.
        """
        best = self.best(performance.scenario)
        if best is None:
            return None
        mine, least = (max(0.0, final_regret(who)) + SOFTENING for who in (performance, best))
        return mine / least

    def scores(self) -> list[dict[str, Any]]:
        """One row for each policy: how many scenarios it played and kept, the mean of its ratios and the worst of them.

        `ratio`, `ratio_worst` and `worst_scenario` are over the scenarios that it kept, `ratio_played` and `ratio_played_worst`
        over all that it played. `first` counts the scenarios in which it is ahead of all others, `first_or_tied` those in which none
        is shown to be better. Those that kept most come first, the lower mean before the higher; who knows the truth, last.
        """
        found = []
        for name in dict.fromkeys(one.policy for one in self.performances):
            mine = [one for one in self.performances if one.policy == name]
            ratios = {one.scenario: ratio for one in mine if (ratio := self.ratio(one)) is not None}
            kept = {one.scenario: ratios[one.scenario] for one in mine if one.kept and one.scenario in ratios}
            row: dict[str, Any] = {"policy": name, "played": len(mine), "kept": sum(one.kept for one in mine)}
            firsts = [place for one in mine if (place := self.place(one)) is not None and place.number == 1]
            row |= {"first": sum(not place.shared for place in firsts), "first_or_tied": len(firsts)}
            row |= {"ratio": _mean(kept), "ratio_worst": max(kept.values(), default=None)}
            row |= {"worst_scenario": max(kept, key=lambda where: kept[where], default=None)}
            row |= {"ratio_played": _mean(ratios), "ratio_played_worst": max(ratios.values(), default=None)}
            found.append(row)

        def order(row: dict[str, Any]) -> tuple[bool, float, float]:
            mean = math.inf if row["ratio"] is None else row["ratio"]
            return row["policy"] in KNOWS_ALL, -row["kept"] / row["played"], mean

        return sorted(found, key=order)

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
            place = self.place(performance)
            tied = place and ", ".join(place.tied_with)
            verdict: dict[str, Any] = {"kept": performance.kept, "place": place and place.number}
            verdict |= {"shared_place": place and place.shared, "tied_with": tied}
            verdict["ratio"] = self.ratio(performance)
            for g, row in enumerate(performance.result.rows()):
                difference = UNKNOWN if gap is None else over_runs(gap[:, g])
                rows.append({**row, **whole, **difference.columns("regret_gap"), **verdict})
        return rows

    def final_rows(self) -> list[dict[str, Any]]:
        """The rows of the last round."""
        return [row for row in self.rows() if row["round"] == self.rounds]

    def overview(self) -> list[dict[str, Any]]:
        """For each scenario the policy with the lowest mean regret of those that kept the constraints, and where `CENTRE` stands.

        `first` names all that are first or tied for first.
        """
        found = []
        for scenario in self.scenarios.values():
            performances = self.of(scenario.name)
            ranked = [one for one in performances if self.place(one) is not None]
            best = ranked[0] if ranked else None
            ours = next((one for one in performances if one.policy == CENTRE), None)
            row: dict[str, Any] = {"scenario": scenario.name, "best": best and best.policy}
            row |= {"regret": best and final_regret(best), "violation": best and final_violation(best)}
            firsts = [one.policy for one in ranked if (place := self.place(one)) and place.number == 1]
            place = None if ours is None else self.place(ours)
            row |= {"first": firsts, "ours": ours and final_regret(ours), "place": place and str(place)}
            row |= {"ratio": ours and self.ratio(ours), "verdict": ours and ours.verdict}
            found.append({**row, "ranked": len(ranked)})
        return found


def standing(one: Mapping[str, Any]) -> str:
    """Where `CENTRE` stands in a scenario, in words, from an entry of `League.overview`."""
    if one["verdict"] is None:
        return "not run"
    return one["verdict"] if one["place"] is None else f"{one['place']} of {one['ranked']}"


def final_regret(performance: Performance) -> float:
    """The mean regret after the last round."""
    return float(performance.result.regret.mean[-1])


def are_tied(one: Performance, other: Performance) -> bool:
    """Whether the interval of the difference in their regrets, run by run, includes 0; so it does with a single run."""
    difference = over_runs(other.result.reward[:, -1] - one.result.reward[:, -1])
    return not (difference.low > 0.0 or difference.high < 0.0)


def final_violation(performance: Performance) -> float:
    """The expected violation after the last round."""
    return float(performance.result.violation.mean[-1])


def ratio_text(ratio: float | None) -> str:
    """A ratio for people."""
    return "–" if ratio is None else f"{ratio:.2f}"


def _mean(ratios: Mapping[str, float]) -> float | None:
    return sum(ratios.values()) / len(ratios) if ratios else None


def over_runs(values: Array, least: float = -math.inf) -> Estimate:
    """Mean over runs with its 95 % t-interval, cut off at `least`; the ends are nan with one run."""
    mean, low, high = map(float, mean_interval(values))
    # In this order nan stays nan.
    return Estimate(mean, max(low, least), high)
