import dataclasses
import inspect
import re
import textwrap
from pathlib import Path

import msgspec
import numpy as np
import pytest

import tightrope as tr
from tightrope.environments.build import (
    ENVIRONMENTS,
    build_environment,
    environment_of,
    policies_of,
    register,
)
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.features import Category, Number
from tightrope.policies import POLICIES
from tightrope.policies import register as register_policy
from tightrope.policies.build import build_policy
from tightrope.problem import Problem, Vectors
from tightrope.spec import (
    EnvironmentSpec,
    ModelSpec,
    PolicySpec,
    PowerSpec,
    SimulationSpec,
    SpecError,
    make_spec,
    read_spec,
)

FULL = """
name = "ward-routing"
actions = ["internal", "surgery"]

[context]
age = { type = "number", min = 0, max = 120 }
sex = { type = "category", values = ["f", "m"] }

[[rule]]
kind = "capacity"
action = "internal"
at_most = 0.6

[[rule]]
kind = "budget"
name = "nurse_hours"
at_most = 0.4
usage = { internal = 0.3, surgery = 0.5 }
hard = true
total = 120

[policy]
kind = "pessimistic-optimistic"
reward = { model = "disjoint-ridge", bonus = 0.1 }
costs_seen = "before"
slater = "measure"
horizon = 5000
V = { scale = 4, exponent = 0.5 }
epsilon = { scale = 1.0, exponent = -0.5 }

[environment]
kind = "tabular"
weights = [0.5, 0.5]
rewards = [[0.2, 0.8], [0.6, 0.4]]

[simulation]
rounds = 50
replications = 3
seed = 9

[sweep]
"policy.reward.bonus" = [0.1, 1.0]
"""
TWO = 'actions = ["a", "b"]\n'


# --- reading ---


def test_every_field_is_read():
    spec = read_spec(FULL)
    assert spec.name == "ward-routing"
    assert spec.actions == ("internal", "surgery")
    assert spec.context == {"age": Number(0, 120), "sex": Category(["f", "m"])}
    assert spec.features().names == ("one", "age", "sex=m")
    assert spec.rules == tr.Rules(
        [tr.Capacity("internal", 0.6), tr.Budget("nurse_hours", 0.4)], actions=["internal", "surgery"]
    )
    assert [(one.hard, one.total) for one in spec.rule_specs] == [(False, None), (True, 120.0)]
    assert spec.usage == {"nurse_hours": {"internal": 0.3, "surgery": 0.5}}
    (policy,) = spec.policies
    assert policy.name == policy.kind == "pessimistic-optimistic"
    assert policy.reward == ModelSpec(model="disjoint-ridge", bonus=0.1)
    assert (policy.costs_seen, policy.slater, policy.horizon) == ("before", "measure", 5000)
    assert (policy.V.scale, policy.V.exponent) == (4, 0.5)
    assert policy.epsilon == PowerSpec(1.0, -0.5)
    assert spec.environment.kind == "tabular"
    assert set(spec.environment.settings) == {"weights", "rewards"}
    assert (spec.simulation.rounds, spec.simulation.replications, spec.simulation.seed) == (50, 3, 9)
    assert spec.sweep == {"policy.reward.bonus": [0.1, 1.0]}


def test_an_empty_spec_has_the_defaults():
    spec = make_spec({})
    assert (spec.simulation.rounds, spec.simulation.replications, spec.simulation.seed) == (10_000, 100, 0)
    assert spec.rules is None
    assert [policy.kind for policy in spec.policies] == ["pessimistic-optimistic"]
    assert spec.environment is None


def test_a_file_is_read_and_gives_the_name(tmp_path):
    path = tmp_path / "beds.toml"
    path.write_text("\ufeff[environment]\nkind = 'bandit'\n", encoding="utf-8")
    for given in (path, str(path)):
        spec = read_spec(given)
        assert spec.name == "beds"
        assert spec.environment.folder == tmp_path


def test_several_policies_and_free_settings():
    spec = read_spec("[[policy]]\nname = 'one'\n[[policy]]\nkind = 'other'\nspeed = 3\n")
    assert [policy.name for policy in spec.policies] == ["one", "other"]
    assert spec.policies[1].settings == {"speed": 3}
    assert spec.policies[1].where == "policy[1]"


