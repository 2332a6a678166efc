"""A served policy that has learnt from a table before its first decision."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tightrope.errors import InvalidInput
from tightrope.service.experiment.state import ExperimentState
from tightrope.service.http import handlers
from tightrope.service.journal import JournalDamaged
from tightrope.service.journal.entries import WarmStarted
from tightrope.service.journal.rows import entry_of, row_of
from tightrope.service.offline.replay import export, verify
from tightrope.service.requests import PageQuery
from tightrope.service.storage.memory import MemoryJournal
from tightrope.spec import Spec, make_spec
from workbench import Bench, read

RULES = {
    "before": [{"kind": "capacity", "action": "letter", "at_most": 0.5}],
    "after": [{"kind": "budget", "name": "minutes", "at_most": 5.0, "range": [0.0, 10.0], "seen": "after"}],
}
CONTEXT = {"age": {"type": "number", "min": 0, "max": 100}}


@pytest.fixture
def log(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["age,sent,bought,minutes"]
    for i in range(600):
        age, sent = int(rng.integers(20, 90)), ("email", "letter")[i % 2]
        bought = rng.random() < (age / 100 if sent == "letter" else 0.3)
        lines.append(f"{age},{sent},{'yes' if bought else 'no'},{8.0 if sent == 'letter' else 2.0}")
    (tmp_path / "log.csv").write_text("\n".join([*lines, "41,email,,2"]) + "\n")
    return tmp_path


def spec_in(folder, seen="before", **changes) -> Spec:
    past = {"file": "log.csv", "action": "sent", "reward": "bought", "success": "yes"}
    data = {"name": "mail", "actions": ["email", "letter"], "context": CONTEXT, "rule": RULES[seen]}
    return make_spec({**data, "warm_start": {**past, **changes.pop("past", {})}, **changes}, folder=folder)


def decide(bench, n=20):
    """The names of the actions for the oldest and the youngest in turn."""
    found = []
    for i in range(n):
        event_id = f"{bench.experiment.state.position}"
        answer = bench.decide({"event_id": event_id, "context": {"age": (89, 21)[i % 2]}})
        found.append(read(answer)["name"])
        bench.learn(event_id, reward=0.5)
    return found


def test_it_decides_by_what_the_table_tells_from_the_first_decision_on(log):
    warm = Bench(spec_in(log))
    policy = warm.experiment.state.policy
    means = policy.hooks.reward_model().means(warm.spec.encoder.vector({"age": 89}))
    assert means[1] > 0.7 > 0.5 > means[0]
    assert policy.rounds == 0
    assert not policy.totals.any()
    # The old get letters, as soon as the rule leaves room for one, the young e-mails: a cold policy has to try both first.
    named = decide(warm)
    assert named[::2].count("letter") >= 8
    assert named[1::2].count("letter") == 0
    data = {key: value for key, value in warm.spec.data.items() if key != "warm_start"}
    assert decide(Bench(make_spec(data)))[1::2].count("letter") > 0


@pytest.mark.parametrize("kind", ["shadow-price", "pessimistic-optimistic"])
@pytest.mark.parametrize("seen", ["before", "after"])
def test_a_journal_replays_to_the_bit_without_the_file(log, kind, seen):
    policy = {"kind": kind} | ({} if kind == "shadow-price" else {"slater": 0.2})
    past = {"usage": {"minutes": "minutes"}} if seen == "after" else {}
    spec = spec_in(log, seen, past=past, policy=policy)
    first = Bench(spec)
    if seen == "after":
        x = spec.encoder.vector({"age": 50})
        costs = first.experiment.state.policy.hooks.cost_model().means(x)
        assert np.ptp(costs) > 0.3  # in tens of minutes: 8 against 2
    decide(first, 4)
    digest = first.digest()
    (log / "log.csv").unlink()
    assert verify(first.journal).digest == digest
    first.reopened()
    assert first.digest() == digest


def test_the_journal_says_which_table_it_was(log, tmp_path):
    bench = Bench(spec_in(log))
    taught = read(bench.ask(handlers.list_changes, PageQuery()))["changes"][0]
    assert (taught["kind"], taught["file"], taught["rows"]) == ("warm start", "log.csv", 600)
    assert "state" not in taught
    export(bench.journal, tmp_path / "all.csv")
    assert taught["sha256"] in (tmp_path / "all.csv").read_text()


def test_another_state_in_its_place_is_noticed(log):
    journal = Bench(spec_in(log)).journal
    rows = list(journal.rows())
    entry = entry_of(rows[1])
    assert isinstance(entry, WarmStarted)
    state = ExperimentState.begin(rows[0])
    other = row_of(2, rows[1].time, msgspec.structs.replace(entry, rows=601), state.head)
    forged = MemoryJournal()
    forged.append([rows[0], other, *rows[2:]])
    assert verify(forged).head != verify(journal).head
    cut = row_of(2, rows[1].time, msgspec.structs.replace(entry, state=entry.state[:-9]), state.head)
    with pytest.raises(JournalDamaged):
        ExperimentState.begin(rows[0]).replay(cut)


def test_a_table_with_a_reward_for_every_action_teaches_them_all(tmp_path):
    (tmp_path / "log.csv").write_text("age,email,letter\n20,1,0\n80,0,1\n30,1,0\n")
    past = {"file": "log.csv", "reward": {"email": "email", "letter": "letter"}}
    data = {"actions": ["email", "letter"], "context": CONTEXT, "warm_start": past}
    policy = Bench(make_spec(data, folder=tmp_path)).experiment.state.policy
    assert policy.hooks.reward_model().n_learnt == 6


def test_a_label_teaches_all_actions(tmp_path):
    (tmp_path / "log.csv").write_text("age,best\n20,1\n80,2\n30,1\n")
    data = {"actions": ["1", "2"], "context": CONTEXT, "warm_start": {"file": "log.csv", "label": "best"}}
    policy = Bench(make_spec(data, folder=tmp_path)).experiment.state.policy
    assert policy.hooks.reward_model().n_learnt == 6


@pytest.mark.parametrize(
    ("past", "words"),
    [
        ({"file": "gone.csv"}, r"warm_start: .*gone\.csv can't be read"),
        ({"action": "snt"}, r"warm_start: frame must have a column 'snt' \(did you mean 'sent'\?\)"),
        ({"success": None, "reward": "sent"}, "column 'sent' must hold numbers"),
        ({"action": "age", "success": None, "reward": "minutes"}, "warm_start: .*action"),
    ],
)
def test_what_does_not_fit_is_named(log, past, words):
    with pytest.raises(InvalidInput, match=words):
        Bench(spec_in(log, past=past))


def test_a_policy_that_can_not_learn_from_a_table_says_so(log):
    with pytest.raises(InvalidInput, match="warm_start: 'uniform' can't learn from a table"):
        Bench(spec_in(log, policy={"kind": "uniform"}))


def test_an_experiment_that_began_cold_stays_so_and_says_it(log, caplog):
    spec = spec_in(log)
    data = {key: value for key, value in spec.data.items() if key != "warm_start"}
    cold = Bench(make_spec(data))
    decide(cold, 2)
    Bench(spec, cold.journal)
    assert "began without a warm start" in caplog.text
