"""Reads that need not wait for the writer: they have their own thread and connection."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from queue import SimpleQueue
from typing import Final

from tightrope.service.answer import Answer, Refusal
from tightrope.service.experiment.batch import Batch, Op
from tightrope.service.experiment.experiment import REFUSALS, Experiment, refused
from tightrope.service.experiment.writer_thread import deliver
from tightrope.service.journal import JournalError
from tightrope.service.journal.contract import Journal

# The state is not locked against the writer, which may be in the middle of a change: a failed read is tried again.
_TRIES: Final = 3
_REST: Final = 0.5
_PATIENCE: Final = 10.0
_GOODBYE: Final = 2.0

log = logging.getLogger("tightrope.service")


class Reader:
    """Runs operations that write nothing, one at a time, on another connection to an experiment's journal.

    A read sees everything that the journal acknowledged before it. If there is no such connection, or the experiment is not ready,
    there is no answer here, and the writer answers instead. A failed read is answered here; the writer never repeats it.
    """

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._journal: Journal | None = None
        self._rested_at = 0.0
        self._inbox: SimpleQueue[tuple[Op, asyncio.Future[Answer | None]] | None] = SimpleQueue()
        # A daemon, so that a hanging read does not keep the process alive.
        name = f"reader of {experiment.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    async def read(self, op: Op) -> Answer | None:
        """The answer, or None if the writer must be asked."""
        if not self._thread.is_alive():
            self._thread.start()
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self._inbox.put((op, answer))
        try:
            async with asyncio.timeout(_PATIENCE):
                return await answer
        except TimeoutError:
            words = "the journal can't be read now"
            raise Refusal(503, "unavailable", words, retry_after=1) from None

    def stop(self) -> None:
        """Finish pending reads and close the connection; wait a little for that."""
        if self._thread.is_alive():
            self._inbox.put(None)
            self._thread.join(_GOODBYE)

    def _run(self) -> None:
        while (asked := self._inbox.get()) is not None:
            op, answer = asked
            if not answer.cancelled():
                found = self._read(op)
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is waiting
                    answer.get_loop().call_soon_threadsafe(deliver, [(answer, found)])
        self._close()

    def _read(self, op: Op) -> Answer | None:
        # Rest as long as the last read took: consecutive reads take at most half a core from decisions.
        time.sleep(max(0.0, self._rested_at - time.monotonic()))
        began = time.monotonic()
        answer = self._asked(op)
        now = time.monotonic()
        self._rested_at = now + min(now - began, _REST)
        return answer

    def _asked(self, op: Op) -> Answer | None:
        name = self._experiment.name
        failed: Answer | None = None
        for _ in range(_TRIES):
            state = self._experiment.state
            if state is None:
                self._close()
                return failed
            try:
                journal = self._journal
                if journal is None:
                    journal = self._experiment.journal.reader()
                    if journal is None:
                        return None
                    journal.open()
                    self._journal = journal
                event_id = getattr(op.request, "event_id", None)
                found = journal.find([event_id]) if event_id is not None else ()
                return op.operation(Batch(state, journal, state.time, found), op.request)
            except REFUSALS as error:
                return refused(name, error)
            except JournalError as error:
                log.warning("experiment %r: a read failed: %s", name, error)
                words = "the journal can't be read now"
                failed = Refusal(503, "unavailable", words, retry_after=1).answer()
            except Exception:
                log.exception("experiment %r: a read failed", name)
                failed = Refusal(500, "internal", "an error inside the service: this can't be shown").answer()
            self._close()
        return failed

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self._journal = None
