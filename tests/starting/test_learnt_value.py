"""What a policy learnt from a table would earn: the interval covers it, and the words say what it is."""

from __future__ import annotations

import importlib.util
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tightrope import Budget, Capacity, Rules, lp
from tightrope.frames import Frame
from tightrope.spec import make_spec
from tightrope.starting.learnt_value import PENALTIES, Rows, _once, learnt_value, rows_of
from tightrope.starting.proposal import propose
from tightrope.starting.text import spec_text

ROOT = Path(__file__).parents[2]
SATIMAGE = ROOT.parent / "shared" / "data" / "satimage" / "satimage.csv.gz"


@cache
def study() -> Any:
    """The study of docs/start-from-a-table.md."""
    path = ROOT / "benchmarks" / "learnt_value.py"
    spec = importlib.util.spec_from_file_location("learnt_value_study", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def world_of(name: str) -> Any:
    return study().satimage(SATIMAGE, 800) if name == "satimage" else getattr(study(), name)(500)


@cache
def asked(name: str, seed: int) -> Any:
    """What the study finds in one table of a world; several tests look at it."""
    return study().ask(world_of(name), seed)


@pytest.mark.parametrize("world", ["coupons", "shifts", "satimage"])
def test_the_interval_covers_what_it_claims_to_estimate(world: str) -> None:
    if world == "satimage" and not SATIMAGE.exists():
        pytest.skip(f"no table in {SATIMAGE}")
    made = world_of(world)
    if world == "satimage":
        assert made.rewards.shape[1] == 6  # labels of land cover
    found = [asked(world, seed) for seed in range(4)]
    # A coverage of 95 % misses two of four or more in 1 % of such tests; the seeds are fixed. The study has twenty of each.
    assert sum(one.covers for one in found) >= 3
    assert sum(one.mix_covers for one in found) >= 3
    # It is an interval, and not so wide that it says nothing.
    spread = float(np.ptp(made.rewards))
    assert all(0.0 < one.high - one.low < 0.5 * spread for one in found)
    # What is claimed does not exceed what can be had by more than chance.
    errors = [(one.high - one.low) / 4 for one in found]
    assert np.mean([one.value for one in found]) < made.best() + 2 * np.mean(errors)


def test_pure_noise_promises_nothing() -> None:
    """Rewards that no context and no action tell anything about: the optimum of the fitted world is above them all the same."""
    rng = np.random.default_rng(3)
    n, J, p = 300, 4, 12
    x = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    actions = rng.integers(0, J, n)
    rewards = (rng.random(n) < 0.5).astype(float)
    rows = Rows(x, actions, rewards, None, np.zeros((n, J, 0)), np.ones((n, 0)))
    found = learnt_value(rows, None)
    assert found.policy.low <= 0.5 <= found.policy.high
    assert found.mix.low <= 0.5 <= found.mix.high
    fitted, _ = found.learnt[0].expected(rows)
    assert fitted.max(axis=1).mean() > found.policy.high  # what looks best on the rows that chose it


def test_many_features_that_say_nothing_do_not_lower_the_estimate() -> None:
    """Chances that follow the noise of 30 features make large weights, and those fall on fits that were too high."""
    values, halves = [], []
    for seed in range(4):
        rng = np.random.default_rng([12, seed])
        n, J = 400, 4
        x = np.column_stack([np.ones(n), rng.normal(size=(n, 30))])
        actions = rng.integers(0, J, n)
        rewards = (rng.random(n) < 0.5).astype(float)
        found = learnt_value(Rows(x, actions, rewards, None, np.zeros((n, J, 0)), np.ones((n, 0))), None)
        values.append(found.policy.value)
        halves.append((found.policy.high - found.policy.low) / 2)
    ideal = 1.96 * np.sqrt(0.25 * J / n)  # of known chances and means
    assert abs(np.mean(values) - 0.5) < 1.96 * ideal / np.sqrt(len(values))
    assert np.mean(halves) < 1.5 * ideal


def test_the_interval_counts_that_folds_teach_each_others_policies() -> None:
    """Of coupons the best mix turns on chance: errors of two folds go the same way, which the rows of one fold can't show."""
    made = world_of("coupons")
    wider = []
    for seed in range(4):
        found = asked("coupons", seed)
        first_split = np.random.default_rng([seed, 0])
        alone = _once(made.draw(seed), made.rules, first_split, PENALTIES).mix[0].estimate
        wider.append((found.mix_high - found.mix_low) / (alone.high - alone.low))
    assert np.mean(wider) > 1.05


def test_a_policy_that_no_fold_changes_has_the_interval_of_independent_rows() -> None:
    rng = np.random.default_rng(5)
    n, J = 300, 2
    actions = rng.integers(0, J, n)
    rewards = actions + rng.normal(scale=0.3, size=n)
    found = learnt_value(
        Rows(np.ones((n, 1)), actions, rewards, None, np.zeros((n, J, 0)), np.ones((n, 0))), None
    )
    b = rewards[actions == 1]
    assert found.mix.high - found.mix.low == pytest.approx(2 * 1.96 * b.std() / np.sqrt(len(b)), rel=0.1)


def test_rewards_that_are_known_need_no_weights() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(200), rng.normal(size=200)])
    rewards = np.column_stack([0.5 + 0.0 * x[:, 1], 0.5 + 0.3 * x[:, 1]])
    rules = Rules([Capacity("b", at_most=0.25)], actions=["a", "b"])
    rows = Rows(x, None, rewards, None, np.tile(rules.costs(), (200, 1, 1)), np.ones((200, 1)))
    found = learnt_value(rows, rules)
    best = lp.allocation(np.full(200, 1 / 200), rewards, rows.known).value
    assert found.policy.value == pytest.approx(best, abs=0.01)
    assert found.table is None
    [used] = found.used
    assert used.low <= 0.25 <= used.high


