"""Concerns of simulations: the same by the compiled loop and by the policy object, counted over runs, kept and told."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope_lab.league.entries import ROSTER
from tightrope_lab.league.scenarios import SCENARIOS, scenario


def visits():
    """Costs seen after acting, whose noise is large beside the slack: a linear cost model, four plans, at most so many visits."""
    rng = np.random.default_rng(3)
    C, J, p = 40, 4, 5
    x = np.concatenate([np.ones((C, 1)), rng.normal(size=(C, p - 1))], axis=1)
    x /= np.linalg.norm(x, axis=1, keepdims=True)

    def means(level, low, high, spread):
        return np.clip(x @ (rng.normal(size=(J, p)) * spread).T + level, low, high)

    return tr.environments.Tabular(
        np.full(C, 1 / C),
        features=x,
        rewards=means([0.35, 0.45, 0.55, 0.65], 0.02, 0.98, 0.1),
        costs=means([-0.06, -0.02, 0.05, 0.12], -0.3, 0.6, 0.05)[:, :, None],
        cost_noise="bernoulli",
        cost_range=(-0.4, 1.0),
        costs_seen="after",
        constraints=["visits"],
        name="visits",
    )


def models(env):
    return {name: tr.DisjointRidge(env.n_actions, 5) for name in ("reward", "cost")}


def test_costs_seen_after_acting_that_end_in_violation_are_told_and_the_remedy_helps():
    env, T = visits(), 20_000
    paper = tr.PessimisticOptimistic(
        **models(env), constraints=1, slater=tr.solve(env).slater, horizon=T, cost_range=(-0.4, 1.0)
    )
    with pytest.warns(tr.errors.PolicyWarning, match="^pessimistic-optimistic on visits: in ") as told:
        run = tr.simulate(paper, env, T, 5, seed=0, progress=False)
    assert (run.cost[:, -1, 0] > 0).all()
    found = {one.kind: one for one in run.concerns}
    assert len(told) == len(run.concerns) >= 3
    assert found["epsilon above every cost"].runs == 5
    assert found["total above zero"].message.startswith("visits: its total was above zero")
    assert all("shadow-price" in one.remedy for one in run.concerns)
    remedied = tr.simulate(
        tr.ShadowPrice(**models(env), constraints=1), env, T, 5, seed=0, progress=False, warn=False
    )
    assert remedied.path_violation.mean[-1] < 0.05 * run.path_violation.mean[-1]
    assert remedied.mean_cost[:, -1, 0].mean() < 0 < run.mean_cost[:, -1, 0].mean()


@pytest.mark.parametrize("kind", ["shadow-price", "pessimistic-optimistic"])
@pytest.mark.parametrize("name", ["model-routing", "tight-slater", "bandit-binding"])
def test_the_compiled_loop_and_the_policy_object_raise_the_same_concerns(name, kind):
    found = scenario(name)
    policy = ROSTER[kind].make(found, 1500)
    runs = [
        tr.simulate(
            policy, found.env, 1500, 2, seed=0, workers=1, compile=compiled, progress=False, warn=False
        )
        for compiled in (True, False)
    ]
    assert runs[0].concerns == runs[1].concerns
    if kind == "pessimistic-optimistic" and name != "tight-slater":
        assert runs[0].concerns


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "tight-slater"])
def test_no_scenario_of_the_league_gives_the_default_policy_concern(name):
    found = scenario(name)
    policy = ROSTER["shadow-price"].make(found, 2000)
    run = tr.simulate(policy, found.env, 2000, 3, seed=0, workers=1, progress=False)
    assert run.concerns == ()


def test_where_the_default_policy_raises_a_concern_a_total_was_above_zero_for_long():
    found = scenario("tight-slater")
    policy = ROSTER["shadow-price"].make(found, 2000)
    run = tr.simulate(policy, found.env, 2000, 20, seed=0, workers=1, progress=False, warn=False)
    [concern] = run.concerns
    assert concern.kind == "total above zero"
    assert 1 <= concern.runs <= sum(above_for_half(one, run.rounds) for one in run.cost)


def above_for_half(totals, rounds):
    """Whether some total was above zero for half of the rounds until one of those recorded; in between it may have been below."""
    since = np.zeros(totals.shape[1])
    for t, total in zip(rounds, totals):
        since = np.where(total > 0, np.where(since > 0, since, t), 0)
        if t > 512 and (since[since > 0] <= t / 2 + 8).any():
            return True
    return False


def test_optimistic_rewards_are_at_the_clip_where_it_is_said(monkeypatch):
    env, policy = (
        tr.environments.hospital(),
        tr.PessimisticOptimistic(
            reward=tr.DisjointRidge(6, 10), constraints=18, slater=0.00625, horizon=10_000
        ),
    )
    policy.hooks.report_to(lambda concern: None)
    contexts = np.random.default_rng(0).choice(env.n_contexts, size=800, p=env.weights)
    clipped = []
    for c in contexts:
        decision = policy.decide(env.features[c], env.costs[c])
        clipped.append((decision.explain().rewards == 1.0).all())
        policy.learn(decision, float(env.rewards[c, decision.action]))
    assert "rewards at the clip" in [one.kind for one in policy.concerns()]
    assert np.mean(clipped) > 0.99


def test_short_runs_and_policies_of_your_own_raise_none():
    class Mine:
        def decide(self, **offer):
            return 0

        def learn(self, *outcome):
            pass

        def copy(self, seed):
            return self

    env = tr.environments.bandit(threshold=0.5)
    assert tr.simulate(Mine(), env, 600, workers=1, progress=False).concerns == ()
    paper = ROSTER["pessimistic-optimistic"].make(scenario("bandit-binding"), 500)
    assert tr.simulate(paper, scenario("bandit-binding").env, 500, progress=False).concerns == ()


def test_results_keep_their_concerns(tmp_path):
    found = scenario("bandit-binding")
    run = tr.simulate(
        ROSTER["pessimistic-optimistic"].make(found, 1000), found.env, 1000, 3, progress=False, warn=False
    )
    assert [one.kind for one in run.concerns] == ["epsilon above every cost", "total above zero"]
    assert tr.Result.load(run.save(tmp_path)) == run
    assert "epsilon above every cost  in all 3 runs, such as this one: constraint 0" in str(run.summary())