def test_data_gives_the_same_spec_again():
    spec = read_spec(FULL)
    again = make_spec(spec.data)
    assert msgspec.structs.replace(again, rules=None) == msgspec.structs.replace(spec, rules=None)
    assert again.rules == spec.rules


def test_policies_decide_when_rules_are_seen():
    late = read_spec(TWO + "[[rule]]\nkind='budget'\nname='h'\nat_most=0.5\n[policy]\ncosts_seen='after'\n")
    assert not late.rules.seen.any()
    own = read_spec(
        TWO + "[[rule]]\nkind='budget'\nname='h'\nat_most=0.5\nseen='before'\n[policy]\ncosts_seen='after'\n"
    )
    assert own.rules.seen.all()


# --- errors ---


RULE = "[[rule]]\nkind = 'budget'\nname = 'h'\nat_most = 0.5\n"


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        ("actoins = 3\n", "actoins", "did you mean 'actions'"),
        ("name = 3\n", "name", "must be a text, but got 3"),
        ("actions = 'a'\n", "actions", "must be a list"),
        ("actions = []\n", "actions", "at least one"),
        ("actions = ['a', 'a']\n", "actions[1]", "'a' comes twice"),
        ("actions = ['a', '']\n", "actions[1]", "empty"),
        ("actions = ['a', 3]\n", "actions[1]", "must be a text, but got 3"),
        ("context = 3\n", "context", "must be a table"),
        ("[context]\nage = 3\n", "context.age", "must be a table"),
        (
            "[context]\nage = { min = 1 }\n",
            "context.age.type",
            "is missing; must be one of 'number', 'category'",
        ),
        ("[context]\nage = { type = 'numbr' }\n", "context.age.type", "did you mean 'number'"),
        ("[context]\nage = { type = 'number', min = 1 }\n", "context.age.max", "is missing"),
        (
            "[context]\nage = { type = 'number', min = 1, max = 2, mx = 3 }\n",
            "context.age.mx",
            "did you mean 'max'",
        ),
        (
            "[context]\nage = { type = 'number', min = '1', max = 2 }\n",
            "context.age.min",
            "number, but got '1'",
        ),
        (
            "[context]\nage = { type = 'number', min = true, max = 2 }\n",
            "context.age.min",
            "number, but got True",
        ),
        ("[context]\nage = { type = 'number', min = 3, max = 2 }\n", "context.age", "min < max"),
        (
            "[context]\nage = { type = 'category', values = ['a', 3] }\n",
            "context.age.values[1]",
            "text, but got 3",
        ),
        ("[context]\nage = { type = 'category', values = ['a', 'a'] }\n", "context.age.values", "differ"),
        (TWO + "[rule]\nkind = 'capacity'\n", "rule", "[[rule]]"),
        (TWO + "[[rule]]\nkind = 'capcity'\n", "rule[0].kind", "did you mean 'capacity'"),
        (TWO + "[[rule]]\nat_most = 1\n", "rule[0].kind", "is missing"),
        (
            TWO + RULE + "[[rule]]\nkind = 'capacity'\naction = 'a'\nat_most = 1.7\n",
            "rule[1].at_most",
            "got 1.7",
        ),
        (TWO + RULE + "[[rule]]\nkind = 'capacity'\naction = 'a'\n", "rule[1].at_most", "is missing"),
        (TWO + RULE + "at_mst = 1\n", "rule[0].at_mst", "did you mean 'at_most'"),
        (
            TWO + "[[rule]]\nkind = 'share'\naction = 'c'\nat_least = 0.1\n",
            "rule[0].action",
            "unknown action 'c'",
        ),
        (TWO + RULE + "range = [1, 0]\n", "rule[0].range", "low < high"),
        (TWO + RULE + "seen = 'now'\n", "rule[0].seen", "'before' or 'after', but got 'now'"),
        (TWO + RULE + "usage = { a = 0.5 }\n", "rule[0].usage.b", "is missing"),
        (TWO + RULE + "usage = { a = 0.5, b = 1.5 }\n", "rule[0].usage.b", "must lie in [0, 1]"),
        (TWO + RULE + "usage = { a = 0.5, b = '1' }\n", "rule[0].usage.b", "must be a number, but got '1'"),
        (TWO + RULE + "usage = [0.5, 1]\n", "rule[0].usage", "must be a table of numbers by action"),
        (TWO + RULE + "usage = { a = 0.5, bb = 1 }\n", "rule[0].usage.bb", "did you mean 'b'"),
        (TWO + RULE + "hard = 1\n", "rule[0].hard", "must be true or false"),
        (TWO + RULE + "total = -1\n", "rule[0].total", "at least 0"),
        (TWO + RULE + RULE, "rule[1]", "repeats"),
        (
            TWO + RULE + "usage = { a = 0, b = 1 }\n" + RULE + "action = 'a'\nusage = { a = 1 }\n",
            "rule[1].usage",
            "rule[0]",
        ),
        (RULE, "actions", "must be given where there are rules"),
        ("policy = 3\n", "policy", "must be a table"),
        ("policy = []\n", "policy", "at least one"),
        ("[[policy]]\n[[policy]]\n", "policy[1].name", "must differ"),
        ("[policy]\nslater = 'measur'\n", "policy.slater", "a number or 'measure', but got 'measur'"),
        ("[policy]\nhorizon = 1.5\n", "policy.horizon", "whole number, but got 1.5"),
        ("[policy]\ncosts_seen = 'never'\n", "policy.costs_seen", "'before' or 'after'"),
        ("[policy]\nreward = { modl = 'ridge' }\n", "policy.reward.modl", "did you mean 'model'"),
        ("[policy]\nV = { scale = 1 }\n", "policy.V.exponent", "is missing"),
        ("[environment]\nx = 1\n", "environment.kind", "is missing"),
        ("[simulation]\nrounds = 0\n", "simulation.rounds", "at least 1, but got 0"),
        ("[simulation]\nround = 10\n", "simulation.round", "did you mean 'rounds'"),
        ("[policy]\nslater = nan\n", "policy.slater", "finite number, but got nan"),
        (
            "[environment]\nkind = 'tabular'\nrewards = [[0.1, -inf]]\n",
            "environment.rewards[0][1]",
            "but got -inf",
        ),
        ("[sweep]\nx = [1e400]\n", "sweep.x[0]", "but got inf"),
    ],
)
def test_an_error_names_file_field_and_what_came(tmp_path, text, field, says):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        read_spec(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: {field}: ")
    assert says in message
    assert isinstance(caught.value, InvalidInput)


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("name = 'x'\nactions ['a']\n", 2, 9, "Expected '='"),
        ("name = 'x'\n\nname = 'y'\n", 3, 11, "given twice"),
        ("[policy]\nslater = 0.1\n[policy]\n", 3, 8, "'policy' is declared twice"),
        ("name = 'x'\nactions = ['a',\n\n", 2, 16, "before the end of the file"),
    ],
)
def test_a_syntax_error_shows_the_place(tmp_path, text, line, column, says):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        read_spec(path)
    first, shown, mark = str(caught.value).split("\n")
    assert first.startswith(f"{path}:{line}:{column}: not valid TOML: ")
    assert says in first
    assert shown == f"  {line} | {text.splitlines()[line - 1]}"
    assert mark.index("^") - mark.index("|") == column + 1


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(SpecError, match="No such file"):
        read_spec(tmp_path / "none.toml")
    with pytest.raises(SpecError, match="can't be read"):
        read_spec(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'\n")
    with pytest.raises(SpecError, match=r"not UTF-8 text: .* at byte 8"):
        read_spec(tmp_path / "latin.toml")


def test_rules_in_conflict_are_named():
    shares = "".join(f"[[rule]]\nkind='share'\naction='{a}'\nat_least=0.6\n" for a in "ab")
    with pytest.raises(
        InfeasibleProblem, match=r"rule: no policy can meet .*a: at least 60%.*b: at least 60%"
    ):
        read_spec(TWO + shares)


# --- policies ---


def built(policy="", **sizes):
    return build_policy(read_spec("[policy]\n" + policy).policies[0], problem(**sizes))


def problem(*, n_actions=3, n_features=0, disjoint=True, n_cost_features=None, constraints=0, **rest):
    vectors = [
        Vectors(n, per_action=not disjoint) if n else None
        for n in (n_features, n_features if n_cost_features is None else n_cost_features)
    ]
    counted = {"rules": constraints} if isinstance(constraints, tr.Rules) else {"n_constraints": constraints}
    return Problem(n_actions=n_actions, features=vectors[0], cost_features=vectors[1], **counted, **rest)


def test_models_take_the_sizes_of_the_problem():
    assert repr(built().reward_model) == "ArmMeans(3, bonus=1)"
    assert repr(built(n_features=4).reward_model).startswith("DisjointRidge(3, 4,")
    assert repr(built(n_features=4, disjoint=False).reward_model).startswith("Ridge(4,")
    assert repr(built("reward={model='ridge'}", n_features=4).reward_model).startswith("Ridge(12,")
    wide = built("reward={model='disjoint-ridge'}", n_features=4, disjoint=False)
    assert repr(wide.reward_model).startswith("DisjointRidge(3, 4,")
    assert (
        repr(built("reward={model='arm-means', bonus=0.5}", n_features=4).reward_model)
        == "ArmMeans(3, bonus=0.5)"
    )


def test_costs_seen_after_get_a_model_of_their_own():
    policy = built(
        "slater = 0.1\ncost = { bonus = 0.3, m = 2.0 }",
        n_features=4,
        n_cost_features=2,
        constraints=2,
        seen="after",
    )
    assert repr(policy.cost_model) == "DisjointRidge(3, 2, bonus=0.3, m=2, ridge=1)"
    assert built("slater = 0.1", constraints=1).cost_model is None


def test_settings_reach_the_policy():
    text = "slater = 0.2\nhorizon = 70\nV = { scale = 4, exponent = 0.5 }\nepsilon = { scale = 1, exponent = -0.5 }\nseed = 5"
    made = built(text, constraints=2).settings()
    assert (made["slater"], made["horizon"], made["V"], made["epsilon"], made["seed"]) == (
        0.2,
        70,
        [4.0, 0.5],
        [1.0, -0.5],
        5,
    )
    assert built("slater = 'measure'", constraints=2).settings()["slater"] is None


def test_rules_reach_the_policy():
    rules = tr.Rules([tr.Budget("h", at_most=0.25, range=(0, 0.5))], actions=3)
    policy = built("slater = 0.1", constraints=rules)
    assert policy.rules is rules


@pytest.mark.parametrize(
    ("text", "sizes", "says"),
    [
        ("kind = 'magic'", {}, r"policy\.kind: must be one of .*'pessimistic-optimistic'.*, but got 'magic'"),
        ("slatr = 0.1", {}, r"policy\.slatr: unknown field \(did you mean 'slater'\?\); allowed: .*horizon"),
        ("constraints = 3", {}, r"policy\.constraints: unknown field"),
        ("slater = 2.0", {"constraints": 1}, r"policy: slater must lie in \(0, 1\], but got 2"),
        ("horizon = 0", {}, r"policy: horizon must be a whole number >= 1"),
        ("V = { scale = -1, exponent = 0.5 }", {}, r"policy\.V: scale of a Power must be >= 0"),
        ("reward = { bonus = -1.0 }", {}, r"policy\.reward: bonus must be finite and >= 0"),
        (
            "reward = { model = 'tree' }",
            {"n_features": 2},
            r"policy\.reward\.model: must be one of .*'disjoint-ridge'.*, but got 'tree'",
        ),
        ("reward = { m = 2.0 }", {}, r"policy\.reward: m: unknown field.*'arm-means'"),
        (
            "reward = { model = 'ridge' }",
            {},
            r"policy\.reward\.model: must be \"arm-means\" where there are no features",
        ),
        (
            "slater = 0.1\ncost = {}",
            {"constraints": 1},
            r"policy\.cost: is a model of costs that are seen after",
        ),
        ("costs_seen = 'after'", {"constraints": 1}, r'policy\.costs_seen: must be "before"'),
        ("", {"constraints": 1, "seen": "after"}, r"policy: slater=None measures"),
    ],
)
def test_what_a_policy_refuses_names_the_field(text, sizes, says):
    with pytest.raises(SpecError, match=says):
        built(text, **sizes)


def test_what_is_known_is_asked_for_only_when_needed():
    calls = []

    def x():
        calls.append(1)
        return [[0.25, 0.75]]

    assert build_policy(PolicySpec(kind="uniform"), problem(n_actions=2, tells={"x": x})).n_actions == 2
    stated = PolicySpec(kind="oracle", settings={"x": [[1.0, 0.0]]})
    assert build_policy(stated, problem(n_actions=2, tells={"x": x})).x.tolist() == [[1.0, 0.0]]
    assert not calls
    assert build_policy(PolicySpec(kind="oracle"), problem(n_actions=2, tells={"x": x})).x.tolist() == [
        [0.25, 0.75]
    ]


def test_a_policy_of_ones_own_is_built_by_name():
    @register_policy("test-own")
    class Own:
        def __init__(self, *, n_arms, threshold, horizon=None):
            if threshold > 1:
                raise InvalidInput(f"threshold must be at most 1, but got {threshold!r}.")
            self.made = (n_arms, threshold, horizon)

    try:
        assert built("kind = 'test-own'\nthreshold = 0.5\nhorizon = 9").made == (3, 0.5, 9)
        with pytest.raises(SpecError, match=r"policy\.threshold: is missing: 'test-own' needs it"):
            built("kind = 'test-own'")
        with pytest.raises(SpecError, match=r"policy\.treshold: unknown field \(did you mean 'threshold'"):
            built("kind = 'test-own'\ntreshold = 1")
        with pytest.raises(SpecError, match=r"policy\.reward: unknown field"):
            built("kind = 'test-own'\nthreshold = 0.5\nreward = {}")
        with pytest.raises(SpecError, match="policy: threshold must be at most 1, but got 2"):
            built("kind = 'test-own'\nthreshold = 2")
    finally:
        del POLICIES["test-own"]


# --- environments ---


TABLE = """
[environment]
kind = "tabular"
weights = [0.25, 0.75]
rewards = [[0.2, 0.8], [0.6, 0.4]]
"""


def world(text):
    return environment_of(read_spec(textwrap.dedent(text)))


def test_arguments_reach_the_factory():
    env = world("[environment]\nkind = 'bandit'\nthreshold = 0.1\ncosts_seen = 'before'\n")
    assert (env.name, env.costs_seen) == ("bandit", "before")
    np.testing.assert_allclose(env.costs[0, :, 0], [-0.1, 0.3, 0.4, 0.1])


def test_rules_become_costs():
    env = world(
        TWO
        + RULE
        + "usage = { a = 0.2, b = 1.0 }\n[[rule]]\nkind='share'\naction='a'\nat_least=0.3\n"
        + TABLE
    )
    # Usage minus limit; minimum minus share.
    np.testing.assert_allclose(env.costs, np.array([[[-0.3, -0.7], [0.5, 0.3]]] * 2))
    np.testing.assert_allclose(env.cost_range, [[-0.5, 0.5], [-0.7, 0.3]])
    assert env.constraints == ("h", "share a")
    assert env.actions == ("a", "b")
    assert (env.costs_seen, env.cost_noise) == ("before", "none")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ("0.5", [[0.5, 0.5], [0.5, 0.5]]),
        ("[0.1, 0.9]", [[0.1, 0.9], [0.1, 0.9]]),
        ("[[0.1, 0.9], [0.3, 0.7]]", [[0.1, 0.9], [0.3, 0.7]]),
        ("{ a = 0.1, b = 0.9 }", [[0.1, 0.9], [0.1, 0.9]]),
    ],
)
def test_usage_may_depend_on_the_context(usage, expected):
    env = world(TWO + RULE + TABLE + f"usage.h = {usage}\n")
    np.testing.assert_allclose(env.costs[:, :, 0], np.array(expected) - 0.5)


