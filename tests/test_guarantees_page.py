"""The page on what holds when: a row for every policy and every way of seeing costs, and what it says of some of them."""

import re
from pathlib import Path

import numpy as np
import pytest

import tightrope as tr
from policy_tools import unwatched
from tightrope.policies import POLICIES
from tightrope_lab import theory

PAGE = (Path(__file__).parents[1] / "docs" / "guarantees.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| `")
]


def names(kind):
    return re.match(r"`([^`]+)`", kind)[1]


def test_every_registered_policy_has_its_rows_and_no_other():
    POLICIES.discover()
    ours = {name for name, made in POLICIES.items() if made.__module__.startswith("tightrope")}
    assert {names(row[0]) for row in ROWS} == ours, "every policy has rows in docs/guarantees.md"


@pytest.mark.parametrize("kind", sorted({row[0] for row in ROWS}))
def test_each_says_what_holds_for_costs_seen_before_after_and_late(kind):
    rows = [row for row in ROWS if row[0] == kind]
    assert all(len(row) == 6 for row in rows)
    assert {when for row in rows for when in row[1].split(", ")} == {"before", "after", "late"}


def test_the_functions_that_it_names_exist():
    named = set(re.findall(r"`((?:violation|regret|capped)_\w+|guarantees\(…\)\.\w+)`", PAGE))
    assert len(named) >= 12
    fields = theory.Guarantees.__dataclass_fields__
    for name in named:
        assert name.split(".")[1] in fields if "." in name else hasattr(theory, name), name


def test_who_asks_for_costs_before_acting_refuses_those_seen_after():
    after = tr.environments.bandit(threshold=0.1).problem()
    policy = tr.policies.ProvableShadowPrice(tr.ArmMeans(4), n_constraints=1)
    assert any("seen after acting" in reason for reason in after.misfits(policy))


def test_late_rewards_do_nothing_to_the_capped_bound():
    # No reward ever comes: the rule is kept as proved all the same.
    policy = tr.PessimisticOptimistic(
        reward=tr.Ridge(2), constraints=1, slater=0.5, horizon=4_000, tightening="capped"
    )
    draw, totals = np.random.default_rng(0), []
    for _ in range(4_000):
        phi = draw.normal(size=(2, 2))
        policy.decide(phi / np.linalg.norm(phi, axis=1, keepdims=True), np.array([[1.0], [-0.5]]))
        totals.append(policy.totals[0])
    assert np.all(totals <= theory.violation_bound_capped(np.arange(1, 4_001), K=1, delta=0.5))
    _, certain = theory.capped_ends(K=1, delta=0.5)
    assert certain < 4_000
    assert np.all(np.array(totals[certain:]) <= 0)


@unwatched  # costs that never come are what it is about
def test_late_costs_break_the_rules_of_those_who_learn_them():
    # An arm that costs 0.5 a round is thought to be free until its costs are told, here never.
    policy = tr.PessimisticOptimistic(
        reward=tr.ArmMeans(2), cost=tr.ArmMeans(2), constraints=1, slater=0.5, horizon=1_000
    )
    total = 0.0
    for _ in range(1_000):
        decision = policy.decide()
        policy.learn(decision, reward=(0.9, 0.1)[decision.action])
        total += (0.5, -0.5)[decision.action]
    assert total > 300
