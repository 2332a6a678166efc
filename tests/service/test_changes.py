"""Limits, rules and actions that change while an experiment runs: at once, later, or only asked about."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faults.process import Served
from tightrope.service import create_key
from tightrope.service.experiment import Experiment
from tightrope.service.http import handlers
from tightrope.service.http.app import Service
from tightrope.service.http.keys import Keys
from tightrope.service.journal import JournalError
from tightrope.service.offline.evaluation import judge
from tightrope.service.offline.replay import verify
from tightrope.service.offline.served_decisions import Record
from tightrope.service.requests import CancelRequest, ChangeRequest, PageQuery, read_body
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import make_spec, read_spec
from workbench import Bench, code, read, running, visit, ward, write_spec

ROOT = Path(__file__).parents[2]
SHADOW = {"kind": "shadow-price", "least_chance": 0.1}
SHARE = {"kind": "share", "action": "icu", "at_least": 0.1}
CAPACITY = {"kind": "capacity", "action": "icu", "at_most": 0.4}
LATE = {"kind": "budget", "name": "hours", "at_most": 0.6, "seen": "after"}


def changing(bench: Bench, **body: Any) -> Any:
    return bench.ask(handlers.change, read_body(json.dumps(body).encode(), ChangeRequest))


def changed(bench: Bench, **body: Any) -> dict[str, Any]:
    return read(changing(bench, **body))


def play(bench: Bench, first: int, last: int) -> None:
    for i in range(first, last):
        read(bench.decide(visit(i)))
        if i % 3:
            read(bench.learn(f"visit-{i}", reward=(i % 7) / 7, usage={"hours": 0.5}))


def survives(bench: Bench) -> None:
    """A restart with the same spec and a replay both end where the experiment is, bit for bit."""
    alive = bench.digest()
    assert verify(bench.journal).digest == alive
    bench.reopened()
    assert bench.digest() == alive


def constraint(bench: Bench, name: str) -> dict[str, Any]:
    [found] = [one for one in bench.state()["constraints"] if one["name"] == name]
    return dict(found)


# --- limits and rules ---


def test_a_limit_moves_and_what_was_used_before_is_shown_apart() -> None:
    bench = Bench(ward(policy=SHADOW))
    play(bench, 0, 40)
    before = constraint(bench, "hours")
    bench.now += 60.0
    said = changed(bench, rules={"hours": {"at_most": 0.4}, "capacity icu": {"at_most": 0.5}})
    assert said["changes"] == [
        "rule 'icu: at most 40% of decisions': at_most was 0.4, and now is 0.5",
        "rule 'hours: at most 0.6 per decision on average (seen after acting)': at_most was 0.6, and now is 0.4",
    ]
    play(bench, 40, 80)
    now = constraint(bench, "hours")
    assert (now["limit"], now["earlier"]["until"]) == (0.4, bench.now)
    assert now["earlier"]["used"] == before["used"]
    assert now["earlier"]["allowed"] == before["allowed"]
    assert now["decisions"] - now["earlier"]["decisions"] == 27
    assert now["allowed"] - now["earlier"]["allowed"] == pytest.approx(27 * 0.4)
    # What was used counts against the new limit.
    assert now["left"] == pytest.approx(now["allowed"] - now["used"])
    survives(bench)
    assert constraint(bench, "hours") == now


@pytest.mark.parametrize(("name", "limit"), [("capacity icu", 0.3), ("hours", 0.45)])
def test_a_limit_moves_as_in_python(name: str, limit: float) -> None:
    bench = Bench(ward(policy=SHADOW))
    play(bench, 0, 60)
    twin = bench.experiment._state.policy.copy()  # type: ignore[union-attr]
    changed(bench, rules={name: {"at_most": limit}})
    twin.change_limit(name, limit)  # type: ignore[attr-defined]
    mine, theirs = bench.experiment._state.hooks.state(), twin.hooks.state()  # type: ignore[union-attr]
    assert mine.keys() == theirs.keys()
    for part, array in mine.items():
        np.testing.assert_array_equal(array, theirs[part], err_msg=part)
    play(bench, 60, 90)
    survives(bench)


def test_rules_come_and_go() -> None:
    bench = Bench(ward(policy=SHADOW))
    play(bench, 0, 30)
    changed(bench, add_rules=[SHARE])
    assert constraint(bench, "share icu")["earlier"] == {
        "until": bench.now,
        "decisions": 0,
        "used": 0.0,
        "allowed": 0.0,
    }
    play(bench, 30, 60)
    assert constraint(bench, "share icu")["decisions"] == 30
    changed(bench, rules={"share icu": None})
    play(bench, 60, 70)
    assert [one["name"] for one in bench.state()["constraints"]] == ["capacity icu", "hours"]
    survives(bench)


def test_what_can_not_be_met_is_refused_with_the_smallest_relaxation_and_nothing_changes() -> None:
    bench = Bench(ward(policy=SHADOW, rule=[SHARE, LATE]))
    play(bench, 0, 20)
    alive, rows = bench.digest(), bench.journal.last()
    asked = {"actions": {"icu": {"state": "retired"}}}
    refused = changing(bench, **asked)
    assert code(refused) == (409, "infeasible")
    assert b"lower 'icu: at least 10% of decisions' by 0.1" in refused.body
    said = changed(bench, **asked, check=True)
    assert said["possible"] is False
    assert said["relaxation"] == {"icu: at least 10% of decisions": pytest.approx(0.1)}
    assert changed(bench, actions={"icu": {"state": "paused"}}, rules={"share icu": None}, check=True)[
        "possible"
    ]
    assert (bench.digest(), bench.journal.last()) == (alive, rows), "a check changes nothing"
    changed(bench, actions={"icu": {"state": "retired"}}, rules={"share icu": None})
    assert bench.state()["actions"][0]["state"] == "retired"


def test_after_a_change_concerns_still_go_to_the_log_and_a_replay_is_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # A limit that turns out to be out of reach. Warnings are errors here: one from the policy would end the batch.
    bench = Bench(ward(policy=SHADOW, rule=[{**LATE, "range": [0, 1]}]))
    caplog.set_level("INFO")
    changed(bench, rules={"hours": {"at_most": 0.1}})
    assert "experiment 'ward': changed: rule 'hours: at most 0.6 per" in caplog.text
    play(bench, 0, 600)
    assert (
        "hours: at most 0.1 per decision on average (seen after acting): its total was above zero"
        in caplog.text
    )
    said = len(caplog.records)
    assert verify(bench.journal).digest == bench.digest()
    assert len(caplog.records) == said


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"rules": {"hour": {"at_most": 0.5}}}, "rules.hour is no rule .did you mean 'hours'"),
        ({"rules": {"hours": {"at_most": 0.6}}}, "this changes nothing"),
        ({"rules": {"hours": {"at_mots": 0.6}}}, "rules.hours.at_mots: unknown field"),
        ({"rules": {"hours": None}}, "rules that are seen after acting"),
        ({"actions": {"ice": {"state": "paused"}}}, "actions.ice is no action: .* did you mean 'icu'"),
        ({"add": {"icu": {}}}, "a name belongs to one action for good"),
        ({"add": {"x": {"like": "y"}}}, "add.x.like: must name another action, but got 'y'"),
        (
            {"add_rules": [{"kind": "share", "action": "ice", "at_least": 0.1}]},
            "add_rules.0..action: unknown action 'ice'",
        ),
        ({"rules": {"hours": {"at_most": "0.5"}}}, "rules.hours.at_most: must be a number, but got '0.5'"),
        ({"add": {"x": {"usage": {"hours": 1.0}}}}, "add.x.usage.hours is the usage of no rule"),
        (
            {"actions": {name: {"state": "paused"} for name in ("icu", "surgery", "other")}},
            "at least one active action",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(body: dict[str, Any], words: str) -> None:
    bench = Bench(ward())
    play(bench, 0, 5)
    alive = bench.digest()
    answer = changing(bench, **body)
    assert code(answer) == (422, "invalid")
    assert re.search(words.replace(".did", r"\(did").replace(": .* did", ": .*did"), answer.body.decode())
    assert bench.digest() == alive


# --- later ---


def test_a_change_begins_with_the_first_decision_at_its_time() -> None:
    bench = Bench(ward(policy=SHADOW))
    play(bench, 0, 10)
    starts = bench.now + 100.0
    said = changed(bench, rules={"hours": {"at_most": 0.4}}, starts=starts)
    assert (said["starts"], said["position"]) == (starts, bench.journal.last())
    [waiting] = bench.state()["scheduled"]
    assert (waiting["position"], waiting["starts"]) == (said["position"], starts)
    bench.now += 99.0
    play(bench, 10, 20)
    survives(bench)
    assert constraint(bench, "hours")["limit"] == 0.6
    bench.now += 1.0
    play(bench, 20, 21)
    assert constraint(bench, "hours")["limit"] == 0.4
    assert bench.state()["scheduled"] == []
    survives(bench)
    first, second = read(bench.ask(handlers.list_changes, PageQuery(limit=2)))["changes"]
    assert (first["kind"], first["scheduled"], second["kind"]) == ("started", said["position"], "scheduled")


def test_a_change_that_is_cancelled_or_has_become_impossible_does_not_begin() -> None:
    bench = Bench(ward(policy=SHADOW))
    play(bench, 0, 10)
    one = changed(bench, rules={"hours": {"at_most": 0.4}}, starts=bench.now + 10.0)["position"]
    two = changed(bench, actions={"icu": {"state": "paused"}}, starts=bench.now + 5.0)["position"]
    assert [entry["position"] for entry in bench.state()["scheduled"]] == [two, one]
    assert code(bench.ask(handlers.cancel_change, CancelRequest(position=7))) == (422, "invalid")
    read(bench.ask(handlers.cancel_change, CancelRequest(position=one)))
    changed(bench, add_rules=[SHARE])
    bench.now += 20.0
    play(bench, 10, 20)
    state = bench.state()
    assert state["scheduled"] == []
    assert state["actions"][0]["state"] == "active"
    newest = read(bench.ask(handlers.list_changes, PageQuery(limit=1)))["changes"][0]
    assert (newest["kind"], "no policy can meet these rules" in newest["why"]) == ("cancelled", True)
    survives(bench)


# --- restarts ---


def test_started_with_the_same_spec_it_goes_on_as_changed() -> None:
    bench = Bench(ward(policy=SHADOW))
    play(bench, 0, 10)
    changed(bench, add={"hospice": {}}, rules={"hours": {"at_most": 0.4}})
    play(bench, 10, 20)
    rows = bench.journal.last()
    survives(bench)
    assert bench.journal.last() == rows, "nothing is written"
    assert bench.experiment.spec.actions[-1] == "hospice"
    # An edited file is another matter: it would undo what was changed.
    bench.spec = ward(policy={**SHADOW, "caution": 2.0})
    with pytest.raises(JournalError, match=r"actions .*Start with --accept-changes"):
        bench.reopened()
    bench.options["accept_changes"] = True
    line = re.escape('actions = ["icu", "surgery", "other", "hospice"]')
    with pytest.raises(JournalError, match=line):
        bench.reopened()
    bench.spec = ward(policy={**SHADOW, "caution": 2.0}, actions=["icu", "surgery", "other", "hospice"])
    bench.reopened()
    assert constraint(bench, "hours")["limit"] == 0.6, "the file's limit, which was accepted"
    del bench.options["accept_changes"]
    survives(bench)


def test_a_spec_may_add_rename_and_retire_actions_at_a_restart() -> None:
    bench = Bench(ward(policy=SHADOW))
    play(bench, 0, 20)
    tables = {"theatre": {"was": ["surgery"]}, "icu": {"state": "retired"}, "hospice": {"like": "other"}}
    bench.spec = ward(policy=SHADOW, actions=["icu", "theatre", "other", "hospice"], action=tables)
    with pytest.raises(
        JournalError, match="the action 'surgery' is called 'theatre' now; the action 'hospice' is new"
    ):
        bench.reopened()
    bench.options["accept_changes"] = True
    bench.reopened()
    play(bench, 20, 40)
    shown = bench.state()["actions"]
    assert [(one["name"], one["state"]) for one in shown] == [
        ("icu", "retired"), ("theatre", "active"), ("other", "active"), ("hospice", "active"),
    ]  # fmt: skip
    survives(bench)


def test_kill_9_after_a_change_loses_nothing(tmp_path: Path) -> None:
    spec, data = write_spec(tmp_path), tmp_path / "data"
    served = Served(spec, data=data).wait()
    try:
        decide = lambda i: served.call("POST", "/v1/decisions", json.loads(visit(i)))  # noqa: E731
        for i in range(5):
            assert decide(i)[0] == 200
        status, _ = served.call(
            "POST", "/v1/changes", {"add": {"hospice": {}}, "actions": {"icu": {"state": "paused"}}}
        )
        assert status == 200
        answers = [decide(i)[1] for i in range(10)]
        served.kill()
        served = Served(spec, data=data).wait()
        assert [decide(i)[1] for i in range(10)] == answers
        state = json.loads(served.call("GET", "/v1/state")[1])
        assert [one["state"] for one in state["actions"]] == ["paused", "active", "active", "active"]
    finally:
        served.kill()


# --- actions ---


def test_outcomes_of_a_retired_action_still_count() -> None:
    bench = Bench(ward(policy=SHADOW))
    chosen = {f"visit-{i}": read(bench.decide(visit(i)))["name"] for i in range(30)}
    [event, *_] = [event for event, name in chosen.items() if name == "surgery"]
    changed(bench, actions={"surgery": {"state": "retired"}})
    before = bench.state()["outcomes"]["rewards"]
    assert read(bench.learn(event, reward=1.0, usage={"hours": 0.2}))["awaits"] == []
    assert bench.state()["outcomes"]["rewards"] == before + 1
    again = {read(bench.decide(visit(i)))["name"] for i in range(30, 90)}
    assert again == {"icu", "other"}
    assert code(changing(bench, actions={"surgery": {"state": "active"}})) == (422, "invalid")
    survives(bench)


def test_a_name_belongs_to_one_action() -> None:
    bench = Bench(ward(policy=SHADOW))
    play(bench, 0, 10)
    changed(bench, actions={"icu": {"name": "intensive"}})
    changed(bench, actions={"intensive": {"name": "critical"}})
    assert bench.state()["actions"][0]["was"] == ["icu", "intensive"]
    assert constraint(bench, "capacity critical")["decisions"] == 10
    for taken in ("icu", "critical", "surgery"):
        assert code(changing(bench, add={taken: {}})) == (422, "invalid")
    changed(bench, actions={"critical": {"name": "icu"}})
    play(bench, 10, 20)
    shown = bench.state()["actions"][0]
    assert (shown["name"], shown["was"]) == ("icu", ["intensive", "critical"])
    survives(bench)


def test_a_renamed_action_keeps_everything() -> None:
    cap = {**CAPACITY, "hard": True, "total": 10}
    bench, other = (Bench(ward(policy=SHADOW, rule=[cap, LATE])) for _ in range(2))
    for one in (bench, other):
        play(one, 0, 40)
    changed(bench, actions={"icu": {"name": "intensive"}})
    for one in (bench, other):
        play(one, 40, 120)
    mine, theirs = (one.state() for one in (bench, other))
    assert [one["decisions"] for one in mine["actions"]] == [one["decisions"] for one in theirs["actions"]]
    assert mine["hard_caps"][0]["used"] == theirs["hard_caps"][0]["used"] == 10
    assert [one["cumulative_cost"] for one in mine["constraints"]] == [
        one["cumulative_cost"] for one in theirs["constraints"]
    ]


def test_callers_need_not_know_that_an_action_is_paused() -> None:
    usage = [CAPACITY, {"kind": "budget", "name": "cost", "at_most": 0.5}]
    bench = Bench(ward(policy=SHADOW, rule=usage))
    by_row = {"actions": ["surgery", "icu", "other"], "usage": {"cost": [0.9, 0.1, 0.2]}}
    read(bench.decide(visit(1, **by_row)))
    changed(bench, actions={"surgery": {"state": "paused"}})
    for i in range(2, 30):
        assert read(bench.decide(visit(i, **by_row)))["name"] in ("icu", "other")
    used = constraint(bench, "cost")["used"] - 0.9 * (bench.state()["actions"][1]["decisions"])
    counts = {one["name"]: one["decisions"] for one in bench.state()["actions"]}
    assert used == pytest.approx(0.1 * counts["icu"] + 0.2 * counts["other"])
    alone = bench.decide(visit(30, actions=["surgery"], usage={"cost": 0.5}))
    assert code(alone) == (422, "invalid")
    assert b"must name at least one active action" in alone.body
    survives(bench)


def test_decisions_of_one_batch_before_and_after_a_change() -> None:
    bench = Bench(ward(policy=SHADOW))
    play(bench, 0, 30)
    op = handlers_change(bench, actions={"icu": {"state": "paused"}, "surgery": {"state": "paused"}})
    answers = bench.experiment.process(
        [bench.deciding(visit(100)), op, *(bench.deciding(visit(i)) for i in range(101, 111))]
    )
    assert all(answer.status == 200 for answer in answers)
    assert {json.loads(answer.body)["name"] for answer in answers[2:]} == {"other"}
    survives(bench)


def handlers_change(bench: Bench, **body: Any) -> Any:
    from tightrope.service.experiment import Op

    return Op(handlers.change, read_body(json.dumps(body).encode(), ChangeRequest))


# --- what is made of the journal ---


def test_an_action_is_on_offer_only_while_it_is_there() -> None:
    bench = Bench(ward(policy=SHADOW))
    play(bench, 0, 60)
    changed(bench, add={"hospice": {}}, actions={"surgery": {"name": "theatre"}})
    play(bench, 60, 160)
    changed(bench, actions={"icu": {"state": "paused"}})
    play(bench, 160, 220)
    policy = {"name": "candidate", "policy": {"kind": "fixed-mix", "shares": [0.1, 0.3, 0.3, 0.3]}}
    found = judge(bench.journal, make_spec(policy), may_lack=0.5, method="ips")
    assert found.decisions == 220
    assert found.judged == len([i for i in range(220) if i % 3])
    record = Record.of(bench.journal)
    assert [len(one.spec.actions) for one in record.served] == [3] * 60 + [4] * 160
    assert found.worth > 0


# --- over HTTP ---


def test_who_changed_it_is_in_the_journal_and_it_needs_the_scope_admin(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    admin = create_key(keys, scopes=["admin", "read", "decide"], experiments=["*"])
    reader = create_key(keys, scopes=["read", "decide", "outcome"], experiments=["*"])
    journal = MemoryJournal()
    experiment = Experiment(ward(), journal)
    experiment.open()
    body = {"rules": {"hours": {"at_most": 0.5}}}
    with running(Service([experiment], keys=Keys(keys))) as web:
        said = {
            name: web.post("/v1/changes", json=body, headers={"Authorization": f"Bearer {key}"})
            for name, key in (("reader", reader), ("admin", admin))
        }
        assert (said["reader"].status_code, said["admin"].status_code) == (403, 200)
        changes = web.get("/v1/changes", headers={"Authorization": f"Bearer {admin}"}).json()["changes"]
    assert (changes[0]["kind"], changes[0]["by"]) == ("started", admin.split("_")[1])
    assert changes[0]["changes"][0].endswith("at_most was 0.6, and now is 0.5")


@pytest.mark.parametrize("page", ["add-an-action", "change-a-limit", "correct-an-outcome"])
def test_the_requests_on_the_page_are_answered(page: str) -> None:
    text = (ROOT / "docs" / "howto" / f"{page}.md").read_text(encoding="utf-8")
    sent = re.findall(r"^curl -s localhost:8080(\S+) -d '(.*)'$", text, re.MULTILINE)
    assert len(sent) >= 3
    experiment = Experiment(read_spec(ROOT / "examples" / "hospital.toml"), MemoryJournal())
    experiment.open()
    experiment.warm_up()
    with running(Service([experiment])) as web:
        for path, body in sent:
            answer = web.post(path, content=body)
            assert answer.status_code == 200, (body, answer.text)


def test_an_added_action_costs_less_than_a_fresh_start() -> None:
    """`benchmarks/living_actions.py`, small."""
    import importlib.util

    found = importlib.util.spec_from_file_location(
        "living_actions", ROOT / "benchmarks" / "living_actions.py"
    )
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    parts = [module.compare(seed, 1_500) for seed in (0, 2)]
    assert np.mean([part for part, _ in parts]) < 0.8
    assert max(largest for _, largest in parts) < 0.01
