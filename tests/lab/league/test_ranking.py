"""Who keeps the rules, and the ratios that sum the league up."""

from __future__ import annotations

import dataclasses
import types

import numpy as np
import pytest

from tightrope.result import Result
from tightrope_lab.league import League, Performance, ranking, standing
from tightrope_lab.league.scenarios import scenario

T, R = 1000, 4
GROUNDS = ("bandit-slack", "bandit-binding", "fair-jobs")


def performance(policy, ground, regret, ends=-1.0, above=0.0, peak=0.0):
    """A policy that ends with a total, the same in every run, and a regret: one for all, or one for each run."""
    cost = np.full((R, 1, 1), ends)
    result = Result(
        policy=policy,
        scenario=ground,
        rounds=[T],
        reward=-np.broadcast_to(np.reshape(regret, (-1, 1)), (R, 1)),
        observed_reward=np.zeros((R, 1)),
        cost=cost,
        mean_cost=cost,
        counts=np.full((R, 1, 1), T),
        last_violation=np.zeros((R, 1), dtype=np.int64),
        optimum=0.0,
        optimum_interval=None,
        baseline="fluid",
        seed=0,
        actions=("a",),
        constraints=("limit",),
        seconds=0.0,
    )
    share = dict.fromkeys(("excess", "above", "microseconds"), np.ones(R))
    each = {"rounds_above": np.broadcast_to(above, R), "peak": np.broadcast_to(peak, R)}
    return Performance(
        policy=policy, kind=policy, scenario=ground, settings="", result=result, **each, **share
    )


def league(*performances):
    grounds = {one.scenario: types.SimpleNamespace(name=one.scenario) for one in performances}
    size = {"rounds": T, "replications": R, "seed": 0, "seconds": 0.0}
    return League(scenarios=grounds, optima={}, performances=performances, misfits=(), **size)


def test_kept_means_at_the_end_and_in_nine_rounds_of_ten():
    # On average over runs: two runs that are long above zero do not matter if the others are not.
    assert performance("a", "g", 1.0, above=[400, 0, 0, 0]).verdict == "kept"
    assert performance("a", "g", 1.0, above=[401, 0, 0, 0]).verdict == "too long above zero"
    assert performance("a", "g", 1.0, ends=0.5).verdict == "ends in violation"
    assert performance("a", "g", 1.0, ends=0.5, above=T).verdict == "ends in violation"
    assert [performance("a", "g", 1.0, above=n).kept for n in (0, 100, 101)] == [True, True, False]


def test_a_policy_that_is_long_above_zero_has_no_place():
    patient, hasty = performance("patient", "g", 50.0), performance("hasty", "g", 10.0, above=500)
    found = league(hasty, patient)
    assert found.place(patient).number == 1
    assert found.place(hasty) is None
    ours = league(dataclasses.replace(hasty, policy=ranking.CENTRE), patient)
    assert standing(ours.overview()[0]) == "too long above zero"


def test_what_is_recorded_of_totals():
    row = performance("a", "g", 1.0, above=[1, 2, 3, 6], peak=[0.5, 0.0, 4.0, 1.5]).row()
    assert (row["rounds_above"], row["rounds_above_max"]) == (3.0, 6.0)
    assert (row["peak_violation"], row["worst_path_violation"]) == (1.5, 4.0)
    assert row["rounds_above_low"] >= 0.0
    assert row["rounds_above_low"] < 3.0 < row["rounds_above_high"]


def test_ratios():
    found = league(
        performance("best", "g", 30.0),
        performance("other", "g", 80.0),
        performance("lawless", "g", -500.0, ends=700.0),
        performance("oracle", "g", 0.0),
        performance("lucky", "h", -15.0),
        performance("other", "h", 20.0),
        performance("lawless", "i", 5.0, ends=3.0),
    )
    ratios = {(one.policy, one.scenario): found.ratio(one) for one in found.performances}
    assert ratios["best", "g"] == 1.0
    assert ratios["other", "g"] == 100.0 / 50.0
    # A regret below zero counts as zero, and who breaks the rules or knows the truth is not what others are measured by.
    assert ratios["lawless", "g"] == ratios["oracle", "g"] == 20.0 / 50.0
    assert ratios["lucky", "h"] == 1.0
    assert ratios["other", "h"] == 40.0 / 20.0
    assert ratios["lawless", "i"] is None
    scores = {row["policy"]: row for row in found.scores()}
    assert list(scores)[-1] == "oracle"
    other = scores["other"]
    assert (other["played"], other["kept"], other["first"]) == (2, 2, 0)
    assert (other["ratio"], other["ratio_worst"], other["ratio_played"]) == (2.0, 2.0, 2.0)
    lawless = scores["lawless"]
    assert (lawless["played"], lawless["kept"], lawless["ratio"], lawless["worst_scenario"]) == (
        2,
        0,
        None,
        None,
    )
    assert lawless["ratio_played"] == lawless["ratio_played_worst"] == 0.4
    assert list(scores)[:2] == ["best", "lucky"]


