"""Tables as environments: exact where every reward is known, fitted where decisions were logged."""

from __future__ import annotations

import csv
import gzip
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.environments.build import environment_of, policies_of
from tightrope.environments.table import WeakEvidence, from_table
from tightrope.errors import InvalidInput
from tightrope.service.experiment.configuration import served_policy
from tightrope.spec import SpecError, read_spec

DATA = Path(__file__).parents[3] / "shared" / "data"
SATIMAGE = DATA / "satimage" / "satimage.csv.gz"
COUPON = DATA / "coupon" / "in-vehicle-coupon-recommendation.csv.gz"


def columns(path: Path) -> dict[str, list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return dict(zip(header, map(list, zip(*rows)), strict=True))


def logged(n: int = 3000, seed: int = 0) -> dict[str, Any]:
    """Two actions drawn by a coin, rewards linear in age and sex."""
    rng = np.random.default_rng(seed)
    age, sex = rng.uniform(20, 80, n), rng.choice(["f", "m"], n)
    sent = rng.choice(["email", "letter"], n)
    mean = np.where(sent == "letter", age / 100, 0.3 + 0.2 * (sex == "m"))
    return {
        "age": age,
        "sex": sex,
        "sent": sent,
        "bought": (rng.random(n) < mean).astype(int),
        "minutes": np.where(sent == "letter", 0.6, 0.1 + 0.2 * (sex == "f")),
    }


CALL: dict[str, Any] = {"context": ["age", "sex"], "action": "sent", "reward": "bought"}


def test_labels_become_exact_rewards() -> None:
    frame = {"x": [0.0, 1.0, 1.0, 3.0], "kind": [7, 2, 7, 2]}
    env = from_table(frame, context=["x"], label="kind")
    assert env.actions == ("2", "7")
    assert env.weights.tolist() == [0.25, 0.5, 0.25]  # the equal rows are one context
    assert env.rewards.tolist() == [[0, 1], [0.5, 0.5], [1, 0]]
    assert env.n_constraints == 0


def test_features_are_standardised_and_scaled() -> None:
    frame = {
        "n": [1, 2, 3, 6],
        "s": ["b", "a", "c", "a"],
        "t": [True, False, True, True],
        "same": [0.1, 0.1, 0.1, 0.1],
        "kind": ["u", "v", "u", "v"],
    }
    x = from_table(frame, context=["n", "s", "t", "same"], label="kind").features
    z = (np.array([1, 2, 3, 6]) - 3) / np.std([1, 2, 3, 6])
    expected = np.column_stack([np.ones(4), z, [1, 0, 0, 0], [0, 0, 1, 0], [1, 0, 1, 1]])
    np.testing.assert_allclose(x, expected / np.linalg.norm(expected, axis=1).max(), rtol=1e-14)
    assert np.linalg.norm(x, axis=1).max() == pytest.approx(1)


def test_known_rewards_and_usage() -> None:
    frame = {"x": [0, 1, 2], "gain": [0.1, 0.2, 0.3], "hours": [0.5, 0.25, 1.0]}
    rules = tr.Rules([tr.Share("b", at_least=0.25), tr.Budget("hours", at_most=0.5)], actions=["b", "a"])
    env = from_table(
        frame,
        context=["x"],
        reward={"a": "gain", "b": 0.6},
        usage={"hours": {"a": "hours", "b": 0.0}},
        rules=rules,
    )
    assert env.actions == ("b", "a")
    assert env.rewards.tolist() == [[0.6, 0.1], [0.6, 0.2], [0.6, 0.3]]
    assert env.costs[1].tolist() == [[-0.75, -0.5], [0.25, -0.25]]
    assert env.constraints == rules.names
    np.testing.assert_array_equal(env.cost_range, rules.cost_range)


def test_logged_rewards_are_the_ridge_fit_of_each_action() -> None:
    frame = logged()
    env = from_table(frame, **CALL, ridge=5.0)
    z = (frame["age"] - frame["age"].mean()) / frame["age"].std()
    x = np.column_stack([np.ones(z.size), z, frame["sex"] == "m"])
    for j, action in enumerate(env.actions):
        rows = frame["sent"] == action
        design = np.vstack([x[rows], np.sqrt(5.0) * np.eye(3)[1:]])
        fitted = np.linalg.lstsq(design, np.concatenate([frame["bought"][rows], [0, 0]]))[0]
        np.testing.assert_allclose(env.rewards[:, j], x @ fitted, rtol=0, atol=1e-10)
    linear = env.features @ np.linalg.lstsq(env.features, env.rewards)[0]
    np.testing.assert_allclose(linear, env.rewards, rtol=0, atol=1e-12)


def test_logged_fit_comes_near_the_truth() -> None:
    frame = logged(40_000)
    env = from_table(frame, **CALL)
    email, letter = env.rewards.T
    assert np.abs(letter - frame["age"] / 100).max() < 0.05
    assert np.abs(email - 0.3 - 0.2 * (frame["sex"] == "m")).max() < 0.05


def test_logged_usage_is_fitted_for_every_action() -> None:
    rules = tr.Rules([tr.Budget("minutes", at_most=0.4)], actions=["letter", "email"])
    frame = logged()
    env = from_table(frame, **CALL, usage={"minutes": "minutes"}, rules=rules, ridge=1e-6, costs_seen="after")
    assert env.costs_seen == "after"
    letter, email = env.costs[:, :, 0].T
    np.testing.assert_allclose(letter, 0.2, atol=1e-6)
    np.testing.assert_allclose(email, 0.1 + 0.2 * (frame["sex"] == "f") - 0.4, atol=1e-6)


def test_groups_switch_rules_on_and_off() -> None:
    frame = {"x": [0, 0, 1], "team": ["A", "B", "B"], "kind": ["u", "v", "u"]}
    rules = tr.Rules([tr.Share("u", at_least=0.5, among="A")], actions=["u", "v"])
    env = from_table(frame, context=["x"], label="kind", rules=rules, group="team")
    assert env.n_contexts == 3  # equal rows of different groups are different contexts
    assert env.costs[:, :, 0].tolist() == [[-0.5, 0.5], [0, 0], [0, 0]]


def test_any_kind_of_frame_gives_the_same_environment() -> None:
    frame = logged(500)
    expected = from_table(frame, **CALL)

    class Series:
        def __init__(self, values: Any) -> None:
            self._values = values

        def to_numpy(self) -> Any:
            return np.asarray(self._values, dtype=object)

    frames: list[Any] = [
        {name: list(values.tolist()) for name, values in frame.items()},
        {name: Series(values.tolist()) for name, values in frame.items()},
    ]
    pyarrow = pytest.importorskip("pyarrow")
    frames.append(pyarrow.table(frame))
    for other in frames:
        env = from_table(other, **CALL)
        np.testing.assert_array_equal(env.rewards, expected.rewards)
        np.testing.assert_array_equal(env.features, expected.features)
        assert env.actions == expected.actions


# --- doubts


def doubts(frame: Any, **call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from_table(frame, **call)
    assert all(issubclass(one.category, WeakEvidence) and one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


def test_sound_data_raise_no_doubts() -> None:
    assert doubts(logged(), **CALL) == []


def test_an_action_seldom_seen_is_named() -> None:
    frame = logged()
    frame["sent"] = frame["sent"].astype("<U9")
    frame["sent"][:5] = "messenger"
    words = " / ".join(doubts(frame, **CALL))
    assert "'messenger' has only 5 of 3000 rows" in words
    assert "'email' has only" not in words


def test_lack_of_overlap_is_named() -> None:
    frame = logged()
    frame["sent"] = np.where(frame["age"] > 50, "letter", "email")
    words = " / ".join(doubts(frame, **CALL))
    assert "action 'email' has a chance below 1%" in words
    assert "action 'letter' has a chance below 1%" in words


def test_a_fit_that_predicts_nothing_is_named() -> None:
    frame = logged(200)
    rng = np.random.default_rng(5)
    frame["bought"] = rng.integers(0, 2, 200)
    frame |= {f"noise{i}": rng.normal(size=200) for i in range(20)}
    words = doubts(frame, **(CALL | {"context": [f"noise{i}" for i in range(20)]}))
    assert any("'bought' predicts unseen rows no better than each action's average" in one for one in words)


def test_a_fit_that_leaves_its_range_is_clipped_and_named() -> None:
    frame = logged()
    frame["bought"] = (frame["age"] > 50).astype(int)
    words = doubts(frame, **CALL)
    assert any("'bought' leaves [0, 1] in" in one for one in words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakEvidence)
        env = from_table(frame, **CALL)
    assert env.rewards.min() == 0
    assert env.rewards.max() == 1


# --- refusals


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"context": ["height"]}, "frame must have a column 'height'"),
        ({"context": "age"}, "context must be one or more column names, but got 'age'"),
        ({"context": []}, "context must be one or more column names"),
        ({"label": "sent"}, "label must be given without action and reward"),
        ({"action": None}, "action is missing: name the column of the action that was taken"),
        ({"reward": {"email": 0.1, "letter": 0.2}}, "action must be left out"),
        ({"reward": {"email": 0.1}, "action": None, "rules": "two"}, "reward must have the actions"),
        ({"reward": "age"}, r"column 'age'\[0\] must lie in \[0, 1\]"),
        ({"reward": "sex"}, "column 'sex' must hold numbers, but its first entry is"),
        ({"usage": {"minutes": "minutes"}}, "usage must come with the rules"),
        ({"ridge": 0.0}, "ridge must be finite and > 0, but got 0.0"),
        ({"context": ["hole"]}, r"column 'hole'\[3\] is missing: give a number"),
        ({"context": ["gap"]}, r"column 'gap'\[2\] is missing: give one of its values"),
        ({"context": ["mixed"]}, "column 'mixed' must hold strings or numbers, but it holds both"),
        ({"context": ["short"]}, "column 'sent' must have 2 entries, but has 200|'short' must have"),
        (
            {"context": ["id"]},
            "column 'id' must have at most 100 different values to be a category, but has 200",
        ),
        ({"rules": "three"}, r"must hold the actions of the rules, \['email', 'letter', 'x'\]"),
        (
            {
                "action": None,
                "reward": None,
                "label": "sent",
                "rules": "two",
                "usage": {"minutes": "minutes"},
            },
            r"usage\['minutes'\] must give the usage of every action",
        ),
    ],
)
def test_bad_tables_are_refused_in_words(changes: dict[str, Any], words: str) -> None:
    frame = logged(200) | {
        "hole": [1.0, 2.0, 3.0, np.nan] + [0.0] * 196,
        "gap": ["a", "b", None] + ["c"] * 197,
        "mixed": ["a", 1] * 100,
        "short": [1, 2],
        "id": [f"row {i}" for i in range(200)],
    }
    rules = {
        "two": tr.Rules([tr.Budget("minutes", at_most=0.4)], actions=["email", "letter"]),
        "three": tr.Rules([tr.Share("x", at_least=0.1)], actions=["email", "letter", "x"]),
    }
    call = CALL | changes
    if "rules" in call:
        call["rules"] = rules[call["rules"]]
    with pytest.raises(InvalidInput, match=words):
        from_table(frame, **call)


