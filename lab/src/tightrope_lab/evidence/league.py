"""The league with all defaults, against the regret that is asked for in each scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tightrope_lab.evidence.contestants import DEFAULT, PAPER, default_policy
from tightrope_lab.evidence.outcome import outcome_of
from tightrope_lab.evidence.size import ASKED, Size
from tightrope_lab.league import ROSTER
from tightrope_lab.league.scenarios import scenario


def run(size: Size, advance: Callable[[], None]) -> dict[str, Any]:
    """The default and the paper's policy, on the same draws; `tightrope compare` has all others beside them."""
    rows: list[dict[str, Any]] = []
    for name in size.scenarios:
        found = scenario(name)
        made = {"default": default_policy(found.env), "paper": ROSTER[PAPER].make(found, size.league_rounds)}
        for role, policy in made.items():
            T, R, called = size.league_rounds, size.league_runs, DEFAULT if role == "default" else PAPER
            one = outcome_of(policy, found.env, T, R, size.seed, workers=size.workers, name=called)
            rows += one.rows(found.optimum, part="league", role=role, asked=ASKED[name])
        advance()
    return {"rounds": size.league_rounds, "runs": size.league_runs, "rows": rows}
