"""The league: who plays where, what is measured, and what is written."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import tightrope as tr
from tightrope.spec import PolicySpec
from tightrope_lab import league
from tightrope_lab.league import ROSTER, Unfit, chosen_entries, compare, own_entry, run, spec_entry
from tightrope_lab.league.scenarios import SCENARIOS, Scenario, scenario

ROOT = Path(__file__).resolve().parents[2]


OWN = f"{ROOT / 'examples' / 'own_policy.py'}:Prudent"


NAMES = (
    "shadow-price",
    "pessimistic-optimistic",
    "pessimistic-optimistic-a",
    "opb",
    "lfg",
    "linucb",
    "round-robin",
    "uniform",
    "oracle",
)


@pytest.fixture(scope="module")
def found():
    return compare(
        [ROSTER[name] for name in NAMES],
        ["bandit-binding", "fair-jobs", "sleeping-fractions"],
        rounds=300,
        replications=3,
        seed=1,
        workers=1,
    )


def of(found, policy, scenario):
    return next(one for one in found.performances if (one.policy, one.scenario) == (policy, scenario))


def test_every_pair_is_either_run_or_marked(found):
    ran = {(one.policy, one.scenario) for one in found.performances}
    outside = {(one.policy, one.scenario) for one in found.misfits}
    assert not ran & outside
    assert ran | outside == {(name, ground) for name in NAMES for ground in found.scenarios}
    assert ("opb", "fair-jobs") in outside
    assert ("lfg", "sleeping-fractions") in ran
    for one in found.misfits:
        assert one.reasons
        assert all(isinstance(reason, str) and reason for reason in one.reasons)


def test_the_roster_covers_every_scenario_and_every_policy_has_one():
    fits = {name: set() for name in ROSTER}
    for ground in map(scenario, SCENARIOS):
        for name, entry in ROSTER.items():
            try:
                policy = entry.make(ground, 1000)
            except Unfit:
                continue
            if not ground.env.problem().outside(policy):
                fits[name].add(ground.name)
    assert all(fits.values()), fits
    everywhere = {"shadow-price", "shadow-price-forgetful", "pessimistic-optimistic", "linucb", "uniform"}
    assert all(fits[name] == set(SCENARIOS) for name in everywhere)
    assert fits["oracle"] == set(SCENARIOS) - {"switching-best", "slow-drift", "seasons", "tightened-limit"}
    # Each comparator meets the problem that it was made for.
    home = {
        "opb": "bandit-binding",
        "oplb": "safe-dosing",
        "safe-lucb": "safe-dosing",
        "safe-lts": "safe-dosing",
        "lincbwk": "knapsack-stop",
        "primal-dual-bwk": "knapsack-stop",
        "ucb-alp": "ads-budget",
        "lfg": "sleeping-fractions",
        "clucb": "conservative-baseline",
    }
    assert all(ground in fits[name] for name, ground in home.items())


def test_scenarios_whose_data_are_not_installed_are_left_out_and_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setattr(run, "SCENARIOS", ["bandit-binding", "wine", "digits"])
    found = compare([ROSTER["uniform"]], rounds=20, replications=2, workers=1)
    assert list(found.scenarios) == ["bandit-binding"]
    assert list(found.left_out) == ["wine", "digits"]
    reason = "the table 'wine' comes with scikit-learn: pip install 'tightrope[data]'"
    assert found.left_out["wine"] == reason
    page = league.write_page(found, tmp_path).read_text(encoding="utf-8")
    assert "wine is left out" in re.sub("<[^>]*>", "", page)
    assert json.loads((tmp_path / "summary.json").read_text())["left_out"]["wine"] == reason
    # Who names it is told at once.
    with pytest.raises(ModuleNotFoundError, match="comes with scikit-learn"):
        compare([ROSTER["uniform"]], ["bandit-binding", "wine"], rounds=20, replications=2, workers=1)


def test_a_world_that_changes_is_measured_by_its_phases():
    """Round-robin learns nothing: its regret and violation per round are those of its shares in each half."""
    drift = scenario("switching-best")
    found = compare(
        [ROSTER[name] for name in ("round-robin", "oracle")], [drift], rounds=400, replications=2, workers=1
    )
    assert [one.policy for one in found.misfits] == ["oracle"]
    assert found.misfits[0].reasons == (
        "its optimum changes with the round, and the policy plays one mixture throughout",
    )
    assert found.optima[drift.name] == pytest.approx(drift.optimum)
    result = found.performances[0].result
    earned = found.optima[drift.name] * result.rounds - result.reward
    assert result.regret.paths == pytest.approx(earned)


class First:
    """Always the first action."""

    def decide(self, **offer):
        return 0

    def learn(self, *outcome):
        pass

    def copy(self, seed):
        return First()


def test_costs_of_a_round_are_those_of_its_phase():
    cheap, dear = (
        tr.environments.Tabular([1.0], rewards=[[0.5, 0.5]], costs=[[[w], [-0.5]]], costs_seen="after")
        for w in (-0.5, 0.25)
    )
    ground = Scenario(tr.environments.Drifting([cheap, dear], name="dearer"), "It gets dearer.")
    (one,) = compare([own_entry(First)], [ground], rounds=100, replications=2, workers=1).performances
    assert one.above == pytest.approx(0.5)
    assert one.excess == pytest.approx(0.125)


def test_settings_come_from_the_scenario():
    ground = scenario("safe-dosing")
    policy = ROSTER["oplb"].make(ground, 700)
    assert policy.safe_action == ground.safe_actions[0]
    assert policy.safe_cost == pytest.approx(ground.env.costs[:, 0].max())
    policy = ROSTER["pessimistic-optimistic"].make(scenario("tight-slater"), 700)
    assert policy.slater == pytest.approx(0.01)
    shares = ROSTER["round-robin"].make(scenario("sleeping-fractions"), 700).shares
    assert (shares >= [0.0, 0.1, 0.15, 0.15, 0.2]).all()


def test_per_round_violation_is_that_of_the_mixture(found):
    costs = scenario("bandit-binding").env.costs[0, :, 0]
    uniform, turns, oracle = (
        of(found, name, "bandit-binding") for name in ("uniform", "round-robin", "oracle")
    )
    # The uniform mixture costs 0.175 in every round; one arm after another costs the average of their excesses.
    np.testing.assert_allclose(uniform.excess, costs.mean(), atol=1e-12)
    np.testing.assert_allclose(uniform.above, 1.0)
    np.testing.assert_allclose(turns.excess, np.maximum(costs, 0).mean(), atol=1e-12)
    np.testing.assert_allclose(turns.above, 0.75)
    # The optimal mixture costs exactly nothing, though half of its actions cost 0.1.
    np.testing.assert_allclose(oracle.excess, 0.0, atol=1e-12)
    assert oracle.result.counts[:, -1, 3].min() > 100
    assert of(found, "opb", "bandit-binding").above.max() == 0.0


def test_a_deterministic_policy_is_priced_by_its_actions(found):
    one = of(found, "linucb", "bandit-binding")
    costs = scenario("bandit-binding").env.costs[0, :, 0]
    by_counts = one.result.counts[:, -1] @ np.maximum(costs, 0) / 300
    np.testing.assert_allclose(one.excess, by_counts, atol=1e-12)


def test_watching_changes_nothing(found):
    ground = scenario("fair-jobs")
    plain = tr.simulate(
        ROSTER["pessimistic-optimistic"].make(ground, 300),
        ground.env,
        300,
        3,
        seed=1,
        workers=1,
        record=run.RECORDED,
    )
    watched = of(found, "pessimistic-optimistic", "fair-jobs").result
    np.testing.assert_array_equal(plain.counts, watched.counts)
    np.testing.assert_allclose(plain.regret.mean, watched.regret.mean)


def test_two_workers_find_the_same(found):
    again = compare(
        [ROSTER["lfg"], ROSTER["opb"]], list(found.scenarios), rounds=300, replications=3, seed=1, workers=2
    )
    for one in again.performances:
        np.testing.assert_array_equal(one.result.counts, of(found, one.policy, one.scenario).result.counts)
    assert [one.policy for one in again.performances] == ["lfg", "opb"]


def test_a_budget_that_is_never_overspent_is_kept_at_the_end():
    found = compare(
        [ROSTER["primal-dual-bwk"], ROSTER["linucb"]],
        ["bandit-binding"],
        rounds=200,
        replications=3,
        workers=1,
    )
    careful, careless = found.performances
    assert careful.result.cost[:, -1].max() <= 1e-9
    # It is for the whole run, and spent ahead of time.
    assert careful.verdict == "too long above zero"
    in_time = dataclasses.replace(careful, rounds_above=np.zeros(3))
    assert in_time.kept
    # Also where the noise of the costs, averaged out, would say otherwise.
    tricked = dataclasses.replace(careful.result, mean_cost=np.abs(careful.result.mean_cost) + 5.0)
    assert dataclasses.replace(in_time, result=tricked).kept
    assert careless.verdict == "ends in violation"


def test_a_scenario_that_nobody_can_satisfy_is_refused():
    env = tr.environments.Tabular([1.0], rewards=[[0.5, 0.6]], costs=[[[0.2], [0.3]]], name="hopeless")
    with pytest.raises(tr.InfeasibleProblem):
        compare([ROSTER["uniform"]], [Scenario(env, "No way.")], rounds=10, workers=1)


def test_places_and_gaps(found):
    for ground in found.scenarios:
        ranked = [one for one in found.of(ground) if found.place(one) is not None]
        regrets = [one.result.regret.mean[-1] for one in ranked]
        assert regrets == sorted(regrets)
        assert all(one.kept and one.policy != "oracle" for one in ranked)
    linucb = of(found, "linucb", "bandit-binding")
    assert not linucb.kept
    assert found.place(linucb) is None
    ours = of(found, "shadow-price", "bandit-binding")
    assert found.gap(ours) is None
    gap = found.gap(linucb)[:, -1]
    assert gap.mean() == pytest.approx(linucb.result.regret.mean[-1] - ours.result.regret.mean[-1])


def test_one_replication_has_no_intervals():
    one = compare([ROSTER["uniform"]], ["bandit-slack"], rounds=20, replications=1, workers=1)
    row = one.final_rows()[0]
    assert row["regret_low"] is None
    assert row["round_violation_low"] is None
    json.dumps(one.rows(), allow_nan=False)


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory):
    target = tmp_path_factory.mktemp("league")
    assert league.write_page(found, target) == target / "index.html"
    return target


def test_the_summary_has_the_agreed_rows(found, folder):
    data = json.loads((folder / "summary.json").read_text())
    wanted = {
        "policy",
        "scenario",
        "round",
        "regret",
        "regret_low",
        "regret_high",
        "violation",
        "last_violation",
    }
    wanted |= {
        "path_violation",
        "round_violation",
        "rounds_violated",
        "decision_microseconds",
        "kind",
        "place",
        "ratio",
        "rounds_above",
        "rounds_above_max",
        "peak_violation",
        "worst_path_violation",
    }
    assert all(wanted <= set(row) for row in data["rows"])
    assert {(row["policy"], row["scenario"]) for row in data["rows"]} == {
        (b.policy, b.scenario) for b in found.performances
    }
    assert max(row["round"] for row in data["rows"]) == 300
    assert all(row["decision_microseconds"] > 0 for row in data["rows"])
    assert {one["scenario"]: one["slater"] for one in data["scenarios"]}["bandit-binding"] == pytest.approx(
        0.1
    )
    assert len(data["outside"]) == len(found.misfits)
    assert data["scores"] == found.scores()
    assert all(row["worst_path_violation"] >= row["path_violation"] for row in data["rows"])


def test_the_table_marks_who_did_not_run(found, folder):
    with open(folder / "league.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(found.performances) + len(found.misfits)
    outside = [row for row in rows if row["ran"] == "False"]
    assert all(row["reasons"] and not row["regret"] for row in outside)
    played = [row for row in rows if row["ran"] == "True"]
    for name in ("regret", "rounds_above", "last_violation", "worst_path_violation", "ratio"):
        assert all(row[name] for row in played)


def test_the_page_tells_it_all(found, folder):
    page = (folder / "index.html").read_text()
    for ground in found.scenarios.values():
        assert f'id="{ground.name}"' in page
        assert (folder / f"{ground.name}.png").is_file()
    for one in found.misfits:
        assert all(reason.split("'")[0][:30] in page for reason in one.reasons)
    for head in ("rounds above zero", "last violated round", "worst path", "mean ratio where kept"):
        assert f">{head}<" in page
    assert not re.search(r'(?:src|href)="https?:', page)


def test_a_policy_of_your_own_joins():
    mine = own_entry(OWN)
    assert (mine.name, mine.own) == ("Prudent", True)
    found = compare(
        [mine, ROSTER["uniform"]], ["model-routing", "bandit-binding"], rounds=200, replications=2, workers=2
    )
    assert [(one.policy, one.scenario) for one in found.performances if one.policy == "Prudent"] == [
        ("Prudent", "model-routing")
    ]
    assert found.performances[0].result.cost[:, -1].max() <= 0.0
    reasons = [one.reasons for one in found.misfits if one.policy == "Prudent"]
    assert reasons == [("its costs are seen after acting, but the policy has no model of them",)]


BROKEN = """
class Loose:
    def __init__(self, n_actions, wish=None):
        self.n = n_actions
    def decide(self, **offer):
        return self.n
    def learn(self, decision, reward, costs=None):
        pass
    def copy(self, seed):
        return Loose(self.n)