def table(rng: np.random.Generator, n: int = 400) -> dict[str, list[Any]]:
    age = rng.integers(20, 80, n)
    sent = rng.choice(["email", "letter"], n)
    bought = rng.random(n) < np.where(sent == "letter", age / 100, 0.4)
    minutes = np.where(sent == "letter", 8.0, 2.0)
    region = rng.choice(["north", "south"], n)
    return {
        "age": age.tolist(),
        "sent": sent.tolist(),
        "minutes": minutes.tolist(),
        "bought": bought.tolist(),
        "region": region.tolist(),
    }


def test_a_table_is_read_as_the_spec_reads_it(tmp_path: Path) -> None:
    made = table(np.random.default_rng(1))
    proposal = propose(
        Frame(made),
        file="t.csv",
        name="t",
        group="region",
        rules=["minutes <= 5", "letter <= 40%"],
    )
    spec = make_spec(
        tomllib.loads(spec_text(proposal, rounds=10, replications=1, asked="init")),
        folder=tmp_path,
    )
    rows = rows_of(spec, proposal.log)
    assert spec.rules is not None
    done = np.array(made["sent"]) == "letter"
    assert rows.actions is not None
    assert ((rows.actions == spec.actions.index("letter")) == done).all()
    # Minutes are known of what was done alone; how often letters are sent is known of both.
    assert rows.unknown().tolist() == [
        column.rule.quantity.usage == "minutes" for column in spec.rules.columns
    ]
    assert rows.costs is not None
    k = [column.rule.quantity.usage for column in spec.rules.columns].index("minutes")
    column = spec.rules.columns[k]
    np.testing.assert_allclose([column.in_units(c) for c in rows.costs[:, k]], made["minutes"])
    found = learnt_value(rows, spec.rules)
    assert found.table is not None
    assert found.table.value == pytest.approx(np.mean(made["bought"]))
    assert found.used[k].low <= 5.0


def test_rules_of_a_group_are_counted_among_its_rows() -> None:
    rng = np.random.default_rng(2)
    n = 400
    x = np.column_stack([np.ones(n), rng.normal(size=n)])
    groups = rng.choice(["north", "south"], n, p=[0.2, 0.8])
    rules = Rules([Budget("hours", at_most=2.0, range=(0, 10), among="north")], actions=["a", "b"])
    hours = np.tile([1.0, 6.0], (n, 1))
    known = np.stack([rules.costs({"hours": h}, g) for h, g in zip(hours, groups)])
    force = np.stack([rules.in_force(g) for g in groups]).astype(float)
    # What b gains differs from row to row: were it equal, rounding would choose the rows that get it.
    rewards = np.column_stack([0.2 + 0.05 * x[:, 1], 0.8 + 0.15 * x[:, 1]])
    found = learnt_value(Rows(x, None, rewards, None, known, force), rules)
    # A fifth of the north may have b: (6 − 1) · 0.2 + 1 = 2 hours for each of its decisions.
    assert found.used[0].value == pytest.approx(2.0, abs=0.4)


def rows_of_a_trial(seed: int, gain: float, n: int = 600) -> Rows:
    """Two actions drawn by a coin; the one that suits the sign of a feature succeeds more often by `gain`."""
    rng = np.random.default_rng([31, seed])
    x = np.column_stack([np.ones(n), rng.choice([-1.0, 1.0], n)])
    actions = rng.integers(0, 2, n)
    right = actions == (x[:, 1] > 0)
    rewards = (rng.random(n) < 0.4 + gain * right).astype(float)
    return Rows(x, actions, rewards, None, np.zeros((n, 2, 0)), np.ones((n, 0)))


def test_a_gain_is_the_difference_judged_by_the_same_rows() -> None:
    found = learnt_value(rows_of_a_trial(0, 0.3), None)
    assert found.table is not None
    assert found.over_table is not None
    # The policy is right in all rows, the table in half of them, and so is a fixed mix.
    assert found.over_table.value == pytest.approx(found.policy.value - found.table.value)
    assert found.over_mix.value == pytest.approx(found.policy.value - found.mix.value)
    for gain in (found.over_table, found.over_mix):
        assert 0.0 < gain.low < 0.15 < gain.high


def test_intervals_of_gains_cover_them_and_promise_none_where_there_is_none() -> None:
    covered = [learnt_value(rows_of_a_trial(seed, 0.3, 300), None).over_table for seed in range(20)]
    assert sum(one is not None and one.low <= 0.15 <= one.high for one in covered) >= 17
    idle = [learnt_value(rows_of_a_trial(seed, 0.0, 300), None).over_table for seed in range(20)]
    assert sum(one is not None and one.low > 0.0 for one in idle) <= 2
