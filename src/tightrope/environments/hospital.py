"""The paper's second experiment on public data: route patients to six wards under 18 rules."""

from __future__ import annotations

import itertools
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from tightrope.environments.hospital_numbers import (
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
from tightrope.validation import real_array, require_choice, require_range

CAPACITY = (0.2, 0.2, 0.175, 0.175, 0.175, 0.175)
FAIRNESS = (0.175, 0.175, 0.15, 0.15, 0.125, 0.125)
RESOURCE = 0.1875

# The LP's values under the default limits, by sample, reward, truth and stay: simulations need no LP solver then.
_CASES = itertools.product(("all", "first"), ("30-day", "any"), ("linear", "misspecified"), (False, True))
_VALUES = (
    *(0.8991526182514542, 0.899303227167871, 0.9005871244920806, 0.9006774982627965),
    *(0.5697590473584881, 0.5702727537360641, 0.566227845826719, 0.5669146714043632),
    *(0.9185102977266129, 0.9187116092099494, 0.9209366790550388, 0.9209444912922842),
    *(0.6239175055790548, 0.6237856190036046, 0.6245560807069817, 0.6251830836877097),
)
OPTIMA = dict(zip(_CASES, _VALUES, strict=True))


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
        The shipped numbers, of all encounters or only of each patient's first, or your own.
    capacity, fairness, resource : number or six numbers in [0, 1]
        The limits, by default the paper's; with `stay` its resource limit times the average stay.

    Examples
    --------
    >>> env = hospital("any", stay=True, costs_seen="after")
    >>> env.actions[4], env.constraints[12]
    ('cardiology', 'nursing of internal')
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
    return Tabular(
        weights=numbers.weights,
        features=features,
        rewards=features @ theta.T if truth == "linear" else numbers.table(reward, truth),
        costs=np.stack([rules.costs({"nursing": u}) for u in nursing]),
        # Capacity and fairness costs are ends of their ranges, so their Bernoulli draws are certain.
        cost_noise="bernoulli" if stay and costs_seen == "after" else "none",
        cost_range=rules.cost_range,
        costs_seen=costs_seen,
        actions=WARDS,
        rules=rules,
        name="hospital",
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


def _limits(values: ArrayLike, name: str) -> list[float]:
    limits = real_array(name, values, (), (len(WARDS),))
    require_range(name, limits, 0.0, 1.0)
    return [float(limit) for limit in np.broadcast_to(limits, len(WARDS))]
