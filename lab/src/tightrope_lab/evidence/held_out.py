"""The held-out protocol: worlds that nobody had seen when the defaults were fixed.

The recipe was fixed by commit 5be5382 on 2026-11-15 at 21:53 UTC. Only then were the seeds of the worlds known, 0x5be5·1000 + i, after the
first four digits of that commit, which nobody can choose.

The prototype, the first form of the policy that was written down, is kept as what it did in these worlds: `prototype.json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import numpy as np

from tightrope.environments.tabular import Tabular
from tightrope.oracle import solve
from tightrope.policies import Policy
from tightrope.validation import Array
from tightrope_lab.evidence.contestants import DEFAULT, PAPER, best_in_hindsight, default_policy, lagrangians
from tightrope_lab.evidence.outcome import Outcome, outcome_of
from tightrope_lab.evidence.rivals import Rival, play
from tightrope_lab.evidence.size import Size
from tightrope_lab.evidence.worlds import random_world
from tightrope_lab.league import ROSTER
from tightrope_lab.league.ranking import SOFTENING
from tightrope_lab.league.scenarios import Scenario

FIXED, COMMIT = "2026-11-15, 21:53 UTC", "5be5382"
FIRST_SEED = 0x5BE5 * 1000

PROTOTYPE, GUARD = "prototype", "thompson + guard"
LAGRANGIAN, TUNED = "lagrangian, step 0.03", "lagrangian, best of 10 in hindsight"
CONTESTANTS = (DEFAULT, PROTOTYPE, PAPER, GUARD, LAGRANGIAN, TUNED)

# Regret is set against that of the best as in the league, but regrets below zero count down to this.
LOWEST = -15.0
# A world is kept by who misses its rules at the end by at most one largest cost.
ALLOWED = 1.0


def run(size: Size, advance: Callable[[], None]) -> dict[str, Any]:
    """All contestants in all worlds, on the same draws."""
    from joblib import Parallel, delayed

    seeds = [FIRST_SEED + i for i in range(size.worlds)]
    calls = (delayed(contest)(seed, size.world_rounds, size.world_runs) for seed in seeds)
    rows: list[dict[str, Any]] = []
    for found in Parallel(n_jobs=size.workers, return_as="generator", batch_size=1)(calls):
        rows += found
        advance()
    return {"worlds": size.worlds, "rounds": size.world_rounds, "runs": size.world_runs, "rows": rows}


def contest(
    seed: int, rounds: int, replications: int, contestants: Sequence[str] = CONTESTANTS
) -> list[dict[str, Any]]:
    """The rows of one world, one for each contestant."""
    world = random_world(seed)
    env, restated = world.env, world.in_unit_costs()
    optimum = solve(env).value
    draws: dict[int, Any] = {}

    def played(rival: Rival) -> Outcome:
        return play(rival, env, rounds, replications, seed, draws=draws)

    def simulated(policy: Policy, world: Tabular) -> Outcome:
        return outcome_of(policy, world, rounds, replications, seed, workers=1)

    shipped = Rival("lagrangian", step=0.03, margin=1.0)
    makers: dict[str, Callable[[], Outcome]] = {
        DEFAULT: lambda: simulated(default_policy(env), env),
        # It asks for |W| <= 1 and ‖φ‖ <= 1, so it plays the same world in those units, and is told the true δ.
        PAPER: lambda: simulated(ROSTER[PAPER].make(Scenario(restated, world.about), rounds), restated),
        GUARD: lambda: played(Rival("guard")),
        LAGRANGIAN: lambda: played(shipped),
        TUNED: lambda: best_in_hindsight(
            (played(rival) for rival in lagrangians()), lambda one: missed(one, world.units), ALLOWED
        ),
    }
    rows = []
    for name in contestants:
        if name == PROTOTYPE:
            rows += [row for row in recorded(rounds, replications) if row["scenario"] == env.name]
            continue
        outcome = makers[name]().named(name)
        units = np.ones(env.n_constraints) if name == PAPER else world.units
        more = {"part": "worlds", "about": world.about, "keeps": missed(outcome, units) <= ALLOWED}
        rows += outcome.rows(optimum, **more)
    return rows


def recorded(rounds: int, replications: int) -> list[dict[str, Any]]:
    """What the prototype did, world by world; nothing where runs are of another size than its own."""
    rows = json.loads((resources.files(__package__) / "prototype.json").read_text(encoding="utf-8"))
    return [row for row in rows if (row["round"], row["replications"]) == (rounds, replications)]


def missed(outcome: Outcome, units: Array) -> float:
    """What violated totals sum to at the end, in largest costs, on average over runs."""
    return float(outcome.excess(units).mean())


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """For each contestant its ratios to the best that keeps the rules, how often it ends above zero, path and last round; and the
    default paired with the prototype.
    """
    worlds = list(dict.fromkeys(row["scenario"] for row in rows))
    names = list(dict.fromkeys(row["policy"] for row in rows))
    cell = {(row["policy"], row["scenario"]): row for row in rows}
    kept = [(row["scenario"], _softened(row["regret"])) for row in rows if row["keeps"]]
    best = {one: min((regret for world, regret in kept if world == one), default=np.nan) for one in worlds}
    found: dict[str, Any] = {}
    for name in names:
        mine = [cell[name, world] for world in worlds]
        ratios = [_softened(row["regret"]) / best[row["scenario"]] for row in mine if row["keeps"]]
        last, path = [row["last_violation"] for row in mine], [row["path"] for row in mine]
        found[name] = {
            "keeps": len(ratios),
            "mean_ratio": float(np.mean(ratios)) if ratios else None,
            "worst_ratio": float(np.max(ratios)) if ratios else None,
            "runs_in_violation": float(np.mean([row["runs_in_violation"] for row in mine])),
            "path_median": float(np.median(path)),
            "path_mean": float(np.mean(path)),
            "last_median": float(np.median(last)),
            "last_mean": float(np.mean(last)),
            "regret_mean": float(np.mean([row["regret"] for row in mine])),
        }
    summary: dict[str, Any] = {
        "worlds": len(worlds),
        "policies": found,
        "kept_by_none": int(np.isnan(list(best.values())).sum()),
    }
    if {DEFAULT, PROTOTYPE} <= set(names):
        summary["paired"] = _paired([(cell[DEFAULT, world], cell[PROTOTYPE, world]) for world in worlds])
    return summary


def _paired(pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
    logs = np.array([np.log(_softened(a["regret"]) / _softened(b["regret"])) for a, b in pairs])
    earlier = np.array([a["last_violation"] - b["last_violation"] for a, b in pairs])
    error = float(logs.std(ddof=1) / np.sqrt(logs.size)) if logs.size > 1 else 0.0
    both = [(a["regret"], b["regret"]) for a, b in pairs if a["keeps"] and b["keeps"]]
    ours, theirs = (float(np.mean(column)) if both else None for column in (list(zip(*both)) or ((), ())))
    return {
        "kept_by_both": len(both),
        "regret_kept": ours,
        "regret_kept_prototype": theirs,
        "geometric_ratio": float(np.exp(logs.mean())),
        "geometric_ratio_low": float(np.exp(logs.mean() - 2 * error)),
        "geometric_ratio_high": float(np.exp(logs.mean() + 2 * error)),
        "less_regret": int((logs < 0).sum()),
        "earlier": int((earlier < -0.5).sum()),
        "later": int((earlier > 0.5).sum()),
    }


def _softened(regret: float | Array) -> Any:
    return np.maximum(regret, LOWEST) + SOFTENING
