"""From a log to a spec: what is written can be simulated and served as it is."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest

import tightrope as tr
from tightrope.environments.build import environment_of, policies_of
from tightrope.spec import make_spec, read_spec

MODELS = ["arm-means", "linear"]


def table(n=600, seed=0):
    draw = np.random.default_rng(seed)
    age, sent = draw.uniform(20, 80, n), draw.choice(["email", "letter"], n)
    ward = draw.choice(["A", "B"], n)
    chance = np.where(sent == "letter", age / 100, 0.4)
    return {
        "age": age,
        "ward": ward,
        "sent": sent,
        "bought": (draw.random(n) < chance).astype(float),
        "chance": np.full(n, 0.5),
        "minutes": np.where(sent == "letter", 3.0, 1.0) + 0.1 * draw.normal(size=n),
    }


@pytest.fixture(scope="module")
def found():
    return tr.compare_models(
        table(), MODELS, action="sent", reward="bought", probability="chance", cost=["minutes"], name="post"
    )


def test_a_table_is_read_by_its_columns(found):
    assert found.log.action_names == ("email", "letter")
    assert list(found.encoder.columns) == ["age", "ward"]
    assert found.reward.recommended.name == "linear"
    assert found.reward.recommended.value is not None
    assert found.cost.recommended.name == "arm-means"


def test_without_probabilities_no_value_is_claimed():
    found = tr.compare_models(table(), MODELS, action="sent", reward="bought", context=["age"])
    assert found.reward.recommended.value is None
    assert "would earn" not in " ".join(found.words())


def test_the_spec_is_simulated_and_served_as_it_is(found, tmp_path):
    page = found.save(tmp_path / "fit")
    spec = read_spec(page.parent / "spec.toml")
    assert spec.policies[0].reward.model == "disjoint-ridge"
    env = environment_of(spec)
    policy = policies_of(spec, env)["shadow-price"]
    run = tr.simulate(policy, env, rounds=200, replications=2, seed=0)
    assert run.rounds[-1] == 200
    from tightrope.service.experiment.configuration import served_policy

    served = served_policy(spec)
    x = found.encoder.transform({"age": 30.0, "ward": "A"})
    assert served.decide(x).action in (0, 1)
    # The world of the simulation is what the model expects, of the same features.
    assert env.features.shape[1] == found.encoder.n_features
    assert np.allclose(env.rewards, np.clip(found.reward.recommended.expected[:, :, 0], 0, 1))


def test_rules_of_a_spec_that_is_given_stay(tmp_path):
    base = make_spec(
        {
            "actions": ["email", "letter"],
            "context": {"age": {"type": "number", "min": 0, "max": 120}},
            "rule": [{"kind": "capacity", "action": "letter", "at_most": 0.3}],
            "policy": {"explore": 0.5},
        }
    )
    found = tr.compare_models(table(), MODELS, action="sent", reward="bought", spec=base, name="post")
    found.save(tmp_path)
    spec = read_spec(tmp_path / "spec.toml")
    assert str(spec.rules) == "letter: at most 30% of decisions"
    assert spec.policies[0].settings == {"explore": 0.5}
    assert environment_of(spec).constraints == ("capacity letter",)
    assert found.log.contexts.shape[1] == spec.encoder.n_features


def test_what_is_written_says_what_was_found(found, tmp_path):
    page = found.save(tmp_path)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [row["model"] for row in summary["rows"]] == MODELS * 2
    assert sum(row["recommended"] for row in summary["rows"]) == 2
    html = page.read_text()
    assert "Use linear for the reward" in html
    assert (tmp_path / "calibration-reward.png").stat().st_size > 5000
    assert tomllib.loads((tmp_path / "spec.toml").read_text())["policy"]["reward"] == {
        "model": "disjoint-ridge"
    }
    assert (tmp_path / "spec.toml").read_text().startswith("# Use linear for the reward")


def test_a_log_of_vectors_will_do():
    draw = np.random.default_rng(0)
    log = tr.offpolicy.Log(
        [0, 1] * 100, draw.random(200), propensities=[0.5] * 200, contexts=draw.normal(size=(200, 2))
    )
    found = tr.compare_models(log, MODELS)
    assert found.encoder is None
    assert found.environment().n_contexts == 200
    assert "fit: 200 rows, 2 actions" in str(found)


def test_actions_must_be_the_specs():
    with pytest.raises(tr.InvalidInput, match="the actions of the log must be the spec's"):
        tr.compare_models(
            tr.offpolicy.Log(["a", "b"], [0.0, 1.0], propensities=[0.5, 0.5], action_names=["a", "b"]),
            MODELS,
            spec=make_spec({"actions": ["a", "c"]}),
        )


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(tr.InvalidInput, match="bougth"):
        tr.compare_models(table(), MODELS, action="sent", reward="bougth")


def test_what_was_used_is_what_rules_count(tmp_path):
    base = make_spec(
        {
            "actions": ["email", "letter"],
            "rule": [{"kind": "budget", "name": "minutes", "at_most": 1.5, "range": [0, 4]}],
        }
    )
    found = tr.compare_models(
        table(),
        MODELS,
        action="sent",
        reward="bought",
        cost=["minutes"],
        context=["age"],
        spec=base,
        name="post",
    )
    found.save(tmp_path)
    env = environment_of(read_spec(tmp_path / "spec.toml"))
    # 1 minute for an email, 3 for a letter, less 1.5, in units of the range.
    assert np.allclose(env.costs[:, :, 0].mean(axis=0), np.array([-0.5, 1.5]) / 4, atol=0.02)


def test_a_spec_with_an_encoder_is_read_by_it(found, tmp_path):
    """The spec that was written is itself one to start from, in another folder."""
    found.save(tmp_path / "first")
    base = read_spec(tmp_path / "first" / "spec.toml")
    again = tr.compare_models(table(), MODELS, action="sent", reward="bought", spec=base)
    assert again.encoder == found.encoder
    again.save(tmp_path / "second")
    env = environment_of(read_spec(tmp_path / "second" / "spec.toml"))
    assert np.array_equal(env.rewards, environment_of(base).rewards)
