"""Outcomes that are corrected: what counts afterwards is what would have counted had the right outcome come at once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tightrope.service.http import handlers
from tightrope.service.journal.entries import Blank, Learnt
from tightrope.service.journal.rows import entry_of
from tightrope.service.offline.replay import verify
from tightrope.service.offline.served_decisions import Record
from tightrope.service.requests import CorrectionRequest, DecisionRequest, ErasureRequest, read_body
from tightrope.spec import Spec
from workbench import PAPER, Bench, code, read, visit, ward

HOURS = {
    "kind": "budget",
    "name": "hours",
    "at_most": 0.6,
    "range": [0, 1],
    "seen": "after",
    "hard": True,
    "total": 60,
}
ICU = {"kind": "capacity", "action": "icu", "at_most": 0.4}
REWARDS: dict[str, Any] = {
    "linear": "linear",
    "disjoint": "disjoint-ridge",
    "auto": {
        "model": "auto",
        "candidates": ["standardised", {"model": "ensemble", "estimator": "forest", "first": 15}],
    },
    "forest": {"model": "ensemble", "estimator": "forest", "members": 2, "first": 15},
    "logistic": "logistic",
    "features": {"model": "features", "transformer": "fourier", "first": 20},
    "forgetting": {"model": "linear", "half_life": 50},
}
# What the answer says of what was learnt.
EFFECTS = {
    "logistic": {"at the next fit"},
    "forgetting": {"not"},
    # Some outcomes were in the fit, and some came later.
    "forest": {"exactly", "at the next fit"},
}


def ward_of(reward: Any, **policy: Any) -> Spec:
    return ward(policy={"kind": "shadow-price", **policy, "reward": reward}, rule=[ICU, HOURS])


def correcting(bench: Bench, event_id: str, correction_id: str = "k", **outcome: Any) -> Any:
    body = {"event_id": event_id, "correction_id": correction_id, **outcome}
    return bench.ask(handlers.correct, read_body(json.dumps(body).encode(), CorrectionRequest))


def played(spec: Spec, wrong: bool, rounds: int = 40) -> Bench:
    """All decisions first, so that they are the same whatever is learnt; then all outcomes, some of them wrong."""
    bench = Bench(spec)
    for i in range(rounds):
        read(bench.decide(visit(i)))
    for i in range(rounds):
        off = wrong and i % 5 == 0
        read(bench.learn(f"visit-{i}", reward=0.9 if off else right(i), usage={"hours": 0.8 if off else 0.4}))
    bench.work()
    return bench


def right(i: int) -> float:
    return (i % 4) / 4


def means(bench: Bench, part: str) -> Any:
    state = bench.experiment._state
    assert state is not None
    rows = [state.input.x(read_body(visit(i), DecisionRequest), 3) for i in range(6)]
    model = getattr(state.hooks, part)()
    return np.array([model.means(np.repeat(x[None], 3, 0), np.arange(3)) for x in rows if x is not None])


@pytest.mark.parametrize("name", REWARDS)
def test_everything_is_as_if_the_right_outcome_had_come(name: str) -> None:
    late, once = played(ward_of(REWARDS[name]), wrong=True), played(ward_of(REWARDS[name]), wrong=False)
    effects = set()
    for i in range(0, 40, 5):
        said = read(correcting(late, f"visit-{i}", reward=right(i), usage={"hours": 0.4}))
        assert said["outcome"] == {"reward": right(i), "usage": {"hours": 0.4}}
        effects.add(said["learnt"])
    assert effects == EFFECTS.get(name, {"exactly"})
    mine, theirs = late.state(), once.state()
    for part in ("used", "left", "cumulative_cost"):
        mine_of, theirs_of = ([one[part] for one in state["constraints"]] for state in (mine, theirs))
        assert mine_of == pytest.approx(theirs_of, abs=1e-12)
    assert mine["hard_caps"][0]["used"] == theirs["hard_caps"][0]["used"] == 16.0
    assert mine["outcomes"]["mean_reward"] == pytest.approx(theirs["outcomes"]["mean_reward"])
    np.testing.assert_allclose(means(late, "cost_model"), means(once, "cost_model"), atol=1e-12)
    if name in ("linear", "disjoint", "auto"):
        np.testing.assert_allclose(means(late, "reward_model"), means(once, "reward_model"), atol=1e-9)
    for i in range(40, 60):
        read(late.decide(visit(i)))
        read(late.learn(f"visit-{i}", reward=right(i), usage={"hours": 0.5}))
    late.work()
    alive = late.digest()
    assert verify(late.journal).digest == alive
    late.reopened()
    assert late.digest() == alive


def test_the_papers_policy_keeps_its_totals_right() -> None:
    late, once = (played(ward_of("linear", **PAPER), wrong=wrong) for wrong in (True, False))
    for i in range(0, 40, 5):
        read(correcting(late, f"visit-{i}", reward=right(i), usage={"hours": 0.4}))
    mine, theirs = (
        [one["cumulative_cost"] for one in bench.state()["constraints"]] for bench in (late, once)
    )
    assert mine == pytest.approx(theirs, abs=1e-12)
    assert verify(late.journal).digest == late.digest()


def test_a_correction_is_made_once_for_each_id() -> None:
    bench = played(ward_of("linear"), wrong=True)
    first = read(correcting(bench, "visit-5", reward=0.25))
    alive = bench.digest()
    again = read(correcting(bench, "visit-5", reward=0.25))
    assert again == {**first, "learnt": None}
    assert bench.digest() == alive
    assert code(correcting(bench, "visit-5", reward=0.5)) == (409, "differs")
    assert read(bench.learn("visit-5", reward=0.9, usage={"hours": 0.8}))["awaits"] == [], (
        "a repeat of the report"
    )
    assert code(bench.learn("visit-5", reward=0.25)) == (409, "differs"), "which is no correction"
    assert read(correcting(bench, "visit-5", "second", reward=0.5))["outcome"]["reward"] == 0.5
    shown = read(bench.ask(handlers.show_decision, handlers.requests.EventQuery(event_id="visit-5")))
    assert shown["outcome"] == {"reward": 0.5, "usage": {"hours": 0.8}}
    kept = [entry for row in bench.journal.rows() if isinstance(entry := entry_of(row), Learnt)]
    assert [one.reward for one in kept if one.event_id == "visit-5"] == [0.9, 0.25, 0.5]
    [last] = [one for one in Record.of(bench.journal).served if one.entry.event_id == "visit-5"]
    assert last.reward == 0.5


def test_what_was_not_reported_or_can_not_be_is_refused() -> None:
    bench = Bench(ward_of("linear"))
    read(bench.decide(visit(1)))
    alive = bench.digest()
    answer = correcting(bench, "visit-1", reward=0.5)
    assert code(answer) == (422, "invalid")
    assert b"has not been reported for this event yet" in answer.body
    assert code(correcting(bench, "nobody", reward=0.5)) == (404, "unknown")
    assert bench.digest() == alive
    read(bench.learn("visit-1", reward=0.5, usage={"hours": 0.5}))
    alive = bench.digest()
    assert code(correcting(bench, "visit-1", usage={"hours": 1.5})) == (422, "invalid")
    assert code(correcting(bench, "visit-1", usage={"minutes": 0.5})) == (422, "invalid")
    assert bench.digest() == alive


def test_a_cap_that_began_later_gives_nothing_back() -> None:
    bench = played(ward_of("linear"), wrong=True)
    rule = [ICU, HOURS]
    share = {"kind": "share", "action": "other", "at_least": 0.05}
    bench.spec = ward(policy={"kind": "shadow-price", "reward": "linear"}, rule=[*rule, share])
    bench.options["accept_changes"] = True
    bench.reopened()
    before = bench.state()["hard_caps"][0]["used"]
    read(correcting(bench, "visit-5", usage={"hours": 0.1}))
    assert bench.state()["hard_caps"][0]["used"] == before, "the cap may not have counted it"
    read(correcting(bench, "visit-6", usage={"hours": 0.9}))
    assert bench.state()["hard_caps"][0]["used"] == pytest.approx(before + 0.5)
    assert verify(bench.journal).digest == bench.digest()


def test_corrections_follow_renamed_actions_and_are_erased_with_their_event() -> None:
    spec = ward(
        context={},
        features={"count": 2, "min": 0, "max": 1},
        policy={"kind": "shadow-price"},
        rule=[ICU, HOURS],
    )
    bench = Bench(spec)
    rows = [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]
    for i in range(8):
        body = {
            "event_id": f"e-{i}",
            "features": rows[: 2 + i % 2],
            "actions": ["surgery", "icu", "other"][: 2 + i % 2],
        }
        read(bench.decide(body))
        read(bench.learn(f"e-{i}", reward=0.9, usage={"hours": 0.4}))
    change = {"actions": {"surgery": {"name": "theatre"}}, "add": {"hospice": {}}}
    read(bench.ask(handlers.change, read_body(json.dumps(change).encode(), handlers.requests.ChangeRequest)))
    for i in range(8):
        assert read(correcting(bench, f"e-{i}", reward=0.1))["learnt"] == "exactly"
    assert verify(bench.journal).digest == bench.digest()
    read(bench.ask(handlers.erase, ErasureRequest(event_ids=["e-3"])))
    kept = [entry_of(row) for row in bench.journal.rows() if row.event_id == "e-3"]
    assert [type(one) for one in kept] == [Blank] * 3
    assert code(correcting(bench, "e-3", "again", reward=0.4)) == (410, "erased")
    alive = bench.digest()
    bench.reopened()
    assert bench.digest() == alive
