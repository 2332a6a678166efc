"""What a calibration found, and what can be earned in it, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import numpy as np

from tightrope import templates
from tightrope.environments.hospital import hospital_rules
from tightrope.environments.hospital_numbers import WARDS, Calibration, Reward
from tightrope.lp import allocation, slater
from tightrope.validation import Array
from tightrope_lab.calibration.file import CREDIT, LICENCE


def report(calibration: Calibration, *others: Calibration) -> str:
    """What calibrations found and what can be earned in each, side by side, as Markdown."""
    calibrations = (calibration, *others)
    rewards = []
    for reward, title in zip(get_args(Reward), ("Not readmitted within 30 days", "Not readmitted at all")):
        optima = [_Optima(numbers, reward) for numbers in calibrations]
        facts = [_reward_facts(numbers, reward, best) for numbers, best in zip(calibrations, optima)]
        wards = [_wards(numbers, reward, best) for numbers, best in zip(calibrations, optima)]
        rewards.append({"title": title, "facts": _side_by_side(facts), "wards": wards})
    return templates.render(
        "tightrope_lab.calibration/report.md",
        samples=[f"{numbers.encounters} encounters" for numbers in calibrations],
        facts=_side_by_side([_sample_facts(numbers) for numbers in calibrations]),
        rewards=rewards,
        licence=LICENCE,
        credits=CREDIT,
    )


class _Optima:
    """What can be earned with one reward: freely, under the rules, by fixed shares, by equal shares."""

    def __init__(self, numbers: Calibration, reward: Reward) -> None:
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


def _wards(numbers: Calibration, reward: Reward, best: _Optima) -> list[list[str]]:
    """By ward: logged share and success, and the best shares without the rules and under them."""
    columns = [numbers.shares, numbers.outcomes[reward].by_ward]
    columns += [numbers.weights @ best.free.x, numbers.weights @ best.ruled.x]
    return [[ward, *(f"{column[j]:.4f}" for column in columns)] for j, ward in enumerate(WARDS)]


def _side_by_side(facts: Sequence[Mapping[str, str]]) -> list[list[str]]:
    return [[label, *(column[label] for column in facts)] for label in facts[0]]


def _range(table: Array, digits: int) -> str:
    return f"{table.min():.{digits}f} to {table.max():.{digits}f}"
