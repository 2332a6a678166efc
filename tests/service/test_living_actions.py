"""Actions that come, pause, go and change their names while an experiment runs, under every policy that can be served."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from test_served_policies import ACTIONS, CASES, WHOLE_OFFER, outcome, request, spec_of
from tightrope.service.http import handlers
from tightrope.service.offline.replay import verify
from tightrope.service.requests import ChangeRequest, read_body
from tightrope.spec import make_spec
from workbench import CONTEXT, Bench, code, read


def changing(bench: Bench, **body: Any) -> Any:
    return bench.ask(handlers.change, read_body(json.dumps(body).encode(), ChangeRequest))


def changed(bench: Bench, **body: Any) -> dict[str, Any]:
    return read(changing(bench, **body))


def play(bench: Bench, name: str, rounds: int, seed: int) -> list[str]:
    """Decisions of which two in three get their outcome; returns what was chosen."""
    random, chosen = np.random.default_rng(seed), []
    for i in range(rounds):
        event_id = f"{seed}-{i}"
        body = request(name, random)
        body.pop("actions", None)
        chosen.append(read(bench.decide({"event_id": event_id, **body}))["name"])
        if i % 3:
            read(bench.learn(event_id, **outcome(name, random)))
    bench.work()
    return chosen


def survives(bench: Bench) -> None:
    """A restart and a replay both end where the experiment is, bit for bit."""
    alive = bench.digest()
    assert verify(bench.journal).digest == alive
    bench.reopened()
    assert bench.digest() == alive


def beliefs(bench: Bench) -> dict[str, Any]:
    """Everything in the state of the policy that has a fixed shape, and what its models expect of the first three actions."""
    state = bench.experiment._state
    assert state is not None
    found: dict[str, Any] = dict(state.hooks.state())
    # The last number of the radius of a confidence set is its dimension, which grows.
    found |= {part: array[:-1] for part, array in found.items() if part.endswith("/stat")}
    for part, model in (("reward", state.hooks.reward_model()), ("cost", state.hooks.cost_model())):
        if model is not None and model.n_actions is not None:
            rows = np.full((3, model.n_features), 0.25) if model.n_features else None
            found |= {
                f"{part} means": model.means(rows, np.arange(3)),
                f"{part} widths": model.widths(rows, np.arange(3)),
            }
    return found


# Its arms are pairs of a context and an action.
BY_CONTEXT = ("ucb-alp",)


@pytest.mark.parametrize("name", CASES)
def test_every_policy_takes_an_action_that_is_added(name: str) -> None:
    bench = Bench(spec_of(name))
    play(bench, name, 30, 1)
    before = beliefs(bench)
    if name in BY_CONTEXT:
        refused = changing(bench, add={"later": {}})
        assert code(refused) == (422, "invalid")
        assert b"does not keep 'rewards/counts' by action alone" in refused.body
        return
    said = changed(bench, add={"later": {}})
    assert said["changes"][0] == "the action 'later' is new"
    after = beliefs(bench)
    for part, was in before.items():
        if after[part].shape == was.shape:
            np.testing.assert_array_equal(after[part], was, err_msg=part)
    play(bench, name, 60, 2)
    survives(bench)
    shown = bench.state()["actions"]
    assert [one["name"] for one in shown] == [*ACTIONS, "later"]
    if name in WHOLE_OFFER:
        assert code(changing(bench, actions={"later": {"state": "paused"}})) == (422, "invalid")
        return
    changed(bench, actions={"later": {"state": "paused"}})
    assert "later" not in play(bench, name, 30, 3)
    changed(bench, actions={"later": {"state": "active", "name": "last"}})
    play(bench, name, 20, 4)
    survives(bench)


MODEL_SETTINGS: dict[str, dict[str, Any]] = {
    "ensemble": {"estimator": "forest", "members": 2, "first": 8},
    "features": {"transformer": "fourier", "first": 12},
    "auto": {"candidates": ["standardised", "disjoint-ridge"]},
}
# `like` needs sums, or kept outcomes, to start from.
UNLIKE = ("logistic",)


@pytest.mark.parametrize(
    "model", ["linear", "ridge", "disjoint-ridge", "standardised", "logistic", *MODEL_SETTINGS]
)
def test_every_model_takes_an_action_that_is_added(model: str) -> None:
    reward = {"model": model, **MODEL_SETTINGS.get(model, {})}
    bench = Bench(
        make_spec({"name": "m", "actions": ACTIONS, "context": CONTEXT, "policy": {"reward": reward}})
    )
    random = np.random.default_rng(0)

    def play(rounds: int, prefix: str) -> None:
        for i in range(rounds):
            read(
                bench.decide(
                    {"event_id": f"{prefix}{i}", "context": {"age": float(random.uniform(0, 90)), "sex": "f"}}
                )
            )
            read(bench.learn(f"{prefix}{i}", reward=float(random.random() < 0.5)))
        bench.work()

    play(30, "a")
    before = beliefs(bench)
    answer = changing(bench, add={"later": {}})
    if model == "ridge":
        assert b"no parameters for each action alone" in answer.body
        return
    assert answer.status == 200, answer
    for part in ("reward means", "reward widths"):
        if part in before:
            np.testing.assert_array_equal(beliefs(bench)[part], before[part])
    play(30, "b")
    survives(bench)
    answer = changing(bench, add={"alike": {"like": "low"}})
    if model in UNLIKE:
        assert code(answer) == (422, "invalid")
        assert b"can't begin with what it knows of another action" in answer.body
        return
    assert answer.status == 200, answer
    play(10, "c")
    survives(bench)
