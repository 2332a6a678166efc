"""The league with all defaults, against the regret that is asked for in each scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tightrope.environments.scenarios import scenario
from tightrope.studies.league import CENTRE, ROSTER, Unfit
from tightrope.studies.league.ranking import KNOWS_ALL
from tightrope.studies.shadow_price.contestants import DEFAULT, best_in_hindsight, default_policy
from tightrope.studies.shadow_price.outcome import Outcome, outcome_of
from tightrope.studies.shadow_price.size import Size

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
    """The default, the paper's policy and the best other of the league, on the same draws."""
    rows: list[dict[str, Any]] = []
    for name in size.scenarios:
        found = scenario(name)
        T, R = size.league_rounds, size.league_runs
        shown = [outcome_of(default_policy(found.env), found.env, T, R, seed, workers=workers, name=DEFAULT)]
        shown.append(_entry(CENTRE, name, T, R, seed, workers))
        tried = list(_others(name, size, seed, workers))
        if tried:
            best = best_in_hindsight(tried).policy
            shown.append(_entry(best, name, T, size.league_best, seed, workers))
        for one, role in zip(shown, ("default", "paper", "best other")):
            rows += one.rows(found.optimum, part="league", role=role, asked=ASKED[name])
        advance()
    runs = {"runs": size.league_runs, "tried": size.league_tries, "best_runs": size.league_best}
    return {"rounds": size.league_rounds, **runs, "rows": rows}


def _entry(policy: str, name: str, rounds: int, replications: int, seed: int, workers: int) -> Outcome:
    found = scenario(name)
    made = ROSTER[policy].make(found, rounds)
    return outcome_of(made, found.env, rounds, replications, seed, workers=workers, name=policy)


def _others(name: str, size: Size, seed: int, workers: int) -> Iterator[Outcome]:
    """All others that fit, a few runs each: the best of them then runs as often as the default."""
    from joblib import Parallel, delayed

    found, fits = scenario(name), []
    for policy, entry in ROSTER.items():
        if policy in (DEFAULT, CENTRE, *KNOWS_ALL):
            continue
        try:
            made = entry.make(found, size.league_rounds)
        except Unfit:
            continue
        if not found.env.problem().outside(made):
            fits.append(policy)
    calls = (delayed(_entry)(one, name, size.league_rounds, size.league_tries, seed, 1) for one in fits)
    yield from Parallel(n_jobs=workers)(calls)
