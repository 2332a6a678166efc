"""What a notebook shows: HTML that is whole, escaped, without anything from elsewhere and without colours of its own."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

import tightrope as tr
from html_page import Page
from tightrope import displays
from tightrope.offpolicy import Log, evaluate
from tightrope.problem import Problem, Vectors
from tightrope.spec import make_spec
from tightrope.sweeps import sweep, tune
from tightrope_lab.league import ROSTER, compare

EVIL = "<script>alert('x')</script>"


def text_of(shown) -> str:
    """The words of what `_repr_html_` gives, after checking it."""
    html = shown._repr_html_()
    assert not re.search(r"<script|<link|<style|https?:|src=|url\(|@import", html)
    assert "background" not in html  # a notebook's own shows through, light or dark
    assert not re.search(r"(?<![-\w])color:", html)
    assert "\n" not in repr(shown) or len(repr(shown)) < 2000
    return Page(html).text


@pytest.fixture(scope="module")
def rules():
    return tr.Rules(
        [
            tr.Capacity("icu", at_most=0.2),
            tr.Share(EVIL, at_least=0.175, among="A"),
            tr.Budget("nurse_hours", at_most=40.0, range=(0.0, 100.0)),
        ],
        actions=["icu", EVIL, "home"],
        groups=["A", "B"],
    )


@pytest.fixture(scope="module")
def policy(rules):
    found = tr.ShadowPrice(reward=tr.ArmMeans(3), constraints=rules)
    for i in range(20):
        decision = found.decide(usage={"nurse_hours": [60.0, 50.0, 20.0]}, group="A")
        found.learn(decision, reward=0.1 * (i % 3))
    return found


def test_rules_show_each_rule_in_words(rules):
    shown = text_of(rules)
    for rule in rules:
        assert str(rule) in shown
        assert text_of(rule) == str(rule)
    assert "A, B" in shown


def test_a_decision_shows_its_name_its_probability_and_why(policy):
    decision = policy.decide(usage={"nurse_hours": [60.0, 50.0, 20.0]}, group="A")
    assert f"name={decision.name!r}, probability={decision.probability:.4g}" in repr(decision)
    assert type(decision.action) is int
    shown = text_of(decision)
    assert f"{decision.name} (action {decision.action})" in shown
    assert "penalty nurse_hours" in shown
    why = decision.explain()
    assert text_of(why).count("→") == 1
    assert repr(why) == str(why)
    assert why.to_pandas()["action"].tolist() == ["icu", EVIL, "home"]
    assert why.to_polars()["chosen"].sum() == 1
    policy.learn(decision, reward=0.5)


def test_actions_without_names_are_numbers():
    decision = tr.policies.Uniform(3).decide()
    assert repr(decision).startswith(f"Decision(action={decision.action}, probability=0.3333, row=")
    assert f"action {decision.action}" in text_of(decision)


def test_of_many_actions_the_best_and_the_chosen_are_shown():
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2000))
    decision = policy.decide()
    assert "probability" not in repr(decision)  # they are not computed for so many
    shown = text_of(decision)
    assert "→" in shown
    assert re.search(r"1,9(80|79) more actions", shown)


def test_a_policy_shows_totals_in_the_units_of_its_rules_and_what_stands_in_the_way(policy):
    shown = text_of(policy)
    used = policy.totals[2] * policy.rules.columns[2].rule.scale
    assert f"{displays.text(abs(float(used)))} {'above' if used > 0 else 'below'}" in shown
    assert f"decisions {policy.rounds}" in shown
    assert "price of a unit" in shown
    stuck = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1)
    stuck.hooks.report_to(lambda concern: None)
    for _ in range(1100):
        stuck.learn(stuck.decide(costs=[[1.0], [0.5]]), reward=0.5)
    for concern in stuck.concerns():
        assert concern.message in text_of(stuck)
    assert stuck.concerns()


@pytest.mark.parametrize(
    "kind", [tr.policies.Uniform(3), tr.policies.RoundRobin(3), tr.policies.Greedy(tr.ArmMeans(2))]
)
def test_any_policy_says_what_it_is(kind):
    assert text_of(kind).startswith(f"{type(kind).__name__} ({kind.kind})")


@pytest.mark.parametrize(
    "model", [tr.Ridge(3), tr.DisjointRidge(2, 3), tr.ArmMeans(4), tr.Standardised(n_features=3)]
)
def test_a_model_shows_its_settings(model):
    assert text_of(model).startswith(f"{type(model).__name__} ({model.kind})")


def test_a_problem_shows_what_there_is(rules):
    problem = Problem(
        n_actions=3, features=Vectors(2, per_action=False), rules=rules, actions=("icu", EVIL, "home")
    )
    assert "3 seen before acting" in text_of(problem)
    assert "2 for all actions at once" in repr(problem)
    assert str(rules[0]) in text_of(problem)


def test_an_oracle_says_what_binds_and_what_it_is_worth():
    found = tr.solve(tr.environments.bandit(threshold=0.1))
    shown = text_of(found)
    assert "The best that can be earned: 0.4 per round" in shown
    assert "usage: a limit higher by 1 would earn 3 per round." in shown
    assert "verified" in shown
    assert found.to_pandas().to_dict("records") == [
        {
            "rule": "usage",
            "left": pytest.approx(0.0),
            "unit": "cost",
            "price": pytest.approx(3.0),
            "binding": True,
        }
    ]
    assert "Slater's condition" in text_of(tr.oracle.check(tr.environments.bandit(threshold=0.1)))


@pytest.fixture(scope="module")
def run():
    env = tr.environments.bandit(threshold=0.1, costs_seen="after")
    return tr.simulate(tr.policies.Uniform(4), env, rounds=200, replications=3, progress=False)


def test_a_result_shows_its_summary_and_curves(run):
    shown = text_of(run)
    assert str(run.regret.at()) in shown
    assert run._repr_html_().count("<svg") == 2
    assert "total of usage" in shown
    assert text_of(run.summary())
    assert len(repr(run.regret)) < 80
    assert len(repr(run.last_violated())) < 80


def test_a_result_in_a_few_lines_has_the_numbers_that_matter(run):
    title, *lines = repr(run).splitlines()
    assert str(run) == repr(run)
    assert title == "uniform on bandit: 200 rounds, 3 runs"
    said = {line[2:19].strip(): line[19:].strip() for line in lines}
    regret = run.regret.at()
    best = 200 * run.optimum
    share = f"{100 * (1 - regret.mean / best):.1f}% [{100 * (1 - regret.high / best):.1f}%, "
    assert said["average reward"].startswith(f"{run.average_reward.at()}: {share}")
    assert said["average reward"].endswith("of the optimum, 0.4")
    assert said["regret"] == str(regret)
    assert said["rules"].startswith("above zero at the end in 3 of 3; last above zero in round 200")
    over = run.mean_cost.mean(axis=0)[-1, 0] / 200
    assert said["rules that bind"] == f"usage ({over:.4g} too much per round)"
    assert len(lines) == 4


def test_a_result_without_rules_or_optimum_says_what_is_known():
    env = tr.environments.Tabular([1.0], rewards=[[0.2, 0.7]], name="plain")
    run = tr.simulate(tr.policies.Uniform(2), env, rounds=20, replications=1, progress=False)
    unknown = dataclasses.replace(run, optimum=None, optimum_interval=None, optimal_reward=None)
    assert repr(unknown).splitlines()[1:] == [f"  average reward  {run.average_reward.at()}"]
    assert "% of the optimum, 0.7" in repr(run)
    assert "rules" not in repr(run)


def test_a_notebook_shows_a_figure_by_itself(run, tmp_path):
    figure = run.plot()
    # What IPython asks of an object for which it has no formatter of its own.
    png, size = figure._repr_png_()
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[16:20], "big") == 2 * size["width"]
    assert 700 < size["width"] < 900 < size["height"]
    figure.savefig(tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_one_run_has_no_band():
    env = tr.environments.bandit(threshold=0.1)
    one = tr.simulate(tr.policies.Uniform(4), env, rounds=5, replications=1, progress=False)
    assert "<polygon" not in one._repr_html_()


def test_a_result_as_a_table_has_a_row_for_each_recorded_round(run):
    for frame in (run.to_pandas(), run.to_polars(), run.to_frame("polars")):
        assert list(frame.columns) == list(run.rows()[0])
        assert len(frame) == len(run.rows())
    assert run.to_pandas()["regret"].iloc[-1] == run.rows()[-1]["regret"]


def test_logs_and_evaluations():
    rng = np.random.default_rng(0)
    actions = rng.integers(0, 2, 200)
    log = Log(
        actions,
        rng.random(200),
        np.array([[-0.2], [0.1]])[actions],
        propensities=np.full(200, 0.5),
        contexts=rng.random((200, 2)),
        action_names=["email", EVIL],
    )
    assert log.names[0] == log.action_names[actions[0]]
    frame = log.to_pandas()
    assert list(frame.columns) == ["action", "reward", "probability", "constraint 0", "x0", "x1"]
    assert frame["action"].tolist() == log.names.tolist()
    assert log.to_polars().shape == (200, 6)
    assert "Log of 200 decisions" in text_of(log)
    found = evaluate(log, np.tile([0.2, 0.8], (200, 1)), "snips")
    assert "violated with 95 % confidence" in text_of(found)
    assert "constraint 0 violated" in repr(found)
    assert found.to_polars()["name"].to_list() == ["reward", "constraint 0"]


def test_an_encoder_shows_what_becomes_of_each_column():
    table = {"age": [20, 40, 60], "ward": ["a", EVIL, EVIL]}
    encoder = tr.Encoder()
    assert "not fitted" in text_of(encoder)
    assert "ward=a" in text_of(encoder.fit(table))
    assert "ward other" in text_of(tr.Encoder({"ward": {"unseen": "other"}}).fit(table))


def test_models_that_were_compared():
    rng = np.random.default_rng(0)
    sent = rng.integers(0, 2, 300)
    found = tr.compare_models(
        {"age": rng.random(300), "sent": np.array(["a", "b"])[sent], "got": rng.random(300) + sent},
        ["arm-means", "linear"],
        action="sent",
        reward="got",
        progress=False,
    )
    for one in (found, found.reward):
        shown = text_of(one)
        assert found.reward.recommended.name in shown
        assert all(sentence in shown for sentence in one.words())
    assert found.to_pandas()["model"].tolist() == ["arm-means", "linear"]
    assert found.to_polars()["settings"][0] == '{"model": "arm-means"}'
    assert len(repr(found)) < 200
    assert len(repr(found.reward.fitted[0])) < 100


@pytest.fixture(scope="module")
def spec():
    return make_spec(
        {
            "name": "arms",
            "environment": {"kind": "bandit", "threshold": 0.5},
            "simulation": {"rounds": 50, "replications": 2},
            "sweep": {"policy.caution": [2.0, 3.0]},
        }
    )


def test_a_sweep_shows_its_settings_and_no_raw_arrays(tmp_path, spec):
    found = sweep(spec, tmp_path, workers=1, progress=False)
    assert "policy.caution" in text_of(found)
    assert "array" not in repr(found) + repr(found.rows())
    frame = found.to_pandas()
    assert list(frame.columns)[:3] == ["number", "policy", "policy.caution"]
    assert frame["policy.caution"].tolist() == [2.0, 3.0]
    assert not {"cell", "reward_by_run"} & set(frame.columns)


def test_what_was_tuned(tmp_path, spec):
    found = tune(spec, "violation<=50", tmp_path, workers=1, progress=False)
    assert found.words[-1] in text_of(found)
    assert str(found.path) in repr(found)
    frame = found.to_polars()
    assert frame["round"].to_list()[-3:] == [50, 100, 250]
    assert not {"cell", "reward_by_run"} & set(frame.columns)


def test_a_league_shows_who_is_best():
    found = compare(
        [ROSTER["opb"], ROSTER["uniform"]],
        ["bandit-binding"],
        rounds=50,
        replications=2,
        workers=1,
        progress=False,
    )
    shown = text_of(found)
    assert "bandit-binding" in shown
    assert "opb" in shown
    assert len(found.to_pandas()) == len(found.rows())
    assert len(repr(found)) < 200
    assert len(repr(found.performances[0])) < 200


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *[(float("nan"), "–"), (-3.25, "−3.25"), (1234.5, "1,234"), (float("inf"), "∞"), (1e-15, "0")],
        *[(0.123456, "0.1235"), (12345, "12,345"), (None, "–"), (True, "yes"), (["a", "b"], "a, b")],
    ],
)
def test_numbers_in_words(value, words):
    assert displays.text(value) == words


def test_texts_are_escaped():
    assert displays.page("Rules <2>", displays.facts([("icu", 0.2)])).count("&lt;2&gt;") == 1


def test_long_tables_and_facts_are_cut():
    assert "4 more" in displays.table(["n"], [[i] for i in range(34)])
    assert "…" in displays.facts([("actions", ["action"] * 200)])