class Greedy:
    def __init__(self, crystal_ball):
        pass
"""


def test_a_policy_that_does_not_conform_is_refused(tmp_path):
    (tmp_path / "loose.py").write_text(BROKEN)
    with pytest.raises(
        tr.InvalidInput, match=r"Loose can't join the league: .*\n.*decide chose action 4, but only"
    ):
        compare([own_entry(f"{tmp_path / 'loose.py'}:Loose")], ["bandit-binding"], rounds=50, workers=1)
    found = compare(
        [own_entry(f"{tmp_path / 'loose.py'}:Greedy"), ROSTER["uniform"]],
        ["bandit-binding"],
        rounds=20,
        workers=1,
    )
    assert found.misfits[0].reasons == ("it asks for 'crystal_ball', which no scenario tells",)


def test_a_policy_that_fails_is_named():
    class Late(tr.policies.Uniform):
        def decide(self, **offer):
            if self.rounds > 150:
                raise ZeroDivisionError("too late")
            return super().decide(**offer)

        def copy(self, seed=None):
            return Late(self.hooks.n_actions, seed=seed)

    with pytest.raises(tr.TightropeError, match="Late failed on bandit-slack: ZeroDivisionError"):
        compare([own_entry(Late, "Late")], ["bandit-slack"], rounds=300, replications=1, workers=1)


def test_policies_of_a_spec(tmp_path):
    entry = spec_entry(PolicySpec(kind="pessimistic-optimistic", name="bold", slater=0.5))
    assert entry.make(scenario("tight-slater"), 100).slater == 0.5
    # A kind may be a class in a file beside the spec, with settings of its own.
    (tmp_path / "loose.py").write_text(BROKEN)
    spec = PolicySpec(kind="loose.py:Loose", name="loose", settings={"wish": 3}, trust=True)
    policy = spec_entry(spec, tmp_path).make(scenario("fair-jobs"), 100)
    assert (type(policy).__name__, policy.n) == ("Loose", 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: compare([]), "entries must name at least one policy"),
        (lambda: compare([ROSTER["opb"]] * 2), "'opb' comes twice"),
        (lambda: compare(scenarios=["nowhere"]), "scenario must be one of"),
        (lambda: compare(scenarios=["fair-jobs"] * 2), "every scenario needs a name of its own"),
        (lambda: compare(rounds=0), "rounds must be a whole number >= 1"),
        (lambda: chosen_entries(["obp"]), "policy must be one of shadow-price"),
        (lambda: own_entry("no_such_module:Mine"), "No module named"),
        (lambda: own_entry(f"{ROOT / 'examples' / 'own_policy.py'}:Nobody"), "has no class 'Nobody'"),
        (lambda: own_entry("Prudent"), "or a class of your own as module:Class"),
    ],
)
def test_bad_calls_are_refused(call, message):
    with pytest.raises(tr.InvalidInput, match=re.escape(message)):
        call()


def test_who_is_chosen():
    # The provable variant is slow, and a fixed mix needs shares of its own: they play where they are named.
    league = [name for name in ROSTER if name not in ("provable-shadow-price", "fixed-mix")]
    assert [entry.name for entry in chosen_entries()] == league
    assert [entry.name for entry in chosen_entries(["provable-shadow-price"])] == ["provable-shadow-price"]
    assert [entry.name for entry in chosen_entries(["opb", OWN])] == ["opb", "Prudent"]
    # Your own alone joins the whole league.
    assert [entry.name for entry in chosen_entries([OWN])] == [*league, "Prudent"]


def test_a_spec_without_an_environment_meets_the_scenarios():
    entries = [spec_entry(PolicySpec(kind="opb", name="mine")), ROSTER["uniform"]]
    found = compare(entries, ["bandit-slack", "fair-jobs"], rounds=20, replications=2, workers=1)
    assert [(one.policy, one.scenario) for one in found.performances if one.policy == "mine"] == [
        ("mine", "bandit-slack")
    ]
    assert [one.scenario for one in found.misfits] == ["fair-jobs"]


def test_random_costs_seen_before_are_priced_as_seen():
    env = tr.environments.bandit(threshold=0.1, costs_seen="before")
    found = compare(
        [ROSTER["pessimistic-optimistic"]],
        [Scenario(env, "Costs drawn before acting.")],
        rounds=200,
        replications=2,
        workers=1,
    )
    one = found.performances[0]
    # What was seen and chosen is the cost itself, so the sum over rounds of excess less slack is the cumulative cost.
    np.testing.assert_array_less(one.result.cost[:, -1, 0], 200 * one.excess + 1e-9)
    assert one.result.baseline == "joint"


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_documentation_describes_every_scenario(name):
    one, page = scenario(name), (ROOT / "docs" / "league.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` | {one.description} |"))
    env = one.env
    size = f"{env.n_contexts:,}, {env.n_actions}, {env.n_constraints}"
    seen = env.costs_seen + (f", {one.delay} rounds late" if one.delay else "")
    assert row.endswith(f"| {size} | {seen} | {one.optimum:.4f} | {one.slater:.4g} |")


def test_the_page_is_cut_neither_on_a_wide_screen_nor_on_a_phone(found, chromium, tmp_path):
    path = league.write_page(found, tmp_path / "league")
    text = path.read_text(encoding="utf-8")
    assert text.index("In short") < text.index('id="words-used-here"') < text.index('id="who-wins"')
    page = chromium.page()
    for width in (1440, 390):
        page.size(width, 900, mobile=width < 500)
        page.open(path.as_uri())
        assert page.js("document.documentElement.scrollWidth") == width
        cut = "[...document.querySelectorAll('.table')].filter((one) => one.scrollWidth > one.clientWidth)"
        assert page.js(f"{cut}.map((one) => one.innerText.slice(0, 80))") == []
    # On a phone each number says which column it is of.
    cell = "document.querySelector('.table td[data-title=\"our place\"]')"
    assert page.js(f"getComputedStyle({cell}, '::before').content") == '"our place"'
