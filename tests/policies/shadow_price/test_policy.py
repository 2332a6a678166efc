"""The shadow-price policy: what it promises of every setting, from its first round to its file."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightrope as tr
from kernel_tools import same
from policy_tools import unwatched
from shadow_tools import COMPILED, SETTINGS, D, J, K, Setting, actions, equal_states, play, rounds
from strategies import numbers
from tightrope.kernels import shadow_trace
from tightrope.testing import PolicySuite


class TestBefore(PolicySuite):
    strict = True

    def make(self):
        return tr.ShadowPrice(reward=tr.Ridge(3), constraints=1)


class TestAfter(PolicySuite):
    strict = True

    def make(self):
        return tr.ShadowPrice(reward=tr.Ridge(3), cost=tr.Ridge(3), constraints=1)

    def environment(self):
        return tr.environments.synthetic(
            contexts=5, actions=4, features=3, constraints=1, slater=0.2, costs_seen="after"
        )


class TestArms(PolicySuite):
    strict = True

    def make(self):
        return tr.ShadowPrice(reward=tr.ArmMeans(4), cost=tr.ArmMeans(4), constraints=1)

    def environment(self):
        return tr.environments.bandit(threshold=0.5, costs_seen="after")


@pytest.mark.parametrize("name", SETTINGS)
class TestEverySetting:
    def test_decide_and_learn(self, name):
        setting = Setting(name)
        policy = setting.make()
        decisions = play(policy, setting, 40)
        assert policy.rounds == 40
        assert not policy.pending
        assert np.isfinite(policy.totals).all()
        assert (policy.prices >= 0).all()
        same(policy.expected_totals, policy.totals)
        for decision in decisions:
            assert 0.0 < decision.probability <= 1.0
            assert decision.probabilities.sum() == pytest.approx(1.0, abs=1e-6)
            assert str(decision.explain())

    def test_proposals_change_nothing_and_say_what_decide_does(self, name):
        # Round 2, 4, 8, … start a solve.
        setting = Setting(name)
        policy = setting.make()
        for t, (x, W, r) in enumerate(rounds(1, 34)):
            before = policy.hooks.state()
            proposed = policy.propose(**setting.offer(x, W, t))
            assert equal_states(before, policy.hooks.state()), t
            decision = policy.decide(**setting.offer(x, W, t))
            assert proposed.row == decision.row
            same(proposed.trace, decision.trace)
            same(proposed.probabilities, decision.probabilities)
            policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))

    def test_a_file_holds_all_of_it(self, name, tmp_path):
        setting = Setting(name)
        policy = setting.make()
        play(policy, setting, 21)
        late = play(policy, setting, 3, start=21, learn=False)
        policy.save(tmp_path / "policy")
        twins = [tr.load(tmp_path / "policy"), pickle.loads(pickle.dumps(policy)), policy.copy()]
        for twin in twins:
            assert equal_states(twin.hooks.state(), policy.hooks.state())
        for one in (policy, *twins):
            for t, (decision, (_, W, r)) in enumerate(zip(late, list(rounds(0, 24))[21:]), start=21):
                one.learn(decision.number, float(r[decision.row]), **setting.outcome(W, decision.row, t))
        chosen = [actions(play(one, setting, 20, start=24)) for one in (policy, *twins)]
        assert chosen[0] == chosen[1] == chosen[2] == chosen[3]
        for twin in twins:
            assert equal_states(twin.hooks.state(), policy.hooks.state())

    def test_decide_many_is_as_many_decisions(self, name):
        setting = Setting(name)
        one, many = setting.make(), setting.make()
        for policy in (one, many):
            play(policy, setting, 5)
        offers = [setting.offer(x, W, t) for t, (x, W, _) in enumerate(rounds(3, 14))]
        single = [one.decide(**offer) for offer in offers]
        if offers[0]:
            together = many.decide_many(**{key: [offer[key] for offer in offers] for key in offers[0]})
        else:
            together = many.decide_many(rounds=14)
        assert actions(single) == actions(together)
        assert equal_states(one.hooks.state(), many.hooks.state())

    def test_followed_actions_count(self, name):
        setting = Setting(name)
        policy = setting.make()
        for t, (x, W, r) in enumerate(rounds(4, 12)):
            decision = policy.commit(policy.quote(**setting.offer(x, W, t)), t % J)
            assert decision.action == t % J
            policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row, t))
        assert policy.rounds == 12
        with pytest.raises(tr.InvalidInput, match="must be on offer"):
            policy.commit(policy.quote(**setting.offer(x, W, t)), 99)

    def test_bad_input_leaves_no_trace(self, name):
        # Also in rounds in which a solve is due: 8 is one.
        setting = Setting(name)
        policy = setting.make()
        for t, (x, W, r) in enumerate(rounds(5, 9)):
            before = policy.hooks.state()
            good = setting.offer(x, W, t)
            bads = [
                {**good, "actions": [0, 99]},
                {**good, "actions": ["nobody"]},
                {**good, "usage": {"sun": [1.0]}},
            ]
            if "features" in good:
                for value in (math.nan, math.inf, 1e200):
                    wrong = x.copy()
                    wrong[1, 1] = value
                    wrong = wrong[1] if np.ndim(good["features"]) == 1 else wrong
                    bads.append({**good, "features": wrong})
                bads += [
                    {**good, "features": x[:, :2]},
                    {**good, "features": "x"},
                    {**good, "features": None},
                ]
            if "costs" in good:
                for value in (math.nan, -math.inf, 1e200):
                    wrong = W.copy()
                    wrong[2, 1] = value
                    bads.append({**good, "costs": wrong})
                bads += [{**good, "costs": W[:2]}, {**good, "costs": W[:, :1]}, {**good, "costs": None}]
            for bad in bads:
                for call in (policy.decide, policy.propose):
                    with pytest.raises(tr.InvalidInput):
                        call(**bad)
            if good:
                with pytest.raises(tr.InvalidInput, match="lengths differ"):
                    policy.decide_many(**{key: [good[key]] * 2 for key in good}, rounds=3)
                with pytest.raises(tr.InvalidInput, match="round 1 of decide_many"):
                    policy.decide_many(**{key: [good[key]] * 2 for key in good}, actions=[None, [0, 99]])
            assert equal_states(before, policy.hooks.state()), t
            decision = policy.decide(**good)
            before = policy.hooks.state()
            outcome = setting.outcome(W, decision.row, t)
            for reward in (math.nan, math.inf, "1", 1e200):
                with pytest.raises(tr.InvalidInput, match="reward"):
                    policy.learn(decision, reward, **outcome)
            if "costs" in outcome:
                for costs in ([math.nan, 0.0], [math.inf, 0.0], [1e200, 0.0], [1.0], "x"):
                    with pytest.raises(tr.InvalidInput):
                        policy.learn(decision, 1.0, costs)
            with pytest.raises(tr.InvalidInput):
                policy.learn(decision)
            assert equal_states(before, policy.hooks.state()), t
            policy.learn(decision, float(r[decision.row]), **outcome)


@pytest.mark.parametrize("name", ["after", "arms, after", "mixed", "own model"])
class TestLateOutcomes:
    def test_pending_costs_are_booked_at_their_estimate(self, name):
        setting = Setting(name)
        policy = setting.make()
        play(policy, setting, 30)
        late = play(policy, setting, 3, start=30, learn=False)
        shown = [shadow_costs(decision) for decision in late]
        columns = policy._columns
        booked = policy.expected_totals - policy.totals
        np.testing.assert_allclose(booked[columns], sum(shown)[columns], atol=1e-12)
        policy.forget(late[0])
        booked = policy.expected_totals - policy.totals
        np.testing.assert_allclose(booked[columns], sum(shown[1:])[columns], atol=1e-12)
        # Parts come one by one.
        _, W, r = list(rounds(0, 33))[31]
        before = policy.totals
        policy.learn(late[1], float(r[late[1].row]))
        same(policy.totals, before)
        policy.learn(late[1], **setting.outcome(W, late[1].row, 31))
        assert policy.pending == (late[2].number,)
        policy.forget(late[2])
        same(policy.expected_totals, policy.totals)

    def test_a_part_comes_once(self, name):
        setting = Setting(name)
        policy = setting.make()
        (decision,) = play(policy, setting, 1, learn=False)
        _, W, _ = next(rounds(0, 1))
        policy.learn(decision, 1.0)
        with pytest.raises(tr.InvalidInput, match="already has its reward"):
            policy.learn(decision, 1.0)
        policy.learn(decision, **setting.outcome(W, decision.row))
        with pytest.raises(tr.InvalidInput, match="already"):
            policy.learn(decision, **setting.outcome(W, decision.row))


def shadow_costs(decision):
    return decision.explain().costs[decision.row]


class TestActions:
    def test_changing_and_sleeping_actions(self):
        rng = np.random.default_rng(0)
        policy = tr.ShadowPrice(reward=tr.DisjointRidge(6, D), constraints=K)
        for _ in range(60):
            ids = np.sort(rng.permutation(6)[: rng.integers(1, 7)])
            x, W = rng.normal(size=D), rng.normal(size=(len(ids), K))
            decision = policy.decide(x, W, actions=ids)
            assert decision.action == ids[decision.row]
            policy.learn(decision, float(decision.action))

    def test_fewer_rows_without_ids_are_refused_though_as_many_were_on_offer_before(self):
        policy = tr.ShadowPrice(reward=tr.DisjointRidge(6, D), constraints=K)
        for t in range(9):
            policy.learn(policy.decide(np.ones(D), np.zeros((2, K)), actions=[t % 6, (t + 1) % 6]), 1.0)
        before = policy.hooks.state()
        with pytest.raises(tr.InvalidInput, match="must have shape"):
            policy.decide(np.ones(D), np.zeros((2, K)))
        assert equal_states(before, policy.hooks.state())

    def test_any_number_of_rows_with_shared_parameters(self):
        rng = np.random.default_rng(1)
        policy = tr.ShadowPrice(reward=tr.Ridge(D), constraints=K)
        for _ in range(60):
            n = int(rng.integers(1, 12))
            policy.learn(policy.decide(rng.normal(size=(n, D)), rng.normal(size=(n, K))), 1.0)

    def test_names(self):
        setting = Setting("rules")
        policy = setting.make()
        decision = policy.decide(np.ones((2, D)), actions=["d", "b"], usage={"hours": [0.1, 0.2]}, group="A")
        assert decision.name in ("b", "d")
        assert decision.action in (1, 3)

    def test_one_action(self):
        policy = tr.ShadowPrice(reward=tr.Ridge(D), constraints=1)
        for t in range(20):
            decision = policy.decide(np.ones((1, D)), [[0.5 if t % 2 else -0.6]])
            assert decision.action == 0
            assert decision.probability == 1.0
            policy.learn(decision, 1.0)


class TestExtremes:
    def test_no_constraints(self):
        policy = tr.ShadowPrice(reward=tr.Ridge(D))
        for x, _, r in rounds(0, 40):
            decision = policy.decide(x)
            policy.learn(decision, float(r[decision.row]))
        assert policy.prices.shape == policy.totals.shape == (0,)
        assert policy.conflict() is None
        assert str(decision.explain())
        assert not len(policy._memory)

    def test_rules_that_never_cost_anything(self):
        policy = tr.ShadowPrice(reward=tr.Ridge(D), constraints=K)
        for x, W, r in rounds(0, 40):
            decision = policy.decide(x, np.column_stack([W[:, 0], np.zeros(J)]))
            policy.learn(decision, float(r[decision.row]))
        assert policy.prices[1] == 0.0
        assert policy.prices[0] > 0.0
        assert np.isfinite(decision.trace).all()

    def test_features_that_are_all_zero(self):
        policy = tr.ShadowPrice(reward=tr.Ridge(D), cost=tr.Ridge(D), constraints=K)
        for _ in range(20):
            decision = policy.decide(np.zeros((J, D)))
            policy.learn(decision, 1.0, [0.5, -0.5])
        assert np.isfinite(decision.trace).all()

    def test_rewards_and_costs_that_are_all_zero(self):
        policy = tr.ShadowPrice(reward=tr.ArmMeans(3), cost=tr.ArmMeans(3), constraints=1)
        for _ in range(40):
            decision = policy.decide()
            policy.learn(decision, 0.0, [0.0])
        assert np.isfinite(decision.trace).all()

    @pytest.mark.parametrize("name", ["before", "after"])
    @pytest.mark.parametrize("given", [{"caution": 0.0}, {"explore": 0.0}, {"caution": 0.0, "explore": 0.0}])
    def test_without_caution_or_exploration(self, name, given):
        setting = Setting(name)
        policy = setting.make(**given)
        for decision in play(policy, setting, 70):
            assert np.isfinite(decision.trace).all()
            assert decision.probabilities.sum() == pytest.approx(1.0)
            if given.get("explore") == 0.0:
                assert decision.probability == 1.0

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"explore": -1.0}, "explore"),
            ({"caution": math.nan}, "caution"),
            ({"memory": 0}, "memory"),
            ({"least_chance": -0.01}, r"least_chance must lie in \[0, 0.5\], but got -0.01"),
            ({"least_chance": 0.51}, r"least_chance must lie in \[0, 0.5\], but got 0.51"),
            ({"seed": -1}, "seed"),
            ({"constraints": -1}, "constraints must be Rules or their number"),
            ({"reward": None}, "reward must be a model"),
            ({"cost": 3}, "cost must be a model"),
            ({"cost": tr.Ridge(D), "cost_range": (1.0, -1.0)}, "`low ≤ high` must hold in cost_range"),
        ],
    )
    def test_settings_that_are_refused(self, given, message):
        with pytest.raises(tr.InvalidInput, match=message):
            tr.ShadowPrice(**{"reward": tr.Ridge(D), "constraints": 1, **given})

    def test_a_model_that_has_learnt_is_refused(self):
        model = tr.Ridge(D)
        model.learn(np.ones(D) / 2, 1.0)
        with pytest.raises(tr.InvalidInput, match="warm_start"):
            tr.ShadowPrice(reward=model)


class TestUnits:
    @pytest.mark.parametrize("name", ["before", "disjoint", "after", "disjoint, after"])
    def test_the_unit_of_features_does_not_matter(self, name):
        setting = Setting(name)
        chosen = []
        for factor in (1.0, 8.0):
            policy, found = setting.make(), []
            for t, (x, W, r) in enumerate(rounds(6, 200)):
                decision = policy.decide(**setting.offer(factor * x, W, t))
                policy.learn(decision, float(r[decision.row]), **setting.outcome(W, decision.row))
                found.append(decision.action)
            chosen.append(found)
        assert chosen[0] == chosen[1]

    @pytest.mark.parametrize("factor", [1e-6, 1e6])
    def test_the_unit_of_costs_known_before_does_not_matter(self, factor):
        one, other = (
            tr.ShadowPrice(reward=tr.Ridge(D), constraints=K),
            tr.ShadowPrice(reward=tr.Ridge(D), constraints=K),
        )
        for x, W, r in rounds(6, 300):
            decisions = one.decide(x, W), other.decide(x, factor * W)
            assert decisions[0].action == decisions[1].action
            for policy, decision in zip((one, other), decisions):
                policy.learn(decision, float(r[decision.row]))
        np.testing.assert_allclose(other.prices * factor, one.prices, rtol=1e-6)
        np.testing.assert_allclose(other.totals, one.totals * factor, rtol=1e-9)

    @pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e6])
    def test_the_unit_of_costs_seen_after_acting_hardly_matters(self, factor):
        earned, totals, prices = units_world("after", costs=factor)
        base, base_totals, base_prices = units_world("after")
        assert earned > 0.97 * base
        assert (totals / factor <= 0).all()
        np.testing.assert_allclose(totals / factor, base_totals, rtol=0.2)
        np.testing.assert_allclose(prices * factor, base_prices, rtol=0.1, atol=0.02)

    @pytest.mark.parametrize("name", ["before", "after"])
    @pytest.mark.parametrize(("factor", "offset"), [(100.0, 5.0), (1e-6, 0.0), (1e6, -3e7)])
    def test_unit_and_offset_of_rewards_hardly_matter(self, name, factor, offset):
        earned, totals, prices = units_world(name, rewards=factor, offset=offset)
        base, _, base_prices = units_world(name)
        assert earned > 0.95 * base
        assert (totals <= 0).all()
        np.testing.assert_allclose(prices / factor, base_prices, rtol=0.1, atol=0.02)

    def test_costs_larger_than_one_in_some_columns_only(self):
        setting = Setting("mixed")
        policy = setting.make()
        W = np.array([[7.0, 8.0], [-7.0, -8.0], [1.0, 2.0], [-1.0, -2.0]])
        decision = policy.decide(np.ones((J, D)), W, group="A")
        assert policy.totals[0] == W[decision.row, 0]


def units_world(name, costs=1.0, rewards=1.0, offset=0.0, T=1500):
    rng = np.random.default_rng(5)
    theta = rng.normal(size=D)
    mu = 0.7 * theta[:, None] + 0.5 * rng.normal(size=(D, K))
    policy, earned = Setting(name).make(), 0.0
    for _ in range(T):
        x = rng.normal(size=(J, D))
        x[0] *= 0.1
        W, r = (x @ mu - 0.1) * costs, x @ theta + 0.1 * rng.normal(size=J)
        decision = policy.decide(x, None if name == "after" else W)
        policy.learn(
            decision, float(r[decision.row] * rewards + offset), W[decision.row] if name == "after" else None
        )
        earned += r[decision.row]
    return earned, policy.totals, policy.prices


class TestGuard:
    @settings(max_examples=25)
    @given(costs=numbers(30, 4, 2), safe=st.binary(min_size=30, max_size=30), seed=st.integers(0, 99))
    def test_totals_stay_below_zero_where_every_round_offers_a_safe_action(self, costs, safe, seed):
        policy = tr.ShadowPrice(reward=tr.ArmMeans(4), constraints=2, guard=True, seed=seed)
        for W, j in zip(costs, safe):
            W = W.copy()
            W[j % 4] = -np.abs(W[j % 4])
            decision = policy.decide(costs=W)
            assert (policy.totals <= 0.0).all()
            assert decision.probability > 0.0
            policy.learn(decision, float(decision.action))

    def test_where_none_is_safe_the_least_excess(self):
        policy = tr.ShadowPrice(reward=tr.ArmMeans(3), constraints=1, guard=True)
        for _ in range(20):
            decision = policy.decide(costs=[[0.5], [0.1], [0.9]])
            assert decision.action == 1
            same(decision.probabilities, [0.0, 1.0, 0.0])
            policy.learn(decision, 0.0)

    def test_only_the_guard_guarantees(self):
        assert tr.ShadowPrice(reward=tr.ArmMeans(3), constraints=1).hooks.guarantees() == {}
        (claim,) = tr.ShadowPrice(reward=tr.ArmMeans(3), constraints=1, guard=True).hooks.guarantees()
        assert "zero in every round" in claim

    def test_an_action_against_the_guard_can_be_followed(self):
        policy = tr.ShadowPrice(reward=tr.ArmMeans(2), constraints=1, guard=True)
        decision = policy.commit(policy.quote(costs=[[1.0], [-1.0]]), 0)
        assert decision.probability == 0.0
        assert policy.totals[0] == 1.0


class TestSeed:
    def test_another_process_makes_the_same_choices(self):
        setting = Setting("mixed")
        here = actions(play(setting.make(seed=3), setting, 40))
        code = "from shadow_tools import *; s = Setting('mixed'); print(actions(play(s.make(seed=3), s, 40)))"
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parents[2])])}
        there = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        ).stdout
        assert there.strip() == str(here)

    @pytest.mark.parametrize("name", ["before", "after"])
    def test_plain_python_makes_the_same_choices(self, name):
        setting = Setting(name, least_chance=0.3)
        here = actions(play(setting.make(seed=3), setting, 9))
        code = (
            "import sys; sys.modules['numba'] = None\n"
            f"from shadow_tools import *; s = Setting({name!r}, least_chance=0.3)\n"
            "print(actions(play(s.make(seed=3), s, 9)))"
        )
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parents[2])])}
        there = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        ).stdout
        assert there.strip() == str(here)

    def test_another_seed_draws_otherwise(self):
        setting = Setting("before")
        assert actions(play(setting.make(seed=1), setting, 40)) != actions(
            play(setting.make(seed=2), setting, 40)
        )


class TestWarmStart:
    def test_offers_let_prices_start_at_the_first_decision(self):
        offers = [{"features": x, "costs": W} for x, W, _ in rounds(8, 60)]
        cold, warm = (tr.ShadowPrice(reward=tr.Ridge(D), constraints=K) for _ in range(2))
        phi = np.array([x[0] for x, _, _ in rounds(8, 60)])
        rewards = np.array([r[0] for _, _, r in rounds(8, 60)])
        warm.warm_start(phi, None, rewards, offers=offers)
        assert warm.rounds == 0
        same(warm.totals, np.zeros(K))
        x, W, _ = next(rounds(9, 1))
        decisions = [policy.decide(x, W) for policy in (cold, warm)]
        shadows = [d.trace[shadow_trace.trace_parts(J, K)[5] + K :][:K] for d in decisions]
        same(shadows[0], np.zeros(K))
        assert shadows[1].max() > 0.0

    def test_offers_alone_do_not_let_a_proposal_change_the_state(self):
        policy = tr.ShadowPrice(reward=tr.Ridge(D), constraints=K)
        policy.warm_start(
            np.empty((0, D)), None, [], offers=[{"features": x, "costs": W} for x, W, _ in rounds(8, 5)]
        )
        before = policy.hooks.state()
        x, W, _ = next(rounds(9, 1))
        proposed = policy.propose(x, W)
        assert equal_states(before, policy.hooks.state())
        same(proposed.trace, policy.decide(x, W).trace)

    def test_logged_rounds_say_what_was_on_offer_where_one_x_serves_all(self):
        policy = Setting("disjoint, after").make()
        rng = np.random.default_rng(0)
        policy.warm_start(
            rng.normal(size=(30, D)), rng.integers(0, J, 30), rng.normal(size=30), rng.normal(size=(30, K))
        )
        assert len(policy._memory) == 30

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"rewards": [1.0, math.nan]}, "rewards"),
            ({"costs": [[0.0, 1.0], [math.inf, 0.0]]}, "costs"),
            ({"features": [[1.0, 2.0, math.nan]] * 2}, "features"),
            ({"actions": [0, 99]}, "actions"),
            ({"offers": [{"features": [1.0]}]}, r"offers\[0\]"),
            ({"offers": [{"colour": 3}]}, r"offers\[0\]"),
        ],
    )
    def test_bad_logs_leave_no_trace(self, change, message):
        policy = Setting("disjoint, after").make()
        before = policy.hooks.state()
        given = {
            "features": np.ones((2, D)),
            "actions": [0, 1],
            "rewards": [1.0, 2.0],
            "costs": np.zeros((2, K)),
            **change,
        }
        with pytest.raises(tr.InvalidInput, match=message):
            policy.warm_start(**given)
        assert equal_states(before, policy.hooks.state())


class TestGoingOn:
    @pytest.mark.parametrize("name", ["before", "after", "mixed"])
    def test_rolling_back_takes_what_was_learnt_or_all(self, name):
        setting = Setting(name)
        policy = setting.make()
        play(policy, setting, 20)
        then = policy.hooks.state()
        waiting = play(policy, setting, 2, start=20, learn=False)
        play(policy, setting, 15, start=22)
        late = policy.copy()
        assert late.hooks.roll_back(then, learnt_only=True) == []
        now = late.hooks.state()
        for key in now:
            if key.startswith(("reward/", "cost/")):
                same(now[key], then[key])
        same(late.totals, policy.totals)
        assert late.pending == tuple(d.number for d in waiting)
        assert policy.hooks.roll_back(then, learnt_only=False) == [20, 21]
        found = policy.hooks.state()
        for key in found:
            if key not in ("made",) and not key.startswith("pending"):
                same(found[key], then[key])
        same(policy.expected_totals, policy.totals)
        play(policy, setting, 10, start=37)

    def test_resuming_carries_models_prices_and_pending_decisions_over(self):
        setting = Setting("before")
        old = setting.make()
        play(old, setting, 37)
        (waiting,) = play(old, setting, 1, start=37, learn=False)
        new = setting.make(caution=2.0)
        new.hooks.resume(old, same_costs=True)
        same(new.totals, old.totals)
        same(new._reward.flat, old._reward.flat)
        assert len(new._memory) == 38
        assert new.rounds == 38
        new.learn(waiting.number, 1.0)
        play(new, setting, 40, start=38)

    def test_resuming_with_other_costs_forgets_the_rounds_that_were_remembered(self):
        setting = Setting("before")
        old, new = setting.make(), setting.make()
        play(old, setting, 20)
        new.hooks.resume(old, same_costs=False)
        assert len(new._memory) == 0
        same(new.totals, old.totals)
        play(new, setting, 100, start=20)
        assert len(new._memory) == 100


class TestLongRuns:
    def test_a_hundred_thousand_rounds_without_drift(self):
        env = tr.environments.synthetic(contexts=6, actions=4, features=3, constraints=2, slater=0.1)
        policy = tr.ShadowPrice(reward=tr.Ridge(3), constraints=2)
        run = tr.simulate(policy, env, rounds=100_000, replications=1, seed=1, workers=1)
        assert run.regret.mean[-1] < 0.01 * 100_000
        assert run.violation.mean[-1] == 0.0

    @unwatched
    def test_an_infeasible_rule_does_not_drag_the_others_along(self):
        rng = np.random.default_rng(2)
        policy = tr.ShadowPrice(reward=tr.ArmMeans(3), constraints=2)
        for _ in range(1000):
            # The first can't be met, the second can: by taking action 0 in at most half of the rounds.
            decision = policy.decide(costs=[[0.5, 0.5], [0.6, -0.5], [0.9, -0.5]])
            policy.learn(decision, (1.0, 0.5, 0.0)[decision.action] + 0.1 * rng.normal())
        same(policy.infeasible, [True, False])
        assert policy.totals[0] > 400
        assert policy.totals[1] <= 0.0
        taken = policy.hooks.reward_model()
        assert taken.n_learnt == 1000
        assert policy.totals[1] > -60.0


def test_names_of_settings_cover_the_compiled_ones():
    for name in COMPILED:
        assert Setting(name).make().hooks.compiles()
    assert not Setting("own model").make().hooks.compiles()


def test_it_says_what_it_is():
    assert "least_chance=0.01" in repr(tr.ShadowPrice(reward=tr.Ridge(3), least_chance=0.01))
    assert repr(tr.ShadowPrice(reward=tr.Ridge(3), constraints=2, caution=2.0)) == (
        "ShadowPrice(reward=Standardised(n_features=3), constraints=2, caution=2)"
    )
