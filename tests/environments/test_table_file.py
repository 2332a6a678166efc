"""`[environment]` with `kind = "table"`: a file of past decisions."""

from __future__ import annotations

import numpy as np
import pytest

import tightrope as tr
from tightrope.environments.build import environment_of
from tightrope.environments.table import table_environment
from tightrope.spec import SpecError, make_spec
from tightrope.testing import EnvironmentSuite


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    age, sent = rng.integers(20, 90, n), rng.choice(["email", "letter"], n)
    bought = (rng.random(n) < np.where(sent == "letter", age / 100, 0.4)).astype(int)
    return {"age": age, "sent": sent, "bought": bought, "minutes": np.where(sent == "letter", 8.0, 2.0)}


def write(folder, columns, name="log.csv"):
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values()))]
    (folder / name).write_text("\n".join(lines) + "\n")


def spec_of(folder, table, *, rules=(), environment=None, context=("age",), **changes):
    encoder = tr.Encoder(list(context)).fit(table)
    write(folder, table)
    stated = {"kind": "table", "file": "log.csv", "action": "sent", "reward": "bought", **(environment or {})}
    data = {
        "name": "mail",
        "actions": ["email", "letter"],
        "context": {"encoder": encoder.to_dict()},
        "rule": list(rules),
        "environment": {key: value for key, value in stated.items() if value is not None},
        **changes,
    }
    return make_spec(data, folder=folder)


BUDGET = {"kind": "budget", "name": "minutes", "at_most": 5.0, "range": [0.0, 10.0], "seen": "after"}


class TestConformance(EnvironmentSuite):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.path = tmp_path

    def make(self):
        return environment_of(
            spec_of(self.path, rows(), rules=[BUDGET], environment={"usage": {"minutes": "minutes"}})
        )


def test_it_is_what_from_table_makes_of_the_frame(tmp_path):
    table = rows()
    found = environment_of(
        spec_of(tmp_path, table, rules=[BUDGET], environment={"usage": {"minutes": "minutes"}})
    )
    rules = tr.Rules([tr.Budget("minutes", 5.0, range=(0, 10), seen="after")], actions=["email", "letter"])
    made = tr.environments.from_table(
        table,
        context=["age"],
        action="sent",
        reward="bought",
        usage={"minutes": "minutes"},
        rules=rules,
        judge=False,
    )
    for name in ("weights", "features", "rewards", "costs", "cost_range"):
        np.testing.assert_array_equal(getattr(found, name), getattr(made, name))
    assert (found.actions, found.constraints, found.costs_seen) == (made.actions, made.constraints, "after")


def test_actions_are_in_the_order_of_the_spec(tmp_path):
    table = rows()
    one, other = (
        environment_of(spec_of(tmp_path, table, actions=order))
        for order in (["email", "letter"], ["letter", "email"])
    )
    np.testing.assert_array_equal(one.rewards, other.rewards[:, ::-1])


def test_rewards_in_another_unit_stay_in_it(tmp_path):
    table = rows()
    rng = np.random.default_rng(1)
    table["bought"] = np.round(
        np.where(table["sent"] == "letter", table["age"], 40) - 30 + rng.normal(0, 2.0, 400), 3
    )
    env = environment_of(spec_of(tmp_path, table))
    oldest = int(env.features[:, 1].argmax())
    assert env.rewards[oldest] == pytest.approx([10.0, 59.0], abs=1.0)
    assert env.reward_noise == "gaussian"
    assert env.reward_scale == pytest.approx(2.0, rel=0.15)


def test_rows_that_lack_something_are_left_out_and_a_success_may_be_named(tmp_path):
    table = rows()
    whole = environment_of(spec_of(tmp_path, table))
    texts = {**table, "bought": np.where(table["bought"] == 1, "yes", "no")}
    gaps = {name: [*one.tolist(), "" if name == "bought" else one.tolist()[0]] for name, one in texts.items()}
    encoder = tr.Encoder(["age"]).fit(table)
    spec = spec_of(tmp_path, texts, environment={"success": "yes"}, context=("age",))
    write(tmp_path, gaps)
    assert spec.encoder == encoder
    np.testing.assert_array_equal(environment_of(spec).rewards, whole.rewards)


def test_labels_and_rewards_of_every_action(tmp_path):
    table = {
        "age": [20, 80, 30],
        "best": ["email", "letter", "email"],
        "r_email": [1, 0, 1],
        "r_letter": [0, 1, 0],
    }
    plain = {"action": None, "reward": None}
    label = environment_of(spec_of(tmp_path, table, environment={**plain, "label": "best"}))
    known = environment_of(
        spec_of(tmp_path, table, environment={**plain, "reward": {"letter": "r_letter", "email": "r_email"}})
    )
    np.testing.assert_array_equal(label.rewards, [[1, 0], [0, 1], [1, 0]])
    np.testing.assert_array_equal(known.rewards, label.rewards)


def test_a_large_table_keeps_so_many_contexts(tmp_path):
    env = environment_of(spec_of(tmp_path, rows(), environment={"contexts": 20}))
    assert env.n_contexts == 20
    assert env.weights == pytest.approx(np.full(20, 0.05))


def test_what_is_doubted_is_told_to_whoever_asks(tmp_path):
    told = []
    table_environment(spec_of(tmp_path, rows(30)), told.append)
    assert "action 'letter' has only" in told[0] or "action 'email' has only" in told[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"environment": {"file": "gone.csv"}}, r"environment: .*gone\.csv can't be read"),
        (
            {"environment": {"acton": "sent"}},
            r"environment\.acton: unknown field \(did you mean 'action'\?\)",
        ),
        ({"environment": {"action": None}}, "action is missing"),
        ({"environment": {"contexts": 0}}, r"environment\.contexts: must be at least 1, but got 0"),
        ({"rules": [BUDGET]}, r"environment: usage\.minutes is missing, but a rule counts it"),
        ({"actions": ["email", "fax"]}, "the table has the actions"),
        ({"context": {}}, r"context: is missing"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, changes, words):
    context = changes.pop("context", None)
    spec = spec_of(tmp_path, rows(40), **changes)
    if context is not None:
        spec = make_spec({**spec.data, "context": context}, folder=tmp_path)
    with pytest.raises(SpecError, match=words):
        environment_of(spec)


def test_fields_that_a_spec_declares_read_the_table_as_well(tmp_path):
    spec = spec_of(tmp_path, rows(40))
    context = {"age": {"type": "number", "min": 0, "max": 100}}
    spec = make_spec({**spec.data, "context": context}, folder=tmp_path)
    env = table_environment(spec)
    assert env.features.shape[1] == spec.encoder.n_features == 2
    assert (env.features >= 0.0).all()
