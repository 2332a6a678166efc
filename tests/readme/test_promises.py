"""What the README promises of the package at its head: one test for each, named after it."""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import tightrope as tr
from readme_claims import claim
from reference import ReferenceA, ReferenceB
from strategies import unit_rows
from test_served_policies import CASES, outcome, request, spec_of
from tightrope import lp
from tightrope.policies import POLICIES
from tightrope_lab import theory
from tightrope_lab.league import ROSTER, compare
from tightrope_lab.league.entries import Entry
from workbench import Bench, read

REWARDS, HOURS = np.array([0.9, 0.6, 0.5]), [1.0, 0.5, 0.2]
ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")


def rules() -> tr.Rules:
    found = [tr.Capacity("icu", at_most=0.2), tr.Share("icu", at_least=0.1)]
    return tr.Rules([*found, tr.Budget("nurse_hours", at_most=0.4)], actions=["icu", "surgery", "other"])


@claim(
    "You give no Slater's constant, horizon, norm, radius or range of costs; features, rewards and costs come in any unit"
)
@pytest.mark.parametrize("unit", [1e-12, 1e-6, 1.0, 1e6, 1e12])
def test_nothing_to_set(unit: float) -> None:
    parameters = inspect.signature(tr.ShadowPrice).parameters.values()
    asked = {one.name for one in parameters if one.default is inspect.Parameter.empty}
    assert asked == set(), "rules or constraints, where there are some, and nothing else"
    # The example of the sixty seconds in other units: features, rewards with an offset, and every cost in a unit of its own.
    W = rules().costs(usage={"nurse_hours": HOURS}) * [unit, 1.0, 1.0 / unit]
    policy = tr.ShadowPrice(reward=tr.DisjointRidge(3, 2), constraints=3)
    earned, above = 0.0, 0
    for patient in range(3_000):
        decision = policy.decide([0.7 * unit, 0.7 * unit * (patient % 2)], W)
        policy.learn(decision, reward=unit * (REWARDS[decision.action] - 7.0))
        earned += REWARDS[decision.action]
        above += bool((policy.totals > 1e-9 * np.abs(W).max(axis=0)).any())
    assert earned >= 1_770
    assert above <= 25


@pytest.mark.parametrize("unit", [1e-12, 60.0, 1e12])
def test_rules_on_usage_in_any_unit_need_no_range(unit: float) -> None:
    """The same example, whose nurses are counted in minutes, or in anything else."""
    own = [*list(rules())[:2], tr.Budget("nurse_time", at_most=0.4 * unit)]
    policy = tr.ShadowPrice(
        reward=tr.DisjointRidge(3, 2), constraints=tr.Rules(own, actions=["icu", "surgery", "other"])
    )
    earned = 0.0
    for patient in range(3_000):
        usage = {"nurse_time": [hours * unit for hours in HOURS]}
        decision = policy.decide([0.7, 0.7 * (patient % 2)], usage=usage)
        policy.learn(decision, reward=REWARDS[decision.action])
        earned += REWARDS[decision.action]
    assert earned >= 1_770
    assert (policy.totals <= 0.0).all()


@claim(
    "Linear, logistic, random features, trees, networks or whatever has fit and predict stands behind the same prices, for rewards "
    "and for costs",
    '"auto" follows the model that predicts best',
)
def test_any_model() -> None:
    from sklearn.neighbors import KNeighborsRegressor

    few = {"members": 2, "first": 20, "refit": "now"}
    models = {
        "linear": lambda: tr.DisjointRidge(2, 1),
        "logistic": lambda: tr.Logistic(2, 1),
        "random features": lambda: tr.Features("fourier", tr.Standardised(2, 1), first=20),
        "trees": lambda: tr.Ensemble("extra-trees", 2, 1, **few),
        "networks": lambda: tr.Ensemble("mlp", 2, 1, **few),
        "whatever": lambda: tr.Ensemble(KNeighborsRegressor(2), 2, 1, **few),
        "auto": lambda: tr.Auto(2, 1, candidates=["arm-means", "standardised"]),
    }
    draw = np.random.default_rng(0)
    for name, make in models.items():
        cap = tr.Rules([tr.Budget("minutes", at_most=0.6, seen="after")], actions=["a", "b"])
        cost = make() if name in ("linear", "trees") else tr.ArmMeans(2)
        policy = tr.ShadowPrice(reward=make(), cost=cost, constraints=cap)
        for x in draw.uniform(-1.0, 1.0, (150, 1)):
            decision = policy.decide(x)
            better = decision.action == (x[0] > 0.0)
            policy.learn(decision, reward=float(better), usage={"minutes": 1.0 - 0.7 * decision.action})
        assert policy.totals[0] <= 0.0, name
        assert policy.hooks.reward_model().n_learnt == 150, name
        if name == "auto":
            assert policy.hooks.reward_model().followed.kind == "standardised"