def test_groups_of_contexts():
    rule = "[[rule]]\nkind = 'share'\naction = 'a'\nat_least = 0.3\namong = 'young'\n"
    env = world(TWO + rule + TABLE + "groups = ['young', []]\n")
    np.testing.assert_allclose(env.costs[:, :, 0], [[-0.7, 0.3], [0.0, 0.0]])


def test_rules_replace_the_costs_of_a_ready_made_environment():
    wards = tr.environments.hospital().actions
    spec = make_spec(
        {
            "name": "mine",
            "actions": list(wards),
            "rule": [{"kind": "capacity", "action": "surgery", "at_most": 0.1}],
            "environment": {"kind": "hospital"},
        }
    )
    env = environment_of(spec)
    assert (env.n_constraints, env.name) == (1, "mine")
    np.testing.assert_array_equal(env.rewards, tr.environments.hospital().rewards)
    np.testing.assert_allclose(env.costs[:, 1, 0], 0.9)
    np.testing.assert_allclose(np.delete(env.costs[:, :, 0], 1, axis=1), -0.1)


def test_late_and_random_usage():
    env = world(TWO + RULE + "seen = 'after'\n" + TABLE + "cost_noise = 'bernoulli'\nusage.h = [0.2, 1.0]\n")
    assert (env.costs_seen, env.cost_noise) == ("after", "bernoulli")
    # Usage 0.2 is 1 with that chance; usage 1 is certain.
    assert env.jumps[:, :, 0].tolist() == [[True, False], [True, False]]


