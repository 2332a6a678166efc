"""The paper's second experiment on public data: route patients to six wards under 18 rules.

>>> env = hospital()
>>> env.n_contexts, env.n_actions, env.n_constraints
(360, 6, 18)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from tightrope.environments.calibration.calibration import (
    CREDIT,
    LICENCE,
    LONGEST_STAY,
    WARDS,
    Calibration,
    Reward,
    Sample,
    Truth,
    shipped,
)
from tightrope.environments.tabular import Tabular
from tightrope.rules import Budget, Capacity, Rules, Share
from tightrope.validation import Array, real_array, require_choice, require_range

CAPACITY = (0.2, 0.2, 0.175, 0.175, 0.175, 0.175)
FAIRNESS = (0.175, 0.175, 0.15, 0.15, 0.125, 0.125)
RESOURCE = 0.1875

# The LP's values under the default limits, by sample, reward, truth and stay: simulations need no LP solver then.
OPTIMA = {
    ("all", "30-day", "linear", False): 0.8991526182514542,
    ("all", "30-day", "linear", True): 0.899303227167871,
    ("all", "30-day", "misspecified", False): 0.9005871244920806,
    ("all", "30-day", "misspecified", True): 0.9006774982627965,
    ("all", "any", "linear", False): 0.5697590473584881,
    ("all", "any", "linear", True): 0.5702727537360641,
    ("all", "any", "misspecified", False): 0.566227845826719,
    ("all", "any", "misspecified", True): 0.5669146714043632,
    ("first", "30-day", "linear", False): 0.9185102977266129,
    ("first", "30-day", "linear", True): 0.9187116092099494,
    ("first", "30-day", "misspecified", False): 0.9209366790550388,
    ("first", "30-day", "misspecified", True): 0.9209444912922842,
    ("first", "any", "linear", False): 0.6239175055790548,
    ("first", "any", "linear", True): 0.6237856190036046,
    ("first", "any", "misspecified", False): 0.6245560807069817,
    ("first", "any", "misspecified", True): 0.6251830836877097,
}


def hospital(
    reward: Reward = "30-day",
    *,
    truth: Truth = "linear",
    stay: bool = False,
    costs_seen: Literal["before", "after"] = "before",
    calibration: Sample | Calibration = "all",
    capacity: ArrayLike = CAPACITY,
    fairness: ArrayLike = FAIRNESS,
    resource: ArrayLike | None = None,
) -> Tabular:
    """Patients of 360 kinds arrive, each goes to one of six wards; a success is a patient who stays well.

    φ(c, j) = e_j ⊗ x(c)/√6, d = 60. For the costs see `hospital_rules`; u, the nursing of a patient, is 1.

    Parameters
    ----------
    reward : "30-day" or "any"
        Not readmitted within 30 days (0.89 of them), or not readmitted at all (0.55): there it matters more
        which ward a patient goes to.
    truth : "linear" or "misspecified"
        Mean rewards and stays linear in φ, or rewards from boosted trees and stays from cell means.
    stay : bool
        Let u be the length of stay in units of 14 days. Where costs are seen before acting, u is its
        expectation given context and ward; where they are seen after, it is drawn, 0 or 1 with that expectation.
    costs_seen : "before" or "after"
        With "after" and the linear truth every cost is linear in φ too, so the cost model's features are φ.
    calibration : "all", "first" or a Calibration
        The shipped numbers, of all encounters or of each patient's first alone, or your own.
    capacity, fairness, resource : number or six numbers in [0, 1]
        The limits, by default the paper's; with `stay` its resource limit times the average stay.

    Examples
    --------
    >>> env = hospital("any", stay=True, costs_seen="after")
    >>> env.actions[4], env.constraints[12]
    ('cardiology', 'nursing of internal')
    >>> bool(np.allclose(env.features @ env.theta.reshape(6, 10).T, env.rewards))
    True
    """
    require_choice("reward", reward, get_args(Reward))
    require_choice("truth", truth, get_args(Truth))
    numbers = calibration if isinstance(calibration, Calibration) else shipped(calibration)
    usual = resource is None and np.array_equal(capacity, CAPACITY) and np.array_equal(fairness, FAIRNESS)
    sample = calibration if usual and isinstance(calibration, str) else None
    optimum = None if sample is None else OPTIMA[sample, reward, truth, bool(stay)]
    if resource is None:
        resource = RESOURCE * numbers.stay.mean / LONGEST_STAY if stay else RESOURCE
    rules = hospital_rules(capacity, fairness, resource)
    nursing = numbers.stay_table(truth) / LONGEST_STAY if stay else np.ones((numbers.counts.size, len(WARDS)))
    features = numbers.features / np.sqrt(6.0)
    theta = np.sqrt(6.0) * numbers.outcomes[reward].coefficients
    linear = truth == "linear"
    return Tabular(
        weights=numbers.weights,
        features=features,
        rewards=features @ theta.T if linear else numbers.table(reward, truth),
        costs=np.stack([rules.costs({"nursing": u}) for u in nursing]),
        # Capacity and fairness costs are ends of their ranges, so their Bernoulli draws are certain.
        cost_noise="bernoulli" if stay and costs_seen == "after" else "none",
        cost_range=rules.cost_range,
        costs_seen=costs_seen,
        actions=WARDS,
        rules=rules,
        name="hospital",
        theta=theta.ravel() if linear else None,
        optimum=optimum,
    )


def hospital_rules(
    capacity: ArrayLike = CAPACITY, fairness: ArrayLike = FAIRNESS, resource: ArrayLike = RESOURCE
) -> Rules:
    """The 18 rules: for each ward a capacity, then a fair share, then a limit on the nursing it takes up.

    Their costs are 1{a=j} − capacity_j, fairness_j − 1{a=j} and u·1{a=j} − resource_j.

    >>> hospital_rules().costs({"nursing": 1.0})[4, [4, 10, 16]]
    array([ 0.825 , -0.875 ,  0.8125])
    """
    at_most, at_least = _limits(capacity, "capacity"), _limits(fairness, "fairness")
    nursing = _limits(resource, "resource")
    return Rules(
        [
            *(Capacity(ward, at_most=limit) for ward, limit in zip(WARDS, at_most)),
            *(Share(ward, at_least=limit) for ward, limit in zip(WARDS, at_least)),
            *(Budget("nursing", at_most=limit, action=ward) for ward, limit in zip(WARDS, nursing)),
        ],
        actions=WARDS,
    )


def report(calibration: Calibration, *others: Calibration) -> str:
    """What calibrations found and what can be earned in each, side by side, as Markdown.

    >>> print(report(shipped(), shipped("first")).splitlines()[0])
    # Ward routing, calibrated on real encounters
    """
    calibrations = (calibration, *others)
    lines = [
        "# Ward routing, calibrated on real encounters",
        "",
        "Semi-synthetic: outcomes are drawn from surfaces fitted to observational data. Patients were not",
        "assigned to wards at random, so nothing here says which ward is better for whom.",
        "",
        *_side_by_side(calibrations, [_sample_facts(numbers) for numbers in calibrations]),
    ]
    for reward, title in zip(get_args(Reward), ("Not readmitted within 30 days", "Not readmitted at all")):
        optima = [_Optima(numbers, reward) for numbers in calibrations]
        facts = [_reward_facts(numbers, reward, best) for numbers, best in zip(calibrations, optima)]
        lines += ["", f"## {title}", "", *_side_by_side(calibrations, facts)]
        for numbers, best in zip(calibrations, optima):
            columns = {
                "logged share": numbers.shares,
                "logged success": numbers.outcomes[reward].by_ward,
                "best share": numbers.weights @ best.free.x,
                "best share under the rules": numbers.weights @ best.ruled.x,
            }
            body = (
                [ward, *(f"{column[j]:.4f}" for column in columns.values())] for j, ward in enumerate(WARDS)
            )
            lines += ["", *_markdown([f"{numbers.encounters} encounters", *columns], body)]
    lines += ["", f"Source ({LICENCE}):", "", *(f"- {credit}" for credit in CREDIT)]
    return "\n".join(lines) + "\n"


class _Optima:
    """What can be earned with one reward: freely, under the rules, by fixed shares, by equal shares."""

    def __init__(self, numbers: Calibration, reward: Reward) -> None:
        from tightrope.lp import allocation, slater

        p, r = numbers.weights, numbers.table(reward)
        costs = hospital_rules().costs({"nursing": 1.0})
        everywhere = np.broadcast_to(costs, (p.size, *costs.shape))
        self.free = allocation(p, r, everywhere[:, :, :0])
        self.ruled = allocation(p, r, everywhere)
        self.fixed = allocation([1.0], (p @ r)[None], costs[None])
        self.equal = float((p @ r).mean())
        self.slater = slater([1.0], costs[None]).value


def _sample_facts(numbers: Calibration) -> dict[str, str]:
    return {
        "encounters kept": f"{numbers.kept:,}",
        "of known specialty": f"{numbers.counts.sum():,}",
        "patients": f"{numbers.patients:,}",
        "mean stay, days": f"{numbers.stay.mean:.2f}",
        "stay by context and ward, linear fit": _range(numbers.stay_table(), 1),
        "stay by context and ward, cell means": _range(numbers.stay_table("misspecified"), 1),
        "R² of the linear fit, out of fold": f"{numbers.stay.r2:.3f}",
    }


def _reward_facts(numbers: Calibration, reward: Reward, best: _Optima) -> dict[str, str]:
    outcome = numbers.outcomes[reward]
    linear, boosted = outcome.linear_quality, outcome.boosted_quality
    return {
        "success, logged": f"{outcome.mean:.3f}",
        "success by context and ward, linear fit": _range(numbers.table(reward), 2),
        "success by context and ward, boosted trees": _range(outcome.boosted, 2),
        "norm of θ": f"{np.linalg.norm(outcome.coefficients) * np.sqrt(6.0):.2f}",
        "AUC out of fold, linear / boosted": f"{linear.auc:.3f} / {boosted.auc:.3f}",
        "log-loss": f"{linear.log_loss:.4f} / {boosted.log_loss:.4f}",
        "calibration slope": f"{linear.slope:.2f} / {boosted.slope:.2f}",
        "calibration intercept": f"{linear.intercept:.2f} / {boosted.intercept:.2f}",
        "optimum without rules": f"{best.free.value:.4f}",
        "optimum under the rules": f"{best.ruled.value:.4f}",
        "best feasible fixed shares": f"{best.fixed.value:.4f}",
        "equal shares": f"{best.equal:.4f}",
        "Slater's constant": f"{best.slater:.5f}",
    }


def _side_by_side(calibrations: Sequence[Calibration], facts: Sequence[Mapping[str, str]]) -> list[str]:
    head = ["", *(f"{numbers.encounters} encounters" for numbers in calibrations)]
    return _markdown(head, ([label, *(column[label] for column in facts)] for label in facts[0]))


def _markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    rows = [head, ["---"] * len(head), *body]
    return ["| " + " | ".join(row) + " |" for row in rows]


def _range(table: Array, digits: int) -> str:
    return f"{table.min():.{digits}f} to {table.max():.{digits}f}"


def _limits(values: ArrayLike, name: str) -> list[float]:
    limits = real_array(name, values, (), (len(WARDS),))
    require_range(name, limits, 0.0, 1.0)
    return [float(limit) for limit in np.broadcast_to(limits, len(WARDS))]