def test_a_difference_that_runs_do_not_show_is_a_tie():
    # Regrets vary a lot between runs, but on the same draws they vary together: a difference of 2 shows.
    draws = np.array([10.0, 200.0, 60.0, 130.0])
    ahead = performance("ahead", "g", draws)
    level = performance("level", "g", draws + np.array([3.0, -2.0, 4.0, -4.0]))
    behind = performance("behind", "g", draws + np.array([2.0, 2.5, 1.5, 2.0]))
    last = performance("last", "g", draws + 50.0)
    found = league(last, behind, level, ahead)
    assert [one.policy for one in found.of("g")] == ["ahead", "level", "behind", "last"]
    places = {one.policy: found.place(one) for one in found.performances}
    assert {name: str(place) for name, place in places.items()} == {
        "ahead": "1=",
        "level": "1=",
        "behind": "2",
        "last": "4",
    }
    # Level with both, which are not level with each other.
    assert places["level"].tied_with == ("ahead", "behind")
    assert places["behind"].tied_with == ("level",)
    assert places["last"].tied_with == ()
    scores = {row["policy"]: (row["first_or_tied"], row["first"]) for row in found.scores()}
    assert scores == {"ahead": (1, 0), "level": (1, 0), "behind": (0, 0), "last": (0, 0)}
    (overview,) = found.overview()
    assert (overview["best"], overview["first"]) == ("ahead", ["ahead", "level"])
    rows = {row["policy"]: row for row in found.final_rows()}
    assert (rows["level"]["place"], rows["level"]["shared_place"]) == (1, True)
    assert rows["level"]["tied_with"] == "ahead, behind"
    # The ratio is to the lowest mean, whoever is tied with it.
    assert found.ratio(ahead) == 1.0
    assert found.ratio(level) > 1.0


def test_one_run_shows_no_difference():
    pair = [performance(name, "g", regret) for name, regret in (("a", 1.0), ("b", 900.0))]
    single = [
        dataclasses.replace(
            one,
            result=dataclasses.replace(
                one.result,
                **{
                    part: getattr(one.result, part)[:1]
                    for part in ("reward", "observed_reward", "cost", "mean_cost", "counts", "last_violation")
                },
            ),
        )
        for one in pair
    ]
    assert [str(league(*pair).place(one)) for one in pair] == ["1", "2"]
    assert [str(league(*single).place(one)) for one in single] == ["1=", "1="]


def test_who_breaks_the_rules_or_knows_the_truth_ties_with_nobody():
    found = league(
        performance("kept", "g", 30.0),
        performance("lawless", "g", 30.0, ends=9.0),
        performance("oracle", "g", 30.0),
    )
    kept, lawless, oracle = found.performances
    assert found.place(kept) == ranking.Place(1, (), False)
    assert found.place(lawless) is None
    assert found.place(oracle) is None


@pytest.mark.parametrize("worst", GROUNDS)
def test_the_mean_and_the_worst_are_over_the_scenarios(worst):
    regrets = {name: 180.0 if name == worst else 40.0 for name in GROUNDS}
    best = [performance("best", name, 20.0) for name in GROUNDS]
    found = league(*best, *(performance("other", name, regret) for name, regret in regrets.items()))
    (row,) = (row for row in found.scores() if row["policy"] == "other")
    assert row["ratio"] == pytest.approx((5.0 + 1.5 + 1.5) / 3)
    assert (row["ratio_worst"], row["worst_scenario"]) == (5.0, worst)


def test_the_late_scenario_is_safe_dosing_with_its_outcomes_held_back():
    late, prompt = scenario("late-outcomes"), scenario("safe-dosing")
    assert (late.delay, prompt.delay) == (500, 0)
    assert late.optimum == prompt.optimum
    assert late.safe_actions == prompt.safe_actions
    np.testing.assert_array_equal(late.env.costs, prompt.env.costs)


def test_places_and_ratios_in_words():
    assert (str(ranking.Place(1, ("b",), True)), str(ranking.Place(2, ("c",), False))) == ("1=", "2")
    assert standing({"verdict": "kept", "place": "1=", "ranked": 5}) == "1= of 5"
    assert standing({"verdict": None}) == "not run"
    assert (ranking.ratio_text(1.234), ranking.ratio_text(None)) == ("1.23", "–")