# --- real tables


@pytest.mark.skipif(not SATIMAGE.is_file(), reason=f"the table is not at {SATIMAGE}")
def test_satimage_is_exact() -> None:
    """Least squares on the environment's features classifies as well as its README says."""
    frame: dict[str, Any] = columns(SATIMAGE)
    context = [f"x{i}" for i in range(1, 37)]
    frame |= {name: np.array(frame[name], dtype=float) for name in context}
    env = from_table(frame, context=context, label="label")
    assert env.actions == ("1", "2", "3", "4", "5", "7")
    assert env.n_features == 37
    counts = np.array([1533, 703, 1358, 626, 707, 1508])
    np.testing.assert_allclose(env.weights @ env.rewards, counts / 6435, rtol=1e-12)
    assert env.n_contexts == 6435
    train = np.array(frame["split"]) == "train"
    fitted = np.linalg.lstsq(env.features[train], env.rewards[train])[0]
    right = (env.features[~train] @ fitted).argmax(axis=1) == env.rewards[~train].argmax(axis=1)
    assert right.mean() == pytest.approx(0.745, abs=0.003)


@pytest.mark.skipif(not COUPON.is_file(), reason=f"the table is not at {COUPON}")
def test_coupons_are_fitted() -> None:
    """Intercepts are not penalised, so over an action's own rows the fit has the average that was logged."""
    frame: dict[str, Any] = columns(COUPON)
    frame |= {name: np.array(frame[name], dtype=float) for name in ("Y", "toCoupon_GEQ15min", "temperature")}
    kinds = ["Coffee House", "Restaurant(<20)", "Carry out & Take away", "Bar", "Restaurant(20-50)"]
    rules = tr.Rules(
        [tr.Capacity(kind, at_most=0.3) for kind in kinds] + [tr.Budget("far", at_most=0.5)], actions=kinds
    )
    context = ["destination", "passanger", "weather", "temperature", "gender", "age", "CoffeeHouse", "Bar"]
    call: dict[str, Any] = {"context": context, "action": "coupon", "reward": "Y", "rules": rules}
    with pytest.warns(WeakEvidence, match="was clipped there") as caught:
        env = from_table(frame, usage={"far": "toCoupon_GEQ15min"}, **call)
    # The coupon shown hardly depends on the respondent, so every one has its chance.
    assert not any("chance below" in str(one.message) for one in caught)
    assert env.actions == tuple(kinds)
    assert env.n_constraints == 6
    met: dict[tuple[Any, ...], int] = {}
    rows = np.array([met.setdefault(key, len(met)) for key in zip(*(frame[name] for name in context))])
    assert env.n_contexts == len(met)
    np.testing.assert_allclose(env.weights, np.bincount(rows) / rows.size, rtol=1e-12)
    for j, (kind, rate) in enumerate(zip(kinds, [0.499, 0.707, 0.735, 0.410, 0.441], strict=True)):
        own = rows[np.array(frame["coupon"]) == kind]
        assert env.rewards[own, j].mean() == pytest.approx(rate, abs=0.002)


