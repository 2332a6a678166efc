"""Actions drawn by members and by gaps: probabilities by hand, what models are asked, and that nothing else changes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

import tightrope as tr
from kernel_tools import same
from shadow_tools import PLAIN, Bagged, D, J, K, Regressor, Setting, play, rounds
from tightrope.kernels import shadow
from tightrope.policies.decision import Gaps, Members
from tightrope.policies.shadow_price.explain import n_constraints, parts
from tightrope.policies.shadow_price.sampling import (
    gap_probabilities,
    member_probabilities,
    sampling_for,
)
from tightrope.policies.shadow_price.solve import PriceSolve
from tightrope.service.http import handlers
from tightrope.service.offline.replay import verify
from tightrope.service.requests import SnapshotRequest
from tightrope.spec import make_spec
from workbench import Bench, read

ALL = np.ones(3, dtype=bool)


class TestProbabilities:
    def test_of_a_member_are_the_shares_of_those_who_prefer_an_action(self):
        means = np.array([0.0, 0.1, 0.0])
        shifts = np.array([[0.5, 0.0, 0.0], [0.1, 0.0, 0.1], [0.0, 0.0, 0.2], [0.0, 0.0, 0.05]])
        # The second member values all alike, and ties go to the lowest row.
        same(member_probabilities(means, np.zeros(3), ALL, shifts), [0.5, 0.25, 0.25])
        banned = np.array([False, True, True])
        same(member_probabilities(means, np.zeros(3), banned, shifts), [0.0, 0.75, 0.25])

    def test_of_a_member_beside_costs_that_are_drawn(self):
        means, sd = np.array([0.0, 0.1, -0.2]), np.array([0.3, 0.0, 0.1])
        shifts = np.random.default_rng(0).normal(size=(4, 3))
        draws = np.random.default_rng(1).normal(size=(200_000, 3)) * sd
        found = np.zeros(3)
        for shift in shifts:
            found += np.bincount(np.argmax(means + shift + draws, axis=1), minlength=3) / (4 * len(draws))
        np.testing.assert_allclose(member_probabilities(means, sd, ALL, shifts), found, atol=5e-3)

    def test_of_gaps_by_hand(self):
        values = np.array([0.2, 1.0, 0.5])
        found = gap_probabilities(values, ALL, 10.0)
        np.testing.assert_allclose(found, [1 / 11, 1 - 1 / 11 - 1 / 8, 1 / 8])
        same(gap_probabilities(values, np.array([True, False, False]), 10.0), [1.0, 0.0, 0.0])
        np.testing.assert_allclose(
            gap_probabilities(values, np.array([True, False, True]), 10.0), [0.2, 0.0, 0.8]
        )
        np.testing.assert_allclose(gap_probabilities(np.zeros(3), ALL, 1e300), [1 / 3] * 3)
        np.testing.assert_allclose(gap_probabilities(values, ALL, 1e300), [0.0, 1.0, 0.0], atol=1e-290)

    def test_they_shrink_with_the_gap_and_with_rounds(self):
        setting = Setting("gaps")
        policy = setting.make()
        decisions = play(policy, setting, 400)
        for decision in decisions[::40]:
            order = np.argsort(-parts(decision.trace, J)["values"])
            assert (np.diff(decision.probabilities[order]) <= 1e-12).all()
        chosen = [decision.probabilities.max() for decision in decisions]
        assert 1.0 - np.mean(chosen[-50:]) < 0.6 * (1.0 - np.mean(chosen[:50]))

    @pytest.mark.parametrize("name", ["members", "gaps"])
    def test_without_exploration_the_best_is_taken(self, name):
        setting = Setting(name, explore=0.0)
        for decision in play(setting.make(), setting, 30):
            assert decision.probability == pytest.approx(1.0, abs=1e-12)
            assert decision.row == np.argmax(parts(decision.trace, J)["means"])


@pytest.mark.parametrize("actions", [1, 2, 4, 9])
@pytest.mark.parametrize("constraints", [0, 1, 3])
@pytest.mark.parametrize("members", [1, 2, 5, 10])
def test_a_trace_tells_what_it_is(actions, constraints, members):
    """Whatever the numbers of actions, rules and members: K is read back from the trace, and its tag says how it was drawn."""
    W = np.zeros((actions, constraints))
    x = np.random.default_rng(0).normal(size=(actions, D))
    ids = np.arange(actions)
    for model, sampling in ((Bagged, "members"), (Regressor, "gaps"), (Bagged, "normal")):
        policy = tr.ShadowPrice(
            reward=model(actions, D, members=members), constraints=constraints, sampling=sampling
        )
        decision = policy.decide(x, W)
        assert n_constraints(decision.trace, actions) == constraints
        read = msgspec.msgpack.decode(msgspec.msgpack.encode(decision.sampling), type=Members | Gaps | None)
        assert decision.probabilities.sum() == pytest.approx(1.0)
        if sampling == "normal":
            assert read is None
        elif sampling == "gaps":
            assert isinstance(read, Gaps)
            assert read.slope > 0.0
        else:
            expected = Bagged(actions, D, members=members).members(x, ids)
            np.testing.assert_allclose(read.array(actions), expected - expected.mean(axis=0), atol=1e-12)


class TestWhichWay:
    def test_the_model_says_it_unless_it_is_stated(self):
        assert sampling_for(None, tr.Ridge(2)) == "normal"
        assert sampling_for(None, Bagged(2, 2)) == "members"
        assert sampling_for(None, Regressor(2, 2)) == "gaps"
        assert sampling_for("gaps", Bagged(2, 2)) == "gaps"
        policy = tr.ShadowPrice(reward=Bagged(2, 2), constraints=1, sampling="normal")
        assert policy.hooks.settings()["sampling"] == "normal"
        assert tr.ShadowPrice(reward=Bagged(2, 2), constraints=1).hooks.settings()["sampling"] is None
        assert "sampling='normal'" in repr(policy)

    def test_what_a_model_can_not_do_is_refused(self):
        with pytest.raises(tr.InvalidInput, match="one of normal, members, gaps, but got 'greedy'"):
            tr.ShadowPrice(reward=tr.Ridge(2), sampling="greedy")
        with pytest.raises(tr.InvalidInput, match="needs a reward model that has some"):
            tr.ShadowPrice(reward=tr.Ridge(2), sampling="members")

        class MeansOnly(Regressor):
            deviations = tr.models.Model.deviations

        with pytest.raises(tr.InvalidInput, match=r'has no deviations; use sampling "gaps"'):
            tr.ShadowPrice(reward=MeansOnly(2, 2), sampling="normal")

    def test_a_linear_model_may_be_explored_by_gaps(self):
        setting = Setting("before", sampling="gaps")
        policy = setting.make()
        assert not policy.hooks.compiles()
        decisions = play(policy, setting, 300)
        assert (policy.totals <= 0.0).all()
        assert np.median([decision.probabilities.min() for decision in decisions]) > 0.0
        # With caution an action that would lead a total above zero has probability 0; without, every action keeps a chance.
        careless = Setting("before", sampling="gaps", caution=0.0)
        decisions = play(careless.make(), careless, 300)
        assert min(decision.probabilities.min() for decision in decisions) > 0.0

    def test_a_gpu_refuses(self):
        env = tr.environments.synthetic(contexts=5, actions=J, features=D, constraints=1, slater=0.2)
        with pytest.raises(tr.InvalidInput, match="explores by members or gaps; use engine='cpu'"):
            tr.simulate(
                tr.ShadowPrice(reward=tr.Ridge(D), constraints=1, sampling="gaps"), env, 10, engine="gpu"
            )


class Counted(Bagged):
    """Counts the calls and the rows of each."""

    def __init__(self, n_actions, n_features, *, members=5, growth=0.0, n_outputs=1):
        Bagged.__init__(self, n_actions, n_features, members=members, growth=growth, n_outputs=n_outputs)
        self.asked = []

    def members(self, features=None, actions=None):
        self.asked.append(len(actions))
        return Bagged.members(self, features, actions)


def test_a_model_is_asked_once_for_all_actions_and_once_for_all_remembered_rounds():
    setting = Setting("members")
    policy = tr.ShadowPrice(reward=Counted(J, D), constraints=K)
    for t in range(70):
        policy._reward.asked.clear()
        play(policy, setting, 1, start=t)
        # Rounds 2, 4, 8, … begin a solve on what is remembered.
        solves = t + 1 in (2, 4, 8, 16, 32, 64)
        assert policy._reward.asked == ([t * J] if solves else []) + [J], t


def test_what_no_member_can_tell_is_tried_by_every_other_one():
    class Blind(Bagged):
        def members(self, features=None, actions=None):
            found = Bagged.members(self, features, actions)
            found[:, np.asarray(actions) == 2] = np.nan
            return found

    policy = tr.ShadowPrice(reward=Blind(J, D, members=4))
    for x, _, _ in rounds(0, 5):
        decision = policy.decide(x)
        assert decision.probabilities[2] == 0.5
        assert np.isfinite(decision.trace).all()


def test_members_of_the_wrong_shape_are_refused():
    class Short(Bagged):
        def members(self, features=None, actions=None):
            return Bagged.members(self, features, actions)[0]

    policy = tr.ShadowPrice(reward=Short(J, D), constraints=0)
    with pytest.raises(tr.InvalidInput, match=r"must be \(M, 4\) or \(M, 4, n_outputs\), but are \(4,\)"):
        policy.decide(np.ones((J, D)))
    assert policy.rounds == 0


@pytest.mark.parametrize("name", PLAIN)
def test_actions_that_sleep_and_catalogues(name):
    setting = Setting(name)
    policy = setting.make()
    play(policy, setting, 20)
    for t, (x, W, r) in enumerate(rounds(7, 20)):
        ids = [0, 2, 3] if t % 2 else [1, 2]
        offer = setting.offer(x[ids], W[ids], t)
        decision = policy.decide(**offer, actions=ids)
        assert decision.action in ids
        assert decision.probabilities.sum() == pytest.approx(1.0)
        policy.learn(decision, float(r[decision.action]), **setting.outcome(W, decision.action, t))
    if name in ("members", "gaps"):
        catalogue = tr.policies.Catalogue(0.1 * x)
        decision = policy.decide(catalogue, W)
        assert decision.probabilities.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("name", PLAIN)
def test_the_rules_are_kept(name):
    setting = Setting(name)
    policy = setting.make()
    play(policy, setting, 600)
    assert (policy.totals <= 0.0).all()
    assert policy.prices.max() > 0.0


class Sure(Bagged):
    """Says 0.98 of the action that a context seems to ask for, and 0.01 of the others, whatever it is told."""

    def members(self, features=None, actions=None):
        best = features[:, 0].astype(int) == np.asarray(actions)
        return np.stack([np.where(best, 0.98, 0.01)] * 2) + np.array([[0.005], [-0.005]])


@pytest.mark.parametrize("sampling", ["members", "gaps", "normal"])
def test_models_that_are_sure_of_themselves_keep_the_rules(sampling):
    """No price between 0.01 and 0.97 changes a choice, so that only the wall can answer bursts of a capped action."""
    for seed in range(2):
        policy = tr.ShadowPrice(reward=Sure(J, 1), constraints=J, sampling=sampling, seed=seed)
        random, W, totals = np.random.default_rng(seed), np.eye(J) - 0.3, []
        for best in random.choice(J, size=1500, p=[0.4, 0.35, 0.2, 0.05]).tolist():
            decision = policy.decide(np.full((J, 1), float(best)), W)
            policy.learn(decision, float(decision.action == best))
            totals.append(policy.totals.max())
        assert max(totals[100:]) <= 0.0
        # 0.3 + 0.3 + 0.2 + 0.05 of the rounds can be given what they ask for.
        assert np.mean(np.array(totals[-500:]) > -60.0) == 1.0


@pytest.mark.parametrize("name", ["members", "gaps"])
def test_units_of_rewards_do_not_matter(name):
    """Also without rules, where no solve says what the rewards' unit is."""
    for constraints in (K, 0):
        chosen = []
        for scale in (1.0, 1000.0):
            # Ridge with so little on its diagonal that the scale of what it learns is all there is.
            policy = tr.ShadowPrice(reward=_scaled(name, scale), constraints=constraints)
            one = []
            for x, W, r in rounds(5, 120):
                decision = policy.decide(x, W[:, :constraints])
                policy.learn(decision, scale * float(r[decision.row]))
                one.append(decision.action)
            chosen.append(one)
        assert chosen[0] == chosen[1]


