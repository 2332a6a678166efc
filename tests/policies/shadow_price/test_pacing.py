"""Limits per window under ShadowPrice: paced through decide, learn, quote, save and simulate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.concerns import PolicyWarning
from tightrope.policies.shadow_price.pacing.keys import KeyTable
from tightrope.policies.shadow_price.pacing.traffic import Traffic
from tightrope_lab.pacing import trials
from tightrope_lab.pacing.play import KnownPayoffs
from tightrope_lab.pacing.worlds import Traffic as Arrivals
from tightrope_lab.pacing.worlds import World, coupons, late, routing

MONDAY, DAY = 1_704_067_200.0, 86_400.0
ACTIONS = ["small", "large", "none"]
COST = {"small": 1.0, "large": 4.0, "none": 0.0}


def short(days: int = 6, per_day: float = 400.0) -> Arrivals:
    return Arrivals(per_day=per_day, days=days)


def policy(*rules: Any, **settings: Any) -> Any:
    made: Any = tr.ShadowPrice(tr.Rules(rules, actions=ACTIONS), KnownPayoffs(), **settings)
    return made


def payoffs(rng: np.random.Generator) -> Any:
    return np.array([[0.4], [1.0], [0.0]]) * rng.lognormal(0.0, 0.7)


def run(one: Any, times: Any, seed: int = 0, user: str = "u", usage: Any = COST) -> list[str]:
    rng, chosen = np.random.default_rng(seed), []
    for t in times:
        decision = one.decide(payoffs(rng), usage={"cost": usage}, keys={"user": user}, time=float(t))
        one.learn(decision, reward=1.0)
        chosen.append(str(decision.name))
    return chosen


def spent(chosen: list[str]) -> float:
    return sum(COST[name] for name in chosen)


# --- worlds with a clock ---


@pytest.fixture(scope="module")
def world() -> World:
    return coupons(7, short())


@pytest.fixture(scope="module")
def measured(world: World) -> dict[str, float]:
    return trials.one_amount(world, known=True)


def test_a_day_is_paced_like_the_best_fixed_price(measured: dict[str, float]) -> None:
    assert measured["reward"] > 0.97
    assert measured["days above"] == 0.0
    assert measured["used"] > 0.9
    assert measured["left for the last hour"] == 1.0


def test_a_profile_that_says_nothing_of_the_day_earns_less(
    world: World, measured: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Traffic, "_learn_profile", lambda self, shares: None)
    assert trials.one_amount(world, known=True)["reward"] < measured["reward"] - 0.001


def test_without_a_forecast_little_is_left_for_the_evening(
    world: World, measured: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Traffic, "until", lambda self, t, end: (1.0, 0.0))
    blind = trials.one_amount(world, known=True)
    assert blind["reward"] < 0.95 < measured["reward"]


def test_it_paces_while_it_learns() -> None:
    found = trials.one_amount(routing(7, short()), known=False)
    assert (found["reward"] > 0.95, found["days above"]) == (True, 0.0)


def test_windows_within_windows_have_one_price() -> None:
    found = trials.nested(routing(7, short(4)))
    assert found["reward"] > 0.93
    assert found["windows above by 2 %"] == 0.0


def test_an_amount_per_day_and_a_share_per_week() -> None:
    found = trials.two_usages(routing(7, short(5)))
    assert found["reward"] > 0.93
    assert found["most used in a day"] < 1.0
    assert found["largest share"] < 1.05


def test_late_outcomes_are_expected_and_settled() -> None:
    # Most calls are small, and a few of them use many times what was expected: that is no reason to keep much free.
    found = trials.late_outcomes(late(routing(2, short(5, 1000.0)), 2))
    assert found["unused"] < 0.06
    assert found["mean excess"] < 0.01


def test_keys_come_back_so_less_is_spent_on_each() -> None:
    found = trials.keys(coupons(7, short(6, 500.0), n_users=40), 8.0)
    assert found["of the distance"] > 0.45
    assert found["most used"] <= 1.0


def test_keys_that_come_in_bursts_are_priced_by_when_they_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    world = coupons(7, short(6, 500.0), "bursts", n_users=40)
    own = trials.keys(world, 8.0)["of the distance"]
    monkeypatch.setattr(KeyTable, "coming", lambda self, time, usual: usual)
    assert trials.keys(world, 8.0)["of the distance"] < own - 0.002


# --- one policy ---


def test_prices_are_for_those_whom_the_stop_turned_away_as_well() -> None:
    one = policy(tr.Budget("cost", 8, per="day", by="user", hard=True))
    times = MONDAY + np.linspace(0.0, DAY - 1.0, 200)
    assert "none" in run(one, times)
    # Without a price everybody would take the large one, and those who may not are remembered as if they might.
    assert one.hooks.state()["pacing/curves"][0, 1, 0] == pytest.approx(4.0)


def test_no_action_exceeds_what_is_left_unless_all_do() -> None:
    one = policy(tr.Budget("cost", 10, per="day"))
    chosen = run(one, MONDAY + np.arange(60.0))
    assert spent(chosen) <= 10.0
    full = policy(tr.Budget("cost", 10, per="day"))
    dear = {"small": 6.0, "large": 9.0, "none": 5.0}
    # All exceed it: the one that exceeds it least.
    assert run(full, MONDAY + np.arange(4.0), usage=dear)[2:] == ["none", "none"]


def test_a_new_window_begins_with_its_whole_amount() -> None:
    one = policy(tr.Budget("cost", 60, per="day"), expect=150.0)
    first = run(one, MONDAY + np.linspace(0.0, DAY - 1.0, 150))
    second = run(one, MONDAY + DAY + np.linspace(0.0, DAY - 1.0, 150), seed=1)
    assert 45.0 < spent(first) <= 60.0
    assert 45.0 < spent(second) <= 60.0


def test_at_least_is_met_by_the_end_of_every_window() -> None:
    rng, one = np.random.default_rng(0), policy(tr.Share("none", 30, per="day", count=True), expect=200.0)
    for day in range(4):
        got = 0
        for t in MONDAY + day * DAY + np.sort(DAY * rng.random(200)):
            decision = one.decide(payoffs(rng), time=float(t))
            one.learn(decision, reward=1.0)
            got += decision.name == "none"
        assert 30 <= got < 80


def test_totals_of_other_rules_stay_as_they_are() -> None:
    rng = np.random.default_rng(0)
    one = policy(tr.Budget("cost", 150, per="day"), tr.Capacity("large", at_most=0.1), expect=300.0)
    for t in MONDAY + np.linspace(0.0, 3 * DAY, 900):
        decision = one.decide(payoffs(rng), usage={"cost": COST}, time=float(t))
        one.learn(decision, reward=1.0)
    assert one.totals.shape == (1,)
    assert one.totals[0] <= 0.0
    assert one.totals[0] > -0.05 * 900
    assert one.window_prices["cost per day"] >= 0.0


def test_a_quote_changes_nothing_and_agrees_with_the_decision() -> None:
    rng, one = (
        np.random.default_rng(0),
        policy(tr.Budget("cost", 30, per="day", by="user"), tr.Budget("cost", 60, per="day")),
    )
    for t in MONDAY + np.linspace(0.0, 2 * DAY, 150):
        given: dict[str, Any] = {
            "usage": {"cost": COST},
            "keys": {"user": f"u{int(t) % 5}"},
            "time": float(t),
        }
        x = payoffs(rng)
        before = one.hooks.state()
        quote = one.quote(x, **given)
        after = one.hooks.state()
        assert before.keys() == after.keys()
        for name, array in before.items():
            np.testing.assert_array_equal(array, after[name], err_msg=name)
        decision = one.commit(quote)
        assert decision.action == quote.proposed.action
        one.learn(decision, reward=1.0)


def test_a_saved_policy_goes_on_to_the_bit(tmp_path: Path) -> None:
    rules = [
        tr.Budget("cost", 40, per="day"),
        tr.Budget("cost", 15, per="day", by="user"),
        tr.Budget("cost", 30, per="12h"),
    ]
    one = tr.ShadowPrice(tr.Rules(rules, actions=ACTIONS), tr.DisjointRidge(3, 2), expect=80.0)
    rng = np.random.default_rng(0)

    def play(ones: list[Any], times: Any) -> None:
        for t in times:
            x, user, y = rng.random(2), f"u{rng.integers(6)}", rng.random()
            made = [own.decide(x, usage={"cost": COST}, keys={"user": user}, time=float(t)) for own in ones]
            assert len({d.action for d in made}) == 1
            for own, decision in zip(ones, made):
                own.learn(decision.number, y)

    play([one], MONDAY + np.linspace(0.0, 2.3 * DAY, 180))
    one.save(tmp_path / "policy")
    again = tr.load(tmp_path / "policy")
    play([one, again], MONDAY + np.linspace(2.3 * DAY, 4.4 * DAY, 170))
    for name, array in one.hooks.state().items():
        np.testing.assert_array_equal(array, again.hooks.state()[name], err_msg=name)


def test_a_limit_that_nothing_keeps_is_a_concern() -> None:
    one = policy(tr.Budget("cost", 50, per="day"), expect=600.0)
    dear = {"small": 1.0, "large": 2.0, "none": 0.9}
    with pytest.warns(PolicyWarning, match="cheapest choices exceed: cost per day"):
        run(one, MONDAY + np.linspace(0.0, DAY - 1.0, 600), usage=dear)


def test_decisions_are_explained_with_the_prices_of_windows() -> None:
    one = policy(tr.Budget("cost", 20, per="day"), expect=100.0)
    run(one, MONDAY + np.linspace(0.0, DAY / 2, 50))
    decision = one.decide(payoffs(np.random.default_rng(9)), usage={"cost": COST}, time=MONDAY + DAY / 2 + 1)
    explained = decision.explain()
    assert "price of cost per day" in str(explained)
    assert one.window_prices["cost per day"] > 0.0


def test_expect_must_be_a_number_above_zero() -> None:
    with pytest.raises(tr.InvalidInput, match="expect"):
        policy(tr.Budget("cost", 20, per="day"), expect=0.0)


def test_a_simulated_world_has_a_clock() -> None:
    rules = tr.Rules(
        [tr.Budget("cost", 60, per="day"), tr.Budget("tokens", 400, per="day", seen="after")], actions=ACTIONS
    )

    def draw(round: int, rng: Any) -> dict[str, Any]:
        return {"features": [1.0, rng.random()], "usage": {"cost": COST}, "time": MONDAY + 720.0 * round}

    def outcome(context: Any, action: str, rng: Any) -> Any:
        value = {"small": 0.5, "large": 1.0, "none": 0.0}[action]
        return {"reward": value * context["features"][1], "usage": {"tokens": 2.0 * COST[action]}}

    world = tr.environments.Custom(draw, outcome, rules=rules)
    one = tr.ShadowPrice(rules, tr.DisjointRidge(3, 2), tr.DisjointRidge(3, 2), expect=120.0)
    result = tr.simulate(one, world, rounds=480, seed=0, keep_choices=True)
    chosen = np.asarray(result.choices[0])
    used = np.bincount(np.arange(1, 481) // 120, np.array([1.0, 4.0, 0.0])[chosen])
    assert used.max() <= 60.0
    assert used[1:4].mean() > 40.0
