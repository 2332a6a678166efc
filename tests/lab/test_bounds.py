"""What is measured against the bounds."""

from __future__ import annotations

import pytest

import tightrope as tr
from tightrope.environments import bandit
from tightrope_lab.paper.bounds import growth_exponent


def test_growth_exponent_of_a_square_root():
    run = tr.simulate(tr.policies.Uniform(4), bandit(0.5), rounds=1000)
    flat = run.with_optimum(0.0)
    assert growth_exponent(flat) is None
    assert growth_exponent(run) == pytest.approx(1.0, abs=0.1)
