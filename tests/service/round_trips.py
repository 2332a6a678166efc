"""Every kind of spec and every kind of journal entry, for tests that send each through a change, a crash and what follows.

`kinds_of_spec` are specs in a folder of their own, `STEPS` has for every kind of entry what makes one.
"""

from __future__ import annotations

import csv
import datetime
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tightrope.encoder import Encoder
from tightrope.service.experiment import Op
from tightrope.service.http import handlers
from tightrope.service.journal import entries
from tightrope.service.journal.rows import entry_of
from tightrope.service.requests import (
    ActionChange,
    CancelRequest,
    ChangeRequest,
    ErasureRequest,
    ModeRequest,
    RollbackRequest,
    SnapshotRequest,
)
from tightrope.service.storage.sqlite import SqliteJournal
from tightrope.spec import Spec, make_spec
from workbench import Bench, code, read

ACTIONS = ["ten", "five", "none"]
CENTS = {"kind": "budget", "name": "cents", "at_most": 250, "range": [-0.0, 1000], "seen": "after"}
# What each kind of context is made of: the spec's part, and what the i-th customer is.
NUMBERS = {"age": {"type": "number", "min": 0, "max": 100}, "visits": {"type": "number", "min": 0, "max": 9}}
CATEGORIES = {
    "sex": {"type": "category", "values": ["f", "m"]},
    "town": {"type": "category", "values": ["x", "y", "z"]},
}
CONTEXTS = ("numbers", "categories", "encoder", "groups")
POLICIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "measured": {"kind": "pessimistic-optimistic", "slater": "measure"},
    "ensembles": {
        "reward": {"model": "ensemble", "estimator": "extra-trees", "members": 2, "first": 6, "growth": 1.1}
    },
    "warm start": {},
}
# Kinds of entry that only some specs have.
ONLY: dict[type[Any], tuple[str, ...]] = {
    entries.TookEffect: ("measured", "ensembles"),
    entries.WarmStarted: ("warm start",),
}


def customer(context: str, i: int) -> dict[str, Any]:
    """What a caller says of the i-th customer."""
    if context == "categories":
        return {"context": {"sex": "fm"[i % 2], "town": "xyz"[i % 3]}}
    if context == "encoder":
        day = datetime.date(2024, 1, 1) + datetime.timedelta(days=i % 90)
        said = {"age": 20 + 7 * i % 60, "town": "xyz"[i % 3], "member": i % 4 == 0, "since": day.isoformat()}
        return {"context": said}
    shown: dict[str, Any] = {"context": {"age": 37 * i % 100, "visits": i % 9}}
    return {**shown, "group": "old" if i % 2 else []} if context == "groups" else shown


def spec_of(
    folder: Path, context: str, policy: str = "plain", *, share: float = 0.1, cents: float = 250
) -> Spec:
    """A spec of a kind, its files in `folder`; `share` and `cents` are the limits of its rules."""
    folder.mkdir(exist_ok=True)
    data: dict[str, Any] = {"name": "shop", "actions": ACTIONS, "policy": POLICIES[policy]}
    if context == "encoder":
        rows = [customer("encoder", i)["context"] for i in range(90)]
        Encoder().fit(rows).save(folder / "encoder.json")
        data["context"] = {"encoder": "encoder.json"}
    else:
        data["context"] = CATEGORIES if context == "categories" else NUMBERS
    rules: list[dict[str, Any]] = [
        {"kind": "share", "action": "none", "at_least": share},
        {"kind": "capacity", "action": ["ten", "five"], "at_most": 0.95, "hard": True, "total": 1000},
    ]
    if context == "groups":
        rules.append({"kind": "capacity", "action": "ten", "at_most": 0.6, "among": "old"})
        data["groups"] = ["old"]
    if policy != "measured":  # δ is measured on costs that are seen before acting
        rules.append({**CENTS, "at_most": cents} | ({"among": "old"} if context == "groups" else {}))
    if policy == "warm start":
        data["warm_start"] = _log(folder, context)
    return make_spec({**data, "rule": rules}, source=str(folder / "shop.toml"), folder=folder)


def _log(folder: Path, context: str) -> dict[str, Any]:
    """A table of past decisions."""
    with (folder / "log.csv").open("w", newline="") as file:
        table = csv.writer(file)
        for i in range(40):
            row = customer(context, i)
            if i == 0:
                table.writerow([*row["context"], "group", "sent", "bought", "cents"])
            action = ACTIONS[i % 3]
            spent = {"ten": 1000, "five": 500, "none": 0}[action]
            table.writerow([*row["context"].values(), row.get("group") or "", action, int(i % 4 == 0), spent])
    past = {"file": "log.csv", "action": "sent", "reward": "bought", "usage": {"cents": "cents"}}
    return {**past, "group": "group"} if context == "groups" else past