@claim(
    "You write the rules in words",
    "You can write capacities, shares, budgets and averages over actions and groups",
    "A rule set that nothing can meet is refused with the rules that conflict and the smallest change "
    "that would do",
)
def test_rules_in_words() -> None:
    kinds = [
        tr.Capacity("a", at_most=0.5, among="old"),
        tr.Share("b", at_least=0.1),
        tr.Budget("hours", at_most=0.4),
        tr.Mean("age", at_most=70.0, range=(0.0, 100.0)),
    ]
    words = str(tr.Rules(kinds, actions=["a", "b"])).splitlines()
    assert words == [
        "among group old: a: at most 50% of that group's decisions",
        "b: at least 10% of decisions",
        "hours: at most 0.4 per decision on average",
        "age: at most 70 per decision on average",
    ]
    with pytest.raises(tr.InfeasibleProblem) as refused:
        tr.Rules(
            [tr.Share("a", at_least=0.6), tr.Share("b", at_least=0.6), tr.Capacity("c", at_most=0.9)],
            actions=["a", "b", "c"],
        )
    said = str(refused.value)
    assert "'a: at least 60% of decisions' and 'b: at least 60% of decisions' conflict" in said
    assert "changing limits by 0.2 in total would do: lower" in said


@claim(
    "Both algorithms of the paper are checked round by round against a literal transcription",
    "Of the paper's policy, its theorems: Tightrope began as the pessimistic-optimistic algorithm of Liu, Li, Shi and Ying "
    "(NeurIPS 2021), which is here exactly, under its own name, "
    "with its theorems",
)
def test_both_algorithms_choose_as_a_literal_transcription_does() -> None:
    draw = np.random.default_rng(0)
    theta = unit_rows(draw, 1, 4)[0]
    literal = ReferenceA(4, 2, slater=0.3, horizon=300)
    ours = tr.PessimisticOptimistic(reward=tr.Ridge(4), constraints=2, slater=0.3, horizon=300)
    late = ReferenceB(4, 3, 2, slater=0.3, horizon=300)
    ours_late = tr.PessimisticOptimistic(
        reward=tr.Ridge(4), cost=tr.Ridge(3), constraints=2, slater=0.3, horizon=300
    )
    for _ in range(300):
        phi, psi, W = unit_rows(draw, 5, 4), unit_rows(draw, 5, 3), draw.uniform(-1.0, 1.0, (5, 2))
        rewards = phi @ theta
        decision, action = ours.decide(phi, W), literal.decide(phi, W)
        assert decision.action == action
        literal.model.learn(phi[action], rewards[action])
        ours.learn(decision, float(rewards[action]))
        decision, action = ours_late.decide(phi, psi), late.decide(phi, psi)
        assert decision.action == action
        late.reward.learn(phi[action], rewards[action])
        late.cost.learn(psi[action], W[action])
        ours_late.learn(decision, float(rewards[action]), W[action])
    np.testing.assert_allclose(ours.queue, literal.Q, atol=1e-9)
    np.testing.assert_allclose(ours_late.queue, late.Q, atol=1e-9)


@claim("The state of every policy is saved and restored bit for bit")
def test_the_state_of_every_policy_is_saved_and_restored_bit_for_bit(tmp_path: Path) -> None:
    POLICIES.discover()
    own = {name for name, made in POLICIES.items() if made.__module__.startswith("tightrope")}
    cases = {name: case for name, case in CASES.items() if name.split(",")[0] in own}
    assert own - {"oracle"} == {name.split(",")[0] for name in cases}
    for number, name in enumerate(cases):
        bench, draw = Bench(spec_of(name)), np.random.default_rng(number)
        for i in range(20):
            read(bench.decide({"event_id": str(i), **request(name, draw)}))
            if i % 3:
                read(bench.learn(str(i), **outcome(name, draw)))
        assert bench.experiment._state is not None
        policy = bench.experiment._state.policy
        policy.save(tmp_path / f"{number}.policy")
        before, after = policy.hooks.state(), tr.load(tmp_path / f"{number}.policy").hooks.state()
        assert list(before) == list(after), name
        assert [before[key].tobytes() for key in before] == [after[key].tobytes() for key in after], name


@claim("The LP optimum comes with a verified certificate, for 100,000 contexts too")
def test_the_optimum_of_100000_contexts_has_a_verified_certificate() -> None:
    draw = np.random.default_rng(0)
    C, J, K = 100_000, 5, 4
    costs = draw.uniform(-1.0, 1.0, (C, J, K))
    costs[:, 0] = -0.2
    found = lp.allocation(np.full(C, 1.0 / C), draw.uniform(size=(C, J)), costs)
    assert found.certificate.verified


