"""Bad input: an error that names the entry and what was expected, and a policy that has not changed by a bit."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import tightrope as tr

NAN, INF = math.nan, math.inf
OK_PHI = np.array([[0.6, 0.0], [0.0, 0.8], [0.3, 0.3]])
OK_W = np.array([[0.5, -0.5], [-0.5, 0.5], [0.0, 0.0]])


def rules(seen="before"):
    return tr.Rules(
        [
            tr.Capacity("a", at_most=0.6),
            tr.Budget("hours", at_most=0.5, seen=seen, range=(0, 1)),
            tr.Share("b", at_least=0.1, among="A"),
        ],
        actions=["a", "b", "c"],
    )


def form_A():
    policy = tr.PessimisticOptimistic(reward=tr.Ridge(2), constraints=2, slater=0.3, horizon=100)
    policy.learn(policy.decide(OK_PHI, OK_W), 0.5)
    policy.learn(policy.decide(OK_PHI, OK_W), 0.5)
    policy.decide(OK_PHI, OK_W)
    return policy


def form_measured():
    policy = tr.PessimisticOptimistic(reward=tr.Ridge(2), constraints=2)
    for _ in range(3):
        policy.decide(OK_PHI, OK_W)
    return policy


def form_B():
    policy = tr.PessimisticOptimistic(
        reward=tr.Ridge(2),
        cost=tr.Ridge(2),
        constraints=2,
        slater=0.3,
        horizon=100,
        cost_range=[(-0.5, 1), (-1, 0.25)],
    )
    policy.learn(policy.decide(OK_PHI, OK_PHI), 0.5, [0.1, 0.2])
    policy.learn(policy.decide(OK_PHI, OK_PHI), costs=[0.1, 0.2])
    policy.decide(OK_PHI, OK_PHI)
    return policy


def form_arms():
    policy = tr.PessimisticOptimistic(
        reward=tr.ArmMeans(3),
        cost=tr.ArmMeans(3),
        constraints=1,
        V=tr.Power(1, 0.5),
        epsilon=tr.Power(6, -0.5),
    )
    policy.learn(policy.decide(), 0.5, [0.1])
    policy.decide()
    policy.decide()
    return policy


def form_disjoint():
    policy = tr.PessimisticOptimistic(reward=tr.DisjointRidge(3, 2), constraints=2, slater=0.3, horizon=100)
    for _ in range(3):
        policy.decide([0.6, 0.0], OK_W)
    return policy


def form_rules():
    policy = tr.PessimisticOptimistic(reward=tr.Ridge(2), constraints=rules(), slater=0.1, horizon=100)
    for _ in range(3):
        policy.decide(OK_PHI, usage={"hours": 0.3}, group="A")
    return policy


def form_mixed():
    policy = tr.PessimisticOptimistic(
        reward=tr.Ridge(2), cost=tr.ArmMeans(3), constraints=rules(seen="after"), slater=0.1, horizon=100
    )
    for _ in range(3):
        policy.decide(OK_PHI, group="A")
    return policy


FORMS = {
    f.__name__.removeprefix("form_"): f
    for f in (form_A, form_measured, form_B, form_arms, form_disjoint, form_rules, form_mixed)
}


def spoilt(array, at, value):
    array = np.array(array, dtype=float)
    array[at] = value
    return array


# (form, what is done, what the message says)
CASES = [
    # features: values
    ("A", lambda p: p.decide(spoilt(OK_PHI, (1, 0), NAN), OK_W), "features[1, 0] must be finite, but got nan"),
    ("A", lambda p: p.decide(spoilt(OK_PHI, (2, 1), INF), OK_W), "features[2, 1] must be finite, but got inf"),
    ("A", lambda p: p.decide(spoilt(OK_PHI, (2, 1), -INF), OK_W), "features[2, 1] must be finite, but got -inf"),
    ("A", lambda p: p.decide(OK_PHI * 2, OK_W), "features[0] must have a Euclidean norm of at most 1, but its norm is 1.2."),
    ("A", lambda p: p.decide(OK_PHI * (1.000002 / 0.8), OK_W), "norm of at most 1, but its norm is 1.000002."),
    ("A", lambda p: p.decide(spoilt(OK_PHI, (0, 0), 1e200), OK_W), "norm of at most 1, but its norm is inf."),
    # features: shapes and kinds
    ("A", lambda p: p.decide(), "Ridge needs features: 2 numbers per action"),
    ("A", lambda p: p.decide(None, OK_W), "Ridge needs features"),
    ("A", lambda p: p.decide(OK_PHI[:, :1], OK_W), "features must have shape (any, 2), but got (3, 1)"),
    ("A", lambda p: p.decide(OK_PHI[0], OK_W), "features must have shape (any, 2), but got (2,)"),
    ("A", lambda p: p.decide(OK_PHI[None], OK_W), "features must have shape (any, 2), but got (1, 3, 2)"),
    ("A", lambda p: p.decide(np.empty((0, 2)), np.empty((0, 2))), "at least one action must be on offer, but features has no row"),
    ("A", lambda p: p.decide([], []), "features must have shape (any, 2), but got (0,)"),
    ("A", lambda p: p.decide(0.5, OK_W), "features must have shape (any, 2), but got ()"),
    ("A", lambda p: p.decide(OK_PHI.astype(str), OK_W), "features must hold real numbers, but got '0.6' at [0, 0]. Use an Encoder"),
    ("A", lambda p: p.decide("abc", OK_W), "features must hold real numbers, but got 'abc'. Use an Encoder to turn"),
    ("A", lambda p: p.decide(OK_PHI.astype(complex), OK_W), "features must hold real numbers, but got values of type complex128"),
    ("A", lambda p: p.decide([[0.6, 0.0], [0.1]], OK_W), "features must be a rectangular array of numbers"),
    ("A", lambda p: p.decide([[None, 0.0]], OK_W[:1]), "features must hold real numbers, but got None at [0, 0]."),
    ("A", lambda p: p.decide({"x": "a"}, OK_W), "context.x must be a number, but got 'a'"),
    # costs
    ("A", lambda p: p.decide(OK_PHI), "costs are missing: they have shape (J, 2), one row per action"),
    ("A", lambda p: p.decide(OK_PHI, spoilt(OK_W, (1, 1), 1.7)), "costs[1, 1] must lie in [-1, 1], but got 1.7"),
    ("A", lambda p: p.decide(OK_PHI, spoilt(OK_W, (2, 0), NAN)), "costs[2, 0] must lie in [-1, 1], but got nan"),
    ("A", lambda p: p.decide(OK_PHI, spoilt(OK_W, (2, 0), -INF)), "costs[2, 0] must lie in [-1, 1], but got -inf"),
    ("A", lambda p: p.decide(OK_PHI, OK_W[:2]), "costs must have shape (3, 2), but got (2, 2)"),
    ("A", lambda p: p.decide(OK_PHI, OK_W[:, :1]), "costs must have shape (3, 2), but got (3, 1)"),
    ("A", lambda p: p.decide(OK_PHI, OK_W.astype(complex)), "costs must hold real numbers, but got values of type complex128"),
    ("A", lambda p: p.decide(OK_PHI, [[0.1, 0.2], [0.3]]), "costs must be a rectangular array of numbers"),
    ("A", lambda p: p.decide(OK_PHI, OK_W, cost_features=OK_PHI), "cost_features need a policy with cost="),
    ("measured", lambda p: p.decide(OK_PHI, spoilt(OK_W, (1, 1), NAN)), "costs[1, 1] must lie in [-1, 1], but got nan"),
    ("disjoint", lambda p: p.decide([0.6, 0.0], spoilt(OK_W, (0, 1), 2)), "costs[0, 1] must lie in [-1, 1], but got 2"),
    ("disjoint", lambda p: p.decide([0.6, NAN], OK_W), "features[0, 1] must be finite, but got nan"),
    ("disjoint", lambda p: p.decide([0.6, 0.9], OK_W), "features[0] must have a Euclidean norm of at most 1"),
    ("disjoint", lambda p: p.decide([0.6], OK_W), "features must have shape (2,) or (3, 2), but got (1,)"),
    ("disjoint", lambda p: p.decide(OK_PHI[:2], OK_W[:2]), "features must have shape (2,) or (3, 2), but got (2, 2)"),
    ("disjoint", lambda p: p.decide([0.6, 0.0], OK_W[:2]), "costs must have shape (3, 2), but got (2, 2)"),
    # cost features
    ("B", lambda p: p.decide(OK_PHI, spoilt(OK_PHI, (1, 1), NAN)), "cost_features[1, 1] must be finite, but got nan"),
    ("B", lambda p: p.decide(OK_PHI, cost_features=OK_PHI * 3), "cost_features[0] must have a Euclidean norm of at most 1"),
    ("B", lambda p: p.decide(OK_PHI * 3, OK_PHI), "features[0] must have a Euclidean norm of at most 1"),
    ("B", lambda p: p.decide(OK_PHI, OK_PHI[:2]), "cost_features must have shape (3, 2), but got (2, 2)"),
    ("B", lambda p: p.decide(OK_PHI, OK_W, cost_features=OK_PHI), "decide() takes cost_features but no costs"),
    # arms
    ("arms", lambda p: p.decide(OK_PHI), "ArmMeans takes no features: leave them out"),
    ("arms", lambda p: p.decide(cost_features=OK_PHI), "ArmMeans takes no cost_features"),
    ("arms", lambda p: p.decide(costs=OK_W), "here costs are seen after acting; pass them to learn(), not to decide()"),
    # actions
    ("A", lambda p: p.decide(OK_PHI, OK_W, actions=[0, 1]), "features must have shape (2, 2), but got (3, 2)"),
    ("A", lambda p: p.decide(OK_PHI, OK_W, actions=[0, 1, 1]), "actions must name each action once, but got [0, 1, 1]"),
    ("A", lambda p: p.decide(OK_PHI, OK_W, actions=[0, 1, -1]), "actions[2] must be a whole number >= 0, but got -1"),
    ("A", lambda p: p.decide(OK_PHI, OK_W, actions=[0, 1, 2.0]), "actions[2] must be a whole number >= 0, but got 2.0"),
    ("A", lambda p: p.decide(OK_PHI, OK_W, actions=[0, True, 2]), "actions[1] must be a whole number >= 0, but got True"),
    ("A", lambda p: p.decide(OK_PHI, OK_W, actions=[0, 1, 2**70]), "actions[2] must be a whole number <= 9223372036854775807"),
    ("A", lambda p: p.decide(OK_PHI, OK_W, actions=["x", "y", "z"]), "unknown name 'x'; actions have no names here"),
    ("A", lambda p: p.decide(OK_PHI, OK_W, actions=3), "actions must be a sequence of names or ids of actions, but got 3"),
    ("A", lambda p: p.decide(OK_PHI, OK_W, actions="012"), "actions must be a sequence of names or ids of actions, but got '012'"),
    ("A", lambda p: p.decide(OK_PHI, OK_W, actions=np.array(3)), "a sequence of names or ids of actions, but got array(3)"),
    ("A", lambda p: p.decide(OK_PHI, OK_W, actions=[]), "actions must name at least one action, but it is empty"),
    ("arms", lambda p: p.decide(actions=[]), "actions must name at least one action, but it is empty"),
    ("arms", lambda p: p.decide(actions=[0, 3]), "actions[1] must be below 3, the number of actions, but got 3"),
    ("arms", lambda p: p.decide(actions=[0, 0]), "actions must name each action once, but got [0, 0]"),
    ("disjoint", lambda p: p.decide([0.6, 0.0], OK_W, actions=[0, 1, 7]), "actions[2] must be below 3, the number of actions"),
    ("rules", lambda p: p.decide(OK_PHI[:1], group="A", actions=["d"]), "actions[0] is the unknown name 'd'; known: a, b, c"),
    ("rules", lambda p: p.decide(OK_PHI[:2], usage={"hours": 0.3}, group="A"), "there are 3 actions, but 2 rows came"),
    ("mixed", lambda p: p.decide(np.tile(OK_PHI, (2, 1)), group="A"), "3 actions, but 6 rows came; use actions= to say which"),
    # usage and group
    ("A", lambda p: p.decide(OK_PHI, usage={"hours": 0.3}), "usage and group need rules: make the policy with"),
    ("A", lambda p: p.decide(OK_PHI, OK_W, group="A"), "usage and group need rules"),
    ("rules", lambda p: p.decide(OK_PHI, np.zeros((3, 3)), usage={"hours": 0.3}), "give costs or usage, not both"),
    ("rules", lambda p: p.decide(OK_PHI, group="A"), "usage['hours'] is missing"),
    ("rules", lambda p: p.decide(OK_PHI, usage={"hours": 0.3}), "group is missing"),
    ("rules", lambda p: p.decide(OK_PHI, usage={"hours": 0.3}, group=3), "group must be a name or several, but got 3"),
    ("rules", lambda p: p.decide(OK_PHI, usage={"hours": 0.3}, group=["A", 3]), "group must be a name or several, but got 3"),
    ("rules", lambda p: p.decide(OK_PHI, usage={"hours": NAN}, group="A"), "usage['hours'] must lie in [0, 1]"),
    ("rules", lambda p: p.decide(OK_PHI, usage={"hours": [0.1, 0.2, 1.5]}, group="A"), "usage['hours'][2] must lie in [0, 1]"),
    ("rules", lambda p: p.decide(OK_PHI, usage={"days": 0.3}, group="A"), "no rule counts 'days'; the rules count ['hours']"),
    ("rules", lambda p: p.decide(OK_PHI, usage=[0.3], group="A"), "usage must be a mapping from names to numbers, but got [0.3]"),
    ("rules", lambda p: p.decide(OK_PHI, spoilt(np.zeros((3, 3)), (0, 2), 2)), "costs[0, 2] must lie in [-1, 1], but got 2"),
    ("mixed", lambda p: p.decide(OK_PHI, spoilt(np.zeros((3, 2)), (0, 1), NAN)), "costs[0, 1] must be finite, but got nan"),
    ("mixed", lambda p: p.decide(OK_PHI, np.zeros((3, 1))), "costs must have shape (3, 2) or (3, 3), but got (3, 1)"),
    # decide_many
    ("A", lambda p: p.decide_many([OK_PHI, OK_PHI], [OK_W, OK_W * 3]), "round 1 of decide_many: costs[0, 0] must lie in"),
    ("A", lambda p: p.decide_many([OK_PHI, OK_PHI[0]], [OK_W, OK_W]), "round 1 of decide_many: features must have shape"),
    ("A", lambda p: p.decide_many(), "decide_many needs rounds=, or an argument with one entry for each round"),
    ("A", lambda p: p.decide_many([OK_PHI], [OK_W], rounds=2), "their lengths differ: {'features': 1, 'costs': 1, 'rounds': 2}"),
    ("A", lambda p: p.decide_many(0.5, [OK_W]), "features must have one entry for each round, but got 0.5"),
    ("A", lambda p: p.decide_many(np.array(0.5), [OK_W]), "features must have one entry for each round, but got array(0.5)"),
    ("rules", lambda p: p.decide_many([OK_PHI], usage={"hours": 0.3}), "usage must have one entry for each round"),
    ("rules", lambda p: p.decide_many([OK_PHI], usage=[{"hours": 0.3}], group="A"), "group must have one entry for each round"),
    ("arms", lambda p: p.decide_many(rounds=-1), "rounds must be a whole number >= 0, but got -1"),
    ("arms", lambda p: p.decide_many(rounds=True), "rounds must be a whole number >= 0, but got True"),
    ("arms", lambda p: p.decide_many(actions=[None, [0], [9]]), "round 2 of decide_many: actions[0] must be below 3"),
    # learn
    ("A", lambda p: p.learn(form_A().decide(OK_PHI, OK_W), 0.5), "decision 3 was made by another policy"),
    ("A", lambda p: p.forget(form_A().decide(OK_PHI, OK_W)), "decision 3 was made by another policy"),
    ("A", lambda p: p.learn(0, 0.5), "decision 0 already has its whole outcome, or was forgotten"),
    ("A", lambda p: p.learn(3, 0.5), "decision 3 was never made: this policy has made 3, from number 0"),
    ("A", lambda p: p.forget(17), "decision 17 was never made"),
    ("A", lambda p: p.learn(-1, 0.5), "decision must be a Decision or its number, which must be a whole number >= 0, but got -1"),
    ("A", lambda p: p.learn("2", 0.5), "decision must be a Decision or its number, which must be a whole number >= 0, but got '2'"),
    ("A", lambda p: p.learn(True, 0.5), "a Decision or its number, which must be a whole number >= 0, but got True"),
    ("A", lambda p: p.learn(None, 0.5), "a Decision or its number, which must be a whole number >= 0, but got None"),
    ("A", lambda p: p.learn(2), "learn needs a reward, costs, or both"),
    ("A", lambda p: p.learn(2, None), "learn needs a reward, costs, or both"),
    ("A", lambda p: p.learn(2, NAN), "reward must be finite, but got nan"),
    ("A", lambda p: p.learn(2, -INF), "reward must be finite, but got -inf"),
    ("A", lambda p: p.learn(2, "1.0"), "reward must be a number, but got '1.0'"),
    ("A", lambda p: p.learn(2, [1.0]), "reward must be a number, but got [1.0]"),
    ("A", lambda p: p.learn(2, 1j), "reward must be a number, but got 1j"),
    ("A", lambda p: p.learn(2, 10**400), "reward must be finite, but got 1000"),
    ("A", lambda p: p.learn(2, 0.5, [0.1, 0.1]), "Costs were already passed to decide(); learn() takes only the reward"),
    ("B", lambda p: p.learn(1, 0.5, [0.1, 0.2]), "decision 1 already has its costs"),
    ("B", lambda p: p.learn(2, 0.5, [0.1]), "costs must have shape (2,), but got (1,)"),
    ("B", lambda p: p.learn(2, 0.5, 0.1), "costs must have shape (2,), but got ()"),
    ("B", lambda p: p.learn(2, 0.5, [0.1, NAN]), "costs[1] must be finite, but got nan"),
    ("B", lambda p: p.learn(2, 0.5, [-0.6, 0.1]), "costs[0] must lie in [-0.5, 1], but got -0.6"),
    ("B", lambda p: p.learn(2, 0.5, [0.1, 0.3]), "costs[1] must lie in [-1, 0.25], but got 0.3"),
    ("B", lambda p: p.learn(2, NAN, [0.1, 0.1]), "reward must be finite, but got nan"),
    ("B", lambda p: p.learn(2, 0.5, "ab"), "costs must hold real numbers"),
    ("B", lambda p: p.learn(2, 0.5, usage={"hours": 0.1}), "usage and group need rules"),
    ("mixed", lambda p: p.learn(1, 0.5, {"hours": 0.1}), "pass numbers by name as usage="),
    ("arms", lambda p: p.learn(1, 0.5, [0.1, 0.2]), "costs must have shape (1,) or (), but got (2,)"),
    ("arms", lambda p: p.learn(1, 0.5, 1.5), "costs[0] must lie in [-1, 1], but got 1.5"),
    ("mixed", lambda p: p.learn(1, 0.5, usage={"days": 0.1}), "no rule counts 'days'"),
    ("mixed", lambda p: p.learn(1, 0.5, usage={}), "usage['hours'] is missing"),
    ("mixed", lambda p: p.learn(1, 0.5, usage={"hours": 7}), "usage['hours'] must lie in [0, 1]"),
    ("mixed", lambda p: p.learn(1, 0.5, [0.9]), "costs[0] must lie in [-0.5, 0.5], but got 0.9"),
    # copy
    ("A", lambda p: p.copy(seed=-1), "seed must be a whole number >= 0, but got -1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "do", "message"), CASES, ids=[f"{i}-{c[0]}-{c[2][:40]}" for i, c in enumerate(CASES)]
)
def test_bad_input_is_named_and_changes_nothing(form, do, message):
    policy = FORMS[form]()
    state, settings = policy.hooks.state(), policy.hooks.settings()
    with pytest.raises(tr.InvalidInput, match=re.escape(message)):
        do(policy)
    after = policy.hooks.state()
    assert list(after) == list(state)
    for name, array in state.items():
        assert after[name].tobytes() == array.tobytes(), name
    assert policy.hooks.settings() == settings


def A(**settings):
    return tr.PessimisticOptimistic(
        reward=tr.Ridge(2), **{"constraints": 2, "slater": 0.3, "horizon": 100, **settings}
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: A(slater=0), "slater must lie in (0, 1], but got 0"),
        (lambda: A(slater=-0.1), "slater must lie in (0, 1], but got -0.1"),
        (lambda: A(slater=1.5), "slater must lie in (0, 1], but got 1.5"),
        (lambda: A(slater=NAN), "slater must lie in (0, 1], but got nan"),
        (lambda: A(slater="0.1"), "slater must be a number, but got '0.1'"),
        (lambda: A(slater=True), "slater must be a number, but got True"),
        (lambda: A(horizon=0), "horizon must be a whole number >= 1, but got 0"),
        (lambda: A(horizon=-5), "horizon must be a whole number >= 1, but got -5"),
        (lambda: A(horizon=10.0), "horizon must be a whole number >= 1, but got 10.0"),
        (lambda: A(horizon=True), "horizon must be a whole number >= 1, but got True"),
        (lambda: A(horizon=10**400), "horizon must be a whole number <= 9007199254740992"),
        (
            lambda: A(constraints=-1),
            "constraints must be Rules or their number, which must be a whole number >= 0, but got -1",
        ),
        (
            lambda: A(constraints=1.0),
            "constraints must be Rules or their number, which must be a whole number >= 0, but got 1.0",
        ),
        (
            lambda: A(constraints=True),
            "constraints must be Rules or their number, which must be a whole number >= 0, but got True",
        ),
        (
            lambda: A(constraints=[tr.Capacity("a", 0.5)]),
            "constraints must be Rules or their number, which must be a whole number >= 0, but got [",
        ),
        (
            lambda: A(cost_range=(1, -1)),
            "`low < high` must hold in cost_range, but constraint 0 has (1.0, -1.0)",
        ),
        (lambda: A(cost_range=(0.5, 0.5)), "`low < high` must hold in cost_range"),
        (lambda: A(cost_range=(-2, 1)), "cost_range[0, 0] must lie in [-1, 1], but got -2"),
        (lambda: A(cost_range=(NAN, 1)), "cost_range[0, 0] must be finite, but got nan"),
        (lambda: A(cost_range=(-1, 0, 1)), "cost_range must have shape (2,) or (2, 2), but got (3,)"),
        (lambda: A(cost_range=[(-1, 1)] * 3), "cost_range must have shape (2,) or (2, 2), but got (3, 2)"),
        (lambda: A(cost_range="all"), "cost_range must hold real numbers"),
        (lambda: A(V=1.0), "V must be a schedule, such as tr.Power(1.0, 0.5), but got 1.0"),
        (lambda: A(epsilon="t"), "epsilon must be a schedule"),
        (lambda: A(V=tr.Power(0.0, 0.5)), "the scale of V must be > 0, but got 0"),
        (lambda: tr.Power(-1.0, 0.5), "scale of a schedule must be >= 0, but got -1.0"),
        (lambda: tr.Power(NAN, 0.5), "scale of a schedule must be a finite number, but got nan"),
        (lambda: tr.Power(1.0, INF), "exponent of a schedule must be a finite number, but got inf"),
        (lambda: tr.Power("1", 0.5), "scale of a schedule must be a finite number, but got '1'"),
        (lambda: tr.Power(True, 0.5), "scale of a schedule must be a finite number, but got True"),
        (lambda: A(seed=-1), "seed must be a whole number >= 0, but got -1"),
        (lambda: A(seed=0.5), "seed must be a whole number >= 0, but got 0.5"),
        (
            lambda: tr.PessimisticOptimistic(reward=3),
            'reward must be a model, such as tr.Ridge(), or the name of one, such as "linear", but got 3',
        ),
        (
            lambda: A(cost="rigde"),
            "cost: model must be one of",
        ),
        (
            lambda: tr.PessimisticOptimistic(reward=tr.Ridge(2), cost=tr.Ridge(2), constraints=1),
            "Give slater, or V",
        ),
        (
            lambda: tr.PessimisticOptimistic(
                reward=tr.ArmMeans(3), cost=tr.ArmMeans(4), constraints=1, slater=0.1
            ),
            "must have the same number of actions, but got {'reward': 3, 'cost': 4}",
        ),
        (
            lambda: tr.PessimisticOptimistic(reward=tr.ArmMeans(2), constraints=rules(), slater=0.1),
            "must have the same number of actions, but got {'reward': 2, 'rules': 3}",
        ),
        (
            lambda: tr.PessimisticOptimistic(
                reward=tr.Ridge(2), cost=tr.Ridge(2), constraints=rules(), slater=0.1
            ),
            "cost is a model of costs that are seen after acting, but here all are seen before",
        ),
        (
            lambda: tr.PessimisticOptimistic(
                reward=tr.Ridge(2), constraints=rules(), slater=0.1, cost_range=(-1, 1)
            ),
            "cost_range comes from the rules' declared ranges: do not give it as well",
        ),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(tr.InvalidInput, match=re.escape(message)):
        make()


def test_a_refused_round_leaves_no_trace_in_what_follows():
    clean, tried = form_measured(), form_measured()
    for bad in (spoilt(OK_W, (0, 0), NAN), spoilt(OK_W, (2, 1), 2.0)):
        with pytest.raises(tr.InvalidInput):
            tried.decide(OK_PHI, bad)
    for _ in range(20):
        assert clean.decide(OK_PHI, OK_W).row == tried.decide(OK_PHI, OK_W).row
    for name, array in clean.hooks.state().items():
        np.testing.assert_array_equal(tried.hooks.state()[name], array)