class Story:
    """An experiment on SQLite to which things happen."""

    def __init__(self, folder: Path, context: str, policy: str) -> None:
        self.folder, self.context, self.policy = folder, context, policy
        self.path = folder / "data" / "shop.sqlite"
        spec = spec_of(folder / "spec", context, policy)
        self.bench = Bench(spec, SqliteJournal(self.path), expire_after=100, accept_changes=True)
        self.customers = 0
        # Where a change was scheduled that has not begun.
        self.planned = 0
        self.random = np.random.default_rng(3)

    def decide(self) -> str:
        """A decision for another customer; its event."""
        event_id, self.customers = f"c-{self.customers}", self.customers + 1
        read(self.bench.decide({"event_id": event_id, **customer(self.context, self.customers)}))
        return event_id

    def learn(self, event_id: str) -> None:
        """The outcome of a decision."""
        read(self.bench.learn(event_id, **self.outcome()))

    def outcome(self) -> dict[str, Any]:
        used = (
            {} if self.policy == "measured" else {"usage": {"cents": float(self.random.integers(10) * 100)}}
        )
        return {"reward": int(self.random.integers(2)), **used}

    def change(self) -> None:
        """Another limit for every rule that has one to change, and another start."""
        self.bench.experiment.close()
        self.bench.spec = spec_of(self.folder / "spec", self.context, self.policy, share=0.15, cents=300)
        self.bench.reopened()

    def after_a_crash(self) -> Bench:
        """The same experiment as another process finds it after kill -9: the files as they are, without a word from this one."""
        return self.copied("crashed", self.path)

    def copied(self, name: str, path: Path) -> Bench:
        """The experiment of a journal's files, copied, and its next start."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for file in path.parent.glob(f"{path.stem}.*"):
            if file.suffix != ".lock":
                shutil.copy(file, folder)
        journal = SqliteJournal(folder / path.name)
        other = Bench.__new__(Bench)
        other.now, other.journal, other.spec = self.bench.now, journal, self.bench.spec
        other.options = {**self.bench.options, "accept_changes": False}
        other.reopened()
        return other

    def kinds(self, after: int = 0) -> set[type[Any]]:
        """The kinds of the journal's entries beyond a position."""
        return {type(entry_of(row)) for row in self.bench.journal.rows(after=after)}


# --- a step for each kind of entry ---


def _learn(story: Story) -> None:
    waiting = [story.decide() for _ in range(3)]
    for event_id in waiting[:2]:
        story.learn(event_id)
    read(story.bench.learn(waiting[2], reward=1))  # one part of it, where there are two


def _expire(story: Story) -> None:
    story.decide()
    story.bench.now += 101.0
    story.decide()


def _refuse(story: Story) -> None:
    bench = story.bench
    assert code(bench.learn("nobody", **story.outcome())) == (404, "unknown")
    event_id = story.decide()
    read(bench.learn(event_id, reward=0))
    assert code(bench.learn(event_id, reward=1)) == (409, "differs")
    late = story.decide()
    bench.now += 101.0
    assert code(bench.learn(late, **story.outcome())) == (410, "late")


def _work(story: Story) -> None:
    """A fit of a model, or Slater's constant."""
    before = story.bench.journal.last()
    while entries.TookEffect not in story.kinds(before):
        story.learn(story.decide())
        story.bench.work()


def _change_mode(story: Story) -> None:
    bench = story.bench
    read(bench.ask(handlers.change_mode, ModeRequest(mode="shadow", default="none")))
    story.learn(story.decide())
    read(bench.ask(handlers.change_mode, ModeRequest(mode="paused")))
    read(bench.ask(handlers.change_mode, ModeRequest(mode="live")))


def _schedule(story: Story) -> None:
    """A change of an action that begins in an hour."""
    story.planned = story.bench.journal.last() + 1
    asked = ChangeRequest(actions={"five": ActionChange(description="Five off.")}, starts=1e11)
    read(story.bench.ask(handlers.change, asked))


def _cancel(story: Story) -> None:
    read(story.bench.ask(handlers.cancel_change, CancelRequest(position=story.planned)))


def _snapshot(story: Story) -> None:
    read(story.bench.ask(handlers.take_snapshot, SnapshotRequest(label="before lunch")))


def _roll_back(story: Story) -> None:
    for restore in ("learnt", "all"):
        at = read(story.bench.ask(handlers.take_snapshot, SnapshotRequest(label=restore)))["position"]
        story.decide()
        story.learn(story.decide())
        request = RollbackRequest(position=at, restore=restore)  # type: ignore[arg-type]
        read(story.bench.ask(handlers.roll_back, request))


def _erase(story: Story) -> None:
    old, young = story.decide(), story.decide()
    story.learn(old)
    read(story.bench.experiment.process([Op(handlers.erase, ErasureRequest(event_ids=[old, young]))])[0])


def _nothing(story: Story) -> None:
    """An experiment writes it by itself when it begins."""


# In the order in which they are taken: rows that were erased are not repeated, so that comes last.
STEPS: dict[type[Any], Callable[[Story], None]] = {
    entries.Started: _nothing,
    entries.WarmStarted: _nothing,
    entries.Decided: lambda story: [story.decide() for _ in range(3)] and None,
    entries.Learnt: _learn,
    entries.Expired: _expire,
    entries.Refused: _refuse,
    entries.TookEffect: _work,
    entries.ModeChanged: _change_mode,
    entries.Scheduled: _schedule,
    entries.Cancelled: _cancel,
    entries.Snapshotted: _snapshot,
    entries.RolledBack: _roll_back,
    entries.Erased: _erase,
}
