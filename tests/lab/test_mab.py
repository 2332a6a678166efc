"""Four arms, one constraint: the numbers that independent runs give."""

from __future__ import annotations

import math

import pytest

import tightrope as tr
from tightrope.environments import bandit

T = 10_000


RUNS = 200


PAPER = {"V": tr.Power(1.0, 0.5), "epsilon": tr.Power(6.0, -0.5)}


THEORY = {"V": tr.Power(0.1 * math.sqrt(2 / 3), 0.5), "epsilon": tr.Power(math.sqrt(6), -0.5)}


def arms(cost_range, **schedules):
    return tr.PessimisticOptimistic(
        reward=tr.ArmMeans(4), cost=tr.ArmMeans(4), constraints=1, cost_range=cost_range, **schedules
    )


def test_threshold_one_half():
    run = tr.simulate(arms((-0.5, 0.5), **PAPER), bandit(0.5), rounds=T, replications=RUNS)
    assert 50 < run.regret.mean[-1] < 72
    assert run.violation.mean.max() < 1


@pytest.mark.parametrize(
    ("cost_range", "schedules", "regret", "largest_violation", "settles"),
    [
        ((-0.1, 0.9), THEORY, 339, 28, True),
        ((-0.1, 0.9), PAPER, 1495, 40, True),
        ((-1.0, 1.0), THEORY, -875, 357, False),
        ((-1.0, 1.0), PAPER, 347, 6, True),
    ],
)
def test_the_clip_matters(cost_range, schedules, regret, largest_violation, settles):
    """Independent runs, 200 each: four standard errors of theirs and ours apart at most; their regret's was about 10."""
    run = tr.simulate(arms(cost_range, **schedules), bandit(0.1), rounds=T, replications=RUNS, warn=False)
    assert run.regret.mean[-1] == pytest.approx(regret, abs=4 * math.hypot(10, 10))
    at = int(run.violation.mean.argmax())
    error = run.mean_cost[:, at, 0].std(ddof=1) / math.sqrt(RUNS)
    # They print whole numbers, and ran as many times as we do: so their standard error is ours.
    within = 4 * math.hypot(error, error) + 0.5
    assert within < largest_violation
    assert run.violation.mean[at] == pytest.approx(largest_violation, abs=within)
    assert (run.violation.mean[-1] == 0.0) == settles
    # Where it does not, every run says so.
    assert all(one.kind == "total above zero" and (settles or one.runs == RUNS) for one in run.concerns)
    assert run.concerns


@pytest.mark.parametrize(("threshold", "regret"), [(0.5, 1874), (0.1, 2355)])
def test_opb(threshold, regret):
    """The regret that was noted is that of p = 1/T² with T = 10⁵; with T = 10⁴ it is 8 % and 2 % lower."""
    settings = {"safe_cost": -threshold, "cost_range": (-threshold, 1 - threshold)}
    noted = tr.simulate(
        tr.policies.OPB(4, horizon=100_000, **settings), bandit(threshold), rounds=T, replications=RUNS
    )
    assert noted.regret.mean[-1] == pytest.approx(regret, abs=20)
    own = tr.simulate(
        tr.policies.OPB(4, horizon=T, **settings), bandit(threshold), rounds=T, replications=RUNS
    )
    assert own.regret.mean[-1] < noted.regret.mean[-1]
    assert own.violation.mean.max() == 0
