"""The thread of an experiment: it processes requests in batches and returns the answers to the loop."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from tightrope.service.answer import Answer
from tightrope.service.experiment.batch import Op
from tightrope.service.experiment.experiment import TRY_AGAIN, Experiment, Status, unavailable
from tightrope.service.journal.audit import Audit
from tightrope.service.metrics import Metrics
from tightrope.service.requests import ErasureRequest

log = logging.getLogger("tightrope.service")

# A batch waits for one fsync. Beyond this size the fsync no longer matters, and the first request waits for the last.
_BATCH: Final = 256
_TICK_SECONDS: Final = 0.2
# A request without an answer by then gets a 503, whatever the storage does; at shutdown, a writer gets no longer either.
_ANSWER_SECONDS: Final = 6.0
_STOP_SECONDS: Final = 9.0


class Writer:
    """The one thread that touches an experiment from `start` on: a batch is whatever came while the last one was written."""

    def __init__(self, experiment: Experiment, metrics: Metrics) -> None:
        self.experiment = experiment
        self._metrics = metrics
        self._inbox: deque[tuple[Op, asyncio.Future[Answer]]] = deque()
        # The current batch, and since when.
        self._asked: list[tuple[Op, asyncio.Future[Answer]]] = []
        # Answers to erasures, held back until the last snapshot is rewritten.
        self._held: list[tuple[asyncio.Future[Answer], Answer]] = []
        self._busy_since = math.inf
        self._wake = threading.Condition()
        self._stopping = False
        self._audit: Audit | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name=f"writer of {experiment.name}", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether its thread is running, or rightly is not."""
        return self._loop is None or self._stopping or self._thread.is_alive()

    @property
    def status(self) -> Status:
        """The experiment's status, unless its thread can't report; "ready" only while the journal is held and all goes well."""
        if not self.alive:
            return "dead"
        if self._overdue():
            return "stuck"
        experiment = self.experiment
        if experiment.status == "ready" and not experiment.journal.held():
            return "standby"
        return (
            "broken" if experiment.status in ("ready", "failing") and experiment.broken else experiment.status
        )

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread.start()
        self._watch()

    def submit(self, op: Op) -> asyncio.Future[Answer]:
        """Run an operation; the answer comes when its changes are durable. Call it on the loop."""
        assert self._loop is not None
        answer: asyncio.Future[Answer] = self._loop.create_future()
        if not self._inbox:
            # Wake the thread once all requests that arrived together are queued: a batch is one fsync.
            self._loop.call_soon(self._notify)
        self._inbox.append((op, answer))
        return answer

    def _notify(self) -> None:
        with self._wake:
            if self._inbox:
                self._wake.notify()

    def finish(self) -> None:
        """Tell it to finish submitted requests, close the experiment and end."""
        with self._wake:
            self._stopping = True
            self._wake.notify()

    def join(self, seconds: float) -> None:
        """Wait for its end; if it does not end in time, give up on it."""
        if self._thread.ident is None:
            return
        self._thread.join(seconds)
        if self._thread.is_alive():
            words = "experiment %r: its writer does not stop; its last requests may not have been stored"
            log.error(words, self.experiment.name)

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._inbox and not self._stopping and not self.experiment.purging:
                    self._wake.wait(_TICK_SECONDS)
                if self._stopping and not self._inbox:
                    break
                self._asked = [self._inbox.popleft() for _ in range(min(len(self._inbox), _BATCH))]
                self._busy_since = time.monotonic()
            asked = self._asked
            began = time.perf_counter()
            try:
                answers = self.experiment.process([op for op, _ in asked])
                job = self.experiment.background_job()
                self._start_audit()
            except Exception as error:
                # Whatever it was, callers get an answer and the thread continues, from the journal, because the state is in doubt.
                log.exception("experiment %r: an internal error in its writer", self.experiment.name)
                self._metrics.writer_failed(self.experiment.name)
                self.experiment.doubt([op for op, _ in asked], error)
                answers, job = [TRY_AGAIN] * len(asked), None
            self._busy_since = math.inf
            if asked:
                self._metrics.observe("commit_seconds", self.experiment.name, time.perf_counter() - began)
                self._metrics.observe("batch_size", self.experiment.name, float(len(asked)))
                told = [(future, answer) for (_, future), answer in zip(asked, answers, strict=True)]
                if self.experiment.purging:
                    # Erasures continue in the next batches.
                    erasures = [isinstance(op.request, ErasureRequest) for op, _ in asked]
                    self._held += [pair for pair, held in zip(told, erasures) if held]
                    told = [pair for pair, held in zip(told, erasures) if not held]
                self._on_loop(deliver, told)
            self._release()
            if job is not None:
                threading.Thread(target=self._work, args=(job,), name="background", daemon=True).start()
        if self._audit is not None:
            self._audit.stop()
        self.experiment.close()
        self._release()

    def _release(self) -> None:
        """Answer a finished erasure; if it can't continue now, say so, and it continues when it can."""
        if self._held and not self.experiment.purging:
            status = self.experiment.status
            held, self._held = self._held, []
            if status != "ready":
                held = [(future, unavailable(status)) for future, _ in held]
            self._on_loop(deliver, held)

    def _start_audit(self) -> None:
        """If the journal was reopened, check its whole chain in the background."""
        audit = self.experiment.audit_job()
        if audit is not None:
            if self._audit is not None:
                self._audit.stop()
            self._audit = audit
            audit.start()

    def _overdue(self) -> bool:
        return time.monotonic() - self._busy_since > _ANSWER_SECONDS

    def _watch(self) -> None:
        """On the loop, from time to time: answer callers that wait for a stuck or dead writer."""
        assert self._loop is not None
        if self._overdue() or not self.alive:
            with self._wake:
                waiting = [future for _, future in (*self._asked, *self._inbox)]
                waiting += [future for future, _ in self._held]
                self._inbox.clear()
            answer = unavailable("failing")
            deliver([(future, answer) for future in waiting])
        if not self._stopping or self._thread.is_alive():
            self._loop.call_later(_TICK_SECONDS, self._watch)

    def _work(self, job: Callable[[], Op]) -> None:
        self._on_loop(self.submit, job())

    def _on_loop(self, call: Callable[..., object], *arguments: Any) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            log.debug("the loop is closed: answers are dropped, but their effects are in the journal")


def stop_writers(writers: Collection[Writer]) -> None:
    """Stop several at once, within `_STOP_SECONDS` in all, whatever their storages do."""
    deadline = time.monotonic() + _STOP_SECONDS
    for one in writers:
        one.finish()
    for one in writers:
        one.join(max(0.0, deadline - time.monotonic()))


def deliver(told: Sequence[tuple[asyncio.Future[Any], Answer | None]]) -> None:
    """On the loop: give each future its answer, unless it has one."""
    for future, answer in told:
        if not future.done():
            future.set_result(answer)
