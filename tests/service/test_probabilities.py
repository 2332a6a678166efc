"""With which probability an action was served: stored, answered, replayed bit for bit, exported."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from tightrope.errors import InvalidInput
from tightrope.policies import Decision
from tightrope.service.experiment.configuration import served_policy
from tightrope.service.experiment.policy_input import PolicyInput
from tightrope.service.http import handlers
from tightrope.service.journal import JournalDamaged, JournalError
from tightrope.service.journal.chain import GENESIS
from tightrope.service.journal.entries import Decided, probabilities_of
from tightrope.service.journal.rows import chained, entry_of
from tightrope.service.offline.replay import export, open_journal, verify
from tightrope.service.requests import EventQuery, ModeRequest
from tightrope.service.storage.memory import MemoryJournal
from tightrope.service.storage.sqlite import SqliteJournal
from tightrope.spec import Spec, make_spec
from workbench import CONTEXT, Bench, arguments, read, visit, ward

GREEDY = f"{Path(__file__).with_name('epsilon_greedy.py')}:EpsilonGreedy"
ACTIONS = ["none", "low", "high"]


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy of our own."""
    monkeypatch.setenv("TIGHTROPE_TRUST", GREEDY.rpartition(":")[0])


def drawing(kind: str = GREEDY, rules: list[dict[str, Any]] | None = None, **policy: Any) -> Spec:
    """A spec whose policy draws."""
    return make_spec(
        {
            "name": "drawn",
            "actions": ACTIONS,
            "context": CONTEXT,
            "rule": rules or [],
            "policy": {"kind": kind, **policy},
        }
    )


def decisions(journal: Any) -> list[Decided]:
    return [entry for row in journal.rows() if isinstance(entry := entry_of(row), Decided)]


def played(spec: Spec, rounds: int = 60, **options: Any) -> Bench:
    bench = Bench(spec, **options)
    for i in range(rounds):
        some = {"actions": ["high", "none"]} if i % 5 == 0 else {}
        action = read(bench.decide(visit(i, **some)))["action"]
        if i % 3:
            bench.learn(f"visit-{i}", reward=0.3 * action + 0.01 * (i % 7))
    return bench


def test_the_answer_says_it_and_so_does_the_journal() -> None:
    bench = played(drawing(epsilon=0.3))
    seen = set()
    for i, entry in enumerate(decisions(bench.journal)):
        answer = read(bench.decide(visit(i, **({"actions": ["high", "none"]} if i % 5 == 0 else {}))))
        offered = [2, 0] if i % 5 == 0 else [0, 1, 2]
        low, high = 0.3 / len(offered), 0.3 / len(offered) + 0.7
        chances = probabilities_of(entry, 3)
        assert chances is not None
        assert sorted(chances[offered].tolist()) == pytest.approx([low] * (len(offered) - 1) + [high])
        assert chances.sum() == pytest.approx(1.0)
        assert answer["probability"] == entry.probability == chances[entry.action]
        assert "probabilities" not in answer, "on request: there may be a thousand"
        seen.add(round(entry.probability, 6))
    assert len(seen) == 4, "greedy and not, on all actions and on two"


def test_with_explain_all_of_them_come_by_name_and_again_to_whoever_asks_later() -> None:
    bench = Bench(drawing("uniform"))
    body = {**json.loads(visit(1)), "actions": ["high", "low"], "explain": True}
    answer = read(bench.decide(body))
    assert answer["probabilities"] == {"high": 0.5, "low": 0.5}
    assert answer["probability"] == 0.5
    assert read(bench.decide(body)) == answer, "a retry gets the stored one"
    shown = read(bench.ask(handlers.show_decision, EventQuery(event_id="visit-1")))
    assert (shown["probability"], shown["probabilities"]) == (0.5, answer["probabilities"])