# --- the encoder, and specs


def test_the_encoder_of_an_environment_encodes_new_rows() -> None:
    frame = logged(200)
    env = from_table(frame, **CALL)
    assert env.encoder == tr.Encoder(["age", "sex"]).fit(frame)
    assert env.features is not None
    assert env.encoder.transform(frame).tobytes() == env.features.tobytes()  # no two of these rows are equal
    row = {"age": frame["age"][7], "sex": frame["sex"][7]}
    assert env.encoder.transform(row).tobytes() == env.features[7].tobytes()
    for context in (env.encoder, tr.Encoder(["age", "sex"]), {"age": "number", "sex": {}}):
        same = from_table(frame, **(CALL | {"context": context}))
        assert same.encoder == env.encoder
        np.testing.assert_array_equal(same.rewards, env.rewards)


def test_missing_values_in_a_context_as_declared() -> None:
    frame = logged(200)
    frame["age"][3] = np.nan
    env = from_table(frame, **(CALL | {"context": {"age": {"missing": "indicator"}, "sex": {}}}))
    assert env.encoder.names == ("one", "age", "age missing", "sex=m")
    assert env.features is not None
    assert np.flatnonzero(env.features[:, 2]).tolist() == [3]


def test_costs_are_seen_when_the_rules_say() -> None:
    def rules(*seen: Any) -> tr.Rules:
        made = [
            tr.Budget("minutes", at_most=0.4, seen=seen[0]),
            tr.Capacity("letter", at_most=0.6, seen=seen[-1]),
        ]
        return tr.Rules(made, actions=["letter", "email"])

    def env(*seen: Any) -> tr.environments.Table:
        return from_table(logged(), **CALL, usage={"minutes": "minutes"}, rules=rules(*seen), ridge=1e-6)

    assert env("before").costs_seen == "before"
    assert env("after").costs_seen == "after"
    assert env("after", "before").costs_seen == ("after", "before")


