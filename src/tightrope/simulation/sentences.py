"""What came of simulated runs, in sentences for who reads nothing else."""

from __future__ import annotations

from tightrope.report import format_number
from tightrope.result import Result


def earned(result: Result) -> str:
    """What was earned, of the optimum where that is known: "earned 0.587 a round, 98.9 % of the optimum"."""
    mean = float(result.average_reward.mean[-1])
    said = f"earned {format_number(mean)} a round"
    if result.optimum is None:
        return said
    best = (
        result.optimum
        if result.optimal_reward is None
        else float(result.optimal_reward[-1]) / result.n_rounds
    )
    return f"{said}, {100 * mean / best:.1f}\u00a0% of the optimum" if best > 0.0 else said


def kept(result: Result) -> str:
    """Which rules held when: "all rules held from round 23 on in every run"."""
    K, n = len(result.constraints), result.n_replications
    if K == 0:
        return "there are no rules"
    rules, last, runs = (
        "the rule" if K == 1 else "all rules",
        result.last_violated(),
        f"all {n:,} runs" if n > 1 else "the run",
    )
    if last.max == 0:
        return f"{rules} held in every round of {runs}"
    broken = int((result.last_violation.max(axis=1) == result.n_rounds).sum())
    if broken == 0:
        usually = f" (on average from round {round(last.mean) + 1:,})" if n > 1 else ""
        return f"{rules} held from round {int(last.max) + 1:,} on in {runs}{usually}"
    worst = int(result.last_violation.mean(axis=0).argmax())
    which = "" if K == 1 else f", most often “{result.constraints[worst]}”"
    return f"in {broken:,} of {n:,} runs a rule was still broken in the last round{which}"


def told(name: str, result: Result) -> str:
    """One sentence on a policy: what it earned, and whether it kept the rules."""
    return f"**{name}** {earned(result)}; {kept(result)}."