def test_the_shares_served_are_the_probabilities_stored() -> None:
    bench = Bench(drawing(epsilon=0.5))
    for i in range(2000):
        read(bench.decide(visit(i)))
    entries = decisions(bench.journal)
    expected = np.sum([probabilities_of(entry, 3) for entry in entries], axis=0)
    served = np.bincount([entry.action for entry in entries], minlength=3)
    np.testing.assert_allclose(served, expected, atol=4 * np.sqrt(2000 * 0.25))


def test_a_policy_that_does_not_draw_has_probability_one() -> None:
    bench = Bench(ward(policy={"kind": "pessimistic-optimistic", "slater": 0.2}))
    answer = read(bench.decide(visit(1, explain=True)))
    assert answer["probability"] == 1.0
    assert answer["probabilities"] == {
        name: float(name == answer["name"]) for name in ("icu", "surgery", "other")
    }
    [entry] = decisions(bench.journal)
    assert (entry.probability, entry.probabilities) == (1.0, None), "J numbers that say nothing are not kept"


def test_without_a_closed_form_it_is_null() -> None:
    bench = Bench(drawing("lints"))
    answer = read(bench.decide(visit(1, explain=True)))
    assert answer["probability"] is None
    assert answer["probabilities"] is None
    assert verify(bench.journal).decisions == 1


def test_for_more_actions_than_it_is_computed_for_it_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision stands: it was made before anyone asked."""

    def refuse(decision: Decision) -> Any:
        raise InvalidInput("probabilities are computed for up to 2 actions on offer.")

    monkeypatch.setattr(Decision, "probabilities", property(refuse))
    bench = Bench(drawing("uniform"))
    answer = read(bench.decide(visit(1)))
    assert answer["probability"] is None
    assert bench.state()["decisions"] == 1
    assert verify(bench.journal).digest == bench.digest()


def test_probabilities_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are computed when they are read that takes longer than the decision; elsewhere no one asks."""
    asked: list[int] = []
    real = Decision.probabilities.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(
        Decision, "probabilities", property(lambda one: (asked.append(one.number), real(one))[1])
    )
    for kind, times in (("uniform", 1), ("greedy", 0)):
        asked.clear()
        read(Bench(drawing(kind)).decide(visit(1)))
        assert len(asked) == times, kind


def test_a_default_is_served_for_certain() -> None:
    bench = Bench(drawing("uniform"))
    bench.ask(handlers.change_mode, ModeRequest(mode="shadow", default="low"))
    answer = read(bench.decide(visit(1, explain=True)))
    assert (answer["name"], answer["probability"]) == ("low", 1.0)
    assert answer["probabilities"] == {"none": 0.0, "low": 1.0, "high": 0.0}


def test_prices_hard_caps_and_eligibility_have_had_their_say() -> None:
    """What is stored for the default policy is what the policy itself says of the actions that were left."""
    rules = [
        {"kind": "budget", "name": "fuel", "at_most": 0.3},
        {"kind": "capacity", "action": "high", "at_most": 0.9, "hard": True, "total": 10},
    ]
    spec = drawing("shadow-price", rules)
    bench, twin = Bench(spec), served_policy(spec)
    reader = PolicyInput(spec, twin)
    for i in range(60):
        some = {"actions": ["high", "none"]} if i % 5 == 0 else {}
        body = visit(i, usage={"fuel": {"none": 0.0, "low": 0.4, "high": 0.8}}, **some)
        answer = read(bench.decide(body))
        entry = decisions(bench.journal)[-1]
        offer = reader.read(msgspec.structs.replace(entry.request, actions=entry.offered))
        decision = twin.decide(**arguments(offer, twin))
        assert decision.action == entry.action
        assert entry.probabilities == decision.probabilities.tobytes() or entry.probability == 1.0
        assert entry.probability == answer["probability"] == decision.probabilities[decision.row]
        reward = float(decision.action) + 0.1 * (i % 3)
        bench.learn(f"visit-{i}", reward=reward)
        twin.learn(decision, reward)
    assert bench.state()["hard_caps"][0]["used"] == 10, "the cap was reached"
    assert verify(bench.journal).digest == bench.digest()


