"""The default policy in the league: no more regret than is asked for, with nothing set, and no run that ends in violation."""

from __future__ import annotations

import pytest

from tightrope_lab.evidence.contestants import default_policy
from tightrope_lab.evidence.outcome import outcome_of
from tightrope_lab.evidence.size import ASKED, Size
from tightrope_lab.league.scenarios import SCENARIOS, scenario


def test_limits_are_of_scenarios_that_there_are():
    assert set(ASKED) <= set(SCENARIOS)
    assert tuple(ASKED) == Size().scenarios


@pytest.mark.parametrize("name", ["hospital", "sleeping-fractions", "bandit-binding"])
def test_regret_is_within_what_is_asked_for(name):
    found = scenario(name)
    outcome = outcome_of(default_policy(found.env), found.env, 10_000, 6)
    assert (outcome.rounds[-1] * found.optimum - outcome.reward[:, -1]).mean() <= ASKED[name]
    assert not outcome.ends_above.any()
    assert outcome.kept
