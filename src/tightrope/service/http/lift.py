"""The lift of an experiment over its control group, as plain data for JSON."""

from __future__ import annotations

import math
from typing import Any

from tightrope.lift import CONTROL, POLICY, Lift
from tightrope.service.answer import Answer, Refusal
from tightrope.service.experiment import Batch
from tightrope.service.experiment.lift_accounts import LiftAccounts
from tightrope.spec import Spec
from tightrope_client import responses


def show_lift(batch: Batch, request: None) -> Answer:
    """What the policy earns and uses more than the control group's baseline."""
    state = batch.state
    spec, assignment = state.spec, state.assignment
    if spec.holdout is None or assignment is None or assignment.lift is None:
        raise Refusal(404, "unknown", "there is no control group: the spec has no [holdout]")
    accounts, by = assignment.lift, spec.holdout.by
    found = accounts.lift(spec.holdout.share)
    sequence, time = assignment.since
    shown = responses.Lift(
        share=spec.holdout.share,
        by=by,
        per="decision" if by is None else "user",
        baseline=baseline_words(spec),
        since=time / 1e6,
        sequence=sequence,
        decisions=_by_arm(accounts.decisions),
        users=None if by is None else _by_arm(accounts.users),
        unmeasured=accounts.unmeasured,
        displaced=assignment.displaced,
        reward=_measure(accounts, found, 0, "reward", "", None),
        rules=[
            _measure(accounts, found, 1 + k, column.name, column.rule.unit, str(column.rule))
            for k, column in enumerate(accounts.columns)
        ],
    )
    return Answer.of(shown)


def baseline_words(spec: Spec) -> str:
    """What the control group gets.

    >>> from tightrope.spec import make_spec
    >>> holdout = {"share": 0.1, "baseline": {"a": 0.25, "b": 0.75}}
    >>> baseline_words(make_spec({"actions": ["a", "b"], "holdout": holdout}))
    '25% a, 75% b'
    """
    assert spec.holdout is not None
    assert spec.baseline is not None
    baseline = spec.holdout.baseline
    if baseline is None:
        return f"the policy {spec.baseline.name}"
    if isinstance(baseline, str):
        return f"always {baseline}"
    return ", ".join(f"{100 * share:g}% {name}" for name, share in baseline.items() if share)


def _measure(
    accounts: LiftAccounts, found: Lift, k: int, name: str, unit: str, rule: str | None
) -> responses.Measure:
    means = accounts.sums.means[:, k]
    counts = accounts.sums.counts[:, k].tolist()
    known = min(counts) > 0
    return {
        "name": name,
        "unit": unit,
        "rule": rule,
        "counted": _by_arm(counts),
        "policy": _known(means[POLICY]),
        "control": _known(means[CONTROL]),
        "lift": _known(found.estimate[k]) if known else None,
        "low": _known(found.low[k]),
        "high": _known(found.high[k]),
    }


def _by_arm(counts: Any) -> responses.ArmCounts:
    return {"policy": int(counts[POLICY]), "control": int(counts[CONTROL])}


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