def test_a_file_of_arrays(tmp_path):
    np.savez(
        tmp_path / "world.npz",
        weights=[0.5, 0.5],
        rewards=[[0.2, 0.8], [0.6, 0.4]],
        actions=np.array(["a", "b"]),
        available=np.array([[True, False], [True, True]]),
    )
    path = tmp_path / "spec.toml"
    path.write_text("[environment]\nkind = 'tabular'\nfile = 'world.npz'\nreward_noise = 'none'\n")
    env = environment_of(read_spec(path))
    assert env.actions == ("a", "b")
    assert env.available.tolist() == [[True, False], [True, True]]
    assert env.reward_noise == "none"
    assert env.name == "spec"


def test_files_that_are_no_arrays(tmp_path):
    def make(entries):
        np.savez(tmp_path / "x.npz", allow_pickle=True, **entries)
        build_environment(EnvironmentSpec(kind="tabular", settings={"file": "x.npz"}, folder=tmp_path))

    with pytest.raises(
        SpecError, match=r"environment\.file: .*x\.npz must be a NumPy \.npz archive of plain arrays"
    ):
        make({"weights": np.array([{"a": 1}], dtype=object)})
    with pytest.raises(SpecError, match=r"wights: unknown field \(did you mean 'weights'"):
        make({"wights": [1.0]})
    (tmp_path / "text.npz").write_text("hello")
    np.save(tmp_path / "one.npy", np.ones(3))
    for file, says in [
        ("text.npz", "plain arrays"),
        ("one.npy", "plain arrays"),
        ("no.npz", "can't be read"),
        (3, "text"),
    ]:
        with pytest.raises(SpecError, match=rf"environment\.file: .*{says}"):
            build_environment(EnvironmentSpec(kind="tabular", settings={"file": file}, folder=tmp_path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name = 'x'\n", "environment: is missing"),
        (
            "[environment]\nkind = 'moon'\n",
            r"environment\.kind: must be one of 'bandit', 'hospital'.*, but got 'moon'",
        ),
        (
            "[environment]\nkind = 'bandit'\ntreshold = 1\n",
            r"environment\.treshold: unknown field \(did you mean 'threshold'",
        ),
        (
            "[environment]\nkind = 'bandit'\nthreshold = 3\n",
            r"environment: threshold must lie in \[0, 1\], but got 3",
        ),
        ("[environment]\nkind = 'tabular'\nrewards = [[1]]\n", r"environment\.weights: is missing"),
        (
            "[environment]\nkind = 'tabular'\nweight = [1]\n",
            r"environment\.weight: unknown field \(did you mean 'weights'",
        ),
        ("actions = ['a']\n" + TABLE, r"actions: must be 2 names"),
        (
            "actions = ['x', 'y', 'z', 'w']\n[environment]\nkind = 'bandit'\n",
            r"actions: must be those of the environment",
        ),
        (TWO + RULE + TABLE, r"environment\.usage\.h: is missing"),
        (TWO + RULE + TABLE + "usage.k = 1\n", r"environment\.usage\.k: unknown field"),
        (TWO + RULE + TABLE + "usage.h = { a = 0.5 }\n", r"environment\.usage\.h\.b: is missing"),
        (TWO + RULE + TABLE + "usage.h = [1, 2, 3]\n", r"environment\.usage\.h must have shape"),
        (
            TWO + RULE + TABLE + "usage.h = [0.5, 2]\n",
            r"environment\.usage: usage\['h'\]\[1\] must lie in \[0, 1\]",
        ),
        (
            TWO + RULE + "usage = { a = 0, b = 1 }\n" + TABLE + "usage.h = 1\n",
            r"environment\.usage\.h: a rule says already",
        ),
        (
            TWO + RULE + TABLE + "usage.h = 1\ncosts = [[[0.0], [0.0]], [[0.0], [0.0]]]\n",
            r"environment\.costs: the rules",
        ),
        (
            TWO + RULE + TABLE + "usage.h = 1\ncosts_seen = 'after'\n",
            r"environment\.costs_seen: is \"after\"",
        ),
        (TWO + RULE + TABLE + "usage.h = 1\ncost_noise = 'gaussian'\n", r"environment\.cost_noise: must be"),
        (
            TWO + RULE + "among = 'x'\n" + TABLE + "usage.h = 1\n",
            r"environment\.groups: is missing: rule\[0\]",
        ),
        (
            TWO + RULE + "among = 'x'\n" + TABLE + "usage.h = 1\ngroups = ['x']\n",
            r"environment\.groups: must be a list",
        ),
        (
            TWO + RULE + "among = 'x'\n" + TABLE + "usage.h = 1\ngroups = ['x', 3]\n",
            r"environment\.groups\[1\]",
        ),
        (
            TWO
            + RULE
            + "among = 'x'\n"
            + TABLE
            + "usage.h = 1\ngroups = ['x', 'y']\ncost_noise = 'bernoulli'\n",
            r"environment\.cost_noise: must be \"none\"",
        ),
        (TABLE + "usage.h = 1\n", r"environment\.usage: is for rules"),
        (
            TWO
            + RULE
            + "seen = 'after'\n"
            + RULE.replace("'h'", "'k'")
            + TABLE
            + "usage = { h = 1, k = 1 }\n",
            r"rule: in a simulation all rules must be seen before",
        ),
    ],
)
def test_what_an_environment_refuses_names_the_field(text, says):
    with pytest.raises(SpecError, match=rf"^spec: {says}"):
        world(text)


