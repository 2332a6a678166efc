"""The thread that runs an experiment's operations in batches, and the way to it from the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from tightrope.service.experiment import Answer, Experiment, Op
from tightrope.service.metrics import Metrics

__all__ = ["Writer"]

log = logging.getLogger("tightrope.service")

# A batch waits for one fsync. Beyond this size the fsync no longer matters, and the first of the batch waits for the last.
_BATCH: Final = 256
_TICK_SECONDS: Final = 0.2

Waiting = tuple[Op, "asyncio.Future[Answer] | None"]


class Writer:
    """Runs what is submitted, in order, while more comes in: a batch is whatever came while the last one was written.

    Parameters
    ----------
    experiment : Experiment
        From `start` on, only this thread touches it.
    metrics : Metrics
    """

    def __init__(self, experiment: Experiment, metrics: Metrics) -> None:
        self.experiment = experiment
        self._metrics = metrics
        self._inbox: deque[Waiting] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name=f"writer of {experiment.name}", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin; answers come back on `loop`."""
        self._loop = loop
        self._thread.start()

    def submit(self, op: Op) -> asyncio.Future[Answer]:
        """Run an operation; the answer comes when what it changed is durable. Call it on the loop."""
        assert self._loop is not None
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._put(op, answer)
        return answer

    def stop(self) -> None:
        """Finish what was submitted, close the experiment, end."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _put(self, op: Op, answer: asyncio.Future[Answer] | None) -> None:
        with self._wake:
            self._inbox.append((op, answer))
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                if not self._inbox and not self._stopping:
                    self._wake.wait(_TICK_SECONDS)
                if self._stopping and not self._inbox:
                    break
                batch = [self._inbox.popleft() for _ in range(min(len(self._inbox), _BATCH))]
            began = time.perf_counter()
            answers = self.experiment.process([op for op, _ in batch])
            if batch:
                assert self._loop is not None
                self._metrics.observe("commit_seconds", self.experiment.name, time.perf_counter() - began)
                self._metrics.observe("batch_size", self.experiment.name, float(len(batch)))
                self._call(lambda batch=batch, answers=answers: _deliver(batch, answers))  # type: ignore[misc]
            job = self.experiment.slater_job()
            if job is not None:
                threading.Thread(target=self._measure, args=(job,), name="slater", daemon=True).start()
        self.experiment.close()

    def _call(self, deliver: Callable[[], None]) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(deliver)
        except RuntimeError:
            log.debug("the loop is closed: answers are dropped, what they say is in the journal")

    def _measure(self, job: Callable[[], Op]) -> None:
        self._put(job(), None)


def _deliver(batch: list[Waiting], answers: list[Answer]) -> None:
    for (_, future), answer in zip(batch, answers, strict=True):
        if future is not None and not future.done():
            future.set_result(answer)
