"""A fixed story of requests that goes through everything an experiment can do, told to a journal batch by batch."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tightrope.service.answer import Answer
from tightrope.service.experiment import Op
from tightrope.service.http import handlers
from tightrope.service.journal.contract import Journal, Snapshot
from tightrope.service.journal.rows import Row
from tightrope.service.requests import ModeRequest, RollbackRequest, SnapshotRequest
from workbench import Bench, visit, ward

Batch = list[Op]


def spec() -> Any:
    """A rule of each time of seeing, and a hard cap on what is seen after acting."""
    return ward(
        rule=[
            {"kind": "capacity", "action": "icu", "at_most": 0.4},
            {
                "kind": "budget",
                "name": "hours",
                "at_most": 0.6,
                "range": [0, 1],
                "seen": "after",
                "hard": True,
                "total": 1000,
            },
        ]
    )


def bench_on(journal: Journal) -> Bench:
    """The story's experiment: snapshots often, decisions that expire while it lasts."""
    return Bench(spec(), journal, snapshot_every=15, expire_after=20.0, max_pending=30)


def batches(bench: Bench, length: int, seed: int = 0) -> Iterator[Batch]:
    """The story: retries, late and repeated outcomes, modes, snapshots, a rollback; the clock goes on between batches."""
    chance = random.Random(seed)
    known: list[int] = []
    for at in range(length):
        bench.now += chance.choice((0.0, 0.5, 3.0))
        batch: Batch = []
        for _ in range(chance.randint(1, 4)):
            luck = chance.random()
            if luck < 0.5 or not known:
                known.append(len(known))
                batch.append(bench.deciding(visit(known[-1])))
            elif luck < 0.6:
                batch.append(bench.deciding(visit(chance.choice(known))))
            elif luck < 0.9:
                i = chance.choice(known)
                parts: dict[str, Any] = {"reward": i % 7 / 7}
                if chance.random() < 0.6:
                    parts["usage"] = {"hours": i % 5 / 5}
                batch.append(bench.learning(f"visit-{i}", **parts))
            else:
                batch.append(bench.learning(f"nobody-{at}", reward=1.0))
        if at % 9 == 4:
            batch.append(Op(handlers.take_snapshot, SnapshotRequest(label=f"after {at}")))
        if at % 11 == 7:
            batch.append(Op(handlers.change_mode, ModeRequest(mode="shadow", default="other")))
        if at % 11 == 10:
            batch.append(Op(handlers.change_mode, ModeRequest(mode="live")))
        named = [one for one in bench.journal.snapshots() if one.label is not None]
        if at % 13 == 12 and named:
            request = RollbackRequest(position=named[0].position, restore="all" if at % 2 else "learnt")
            batch.append(Op(handlers.roll_back, request))
        yield batch


@dataclass
class Told:
    """A story and, after each batch, what had been acknowledged and how far the disk had come."""

    rows: list[Row] = field(default_factory=list)
    snapshots: list[list[Snapshot]] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def at(self, mark: int) -> tuple[int, int | None]:
        """How many batches were acknowledged at a mark, and which one was being written, if any was."""
        done = sum(one <= mark for one in self.marks)
        return done, done if done < len(self.marks) else None


def tell(bench: Bench, length: int, mark: Callable[[], int], seed: int = 0) -> Told:
    """Tell the story, noting `mark()` after each batch; the first note is of the opening."""
    told = Told()

    def note() -> None:
        told.positions.append(bench.journal.last())
        told.snapshots.append(bench.journal.snapshots())
        told.marks.append(mark())

    note()
    for batch in batches(bench, length, seed):
        told.answers += bench.experiment.process(batch)
        note()
    told.rows = list(bench.journal.rows())
    return told
