"""Real tables: the share of the optimum that is earned, with nothing set, beside rivals that are tuned in hindsight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tightrope_lab.evidence.contestants import (
    BONUSES,
    DEFAULT,
    PAPER,
    SCHEDULES,
    best_in_hindsight,
    default_policy,
    lagrangians,
    papers_policy,
)
from tightrope_lab.evidence.outcome import Outcome, outcome_of
from tightrope_lab.evidence.rivals import Rival, play
from tightrope_lab.evidence.size import Size
from tightrope_lab.evidence.tables import Table, read_tables

CURVE_POINTS = 16


def run(size: Size, advance: Callable[[], None]) -> dict[str, Any]:
    """Each table by each policy, and what is to be known of the tables."""
    tables, missing = read_tables(size.tables, size.data)
    rows: list[dict[str, Any]] = []
    facts: dict[str, Any] = {}
    for name, table in tables.items():
        for outcome, role, settings in _outcomes(table, size):
            more: dict[str, Any] = {"part": "tables", "role": role, "settings": settings}
            rows += outcome.rows(table.optimum, **more)
        env = table.env
        facts[name] = {
            "contexts": env.n_contexts,
            "actions": env.n_actions,
            "features": env.n_features,
            "rules": list(table.rules),
            "binding": list(table.binding),
            "optimum": table.optimum,
            "blind": table.blind,
        }
        advance()
    for _ in missing:
        advance()
    found = {"rows": rows, "tables": facts, "missing": missing}
    return {"rounds": list(size.table_rounds), "runs": size.table_runs, **found}


def _outcomes(table: Table, size: Size) -> list[tuple[Outcome, str, str]]:
    env, T, R, seed = table.env, size.table_rounds[-1], size.table_runs, size.seed
    between = np.geomspace(20, T, CURVE_POINTS).astype(int).tolist()
    record = tuple(sorted({*size.table_rounds, *between}))
    how: dict[str, Any] = {"record": record, "workers": size.workers}
    shown = [
        (outcome_of(default_policy(env), env, T, R, seed, **how, name=DEFAULT), "default", "nothing set"),
        (outcome_of(default_policy(env, guard=True), env, T, R, seed, **how, name=f"{DEFAULT}, guard"), "guard", "guard=True"),
        (outcome_of(papers_policy(env), env, T, R, seed, **how, name=PAPER), "paper", "nothing set"),
    ]  # fmt: skip
    grid = {
        f"bonus {bonus:g}, {words}": papers_policy(env, bonus=bonus, **schedules)
        for bonus in BONUSES
        for words, schedules in SCHEDULES.items()
    }
    tuned = {words: outcome_of(policy, env, T, R, seed, **how, name=PAPER) for words, policy in grid.items()}
    best = best_in_hindsight(tuned.values())
    words = next(words for words, one in tuned.items() if one is best)
    shown.append((best.named(f"{PAPER}, tuned"), "paper tuned", words))
    plain = _lagrangians(table, size, record)
    best = best_in_hindsight(plain.values())
    rival = next(rival for rival, one in plain.items() if one is best)
    shown.append((best, "lagrangian", f"step {rival.step:g}, margin {rival.margin:g}/√t"))
    return shown


def _lagrangians(table: Table, size: Size, record: tuple[int, ...]) -> dict[Rival, Outcome]:
    from joblib import Parallel, delayed

    rivals = lagrangians()
    how = table.env, size.table_rounds[-1], size.table_runs, size.seed
    calls = (delayed(play)(one, *how, record=record) for one in rivals)
    return dict(zip(rivals, Parallel(n_jobs=size.workers)(calls)))