def test_frames_of_pandas_and_polars() -> None:
    import pandas as pd
    import polars as pl

    frame = logged(300)
    frame["bought"] = frame["bought"].astype(bool)
    expected = from_table(frame, **CALL)
    for made in (pd.DataFrame(frame), pl.DataFrame(frame), pd.DataFrame(frame).convert_dtypes()):
        env = from_table(made, **CALL)
        assert env.encoder == expected.encoder
        np.testing.assert_array_equal(env.rewards, expected.rewards)


def grouped() -> tr.environments.Table:
    """Usage that is always the same, usage that depends on the row, and a group."""
    frame = logged(200) | {"team": np.random.default_rng(1).choice(["A", "B"], 200)}
    rules = tr.Rules(
        [
            tr.Budget("minutes", at_most=0.4),
            tr.Mean("paper", at_most=0.7, range=(0, 2)),
            tr.Share("letter", at_least=0.1, among="A"),
        ],
        actions=["letter", "email"],
    )
    usage: Any = {"minutes": "minutes", "paper": {"letter": 1.5, "email": 0.0}}
    return from_table(frame, **CALL, usage=usage, rules=rules, group="team", name="post")


def test_a_spec_of_a_table_is_the_same_environment(tmp_path: Path) -> None:
    env = grouped()
    path = env.to_spec(tmp_path / "post.toml", policy={"explore": 0.5}, simulation={"rounds": 50})
    assert sorted(one.name for one in tmp_path.iterdir()) == ["post.encoder.json", "post.npz", "post.toml"]
    spec = read_spec(path)
    again = environment_of(spec)
    for field in ("features", "rewards", "costs", "cost_range"):
        np.testing.assert_array_equal(getattr(again, field), getattr(env, field))
    np.testing.assert_allclose(again.weights, env.weights, rtol=1e-14)
    assert (again.actions, again.constraints, again.name) == (env.actions, env.constraints, "post")
    assert spec.encoder == env.encoder
    assert spec.usage == {"paper": {"letter": 1.5, "email": 0.0}}
    assert (spec.policies[0].settings, spec.simulation.rounds) == ({"explore": 0.5}, 50)
    [policy] = policies_of(spec, again).values()
    assert tr.simulate(policy, again, 50, 2).rounds[-1] == 50
    assert served_policy(spec).hooks.n_actions == 2