def test_hard_caps_change_the_probabilities_of_what_is_left() -> None:
    cap = {"kind": "capacity", "action": "high", "at_most": 0.9, "hard": True, "total": 3}
    bench = Bench(drawing("uniform", [cap]))
    for i in range(40):
        answer = read(bench.decide(visit(i, explain=True)))
        used = bench.state()["hard_caps"][0]["used"] - (answer["name"] == "high")
        left = ["none", "low", "high"] if used < 3 else ["none", "low"]
        assert answer["probabilities"] == pytest.approx({name: 1 / len(left) for name in left})
    assert used == 3
    assert verify(bench.journal).digest == bench.digest()


# --- replay ---


def changed(journal: Any, first: type[Any], **changes: Any) -> MemoryJournal:
    """A journal in which one entry, the first of a kind, was edited."""
    copy, done, head = MemoryJournal(), False, GENESIS
    for row in journal.rows():
        entry = entry_of(row)
        if isinstance(entry, first) and not done and getattr(entry, "probability", 1) is not None:
            entry, done = msgspec.structs.replace(entry, **changes), True
        # By someone who knows how to make the chain anew.
        again, head = chained(row.position, row.time, entry, head)
        copy.append([again])
    assert done
    return copy


@pytest.mark.parametrize("kind", [GREEDY, "shadow-price"])
def test_probabilities_replay_bit_for_bit(kind: str) -> None:
    bench = played(drawing(kind))
    assert verify(bench.journal).digest == bench.digest()
    [first, *_] = decisions(bench.journal)
    assert first.probability is not None
    assert first.probabilities is not None
    nearly = float(np.nextafter(first.probability, 1.0))
    with pytest.raises(JournalDamaged, match="probability was"):
        verify(changed(bench.journal, Decided, probability=nearly))
    other = (np.frombuffer(first.probabilities) * (1 + 1e-15)).tobytes()
    with pytest.raises(JournalDamaged, match=r"probabilities was \[0\."):
        verify(changed(bench.journal, Decided, probabilities=other))
    with pytest.raises(JournalDamaged, match="probability was None"):
        verify(changed(bench.journal, Decided, probability=None, probabilities=None))


def test_a_deterministic_one_can_not_be_edited_either() -> None:
    bench = played(drawing("greedy"), rounds=5)
    with pytest.raises(JournalDamaged, match=r"probability was 0\.5, and now is 1\.0"):
        verify(changed(bench.journal, Decided, probability=0.5))


def test_a_restart_replays_them_too() -> None:
    bench = played(drawing())
    bench.journal = changed(bench.journal, Decided, probability=0.123)
    with pytest.raises(JournalError, match=r"probability was 0\.123"):
        bench.reopened()


def test_an_export_has_them(tmp_path: Path) -> None:
    bench = played(drawing(), journal=SqliteJournal(tmp_path / "drawn.sqlite"))
    bench.experiment.close()
    source = open_journal(tmp_path / "drawn.sqlite")
    export(source, tmp_path / "all.csv")
    export(source, tmp_path / "all.parquet")
    entries = decisions(source)
    source.close()
    with (tmp_path / "all.csv").open(newline="") as file:
        texts = [row for row in csv.DictReader(file) if row["kind"] == "decided"]
    table = [row for row in pq.read_table(tmp_path / "all.parquet").to_pylist() if row["kind"] == "decided"]
    for entry, text, row in zip(entries, texts, table, strict=True):
        assert float(text["probability"]) == row["probability"] == entry.probability
        assert text["probabilities"] == row["probabilities"]
        by_name = json.loads(row["probabilities"])
        assert by_name[ACTIONS[entry.action]] == entry.probability
        assert list(by_name) == (["high", "none"] if entry.offered == [2, 0] else ACTIONS)
