"""Models and policies without sizes: bound by rules, an encoder, the first context, past rows or a problem."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightrope as tr
from tightrope.errors import InvalidInput

J, P = 3, 4
NAMES = ["a", "b", "c", "d"]


def rules(late: bool = False) -> tr.Rules:
    limits: list[Any] = [tr.Capacity("x", at_most=0.4)]
    limits += [tr.Budget("hours", at_most=0.5, range=(0, 1), seen="after")] if late else []
    return tr.Rules(limits, actions=["x", "y", "z"])


def play(policy: Any, rounds: int = 150, *, late: bool = False, per_action: bool = False) -> Any:
    """The same rounds for every policy; what it decided, and all that it knows in the end."""
    rng, chosen = np.random.default_rng(3), []
    for _ in range(rounds):
        x = rng.normal(size=(J, P) if per_action else P)
        x /= np.linalg.norm(x)
        decision = policy.decide(x)
        y = float(rng.random())
        policy.learn(decision, y, **({"usage": {"hours": y}} if late else {}))
        chosen.append(decision.action)
    return chosen, policy


def require_equal(one: Any, other: Any) -> None:
    (first, policy), (second, twin) = one, other
    assert first == second
    assert policy.hooks.settings() | {"owner": 0} == twin.hooks.settings() | {"owner": 0}
    state, same = policy.hooks.state(), twin.hooks.state()
    assert state.keys() == same.keys()
    for name, array in state.items():
        np.testing.assert_array_equal(array, same[name], err_msg=name)


MODELS = {
    "linear": tr.DisjointRidge(J, P),
    "logistic": tr.Logistic(J, P),
    "standardised": tr.Standardised(J, P),
    "auto": tr.Auto(J, P),
    "ensemble": tr.Ensemble("extra-trees", J, P),
}


@pytest.mark.parametrize("name", MODELS)
def test_sizes_from_the_first_context_are_as_good_as_typed_ones(name: str) -> None:
    given: Any = tr.Ensemble("extra-trees") if name == "ensemble" else name
    require_equal(
        play(tr.ShadowPrice(rules(), reward=given)), play(tr.ShadowPrice(rules(), reward=MODELS[name]))
    )


@pytest.mark.parametrize("make", [tr.ShadowPrice, tr.PessimisticOptimistic])
def test_costs_seen_later_have_a_linear_model_by_default(make: Any) -> None:
    more = {} if make is tr.ShadowPrice else {"slater": 0.1, "horizon": 1000}
    typed = make(rules(late=True), reward=tr.DisjointRidge(J, P), cost=tr.DisjointRidge(J, P), **more)
    require_equal(play(make(rules(late=True), **more), late=True), play(typed, late=True))


@pytest.mark.parametrize("make", [tr.ShadowPrice, tr.PessimisticOptimistic])
def test_rows_for_each_action_share_their_parameters(make: Any) -> None:
    more = {} if make is tr.ShadowPrice else {"slater": 0.1, "horizon": 1000}
    typed = make(rules(), reward=tr.Ridge(P), **more)
    require_equal(play(make(rules(), **more), per_action=True), play(typed, per_action=True))


@pytest.mark.parametrize(
    "model",
    [tr.Ridge(), tr.DisjointRidge(), tr.Logistic(), tr.Standardised(), tr.Auto(), tr.Features("splines")],
)
def test_models_without_sizes(model: tr.models.Model) -> None:
    with pytest.raises(
        InvalidInput, match=r"has no (n_actions and )?n_features yet: pass n_\w+=, or give it to a policy"
    ):
        model.means([[0.0]])
    assert not hasattr(model, "no_such_thing")
    assert repr(model.copy()) == repr(model)
    if not isinstance(model, tr.Ridge):
        _, policy = play(tr.ShadowPrice(rules(), reward=model), 30)
        assert policy.hooks.reward_model().n_features == P
        assert policy.hooks.reward_model().n_actions == J


def test_arms_need_no_context() -> None:
    policy = tr.ShadowPrice(rules())
    policy.decide()
    assert repr(policy.hooks.reward_model()) == "Standardised(3, 0)"


def test_a_size_that_was_typed_stays() -> None:
    policy = tr.ShadowPrice(rules(), reward=tr.DisjointRidge(n_features=2))
    with pytest.raises(InvalidInput, match=r"features must have shape \(2,\)"):
        policy.decide(np.ones(P))
    with pytest.raises(InvalidInput, match="must have the same number of actions"):
        tr.ShadowPrice(rules(), reward=tr.Logistic(n_actions=4)).decide(np.ones(P))


def test_costs_tell_how_many_actions_there_are() -> None:
    policy = tr.ShadowPrice(2)
    assert policy.decide(np.ones(P), np.zeros((5, 2))).action in range(5)
    assert policy.hooks.reward_model().n_actions == 5
    with pytest.raises(
        InvalidInput, match=r"cannot infer n_actions of .*pass n_actions= to the model, or rules"
    ):
        tr.ShadowPrice().decide(np.ones(P))


def test_a_refused_context_leaves_the_policy_without_sizes() -> None:
    policy = tr.ShadowPrice(rules())
    before = policy.hooks.settings()
    for bad in (np.full(P, np.nan), {"a": "one"}, np.ones((2, 2, 2))):
        with pytest.raises(InvalidInput):
            policy.decide(bad)
    with pytest.raises(InvalidInput, match="round 1 of decide_many"):
        policy.decide_many([np.ones(P), np.ones(P + 1)])
    assert policy.hooks.settings() == before
    assert policy.rounds == 0


def test_proposals_change_nothing() -> None:
    policy = tr.ShadowPrice(rules())
    before, x = policy.hooks.settings(), np.arange(P) / P
    proposed = policy.propose(x)
    assert policy.hooks.settings() == before
    assert proposed.action == policy.decide(x).action


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("make", [tr.ShadowPrice, tr.PessimisticOptimistic])
def test_saved_copied_and_sent_before_and_after_the_first_context(
    make: Any, bound: bool, tmp_path: Path
) -> None:
    policy = make(rules(late=True), context=NAMES, **({} if make is tr.ShadowPrice else {"slater": 0.1}))
    if bound:
        play(policy, 20, late=True)
    policy.save(tmp_path / "policy.npz")
    others = [tr.load(tmp_path / "policy.npz"), policy.copy(), pickle.loads(pickle.dumps(policy))]
    for other in others:
        assert repr(other) == repr(policy)
        assert other.context == tuple(NAMES)
    expected = play(policy, late=True)
    for other in others:
        require_equal(play(other, late=True), expected)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("make", [tr.ShadowPrice, tr.PessimisticOptimistic])
def test_rolling_back_to_before_the_first_context(make: Any, late: bool) -> None:
    settings: Any = {} if make is tr.ShadowPrice else {"slater": 0.1}
    policy = make(rules(late), **settings)
    then = policy.hooks.state()
    assert policy.hooks.roll_back(then, learnt_only=False) == []
    play(policy, 20, late=late)
    waiting = policy.decide(np.ones(P) / P)
    learnt = policy.copy()
    assert learnt.hooks.roll_back(then, learnt_only=True) == []
    assert learnt.pending == (waiting.number,)
    assert policy.hooks.roll_back(then, learnt_only=False) == [waiting.number]
    assert not policy.totals.any()
    for one in (learnt, policy):
        assert not one.hooks.reward_model().n_learnt
        assert one.rounds == 21
        play(one, 5, late=late)


def test_contexts_by_name() -> None:
    rows = np.random.default_rng(0).normal(size=(40, P))
    chosen = {}
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frames = {
        "arrays": list(rows),
        "mappings": [dict(zip(NAMES, row)) for row in rows],
        "shuffled": [dict(zip(NAMES, rows[0]))] + [dict(zip(NAMES[::-1], row[::-1])) for row in rows[1:]],
        "series": [row for _, row in pandas.DataFrame(rows, columns=NAMES).iterrows()],
        "polars": list(polars.DataFrame(rows, schema=NAMES).iter_rows(named=True)),
        "named tuples": list(pandas.DataFrame(rows, columns=NAMES).itertuples(index=False)),
    }
    for name, contexts in frames.items():
        policy = tr.ShadowPrice(rules())
        chosen[name] = []
        for context in contexts:
            decision = policy.decide(context)
            policy.learn(decision, float(decision.action == 1))
            chosen[name].append(decision.action)
        assert policy.context == (None if name == "arrays" else tuple(NAMES))
    assert all(one == chosen["arrays"] for one in chosen.values())
    with pytest.raises(InvalidInput, match=r"context.aa was not in the first context"):
        policy.decide(dict(zip(["aa", "b", "c", "d"], rows[0])))
    with pytest.raises(InvalidInput, match=r"context.b must be a number, but got None"):
        policy.decide({"a": 1.0})
    with pytest.raises(
        InvalidInput, match=r"context.b must be a number, but got 'x'. Give the policy context=tr.Encoder"
    ):
        policy.decide({"a": 1.0, "b": "x", "c": 0.0, "d": 0.0})


def test_an_encoder_gives_the_sizes_at_once(tmp_path: Path) -> None:
    table = [{"age": 20, "ward": "A"}, {"age": 60, "ward": "B"}]
    encoder = tr.Encoder(["age", "ward"]).fit(table)
    policy = tr.ShadowPrice(rules(), reward="auto", context=encoder)
    assert policy.hooks.reward_model().n_features == encoder.n_features
    decision = policy.decide(table[0])
    policy.learn(decision, 1.0)
    policy.save(tmp_path / "policy.npz")
    other = tr.load(tmp_path / "policy.npz")
    assert other.context == encoder
    assert other.decide(table[1]).action == policy.decide(encoder.transform(table[1])).action
    with pytest.raises(InvalidInput, match="fit it first"):
        tr.ShadowPrice(rules(), context=tr.Encoder(["age"]))


@pytest.mark.parametrize("reward", ["linear", "logistic"])
def test_simulations_take_the_sizes_of_the_environment(reward: str) -> None:
    env = tr.environments.hospital()
    typed = tr.DisjointRidge(6, 10) if reward == "linear" else tr.Logistic(6, 10)
    asked, told = (
        tr.simulate(tr.ShadowPrice(18, reward=one), env, 200, 2, seed=1, warn=False)
        for one in (reward, typed)
    )
    np.testing.assert_array_equal(asked.reward, told.reward)
    arms = tr.environments.bandit(threshold=0.5, costs_seen="after")
    run = tr.simulate(tr.ShadowPrice(["after"]), arms, 100, seed=1, warn=False)
    assert "Standardised(4, 0)" in run.settings["policy"]


def test_past_rows_give_sizes() -> None:
    rng = np.random.default_rng(5)
    X, actions, rewards = rng.normal(size=(60, P)), rng.integers(0, J, 60), rng.random(60)
    policies = [tr.ShadowPrice(rules()), tr.ShadowPrice(rules(), reward=tr.DisjointRidge(J, P))]
    for policy in policies:
        policy.warm_start(X, actions, rewards)
    require_equal(play(policies[0]), play(policies[1]))


def test_limits_wait_for_the_first_decision() -> None:
    policy = tr.ShadowPrice(rules())
    with pytest.raises(InvalidInput, match="limits can't change before the first decision"):
        policy.change_limit("x", 0.5)
    policy.decide(np.ones(P))
    policy.change_limit(policy.rules.names[0], 0.5)


def test_other_policies_say_that_they_need_sizes() -> None:
    with pytest.raises(
        InvalidInput, match=r"reward has no n_features, which this policy can't infer: pass n_features="
    ):
        tr.policies.Greedy(tr.Ridge())


def test_names_of_models_are_those_of_the_registry() -> None:
    with pytest.raises(
        InvalidInput, match=r"reward: model must be one of .*'linear'.*'logistic'.*but got 'lineer'"
    ):
        tr.ShadowPrice(rules(), reward="lineer")
    with pytest.raises(InvalidInput, match="reward must be a model, such as"):
        tr.ShadowPrice(rules(), reward=3)  # type: ignore[arg-type]