def _scaled(name, scale):
    model = (Bagged if name == "members" else Regressor)(J, D)
    model.theta *= scale
    return model


@pytest.mark.parametrize(("model", "sampling"), [("Bagged", None), ("Regressor", None), ("Bagged", "normal")])
def test_it_is_served_and_replayed(tmp_path, model, sampling):
    spec = make_spec(
        {
            "actions": ["a", "b", "c"],
            "context": {"x": {"type": "number", "min": 0, "max": 1}},
            "rule": [
                {"kind": "capacity", "action": "b", "at_most": 0.5},
                {"kind": "budget", "name": "hours", "at_most": 0.6, "seen": "after"},
            ],
            "policy": {
                "kind": "shadow-price",
                "reward": {"model": "shadow_tools.py:" + model, "growth": 1.3},
                **({} if sampling is None else {"sampling": sampling}),
            },
        },
        folder=Path(__file__).parents[2],
        trust=True,
    )
    bench, random = Bench(spec, snapshot_every=20), np.random.default_rng(0)
    for i in range(60):
        body = {"event_id": str(i), "context": {"x": float(random.uniform())}, "explain": True}
        answer = read(bench.decide(body))
        assert 0.0 < answer["probability"] <= 1.0
        assert answer["explanation"]
        if i % 4:
            read(
                bench.learn(str(i), reward=float(random.uniform()), usage={"hours": float(random.uniform())})
            )
    read(bench.ask(handlers.take_snapshot, SnapshotRequest(label="here")))
    assert verify(bench.journal).digest == bench.digest()
    alive = bench.digest()
    bench.reopened()
    assert bench.digest() == alive


