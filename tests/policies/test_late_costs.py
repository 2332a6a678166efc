"""What docs/policy.md says of costs that come late, on its example."""

from __future__ import annotations

import re
from collections import deque
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tightrope as tr
from policy_tools import unwatched

pytestmark = unwatched  # costs that come late, or never, are what the policies would warn of
PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text(encoding="utf-8")
REWARDS, COSTS, RANGE, ROUNDS = (0.9, 0.2), (0.75, -0.25), (-0.25, 0.75), 5000
NEVER = 10**9
ROWS = {
    "at once": (0, ROUNDS),
    "100 rounds late": (100, ROUNDS),
    "1,000 rounds late": (1000, ROUNDS),
    "the first 200 at once, then never": (0, 200),
    "never": (NEVER, ROUNDS),
}


def make(name, cost_range=RANGE):
    arms = {"reward": tr.ArmMeans(2), "cost": tr.ArmMeans(2), "constraints": 1, "cost_range": cost_range}
    return (
        tr.ShadowPrice(**arms)
        if name == "ShadowPrice"
        else tr.PessimisticOptimistic(**arms, slater=-cost_range[0], horizon=ROUNDS)
    )


def totals(policy, delay, told_until, costs=COSTS):
    """The total after each round, where each of the first `told_until` outcomes comes `delay` rounds late."""
    waiting, path, total = deque(), np.empty(ROUNDS), 0.0
    for t in range(ROUNDS):
        decision = policy.decide()
        total += costs[decision.action]
        path[t] = total
        waiting.append(decision)
        if len(waiting) > delay and t - delay < told_until:
            due = waiting.popleft()
            policy.learn(due, REWARDS[due.action], [costs[due.action]])
    return path


@cache
def measured(name, row):
    path = totals(make(name), *ROWS[row])
    return max(0.0, path.max()), path[-1]


@pytest.mark.parametrize("row", ROWS)
def test_the_table_of_the_page(row):
    [cells] = re.findall(rf"^\| {re.escape(row)} \| (.*) \|$", PAGE, re.MULTILINE)
    shown = [float(cell.replace("−", "-").replace(",", "")) for cell in cells.split(" | ")]
    found = [*measured("ShadowPrice", row), *measured("paper", row)]
    np.testing.assert_allclose(found, shown, atol=0.76)


@pytest.mark.parametrize("row", [row for row in ROWS if row != "at once"])
def test_shadow_price_loses_less_by_late_costs_than_the_papers_policy(row):
    assert measured("ShadowPrice", row)[0] < 0.5 * measured("paper", row)[0]


def test_the_papers_policy_on_symmetric_costs():
    costs, span = (0.5, -0.5), (-0.5, 0.5)
    late, never = (totals(make("paper", cost_range=span), delay, ROUNDS, costs) for delay in (1000, NEVER))
    assert late.max() == 503.5
    assert never[-1] == 2500.0


@pytest.mark.parametrize("name", ["ShadowPrice", "paper"])
def test_costs_seen_before_acting_need_no_outcome(name):
    shown = [[0.5], [-0.5]]
    policy = (
        tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1, guard=True)
        if name == "ShadowPrice"
        else tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=1, slater=0.5, horizon=2000)
    )
    chosen = [policy.decide(costs=shown).action for _ in range(2000)]
    path = np.cumsum([shown[a][0] for a in chosen])
    assert policy.totals[0] == path[-1]
    assert path[-1] <= 0.0
    if name == "ShadowPrice":
        assert path.max() <= 0.0


def test_what_is_forgotten_counts_for_nothing():
    policy = make("ShadowPrice")
    for _ in range(50):
        decision = policy.decide()
        policy.learn(decision, REWARDS[decision.action], [COSTS[decision.action]])
    known = policy.totals
    decision = policy.decide()
    assert policy.expected_totals[0] != known[0]
    policy.forget(decision)
    np.testing.assert_array_equal(policy.expected_totals, known)


@pytest.mark.parametrize("name", ["ShadowPrice", "paper"])
def test_a_policy_that_is_never_told_says_so(name):
    policy, told = make(name), []
    policy.hooks.report_to(lambda concern: told.append(concern.kind))
    totals(policy, NEVER, 0)
    assert "costs not seen" in told
