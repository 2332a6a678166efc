import dataclasses
import inspect
import re
import textwrap
from pathlib import Path

import msgspec
import numpy as np
import pytest

import tightrope as tr
from tightrope.encoder import Encoder
from tightrope.encoder.fields import Category, Number
from tightrope.environments.build import (
    ENVIRONMENTS,
    environment_of,
    policies_of,
    register,
)
from tightrope.environments.table import TableSettings
from tightrope.errors import InfeasibleProblem, InvalidInput
from tightrope.spec import (
    DEFAULT_KIND,
    ModelSpec,
    PolicySpec,
    PowerSpec,
    SimulationSpec,
    SpecError,
    convert_table,
    make_spec,
    named_kinds,
    read_spec,
    unknown_field,
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
PAPERS = "kind = 'pessimistic-optimistic'\n"


# --- reading ---


def test_every_field_is_read():
    spec = read_spec(FULL)
    assert spec.name == "ward-routing"
    assert spec.actions == ("internal", "surgery")
    assert spec.encoder == Encoder.declared({"age": Number(0, 120), "sex": Category(["f", "m"])})
    assert spec.encoder.names == ("one", "age", "sex=m")
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
    assert [policy.kind for policy in spec.policies] == ["shadow-price"]
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


def test_a_policy_without_a_kind_is_the_default_one():
    spec = read_spec(TWO + "[policy]\nexplore = 0.5\n")
    assert (spec.policies[0].kind, spec.policies[0].settings) == (DEFAULT_KIND, {"explore": 0.5})
    assert tr.ShadowPrice.kind == DEFAULT_KIND


@pytest.mark.parametrize(
    "field", ["slater = 0.1", "horizon = 9", "V = { scale = 1, exponent = 0.5 }", "epsilon = 3"]
)
@pytest.mark.parametrize("kind", ["", "kind = 'shadow-price'\n"])
def test_constants_of_the_papers_policy_are_refused_by_name(field, kind):
    name = field.split(" ")[0]
    words = rf'^spec: policy\.{name}: belongs to kind = "pessimistic-optimistic": "shadow-price".* has no such setting'
    with pytest.raises(SpecError, match=words):
        read_spec(f"[policy]\n{kind}{field}\n")


@pytest.mark.parametrize("field", ["bonus", "m", "ridge"])
def test_and_so_are_those_of_its_models(field):
    for part in ("reward", "cost"):
        words = rf'^spec: policy\[1\]\.{part}\.{field}: belongs to kind = "pessimistic-optimistic"'
        with pytest.raises(SpecError, match=words):
            read_spec(f"[[policy]]\n[[policy]]\nname = 'b'\n{part} = {{ {field} = 2.0 }}\n")
    own = read_spec(f"[policy]\nreward = {{ model = 'own.py:Model', {field} = 2.0 }}\n")
    assert own.policies[0].reward.settings() == {field: 2.0}, (
        "what a model of one's own calls so is its affair"
    )


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
        (TWO + "groups = ['A']\n" + RULE + "among = 'a'\n", "rule[0].among", "did you mean 'A'"),
        (TWO + "groups = ['A', 'A']\n" + RULE, "groups", "must be different names"),
        (TWO + "groups = 'A'\n" + RULE, "groups", "must be a list"),
        ("groups = ['A']\n", "groups", "there is no [[rule]]"),
        (TWO + RULE + "seen = 'now'\n", "rule[0].seen", "'before' or 'after', but got 'now'"),
        (TWO + RULE + "usage = { a = 0.5 }\n", "rule[0].usage.b", "is missing"),
        (
            TWO + RULE + "range = [0, 1]\nusage = { a = 0.5, b = 1.5 }\n",
            "rule[0].usage.b",
            "must lie in [0, 1]",
        ),
        (TWO + RULE + "usage = { a = 0.5, b = '1' }\n", "rule[0].usage.b", "must be a number, but got '1'"),
        (TWO + RULE + "usage = [0.5, 1]\n", "rule[0].usage", "must be a table, but got [0.5, 1]"),
        (TWO + RULE + "usage = { a = 0.5, bb = 1 }\n", "rule[0].usage.bb", "did you mean 'b'"),
        (TWO + RULE + "hard = 1\n", "rule[0].hard", "must be true or false"),
        (TWO + RULE + "total = -1\n", "rule[0].total", "at least 0"),
        (TWO + RULE + RULE, "rule[1]", "repeats"),
        (
            TWO + RULE + "usage = { a = 0, b = 1 }\n" + RULE + "action = 'a'\nusage = { a = 1 }\n",
            "rule[1].usage",
            "rule[0]",
        ),
        (RULE, "actions", "is missing: rules refer to actions by name"),
        ("policy = 3\n", "policy", "must be a table"),
        ("policy = []\n", "policy", "at least one"),
        ("[[policy]]\n[[policy]]\n", "policy[1].name", "must differ"),
        (
            "[policy]\n" + PAPERS + "slater = 'measur'\n",
            "policy.slater",
            "a number or 'measure', but got 'measur'",
        ),
        ("[policy]\n" + PAPERS + "horizon = 1.5\n", "policy.horizon", "whole number, but got 1.5"),
        ("[policy]\ncosts_seen = 'never'\n", "policy.costs_seen", "'before' or 'after'"),
        ("[policy]\nreward = { modl = 'ridge' }\n", "policy.reward.modl", "did you mean 'model'"),
        ("[policy]\n" + PAPERS + "V = { scale = 1 }\n", "policy.V.exponent", "is missing"),
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
        environment_of(make_spec({"environment": {"kind": "tabular", "file": "x.npz"}}, folder=tmp_path))

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
            environment_of(make_spec({"environment": {"kind": "tabular", "file": file}}, folder=tmp_path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name = 'x'\n", "environment: is missing"),
        (
            "[environment]\nkind = 'moon'\n",
            r"environment\.kind: must be one of 'bandit', .*'hospital'.*, but got 'moon'",
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
        (TWO + RULE + "range = [0, 1]\n" + TABLE, r"environment\.usage\.h: is missing"),
        (TWO + RULE + "range = [0, 1]\n" + TABLE + "usage.k = 1\n", r"environment\.usage\.k: unknown field"),
        (
            TWO + RULE + "range = [0, 1]\n" + TABLE + "usage.h = { a = 0.5 }\n",
            r"environment\.usage\.h\.b: is missing",
        ),
        (
            TWO + RULE + "range = [0, 1]\n" + TABLE + "usage.h = [1, 2, 3]\n",
            r"environment\.usage\.h must have shape",
        ),
        (
            TWO + RULE + "range = [0, 1]\n" + TABLE + "usage.h = [0.5, 2]\n",
            r"environment\.usage: usage\['h'\]\[1\] must lie in \[0, 1\]",
        ),
        (
            TWO + RULE + "usage = { a = 0, b = 1 }\n" + TABLE + "usage.h = 1\n",
            r"environment\.usage\.h: a rule already says",
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
        (TABLE + "usage.h = 1\n", r"environment\.usage: needs rules"),
        (
            TWO
            + RULE
            + "seen = 'after'\n"
            + RULE.replace("'h'", "'k'")
            + TABLE
            + "usage = { h = 1, k = 1 }\ncosts_seen = 'after'\n",
            r"environment\.costs_seen: is \"after\", but the rules are seen before and after",
        ),
    ],
)
def test_what_an_environment_refuses_names_the_field(text, says):
    with pytest.raises(SpecError, match=rf"^spec: {says}"):
        world(text)


def test_an_environment_of_ones_own(tmp_path):
    @register("test-coin")
    def coin(chance=0.5, folder=None):
        return tr.environments.Tabular([1.0], rewards=[[0.5, chance]], name=folder.name)

    try:
        spec = make_spec({"environment": {"kind": "test-coin", "chance": 0.7}}, folder=tmp_path / "here")
        env = environment_of(spec)
        assert (env.rewards.tolist(), env.name) == ([[0.5, 0.7]], "here")
        with pytest.raises(InvalidInput, match="already registered"):
            register("test-coin")(coin)
    finally:
        del ENVIRONMENTS["test-coin"]


def test_a_policy_fits_its_environment():
    stated = "[[policy]]\n[[policy]]\n" + PAPERS + "slater = 0.1\n"
    spec = read_spec(stated + "[environment]\nkind = 'hospital'\ncosts_seen = 'after'\n")
    env = environment_of(spec)
    made = policies_of(spec, env)
    assert list(made) == ["shadow-price", "pessimistic-optimistic"]
    for policy in made.values():
        _fits(policy, env)


def _fits(policy, env):
    assert policy.hooks.reward_model().n_actions == policy.hooks.cost_model().n_actions == 6
    assert policy.hooks.reward_model().n_features == env.n_features
    np.testing.assert_allclose(policy.hooks.settings()["cost_range"], env.cost_range)
    decision = policy.decide(env.features[0], env.cost_features[0])
    policy.learn(decision, 1.0, env.costs[0, decision.action])


def test_errors_of_policies_name_the_file(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text("[[policy]]\n[[policy]]\nname = 'b'\nslatr = 1\n[environment]\nkind = 'synthetic'\n")
    spec = read_spec(path)
    with pytest.raises(SpecError, match=r"p\.toml: policy\[1\]\.slatr: unknown field"):
        policies_of(spec, environment_of(spec))


# --- the documentation ---


DOCS = Path(__file__).parents[1] / "docs" / "spec.md"


@pytest.mark.parametrize(
    "block", re.findall(r"```toml\n(.*?)```", DOCS.read_text(), re.S), ids=lambda b: b.split("\n")[0]
)
def test_the_examples_of_the_documentation_work(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{20 + i},{('email', 'letter')[i % 2]},{i % 3 % 2},{1 + 8 * (i % 2)}" for i in range(40)]
    (tmp_path / "log.csv").write_text("\n".join(["age,sent,bought,minutes", *rows]) + "\n")
    spec = read_spec(block)
    if spec.environment is not None:
        assert policies_of(spec, environment_of(spec))


def test_the_documentation_names_every_field():
    text = DOCS.read_text()
    structs = (ModelSpec, PowerSpec, PolicySpec, SimulationSpec, Number, Category, TableSettings)
    fields = {field for struct in structs for field in struct.__struct_fields__} - {
        "settings",
        "where",
        "folder",
        "trust",
        "own",
    }
    for factory in (tr.environments.bandit, tr.environments.hospital, tr.environments.synthetic):
        fields |= set(inspect.signature(factory).parameters)
    for kind in (tr.Capacity, tr.Share, tr.Budget, tr.Mean):
        fields |= {one.name for one in dataclasses.fields(kind)}
    missing = {field for field in fields if f"`{field}`" not in text and f"{field} = " not in text}
    assert not missing


def test_tables_are_converted_and_unknown_fields_named():
    with pytest.raises(SpecError, match=r"^simulation\.rounds: must be a whole number, but got 0\.5$"):
        convert_table({"rounds": 0.5}, SimulationSpec, "simulation")
    words = "policy.slatr: unknown field (did you mean 'slater'?); allowed: slater, horizon"
    assert str(unknown_field("policy", "slatr", ["slater", "horizon"])) == words


def test_policies_and_models_have_their_defaults():
    assert PolicySpec().name == "shadow-price"
    assert PolicySpec(kind="pessimistic-optimistic", slater=0.1).name == "pessimistic-optimistic"
    assert ModelSpec(model="ridge", bonus=0.1).settings() == {"bonus": 0.1}
    named = [{"kind": "shadow-price", "explore": 0.5}, {"kind": "uniform"}]
    assert named_kinds([{"explore": 0.5}, {"kind": "uniform"}]) == named
