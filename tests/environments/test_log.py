"""A log played again: who comes, and what comes of it, counted by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tightrope as tr
from tightrope.environments import WeakEvidence, from_log

N = 300
RULES = tr.Rules(
    [tr.Budget("minutes", at_most=0.5, seen="after"), tr.Capacity("letter", at_most=0.5)],
    actions=["letter", "email"],
)


def log():
    rng = np.random.default_rng(4)
    age, sent = rng.uniform(20, 80, N), rng.choice(["email", "letter"], N)
    spent = np.where(sent == "letter", age, 40.0) + rng.normal(0.0, 5.0, N)
    return {"age": age, "sent": sent, "spent": spent, "minutes": np.where(sent == "letter", 0.8, 0.1)}


def world(**more):
    given = {"action": "sent", "reward": "spent", "usage": {"minutes": "minutes"}, "rules": RULES, **more}
    return from_log(log(), context=["age"], **given)


def test_outcomes_are_those_of_the_nearest_rows_in_which_the_same_was_done():
    frame, env = log(), world(neighbours=7)
    play = env.play(0, 0)
    for t in range(1, 40):
        context = play.context(t)
        row = context.drawn["row"]
        for j, name in enumerate(RULES.actions):
            same = np.flatnonzero(frame["sent"] == name)
            near = same[np.argsort(np.abs(frame["age"][same] - frame["age"][row]))[:7]]
            reward, costs, *_ = play.outcome(t, context, j)
            assert reward in frame["spent"][near]
            assert costs == pytest.approx([frame["minutes"][near][0] - 0.5])
            assert play.means(context).rewards[j] == pytest.approx(frame["spent"][near].mean())


def test_rows_come_at_random_or_in_order():
    at_random, in_order = (world(in_order=ordered).play(1, 0) for ordered in (False, True))
    rows = [at_random.context(t).drawn["row"] for t in range(1, 2001)]
    assert np.bincount(rows, minlength=N).max() < 25
    assert len(set(rows)) > 0.95 * N
    assert [in_order.context(t).drawn["row"] for t in (1, 2, N, N + 1)] == [0, 1, N - 1, 0]


def test_the_optimum_is_that_of_the_rows_and_a_policy_comes_near():
    env = world()
    play = env.play(0, 0)
    rows = [play.means(play.read(1, env._world.context(i))) for i in range(N)]
    table = tr.environments.Tabular(
        np.full(N, 1.0 / N),
        rewards=[one.rewards for one in rows],
        costs=[one.costs for one in rows],
        reward_noise="none",
        costs_seen=["after", "before"],
    )
    run = tr.simulate(
        tr.ShadowPrice(RULES, reward=tr.DisjointRidge(2, 2), cost=tr.DisjointRidge(2, 2)),
        env,
        1500,
        seed=0,
        warn=False,
    )
    assert run.optimum == pytest.approx(tr.solve(table).value)
    assert run.baseline == "fluid"
    assert 0.95 * run.optimum < run.average_reward.mean[-1] < 1.02 * run.optimum
    assert (run.cost[0, -1] < 20).all()


def test_groups_and_usage_of_every_action():
    frame = log() | {"where": np.where(log()["age"] > 50, "north", "south")}
    rules = tr.Rules(
        [tr.Budget("minutes", at_most=0.5), tr.Share("letter", at_least=0.1, among="north")],
        actions=["letter", "email"],
    )
    usage = {"minutes": {"letter": 0.8, "email": "minutes"}}
    env = from_log(
        frame, context=["age"], action="sent", reward="spent", usage=usage, rules=rules, group="where"
    )
    context = env.play(0, 0).context(1)
    row, north = context.drawn["row"], context.group == "north"
    assert context.group == frame["where"][row]
    assert context.W[:, 0] == pytest.approx([0.3, frame["minutes"][row] - 0.5])
    assert context.W[:, 1] == pytest.approx([-0.9, 0.1] if north else [0.0, 0.0])
    tr.simulate(tr.ShadowPrice(rules, reward=tr.DisjointRidge(2, 2)), env, 50)


def test_what_a_log_can_not_tell_is_refused_or_warned_of():
    before = tr.Rules([tr.Budget("minutes", at_most=0.5)], actions=["letter", "email"])
    with pytest.raises(tr.InvalidInput, match=r"a log has only that of the action taken.* seen after acting"):
        world(rules=before)
    with pytest.raises(tr.InvalidInput, match=r"usage\['minutes'\] is missing: a rule reads"):
        world(usage={})
    with pytest.raises(tr.InvalidInput, match="usage must come with the rules"):
        world(rules=None)
    few = {name: column[:40] for name, column in log().items()}
    few["sent"] = np.array(["letter"] * 3 + ["email"] * 37)
    with pytest.warns(WeakEvidence, match="action 'letter' has only 3 of 40 rows"):
        env = from_log(few, context=["age"], action="sent", reward="spent")
    assert len(env._world._near[env.actions.index("letter")][0]) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert world().changed(name="again").name == "again"
    with pytest.raises(tr.InvalidInput, match="only rules and name of a log's environment can be changed"):
        world().changed(optimum=1.0)
