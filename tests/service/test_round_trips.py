"""Whatever a journal holds, of whatever spec: a rule changes, the service crashes, restarts, replays, is backed up and restored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faults.process import Served
from round_trips import CONTEXTS, ONLY, POLICIES, STEPS, Story, customer, spec_of
from tightrope import toml
from tightrope.policies.pending import AWAITS_COSTS, AWAITS_REWARD
from tightrope.service.journal.entries import KINDS, Erased, WarmStarted
from tightrope.service.offline.backup import copy_to_file, restore
from tightrope.service.offline.replay import open_journal, verify
from tightrope.service.storage.sqlite import journal
from workbench import Bench, read


def test_there_is_a_step_for_every_kind_of_entry() -> None:
    assert STEPS.keys() == KINDS.keys()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("context", CONTEXTS)
def test_every_kind_of_entry_survives(tmp_path: Path, context: str, policy: str) -> None:
    story = Story(tmp_path, context, policy)
    own = [kind for kind in STEPS if policy in ONLY.get(kind, (policy,))]
    for kind in own[:-1]:
        STEPS[kind](story)
    story.change()
    at, crashed = story.bench.journal.last() - 1, story.after_a_crash()
    for kind in own:
        if kind is Erased:
            # What is erased can't be repeated, so all before it is repeated first.
            assert verify(crashed.journal).digest == crashed.digest()
        STEPS[kind](story)
        assert kind in story.kinds(after=0 if kind is WarmStarted else at), kind.__name__
        at = story.bench.journal.last()
        crashed.journal.close()
        crashed = story.after_a_crash()
        assert crashed.digest() == story.bench.digest(), kind.__name__
    goes_on(story, crashed)


def goes_on(story: Story, crashed: Bench) -> None:
    """After the crash: replay, back up, restore; the three decide alike."""
    backup, place = story.folder / "backup.sqlite", story.folder / "restored.sqlite"
    assert verify(crashed.journal).digest == crashed.digest()
    copy_to_file(crashed.journal, backup)
    restore(backup, place)
    again = story.copied("again", place)
    asked: dict[str, Any] = {"event_id": "next", **customer(story.context, 5)}
    answers = [read(one.decide(asked)) for one in (story.bench, crashed, again)]
    assert answers[0] == answers[1] == answers[2]
    assert story.bench.digest() == crashed.digest() == again.digest()
    # Outcomes of what was decided before the crash come after it.
    for one in (story.bench, crashed, again):
        state = one.experiment.state
        assert state is not None
        for awaits, *_, event in list(state.waiting.values()):
            parts = {"reward": 1} if awaits & AWAITS_REWARD else {}
            parts |= {"usage": {"cents": 500}} if awaits & AWAITS_COSTS else {}
            read(one.learn(event.event_id, **parts))
        assert not state.waiting
    assert story.bench.digest() == crashed.digest() == again.digest()
    for one in (story.bench, crashed, again):
        one.experiment.close()


# The kinds of spec, by their context and their policy.
SERVED = {
    **{context: (context, "plain") for context in CONTEXTS},
    **{policy: ("encoder", policy) for policy in ("ensembles", "warm start")},
}


def test_kill_9_after_a_change(tmp_path: Path) -> None:
    """In processes of their own, all kinds of spec in one: a change, three decisions each, kill -9, and what follows."""
    data, served = tmp_path / "data", Served(write_specs(tmp_path), data=tmp_path / "data")
    ask(served.wait(), 0)
    served.stop()
    served = Served(write_specs(tmp_path, share=0.15, cents=300), data=data, accept_changes=True)
    told = ask(served.wait(), 3)
    served.kill()
    served = Served(write_specs(tmp_path, share=0.15, cents=300), data=data)
    assert ask(served.wait(), 3) == told
    ask(served, 6)
    served.stop()
    for name in SERVED:
        backup, place = tmp_path / f"{name}.copy.sqlite", tmp_path / f"{name}.restored.sqlite"
        source = journal(f"sqlite:{data}", name)
        source.open()
        report = verify(source)
        copy_to_file(source, backup)
        source.close()
        restore(backup, place)
        copy = open_journal(place)
        assert verify(copy) == report
        copy.close()


def write_specs(folder: Path, **limits: float) -> list[Path]:
    """A spec of each kind as a file in a folder of its own."""
    files = []
    for name, (context, policy) in SERVED.items():
        spec = spec_of(folder / name, context, policy, **limits)
        files.append(folder / name / "spec.toml")
        files[-1].write_text(toml.dumps({**spec.data, "name": name}))
    return files


def ask(served: Served, first: int) -> list[Any]:
    """Three decisions of each experiment, and the outcome of the second; what was answered."""
    told = []
    for name, (context, _) in SERVED.items():
        where = f"?experiment={name.replace(' ', '%20')}"
        for i in range(first, first + 3):
            body = {"event_id": f"c-{i}", **customer(context, i)}
            told.append(served.call("POST", f"/v1/decisions{where}", body))
            assert told[-1][0] == 200, told[-1]
        outcome = {"event_id": f"c-{first + 1}", "reward": 1, "usage": {"cents": 500}}
        told.append(served.call("POST", f"/v1/outcomes{where}", outcome))
        assert told[-1][0] == 200, told[-1]
    return [json.loads(body) for _, body in told]
