"""Inpatient routing with the paper's settings."""

from __future__ import annotations

import pytest

import tightrope as tr
from tightrope_lab.paper.hospital import balanced_shares

T = 10_000


def test_hospital_with_the_papers_settings():
    env = tr.environments.hospital()
    policy = tr.PessimisticOptimistic(
        reward=tr.DisjointRidge(6, 10, m=5.7),
        constraints=18,
        V=tr.Power(4.0, 0.5),
        epsilon=tr.Power(1.0, -0.5),
        horizon=T,
    )
    with pytest.warns(
        tr.errors.PolicyWarning,
        match="in all 10 runs, such as this one: After 10,000 rewards the confidence radius",
    ):
        run = tr.simulate(policy, env, rounds=T, replications=10)
    assert run.violation.mean[-1] == 0
    kinds = (range(6), range(6, 12), range(12, 18))
    assert [run.last_violated(kind).mean for kind in kinds] == [57, 121, 85]


def test_balanced_shares_keep_the_largest_distance_from_every_rule():
    env = tr.environments.hospital()
    shares = balanced_shares(env)
    assert shares.sum() == pytest.approx(1)
    assert (shares @ env.costs[0]).max() == pytest.approx(-0.00625, abs=1e-9)