def test_a_table_without_rules_and_with_late_costs_as_specs(tmp_path: Path) -> None:
    env = from_table({"x": [0.0, 1.0], "kind": [7, 2]}, context=["x"], label="kind")
    assert environment_of(read_spec(env.to_spec(tmp_path / "a.toml"))).actions == ("2", "7")
    rules = tr.Rules([tr.Budget("minutes", at_most=0.4, seen="after")], actions=["letter", "email"])
    late = from_table(logged(200), **CALL, usage={"minutes": "minutes"}, rules=rules)
    again = environment_of(read_spec(late.to_spec(tmp_path / "b.toml")))
    assert again.costs_seen == "after"
    np.testing.assert_array_equal(again.costs, late.costs)
    with pytest.raises(InvalidInput, match=r"path must end in \.toml, but got"):
        env.to_spec(tmp_path / "a.json")


def test_what_the_file_of_an_environment_says_twice_is_refused(tmp_path: Path) -> None:
    path = grouped().to_spec(tmp_path / "post.toml")
    text = path.read_text()
    for line, words in (
        ("usage.minutes = 0.1", r"environment\.usage\.minutes: is also in the file post\.npz"),
        ('groups = ["A"]', r"environment\.groups: is also in the file post\.npz"),
        ("rewards = [[1]]", r"environment\.rewards: is also in the file post\.npz"),
    ):
        path.write_text(text.replace("[environment]", f"[environment]\n{line}"))
        with pytest.raises(SpecError, match=words):
            environment_of(read_spec(path))


def test_the_encoder_of_a_spec_is_refused_in_words(tmp_path: Path) -> None:
    path = grouped().to_spec(tmp_path / "post.toml")
    text = path.read_text()
    path.write_text(text.replace("[context]", '[context]\nsex = { type = "category", values = ["f"] }'))
    with pytest.raises(
        SpecError, match=r"context\.sex: can't be combined with an encoder, which has all the fields"
    ):
        read_spec(path)
    path.write_text(text.replace("post.encoder.json", "none.json"))
    with pytest.raises(SpecError, match=r"context\.encoder: .*none\.json can't be read"):
        read_spec(path)