def test_an_environment_of_ones_own():
    @register("test-coin")
    def coin(chance=0.5, folder=None):
        return tr.environments.Tabular([1.0], rewards=[[0.5, chance]], name=folder.name)

    try:
        spec = EnvironmentSpec(
            kind="test-coin", settings={"chance": 0.7}, folder=EnvironmentSpec(kind="x").folder / "here"
        )
        env = build_environment(spec)
        assert (env.rewards.tolist(), env.name) == ([[0.5, 0.7]], "here")
        with pytest.raises(InvalidInput, match="registered already"):
            register("test-coin")(coin)
    finally:
        del ENVIRONMENTS["test-coin"]


def test_a_policy_fits_its_environment():
    spec = read_spec("[[policy]]\nslater = 0.1\n[environment]\nkind = 'hospital'\ncosts_seen = 'after'\n")
    env = environment_of(spec)
    policy = policies_of(spec, env)["pessimistic-optimistic"]
    assert policy.reward_model.n_actions == policy.cost_model.n_actions == 6
    assert policy.reward_model.n_features == env.n_features
    np.testing.assert_allclose(policy.settings()["cost_range"], env.cost_range)
    decision = policy.decide(env.features[0], env.cost_features[0])
    policy.learn(decision, 1.0, env.costs[0, decision.action])


