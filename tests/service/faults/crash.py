"""Named points at which a service dies, put between its steps from outside: the service itself knows nothing of them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from tightrope.service.experiment import experiment, writer_thread
from tightrope.service.experiment.background import Background
from tightrope.service.experiment.state import ExperimentState
from tightrope.service.http import app
from tightrope.service.journal.contract import Snapshot
from tightrope.service.journal.rows import Row
from tightrope.service.storage.sqlite import SqliteJournal


def die() -> None:
    """As kill -9 from outside."""
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str, at: int) -> None:
    """Die at the `at`-th passing of a point."""
    count = 0

    def passed() -> bool:
        nonlocal count
        count += 1
        return count == at

    POINTS[point](passed)


def _around_append(before: Callable[[bool], None], after: Callable[[bool], None]) -> None:
    append = SqliteJournal.append

    def patched(
        self: SqliteJournal,
        rows: Sequence[Row],
        snapshots: Sequence[Snapshot] = (),
        drop: Sequence[int] = (),
    ) -> None:
        before(bool(snapshots))
        append(self, rows, snapshots, drop)
        after(bool(snapshots))

    SqliteJournal.append = patched  # type: ignore[method-assign]


def _nothing(snapshots: bool) -> None:
    pass


def _before_journal(passed: Callable[[], bool]) -> None:
    _around_append(lambda snapshots: die() if passed() else None, _nothing)


def _inside_journal(passed: Callable[[], bool]) -> None:
    opened = SqliteJournal.open

    def hook() -> bool:
        if passed():
            die()
        return False

    def patched(self: SqliteJournal) -> bool:
        done = opened(self)
        assert self._connection is not None
        self._connection.set_commit_hook(hook)
        return done

    SqliteJournal.open = patched  # type: ignore[method-assign]


def _after_journal(passed: Callable[[], bool]) -> None:
    _around_append(_nothing, lambda snapshots: die() if passed() else None)


def _before_snapshot(passed: Callable[[], bool]) -> None:
    _around_append(lambda snapshots: die() if snapshots and passed() else None, _nothing)


def _after_snapshot(passed: Callable[[], bool]) -> None:
    _around_append(_nothing, lambda snapshots: die() if snapshots and passed() else None)


def _state_changed(passed: Callable[[], bool]) -> None:
    decide = ExperimentState.decide

    def patched(self: ExperimentState, *args: Any, **kwargs: Any) -> Any:
        entry = decide(self, *args, **kwargs)
        # What is decided before the journal is opened is no decision.
        if not entry.event_id.startswith("warm-up") and passed():
            die()
        return entry

    ExperimentState.decide = patched  # type: ignore[method-assign]


def _half_answered(passed: Callable[[], bool]) -> None:
    deliver = writer_thread.deliver

    def patched(told: list[Any]) -> None:
        if len(told) > 1 and passed():
            deliver(told[: len(told) // 2])
            asyncio.get_running_loop().call_later(0.05, die)
        else:
            deliver(told)

    writer_thread.deliver = patched


def _half_an_answer(passed: Callable[[], bool]) -> None:
    send = app._send

    async def patched(scope: Any, out: Any, answer: Any) -> None:
        if not passed():
            await send(scope, out, answer)
            return
        headers = [(b"content-length", str(len(answer.body)).encode())]
        await out({"type": "http.response.start", "status": answer.status, "headers": headers})
        await out({"type": "http.response.body", "body": answer.body[:9], "more_body": True})
        asyncio.get_running_loop().call_later(0.05, die)
        await asyncio.sleep(5)

    app._send = patched  # type: ignore[assignment]


def _replaying(passed: Callable[[], bool]) -> None:
    replay = ExperimentState.replay

    def patched(self: ExperimentState, row: Row) -> Any:
        if passed():
            die()
        return replay(self, row)

    ExperimentState.replay = patched  # type: ignore[method-assign]


def _measured(passed: Callable[[], bool]) -> None:
    take = Background.take

    def patched(self: Background, work: int, result: Any) -> Any:
        entry = take(self, work, result)
        if passed():
            die()
        return entry

    Background.take = patched  # type: ignore[method-assign]


def _stopping(passed: Callable[[], bool]) -> None:
    close = experiment.Experiment.close

    def patched(self: experiment.Experiment) -> None:
        SqliteJournal.append = lambda *args: die()  # type: ignore[method-assign]
        close(self)

    experiment.Experiment.close = patched  # type: ignore[method-assign]


POINTS: dict[str, Callable[[Callable[[], bool]], None]] = {
    "state changed, journal not written": _state_changed,
    "before the journal": _before_journal,
    "written, not committed": _inside_journal,
    "journal written, not answered": _after_journal,
    "half of a batch answered": _half_answered,
    "half an answer sent": _half_an_answer,
    "snapshot made, not written": _before_snapshot,
    "snapshot written, not answered": _after_snapshot,
    "replaying at the start": _replaying,
    "slater measured, not written": _measured,
    "stopping, last snapshot not written": _stopping,
}
