"""The constrained multi-armed bandit: four arms, one cost, against OPB of Pacchiano et al. 2021."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tightrope.environments import bandit
from tightrope.models import ArmMeans
from tightrope.policies import OPB, PessimisticOptimistic
from tightrope.report import Cell, NamedCurve, Panel, panels_figure
from tightrope.result import Result
from tightrope.schedules import Power, known_costs
from tightrope.validation import Array
from tightrope_lab.paper.runs import Runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDS, REPLICATIONS = 10_000, 200
THRESHOLDS = (0.5, 0.1)
# The regret of independent runs at T = 10⁴.
CLIP = {("tight", "A"): 339.0, ("tight", "paper"): 1495.0, ("unit", "A"): -875.0, ("unit", "paper"): 347.0}
OPB_EXPECTED = {0.5: 1874.0, 0.1: 2355.0}
OPB_OTHER_HORIZON = 100_000


def run(runs: Runs) -> None:
    """Both thresholds, costs before and after, the paper's schedules and theory's, both clips, and OPB."""
    rounds, replications = runs.size.rounds or ROUNDS, runs.size.replications or REPLICATIONS
    for threshold in THRESHOLDS:
        after = bandit(threshold=threshold, costs_seen="after")
        before = bandit(threshold=threshold, costs_seen="before")
        tight = (-threshold, 1.0 - threshold)
        for clip, cost_range in (("tight", tight), ("unit", (-1.0, 1.0))):
            for schedule in ("paper", "A"):
                policy = _policy(cost_range, V=_V(schedule, threshold), epsilon=_epsilon(schedule))
                label = _label(threshold, "after", f"{schedule}, {clip} clip")
                runs.add(label, policy, after, rounds, replications)
        policy = _policy(tight, slater=threshold, horizon=rounds)
        runs.add(_label(threshold, "after", "B, tight clip"), policy, after, rounds, replications)
        for name, horizon in (("OPB", rounds), ("OPB, p = 10^{-10}", OPB_OTHER_HORIZON)):
            opb = OPB(4, safe_cost=-threshold, horizon=horizon, cost_range=tight)
            runs.add(_label(threshold, "after", name), opb, after, rounds, replications)
        for schedule in ("paper", "A"):
            V, epsilon = _V(schedule, threshold), _epsilon(schedule)
            policy = PessimisticOptimistic(reward=ArmMeans(4), constraints=1, V=V, epsilon=epsilon)
            runs.add(_label(threshold, "before", schedule), policy, before, rounds, replications)


def tell(runs: Runs) -> dict[str, Any]:
    """What `mab.html` shows."""
    return {
        "after": [_after(runs.results, threshold) for threshold in THRESHOLDS],
        "clips": [
            _clip(runs.results, schedule, clip, words)
            for clip, words in (("tight", "[−0.1, 0.9]"), ("unit", "[−1, 1]"))
            for schedule in ("A", "paper")
        ],
        **_before(runs.results),
    }


def _after(results: dict[str, Result], threshold: float) -> dict[str, Any]:
    label = _label(threshold, "after", "")
    named = {one.removeprefix(label): r for one, r in results.items() if one.startswith(label)}
    shown = {_name(what): named[what] for what in ("paper, tight clip", "A, tight clip", "OPB")}
    rows: list[list[Cell]] = []
    for what, r in named.items():
        reward = float(r.reward[:, -1].mean() / r.rounds[-1])
        cost = float(r.cost[:, -1, 0].mean() / r.rounds[-1] + threshold)
        last = float(r.last_violation.max(axis=1).mean())
        rows.append([_name(what), r.regret.at(), reward, cost, r.violation.at(), last])
    return {
        "threshold": threshold,
        "shown": shown,
        "figure": _three_panels(shown, threshold),
        "rows": rows,
        "papers": _text(named["paper, tight clip"]),
        "opb": _text(named["OPB"]),
        "opb_other": _text(named["OPB, p = 10^{-10}"]),
        "opb_expected": OPB_EXPECTED[threshold],
    }


def _clip(results: dict[str, Result], schedule: str, clip: str, words: str) -> list[Cell]:
    what = f"{schedule}, {clip} clip"
    result = results[_label(0.1, "after", what)]
    regret, violation = result.regret.at(), result.violation
    most = float(violation.mean.max())
    return [f"{_name(what)} {words}", regret, CLIP[clip, schedule], most, violation.at()]


def _before(results: dict[str, Result]) -> dict[str, Any]:
    shown = {
        f"threshold {threshold:g}, {_name(schedule)}": results[_label(threshold, "before", schedule)]
        for threshold in THRESHOLDS
        for schedule in ("paper", "A")
    }
    rows: list[list[Cell]] = []
    for name, r in shown.items():
        optimum, last = float(r.optimum or math.nan), float(r.last_violation.max(axis=1).mean())
        rows.append([name, optimum, r.regret.at(), r.violation.at(), last])
    curves = [NamedCurve.of(name, r.regret) for name, r in shown.items()]
    figure = panels_figure([Panel(curves, "Round", "Regret (reward)", logx=True)])
    return {"before": rows, "before_figure": figure}


def _three_panels(shown: dict[str, Result], threshold: float) -> Figure:
    def averaged(name: str, values: Array, r: Result, plus: float = 0.0) -> NamedCurve:
        return NamedCurve(name, r.rounds, values.mean(axis=0) / r.rounds + plus)

    regret = [NamedCurve.of(name, r.regret) for name, r in shown.items()]
    reward = [averaged(name, r.reward, r) for name, r in shown.items()]
    cost = [averaged(name, r.mean_cost[:, :, 0], r, threshold) for name, r in shown.items()]
    ends = next(iter(shown.values())).rounds[[0, -1]]
    cost.append(NamedCurve(f"limit {threshold:g}", ends, [threshold, threshold], reference=True))
    averages = {"Average reward per round": reward, "Average cost per round": cost}
    panels = [Panel(curves, "Round", label, logx=True) for label, curves in averages.items()]
    return panels_figure([Panel(regret, "Round", "Regret (reward)"), *panels])


def _policy(cost_range: tuple[float, float], **settings: Any) -> PessimisticOptimistic:
    """Costs seen after acting, clipped to a range."""
    arms = ArmMeans(4)
    return PessimisticOptimistic(reward=arms, cost=arms, constraints=1, cost_range=cost_range, **settings)


def _V(schedule: str, threshold: float) -> Power:
    """√t, or A's δ sqrt(2t/3) with K = 1."""
    return Power(1.0 if schedule == "paper" else threshold * known_costs(1)[0].scale, 0.5)


def _epsilon(schedule: str) -> Power:
    """6/√t, or A's sqrt(6/t) with K = 1."""
    return Power(6.0 if schedule == "paper" else known_costs(1)[1].scale, -0.5)


def _name(what: str) -> str:
    """A variant as figures and tables alike call it: "A, tight clip" is "Theorem 1's schedules, tight clip"."""
    first, comma, rest = what.partition(", ")
    whose = {"paper": "paper's", "A": "Theorem 1's", "B": "Theorem 2's"}
    return (f"{whose[first]} schedules" if first in whose else first) + comma + rest


def _label(threshold: float, seen: str, what: str) -> str:
    return f"threshold {threshold:g}, cost {seen}: {what}"


def _text(result: Result) -> str:
    mean, low, high = result.regret.at()
    return f"{mean:,.0f} [{low:,.0f}, {high:,.0f}]"
