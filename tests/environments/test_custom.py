"""Environments of your own, against a slow loop that draws by hand."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope.engine import simulation
from tightrope.engine.cpu import policy_seed
from tightrope.environments import Custom
from tightrope.policies import POLICIES
from tightrope.policies.build import build_policy
from tightrope.spec import PolicySpec, SpecError

ACTIONS = ["email", "call", "visit"]
RULES = tr.Rules(
    [
        tr.Capacity("visit", at_most=0.3, among="old"),
        tr.Budget("hours", at_most=0.4, seen="after", range=(0, 1)),
    ],
    actions=ACTIONS,
)
HOURS = {"email": 0.1, "call": 0.4, "visit": 0.6}


def chances(x):
    return dict(zip(ACTIONS, (0.2, 0.5 - 0.2 * x, 0.3 + 0.6 * x)))


def draw(round, rng):
    x = rng.random()
    offered = ACTIONS if round % 3 else ["email", "visit"]
    return {"features": [1.0, x], "group": "old" if x > 0.5 else "young", "actions": offered, "hidden": x}


def outcome(context, action, rng):
    u, v = rng.random(2)
    return float(u < chances(context["hidden"])[action]), {"hours": HOURS[action] * 2.0 * v * 0.8}


def means(context):
    offered = context["actions"]
    rewards = [chances(context["hidden"])[one] for one in offered]
    return rewards, {"hours": [HOURS[one] * 0.8 for one in offered]}


def contacts(**more):
    return Custom(draw, outcome, rules=RULES, name="contacts", **more)


def late_policy(**more):
    models = {"reward": tr.DisjointRidge(3, 2), "cost": tr.DisjointRidge(3, 2)}
    return tr.ShadowPrice(**models, constraints=RULES, **more)


def stream(seed, replication, round, slot):
    counter = np.array([0, 0, slot, round], dtype=np.uint64)
    return np.random.Generator(
        np.random.Philox(key=np.array([seed, replication], np.uint64), counter=counter)
    )


def slow_loop(policy, rounds, seed, replication):
    """Rewards, totals and choices, by the words of the policy and draws made here."""
    earned, totals, choices = 0.0, np.zeros(2), []
    for t in range(1, rounds + 1):
        context = draw(t, stream(seed, replication, t, 0))
        decision = policy.decide(context["features"], actions=context["actions"], group=context["group"])
        name = ACTIONS[decision.action]
        reward, usage = outcome(context, name, stream(seed, replication, t, 1))
        policy.learn(decision, reward, usage=usage)
        earned += reward
        totals += ((name == "visit") - 0.3 if context["group"] == "old" else 0.0, usage["hours"] - 0.4)
        choices.append(decision.action)
    return earned, totals, choices


def test_it_is_played_as_by_hand_with_rules_of_both_kinds_groups_and_sleeping_actions():
    run = tr.simulate(late_policy(), contacts(), 400, 2, seed=5, keep_choices=True)
    for replication in range(2):
        twin = late_policy().copy(policy_seed(5, replication))
        earned, totals, choices = slow_loop(twin, 400, 5, replication)
        assert run.choices[replication].tolist() == choices
        assert run.observed_reward[replication, -1] == earned == run.reward[replication, -1]
        np.testing.assert_allclose(run.cost[replication, -1], totals, atol=1e-9)
    assert run.actions == tuple(ACTIONS)
    assert run.constraints == RULES.names


def test_the_same_numbers_for_any_number_of_workers(monkeypatch):
    monkeypatch.setattr(simulation, "SERIAL_BELOW", 0)
    runs = [tr.simulate(tr.policies.Uniform(3), contacts(), 60, 3, seed=1, workers=n) for n in (1, 2)]
    assert (runs[0].cost == runs[1].cost).all()
    assert (runs[0].observed_reward == runs[1].observed_reward).all()
    assert len(set(runs[0].observed_reward[:, -1])) > 1


def test_without_means_there_is_no_regret_and_all_else_works(tmp_path):
    run = tr.simulate(tr.policies.Uniform(3), contacts(), 100, 2, seed=0)
    assert run.optimum is None
    with pytest.raises(tr.InvalidInput, match="regret needs the optimum per round, which is not known"):
        run.regret  # noqa: B018
    assert run.rows()[-1]["regret"] is None
    assert "regret" not in str(run.summary())
    run.plot(tmp_path / "figure.svg")
    assert run.save(tmp_path / "run").joinpath("summary.json").exists()
    again = type(run).load(tmp_path / "run")
    assert again == run
    assert run.with_optimum(0.5).regret.mean[-1] == pytest.approx(50 - run.reward[:, -1].mean())
    with pytest.raises(tr.InvalidInput, match="the optimum of 'contacts' is not known"):
        tr.solve(contacts())


def test_with_means_regret_is_against_the_optimum_of_drawn_contexts():
    """Two contexts that can be listed: the sampled optimum is that of the table, within its interval."""
    rewards, used = np.array([[0.2, 0.9], [0.6, 0.7]]), np.array([[0.0, 1.0], [0.0, 0.8]])

    class Two:
        actions, constraints, costs_seen = ("none", "all"), ["load"], "after"

        def draw(self, round, rng):
            return {"features": np.eye(2)[int(rng.random() < 0.3)]}

        def at(self, context):
            return int(context["features"][1])

        def outcome(self, context, action, rng):
            c, j = self.at(context), self.actions.index(action)
            u, v = rng.random(2)
            return float(u < rewards[c, j]), float(v < used[c, j]) - 0.4

        def means(self, context):
            c = self.at(context)
            return rewards[c], used[c][:, None] - 0.4

    table = tr.environments.Tabular(
        [0.7, 0.3], np.eye(2), rewards, used[:, :, None] - 0.4, costs_seen="after"
    )
    exact, found = tr.solve(table), tr.solve(Custom.of(Two()), samples=500)
    assert found.interval[0] <= exact.value <= found.interval[1]
    assert found.value == pytest.approx(exact.value, abs=0.05)
    assert found.certificate.verified
    run = tr.simulate(
        tr.ShadowPrice(constraints=1, reward=tr.DisjointRidge(2, 2), cost=tr.DisjointRidge(2, 2)),
        Two(),
        500,
        4,
        seed=0,
        warn=False,
    )
    assert run.baseline == "joint-sampled"
    assert run.optimum == pytest.approx(exact.value, abs=0.02)
    # Mean costs have less noise in them than those that were drawn, and the same expectation.
    gap = run.cost[:, -1, 0] - run.mean_cost[:, -1, 0]
    assert 0.0 < np.abs(gap).max() < 60.0


def test_every_replication_has_a_world_of_its_own():
    class Stock:
        actions = 2

        def __init__(self):
            self.left = 3

        def draw(self, round):
            return [1.0, float(self.left)]

        def outcome(self, context, action):
            assert context[1] == self.left
            sold, self.left = self.left > 0, max(0, self.left - action)
            return float(sold)

    stock = Stock()
    run = tr.simulate(tr.ShadowPrice(reward=tr.DisjointRidge(2, 2), seed=1), stock, 50, 3, seed=0)
    assert stock.left == 3
    assert (run.reward[:, -1] >= 3).all()
    alone = tr.simulate(tr.ShadowPrice(reward=tr.DisjointRidge(2, 2), seed=1), stock, 50, 1, seed=0)
    assert alone.reward[0].tolist() == run.reward[0].tolist()


@pytest.mark.parametrize("seen", ["before", "after"])
def test_any_registered_policy_plays_or_says_what_it_lacks(seen):
    def drawn(round, rng):
        x = rng.uniform(0.1, 0.6, (3, 2))
        return {"features": x, **({"costs": x[:, :1] - 0.4} if seen == "before" else {})}

    def came(context, action, rng):
        reward = float(rng.random() < context["features"][action, 1])
        return reward if seen == "before" else (reward, [context["features"][action, 0] - 0.4])

    env = Custom(drawn, came, actions=3, constraints=1, costs_seen=seen, cost_range=(-0.5, 0.5))
    POLICIES.discover()
    played = []
    for kind, made in sorted(POLICIES.items()):
        if not made.__module__.startswith("tightrope"):
            continue
        try:
            # The paper's policy can't measure Slater's constant where costs are seen after acting.
            settings = {"slater": 0.1} if kind == "pessimistic-optimistic" else {}
            policy = build_policy(PolicySpec(kind=kind, name=kind, **settings), env.problem())
            run = tr.simulate(policy, env, 20, seed=0, warn=False)
        except (SpecError, tr.InvalidInput):
            continue
        assert run.counts[0, -1].sum() == 20
        played.append(kind)
    assert {"shadow-price", "pessimistic-optimistic", "uniform", "lagrangian", "lints"} <= set(played)


def test_a_model_that_all_actions_share_is_shown_one_x_as_it_reads_it():
    def drawn(round, rng):
        return rng.uniform(0.0, 0.7, 2)

    def came(x, action, rng):
        return float(rng.random() < x[action])

    env = Custom(drawn, came, actions=2)
    runs = [
        tr.simulate(
            tr.PessimisticOptimistic(reward=model, horizon=200),
            env,
            200,
            seed=0,
            keep_choices=True,
            warn=False,
        )
        for model in (tr.DisjointRidge(2, 2), tr.Ridge(4))
    ]
    assert runs[0].choices.tolist() == runs[1].choices.tolist()
    arms = Custom(lambda round: None, lambda context, action: 0.5, actions=3)
    assert tr.simulate(tr.ShadowPrice(reward=tr.ArmMeans(3)), arms, 10).reward[0, -1] == 5.0
    assert tr.simulate(tr.ShadowPrice(reward=tr.Ridge(3)), arms, 10).reward[0, -1] == 5.0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"draw": lambda round: {"features": [1.0, np.nan]}}, r"features of draw\(1\) must be finite"),
        (
            {"draw": lambda round: {"features": [1.0, 2.0], "actions": ["fax"]}},
            r"actions of draw\(1\)\[0\] is the unknown name",
        ),
        ({"draw": lambda round: {"features": [[1.0, 2.0]]}}, r"features of draw\(1\) must have shape"),
        ({"draw": lambda round: {"features": [1.0, 2.0]}}, r"draw\(1\): group is missing"),
        ({"outcome": lambda context, action: "much"}, r"the reward of outcome in round 1 must be"),
        (
            {"outcome": lambda context, action: (1.0,)},
            r"outcome in round 1 must be a reward, or \(reward, costs\)",
        ),
        ({"outcome": lambda context, action: 1.0}, r"outcome in round 1: usage\['hours'\] is missing"),
        (
            {"outcome": lambda context, action: (1.0, {"hours": 7.0})},
            r"outcome in round 1: usage\['hours'\] must lie in",
        ),
        (
            {"outcome": lambda context, action: {"rewards": 1.0}},
            r"outcome in round 1 must have reward, and costs or usage",
        ),
        (
            {"outcome": lambda context, action: (1.0, [0.1, 0.2, 0.3])},
            r"costs of outcome in round 1 must have shape",
        ),
    ],
)
def test_what_is_wrong_with_a_round_is_said(changes, says):
    env = Custom(**{"draw": draw, "outcome": outcome, "rules": RULES, **changes})
    with pytest.raises(tr.InvalidInput, match=says):
        tr.simulate(late_policy(), env, 5)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "actions must be given \\(their number or names\\)"),
        ({"actions": 2, "usage": {"h": 1.0}}, "usage needs rules"),
        ({"rules": RULES, "costs_seen": "after"}, "come from the rules: leave them out"),
        ({"rules": RULES, "actions": ["a", "b"]}, "actions must be those of the rules"),
        ({"actions": 2, "constraints": 2, "costs_seen": ["before"]}, "for each of 2 constraints"),
        ({"actions": 2, "constraints": -1}, "constraints must be"),
        ({"actions": 2, "means": 3}, "means must be a function, but got 3"),
        ({"actions": 2, "name": 3}, "name must be a string"),
    ],
)
def test_what_is_wrong_with_an_environment_is_said(given, says):
    with pytest.raises(tr.InvalidInput, match=says):
        Custom(draw, outcome, **given)


def test_what_is_no_environment_is_refused():
    with pytest.raises(tr.InvalidInput, match="or have `draw` and `outcome`, but 3 has no draw"):
        tr.simulate(tr.policies.Uniform(2), 3, 10)
    policy = tr.ShadowPrice(reward=tr.ArmMeans(2))
    with pytest.raises(tr.InvalidInput, match=r"The policy comes first: simulate\(policy, env\)"):
        tr.simulate(3, policy, 10)
    with pytest.raises(tr.InvalidInput, match="must be a Tabular environment on a GPU"):
        tr.simulate(late_policy(), contacts(), 10, engine="gpu")
    with pytest.raises(tr.InvalidInput, match="this needs a tabular environment"):
        tr.oracle.check(contacts(means=means))


def test_costs_that_are_seen_before_must_be_in_the_context():
    env = Custom(lambda round: [1.0], lambda context, action: 1.0, actions=2, constraints=1)
    with pytest.raises(tr.InvalidInput, match=r"draw\(1\) must have costs, 1 for each action on offer"):
        tr.simulate(tr.policies.Uniform(2), env, 5)