def test_the_scale_of_gaps_follows_what_was_learnt():
    """A warm start explores less: γ grows with outcomes, not only with rounds."""
    x, W, _ = next(rounds(0, 1))
    fresh, warm = (tr.ShadowPrice(reward=Regressor(J, D), constraints=K) for _ in range(2))
    warm._reward.counts[0] = 10_000.0
    lost = [1.0 - policy.decide(x, W).probabilities.max() for policy in (fresh, warm)]
    # All gaps are large beside 1/γ, so that what is explored falls as 1/√t.
    assert lost[1] == pytest.approx(lost[0] / 100.0, rel=0.3)


def test_a_solve_follows_members_too():
    """The sample's rewards are those of members, one for each remembered round; ρ is by the spread of all."""
    setting = Setting("members")
    policy = setting.make()
    play(policy, setting, 63)
    believed = policy._beliefs.rewards_of([entry for entry in policy._memory.entries if entry is not None])
    solve = PriceSolve.start(*policy._memory.sample(np.inf), 64.0, policy._prices.row_work, K)
    policy._prices.draw_rounds(policy._beliefs, solve, 0, len(solve.entries))
    values = (believed.means + believed.members).reshape(len(believed.members), -1, J)
    drawn = solve.rewards.reshape(-1, J)
    followed = [int(np.argmin(np.abs(values[:, i] - row).sum(axis=1))) for i, row in enumerate(drawn)]
    np.testing.assert_allclose(drawn, [values[m, i] for i, m in enumerate(followed)], atol=1e-12)
    assert set(followed) == set(range(5))
    means, sds = believed.means.reshape(-1, J), believed.deviations.reshape(-1, J)
    spreads = (means + sds).max(axis=1) - (means - sds).min(axis=1)
    assert solve.sums[0] / solve.sums[1] == pytest.approx(np.average(spreads, weights=solve.weights))
    assert solve.sums[0] > shadow.LEAST_RHO
