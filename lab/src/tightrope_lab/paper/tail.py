"""The corollary: the share of sample paths that are in violation at round τ."""

from __future__ import annotations

import numpy as np

from tightrope.environments import bandit
from tightrope.models import ArmMeans
from tightrope.policies import PessimisticOptimistic
from tightrope.report import Cell, NamedCurve, Report, curve_figure
from tightrope_lab import theory
from tightrope_lab.paper.runs import Runs

ROUNDS, REPLICATIONS = 50_000, 1_000
CASES = {"δ = 0.1": 0.1, "δ = 0.5": 0.5}


def run(runs: Runs) -> None:
    """Bernoulli costs seen before acting, theory's schedules, many runs."""
    T, replications = runs.size.rounds or ROUNDS, runs.size.replications or REPLICATIONS
    for label, delta in CASES.items():
        policy = PessimisticOptimistic(reward=ArmMeans(4), constraints=1, slater=delta, horizon=T)
        runs.add(label, policy, bandit(threshold=delta, costs_seen="before"), T, replications)


def tell(runs: Runs, report: Report) -> None:
    """The section of the report."""
    results = runs.results
    T, replications, command = runs.done()
    report.section("Sample paths")
    report.text(
        "The corollary bounds the probability that one run's own cumulative cost is above 0 at round τ. Bernoulli costs of the "
        f"four arms, seen before acting, theory's schedules; {T:,} rounds, {replications} runs."
    )
    report.code(command)
    first = next(iter(results.values()))
    curves = [NamedCurve.of(label, r.violated_share) for label, r in results.items()]
    bound, words = (
        theory.tail_bound(first.rounds, K=1, delta=0.5),
        "corollary, δ = 0.5 (1 where it says nothing)",
    )
    curves.append(NamedCurve(words, first.rounds, bound, reference=True))
    report.figure(
        curve_figure(curves, xlabel="Round", ylabel="Share of runs in violation", logx=True),
        name="tail",
        alt="Share of runs in violation against the round; it falls to zero long before the corollary begins to speak",
        caption="Share of runs whose cumulative cost is above 0, with 95 % Wilson intervals, and the corollary's bound.",
    )
    rows: list[list[Cell]] = []
    for label, r in results.items():
        median, largest = float(np.median(r.last_violation.max(axis=1))), float(r.last_violation.max())
        starts = float(theory.tail_starts(K=1, delta=CASES[label]))
        rows.append([label, median, largest, starts, r.violated_share.at()])
    head = ["Slater's constant", "last violated, median", "largest", "corollary speaks from", "share at T"]
    report.table(head, rows, caption="Violation of sample paths")
    for label, r in results.items():
        last = int(r.last_violation.max())
        when = f"had its total above 0 after round {last:,}" if last else "ever had its total above 0"
        report.summary(f"**Single runs**, {label}: none of {r.n_replications:,} {when}.")
    report.callout(
        paper="P(violation at τ) = O(exp(−δ√τ / (50K²))) for τ beyond κK⁵/δ²·log²(K/δ).",
        measured="No run is in violation after "
        + ", ".join(f"round {int(r.last_violation.max()):,} ({label})" for label, r in results.items())
        + ".",
        why="The proof's threshold grows as K⁵/δ⁴, not K⁵/δ²; with its constants it lies beyond the end of these runs, which settle "
        "long before.",
    )
