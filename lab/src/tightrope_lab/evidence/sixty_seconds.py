"""README's example: 3,000 patients, three rules, by the default policy, with its guard, and by the paper's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tightrope import lp
from tightrope.concerns import ignore
from tightrope.models import DisjointRidge
from tightrope.policies import PessimisticOptimistic, Policy, ShadowPrice
from tightrope.report import NamedCurve, Panel, panels_figure
from tightrope.rules import Budget, Capacity, Rules, Share
from tightrope.validation import VIOLATION, Array
from tightrope_lab.evidence.contestants import DEFAULT, PAPER
from tightrope_lab.evidence.size import Size

ROUNDS = 3_000
REWARDS, HOURS = (0.9, 0.6, 0.5), (1.0, 0.5, 0.2)
# What is asked for: the least reward, the most rounds with a rule above zero, by default and with the guard.
LEAST_REWARD, MOST_ABOVE, MOST_ABOVE_GUARDED = 1_770, 25, 10
FLOOR = -12.0  # of the figure
GUARDED = f"{DEFAULT}, guard"


def rules() -> Rules:
    """README's."""
    limits = [Capacity("icu", at_most=0.2), Share("icu", at_least=0.1), Budget("nurse_hours", at_most=0.4)]
    return Rules(limits, actions=["icu", "surgery", "other"])


def optimum() -> float:
    """The most that can be earned in all rounds by who knows the rewards."""
    costs = rules().costs(usage={"nurse_hours": HOURS})
    return ROUNDS * lp.allocation(np.ones(1), np.array([REWARDS]), costs[None]).value


def play_example(policy: Policy) -> tuple[float, Array]:
    """README's loop: the reward, and the totals after each round, (rounds, K)."""
    earned, totals = 0.0, np.zeros((ROUNDS, 3))
    policy.hooks.report_to(ignore)  # what a policy can't do is what is measured
    for patient in range(ROUNDS):
        x = [0.7, 0.7 * (patient % 2)]
        decision = policy.decide(x, usage={"nurse_hours": list(HOURS)})
        reward = REWARDS[decision.action]
        policy.learn(decision, reward=reward)
        earned += reward
        totals[patient] = policy.totals
    return earned, totals


def run(size: Size, advance: Callable[[], None]) -> dict[str, Any]:
    """Every seed by default and with the guard, and the paper's policy, which draws nothing."""
    rows: list[dict[str, Any]] = []
    shown: dict[str, list[list[float]]] = {}
    best = optimum()

    def add(name: str, policy: Policy, seed: int | None) -> None:
        earned, totals = play_example(policy)
        above = (totals > VIOLATION).any(axis=1)
        last = int(np.flatnonzero(above)[-1] + 1) if above.any() else 0
        row = {"part": "example", "policy": name, "scenario": "sixty-seconds", "round": ROUNDS, "seed": seed}
        row |= {"reward": earned, **dict.fromkeys(("regret", "regret_low", "regret_high"), best - earned)}
        row |= {"violation": float(np.maximum(totals[-1], 0.0).sum()), "last_violation": last}
        row |= {"rounds_above": int(above.sum()), "path": float(np.maximum(totals, 0.0).sum(axis=1).max())}
        rows.append(row)
        shown.setdefault(name, np.round(totals[_drawn()], 6).T.tolist())
        advance()

    for seed in range(size.example_seeds):
        model = DisjointRidge(3, 2)
        add(DEFAULT, ShadowPrice(reward=model, constraints=rules(), seed=seed), seed)
        add(GUARDED, ShadowPrice(reward=model, constraints=rules(), guard=True, seed=seed), seed)
    add(PAPER, PessimisticOptimistic(reward=DisjointRidge(3, 2), constraints=rules()), None)
    drawn = (_drawn() + 1).tolist()
    return {"rounds": ROUNDS, "optimum": best, "rows": rows, "totals": shown, "drawn": drawn}


def figure(data: dict[str, Any]) -> Any:
    """The total of each rule by the round, one panel for each policy; what is far below zero is left out, to show what happens there."""
    panels = []
    names = ["at most 20 % icu", "at least 10 % icu", "nurse hours"]
    titles = {PAPER: "the paper's policy", DEFAULT: "ShadowPrice", GUARDED: "ShadowPrice, guard"}
    for policy, words in titles.items():
        rounds = data["drawn"]
        shown = np.array(data["totals"][policy])
        shown[shown < FLOOR] = np.nan
        curves = [NamedCurve(name, rounds, total) for name, total in zip(names, shown)]
        curves.append(NamedCurve("limit", [rounds[0], rounds[-1]], [0.0, 0.0], reference=True))
        panels.append(Panel(curves, "Patient", f"Total cost, {words}", logx=True))
    return panels_figure(panels, height=250.0)


def _drawn() -> Any:
    """Indices of the rounds that are drawn: all of the first hundred, then fewer."""
    return np.unique(np.concatenate([np.arange(100), np.geomspace(100, ROUNDS, 80).astype(int) - 1]))