@claim("The theorems' bounds are functions in tightrope-lab")
def test_the_theorems_bounds_are_functions() -> None:
    # Theorem 1 at K = 1, δ = 0.5, d = 2: violation is over at a round that can be computed, and regret is finite before it.
    ends = theory.violation_ends(K=1, delta=0.5)
    assert (
        theory.violation_bound(ends, K=1, delta=0.5)
        == 0.0
        < theory.violation_bound(ends // 4, K=1, delta=0.5)
    )
    assert theory.regret_bound(100, K=1, delta=0.5, d=2, T=1_000) > 0.0


@claim(
    "In speed: with the paper's policy decide and learn together take 4.5 µs in the usual case; the default policy takes 1.2 "
    "times as long",
    "With the paper's policy decide and learn together take 4.5 µs in the usual case; the default policy takes 1.2 times as long",
    "A plain NumPy loop of the same policy takes 3.98 times as long in that case, 1.98 times with 50 actions and 100 features, "
    "1.15 times with 2,000 features, and 7.51 times on a catalogue of a million",
    "One round of the simulated hospital takes 1.0 µs on one core with the paper's policy and 4.4 times as long with the default",
)
def test_figures_of_speed_are_those_of_the_benchmarks_page_its_best_and_its_worst_among_them() -> None:
    """That they are true is checked where they are measured: `tightrope bench` fails where a ratio misses its target."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in BENCHMARKS.splitlines()
        if " ± " in line
    ]
    ours, ratio = ({row[0]: row[i] for row in rows if len(row) == 10} for i in (3, 5))
    assert {float(ratio[case]) for case in ("online", "online-large", "features", "million")} == {
        3.98,
        1.98,
        1.15,
        7.51,
    }
    against_numpy = [
        float(row[5]) for row in rows if len(row) == 10 and row[2].startswith("NumPy") and row[0] != "engine"
    ]
    assert (min(against_numpy), max(against_numpy)) == (1.15, 7.51)
    assert [round(float(ours[case].split()[0]), 1) for case in ("online", "engine")] == [4.5, 1.0]
    default = "the default policy beside the paper's: 1.2 times its time online, 4.4 times in the simulated hospital"
    assert default in BENCHMARKS


@claim("the numbers are the same on any number of cores")
def test_simulations_are_the_same_on_any_number_of_cores() -> None:
    env = tr.environments.hospital()
    policy = tr.ShadowPrice(reward=tr.DisjointRidge(6, 10), constraints=18)
    one, two = (tr.simulate(policy, env, rounds=300, replications=4, workers=n) for n in (1, 2))
    assert one.regret.mean.tobytes() == two.regret.mean.tobytes()
    assert one.violation.mean.tobytes() == two.violation.mean.tobytes()


@claim(
    "From decision 512 on, a policy that can't do what you ask of it says so once, with the numbers and the remedy: a total that "
    "stays above zero, rules that can't be met, an action never tried",
    "policy.concerns() says it whenever you ask",
)
def test_a_policy_that_can_not_do_what_it_is_asked_to_says_so_once() -> None:
    # Both costs are above zero: the rule can't be met, the total climbs; and the second arm, far dearer, is never tried.
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1, guard=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for t in range(4_500):
            policy.learn(policy.decide(costs=[[0.5], [50.0]]), reward=0.5)
            if t > 520 and t % 97 == 0:
                assert {"rules that can't be met", "total above zero"} <= {
                    one.kind for one in policy.concerns()
                }
            if t in (511, 512):
                assert bool(told) == (t == 512)
    said = [str(one.message) for one in told if one.category is tr.errors.PolicyWarning]
    kinds = [one.kind for one in policy.concerns()]
    assert set(kinds) == {"rules that can't be met", "total above zero", "action never tried"}
    assert len(said) == len(set(said)) == 3
    assert all(re.search(r"\d", one) for one in said)


@claim(
    "The league has every system that the paper compares with or names, and rivals that mind the rules (a Lagrangian, guards), on "
    "the scenarios that fit them, on the same draws"
)
def test_the_league_has_every_system_that_the_paper_compares_with_or_names_and_rivals_that_mind_the_rules() -> (
    None
):
    # OPB and OPLB it compares with; related work names safe linear bandits, knapsacks, fair and conservative ones, linear UCB.
    named = [
        "opb",
        "oplb",
        "safe-lucb",
        "safe-lts",
        "lincbwk",
        "primal-dual-bwk",
        "ucb-alp",
        "lfg",
        "clucb",
        "linucb",
    ]
    assert set(named) <= set(ROSTER)
    assert {"lagrangian", "plain-lagrangian", "guarded-lagrangian", "guarded-linucb", "prudent"} <= set(
        ROSTER
    )
    # On the same draws: the same policy under two names earns and pays the same to the bit.
    twins = [ROSTER["greedy"], Entry("twin", ROSTER["greedy"].make)]
    one, other = compare(twins, ["fair-jobs"], rounds=60, replications=2, workers=1).performances
    assert one.result.reward.tobytes() == other.result.reward.tobytes()
    assert one.result.cost.tobytes() == other.result.cost.tobytes()


@claim(
    "Of every other policy: one table says what is proved of which policy, in which rounds and on what assumptions: what holds when"
)
def test_what_is_proved_of_which_policy_in_which_rounds_and_on_what_assumptions_is_one_table() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    heads = re.findall(r"^\| policy \|.*$", page, re.MULTILINE)
    assert heads
    for head in heads:
        assert "in which rounds" in head
        assert "assumed" in head
    POLICIES.discover()
    own = {name for name, made in POLICIES.items() if made.__module__.startswith("tightrope")}
    assert own == set(re.findall(r"^\| `([\w-]+)`", page, re.MULTILINE))
