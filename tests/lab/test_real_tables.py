"""Tables of scikit-learn with rules: what they are made of, which rules bind, and what is said where scikit-learn is missing."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import tightrope as tr
from tightrope.environments.build import environment_of
from tightrope.spec import make_spec
from tightrope_lab import real_tables

BINDING = {
    "digits": ["capacity 1", "capacity 3", "minutes"],
    "breast-cancer": ["capacity biopsy", "share biopsy among small", "share review"],
    "wine": ["capacity 0 among strong", "capacity 1 among light", "capacity 2"],
}
MADE = {name: environment_of(make_spec({"environment": {"kind": name}})) for name in BINDING}


@pytest.mark.parametrize("name", BINDING)
def test_three_rules_bind_and_leave_room(name):
    env = MADE[name]
    found = tr.solve(env)
    assert env.name == name
    assert env.costs_seen == "before"
    assert [rule for rule, dual in zip(env.constraints, found.duals) if dual > 1e-6] == BINDING[name]
    assert found.slater > 0.05


@pytest.mark.parametrize("name", ["digits", "wine"])
def test_the_right_label_alone_earns(name):
    from sklearn import datasets

    data, env = getattr(datasets, f"load_{name}")(), MADE[name]
    assert np.array_equal(env.rewards, np.eye(env.n_actions)[data.target])
    assert env.weights == pytest.approx(1 / len(data.target))
    unruled = (env.weights @ env.rewards.max(axis=1), tr.solve(env).value)
    assert unruled[0] == pytest.approx(1.0)
    assert unruled[1] < 0.95


def test_costs_are_those_of_the_rules():
    wine = MADE["wine"]
    rules = wine.rules
    strong = wine.costs[:, 0, 0] != 0
    assert 0.3 < strong.mean() < 0.7
    assert np.array_equal(wine.costs[strong][0], rules.costs(group="strong"))
    assert np.array_equal(wine.costs[~strong][0], rules.costs(group="light"))
    minutes = MADE["digits"].costs[:, :, -1]
    assert minutes[0, 8] == pytest.approx(1.0 - 0.52)
    assert np.ptp(minutes, axis=0) == pytest.approx(0)


@pytest.mark.parametrize("make", [real_tables.digits, real_tables.breast_cancer, real_tables.wine])
def test_without_scikit_learn_the_extra_is_named(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    table = make.kind
    with pytest.raises(
        ModuleNotFoundError,
        match=rf"the table '{table}' comes with scikit-learn: pip install 'tightrope\[data\]'",
    ):
        make()


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("digits", "contexts=1797, actions=10, features=62, constraints=5"),
        ("breast_cancer", "contexts=569, actions=3, features=31, constraints=3"),
        ("wine", "contexts=178, actions=3, features=14, constraints=3"),
    ],
)
def test_sizes(name, size):
    env = getattr(real_tables, name)()
    assert repr(env) == f"Tabular({name.replace('_', '-')!r}, {size}, costs fixed, seen before)"