def test_errors_of_policies_name_the_file(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text("[[policy]]\n[[policy]]\nname = 'b'\nslatr = 1\n[environment]\nkind = 'synthetic'\n")
    spec = read_spec(path)
    with pytest.raises(SpecError, match=r"p\.toml: policy\[1\]\.slatr: unknown field"):
        policies_of(spec, environment_of(spec))


def test_policy_spec_needs_no_file():
    assert build_policy(PolicySpec(slater=0.5), problem(n_actions=2, constraints=1)).slater == 0.5


# --- the documentation ---


DOCS = Path(__file__).parents[1] / "docs" / "spec.md"


@pytest.mark.parametrize(
    "block", re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.S), ids=lambda b: b.split("\n")[0]
)
def test_the_examples_of_the_documentation_work(block):
    spec = read_spec(block)
    if spec.environment is not None:
        assert policies_of(spec, environment_of(spec))


def test_the_documentation_names_every_field():
    text = DOCS.read_text()
    structs = (ModelSpec, PowerSpec, PolicySpec, SimulationSpec, Number, Category)
    fields = {field for struct in structs for field in struct.__struct_fields__} - {
        "settings",
        "where",
        "folder",
        "own",
    }
    for factory in (tr.environments.bandit, tr.environments.hospital, tr.environments.synthetic):
        fields |= set(inspect.signature(factory).parameters)
    for kind in (tr.Capacity, tr.Share, tr.Budget, tr.Mean):
        fields |= {one.name for one in dataclasses.fields(kind)}
    missing = {field for field in fields if f"`{field}`" not in text and f"{field} = " not in text}
    assert not missing
