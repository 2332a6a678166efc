"""Where cells run: in this process, on the cores of this machine, on a Ray cluster, or on a GPU. The numbers are the same.

An engine pulls batches of cells and returns their rows in whatever order they finish. A worker that dies does not end a sweep: its
cells run again, and a cell that keeps killing its worker counts as failed.
"""

from __future__ import annotations

import abc
import contextlib
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Literal, Self, TypeAlias, get_args

from tightrope.errors import InvalidInput, TightropeError
from tightrope.extras import explained
from tightrope.sweeps.cells import Cell, Plan, Row, failed_row, run_cells, run_cells_on_gpu
from tightrope.validation import whole_number
from tightrope.version import __version__

EngineName: TypeAlias = Literal["local", "ray", "gpu"]
Batch: TypeAlias = list[Cell]
_Rows: TypeAlias = Future[list[Row]]

RETRIES = 3
_DIED = "the worker died while it ran this cell (killed, crashed or out of memory)"
_RESOURCES_EVERY = 5.0  # seconds between checks of how many cores a cluster has
# One thread per worker: the cells themselves are spread over the cores.
_SINGLE = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}


class Engine(abc.ABC):
    """Runs batches of cells, within a `with` block that starts the workers and stops them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:  # noqa: B027
        pass

    @abc.abstractmethod
    def map(self, batches: Iterable[Batch]) -> Iterator[list[Row]]:
        """The rows of each batch, as they finish; a batch is pulled when there is room for it."""


def engine_for(plan: Plan, name: EngineName, *, workers: int | None, address: str | None) -> Engine:
    if workers is not None:
        workers = whole_number("workers", workers, low=1)
    if name == "ray":
        return _Ray(plan, workers, address)
    if name not in get_args(EngineName):
        raise InvalidInput(field="engine", must="be 'local', 'ray' or 'gpu'", got=name)
    if address is not None:
        problem = f"needs the engine 'ray', but the engine is {name!r} and address {address!r}"
        raise InvalidInput(field="address", problem=problem)
    if name == "gpu":
        from tightrope.engine.gpu import cuda_device

        return _Serial(plan, cuda_device())
    workers = workers or os.cpu_count() or 1
    return _Serial(plan) if workers == 1 else _Processes(plan, workers)


class _Serial(Engine):
    """The calling process; with a `device` its GPU, many settings in one launch, in double precision: the CPU's numbers."""

    def __init__(self, plan: Plan, device: Any = None) -> None:
        super().__init__(plan)
        self._device = device

    def map(self, batches: Iterable[Batch]) -> Iterator[list[Row]]:
        for batch in batches:
            if self._device is None:
                yield run_cells(self._plan, batch)
            else:
                yield run_cells_on_gpu(self._plan, batch, self._device)


class _Workers(Engine):
    """Other processes, kept busy: batches are submitted while there is room."""

    def map(self, batches: Iterable[Batch]) -> Iterator[list[Row]]:
        waiting: dict[_Rows, Batch] = {}
        to_come = iter(batches)
        while True:
            while len(waiting) < self._room() and (batch := next(to_come, None)) is not None:
                waiting[self._submit(batch)] = batch
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                if future in waiting:
                    yield from self._finished(future, waiting)

    @abc.abstractmethod
    def _room(self) -> int: ...

    @abc.abstractmethod
    def _submit(self, batch: Batch) -> _Rows: ...

    @abc.abstractmethod
    def _finished(self, future: _Rows, waiting: dict[_Rows, Batch]) -> Iterator[list[Row]]:
        """The rows of a finished batch, which is removed from `waiting`."""


class _Processes(_Workers):
    """The cores of this machine: joblib's processes, which need no `if __name__ == "__main__"`."""

    def __init__(self, plan: Plan, workers: int) -> None:
        super().__init__(plan)
        self._workers = workers
        self._pool: Any = None

    def __exit__(self, *problem: object) -> None:
        self._stop(kill=problem[0] is not None)

    def _room(self) -> int:
        return 2 * self._workers

    def _finished(self, future: _Rows, waiting: dict[_Rows, Batch]) -> Iterator[list[Row]]:
        try:
            rows = future.result()
        except BrokenProcessPool:
            # Everything in progress is lost, and any of it may be to blame: running one at a time shows which.
            suspects = [cell for batch in waiting.values() for cell in batch]
            waiting.clear()
            self._stop(kill=True)
            yield from ([self._alone(cell)] for cell in suspects)
        else:
            del waiting[future]
            yield rows

    def _stop(self, *, kill: bool) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=kill)
        self._pool = None

    def _submit(self, batch: Batch) -> _Rows:
        from joblib.externals.loky import ProcessPoolExecutor

        if self._pool is None:
            self._pool = ProcessPoolExecutor(self._workers, env=_SINGLE, initializer=_leave_interrupts)
        future: _Rows
        try:
            future = self._pool.submit(run_cells, self._plan, batch)
        except BrokenProcessPool as error:
            # A worker died since the last check; reported together with all other batches in progress.
            future = Future()
            future.set_exception(error)
        return future

    def _alone(self, cell: Cell) -> Row:
        try:
            return self._submit([cell]).result()[0]
        except BrokenProcessPool:
            self._stop(kill=True)
            return failed_row(self._plan, cell, _DIED)


class _Ray(_Workers):
    """A Ray cluster: its own tasks and its own retries."""

    def __init__(self, plan: Plan, workers: int | None, address: str | None) -> None:
        super().__init__(plan)
        self._workers, self._address = workers, address
        self._open = contextlib.ExitStack()
        self._cores = (0.0, 1)

    def __enter__(self) -> Self:
        with explained("the engine 'ray'"):
            import ray as module
        ray: Any = module
        self._ray = ray
        if not ray.is_initialized():
            # The number of cores can only be set for a cluster that is started here.
            size = {"num_cpus": self._workers, "include_dashboard": False} if self._address is None else {}
            _reach(self._address)
            try:
                ray.init(address=self._address, log_to_driver=False, logging_level="ERROR", **size)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise TightropeError(f"no Ray cluster at {self._address!r}: {error}") from error
            # Ray reports lost workers on standard output, which is for results.
            self._open.enter_context(contextlib.redirect_stdout(sys.stderr))
            self._open.callback(ray.shutdown)
        self._remote = ray.remote(max_retries=RETRIES, num_cpus=1)(_run_remote)
        self._shared = ray.put(self._plan)
        return self

    def __exit__(self, *problem: object) -> None:
        self._open.close()

    def _finished(self, future: _Rows, waiting: dict[_Rows, Batch]) -> Iterator[list[Row]]:
        batch, errors = waiting.pop(future), self._ray.exceptions
        try:
            rows = future.result()
        except errors.RayTaskError:
            raise  # what the task raised, not the loss of a worker
        except errors.RayError as error:
            if len(batch) > 1:
                # Each cell as its own task: only the one to blame will fail.
                waiting.update((self._submit([cell]), [cell]) for cell in batch)
                return
            told = str(error).strip().split("\n")[0]
            rows = [failed_row(self._plan, batch[0], f"{_DIED}, {RETRIES + 1} times: {told}")]
        yield rows

    def _submit(self, batch: Batch) -> _Rows:
        future: _Rows = self._remote.remote(__version__, self._shared, batch).future()
        return future

    def _room(self) -> int:
        # Clusters grow and shrink.
        if self._address is not None and self._workers is not None:
            return self._workers
        looked, cores = self._cores
        if time.monotonic() - looked > _RESOURCES_EVERY:
            cores = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            self._cores = (time.monotonic(), cores)
        return 2 * cores


def _leave_interrupts() -> None:
    """Ignore Ctrl-C in the workers: the sweep handles it and ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_remote(version: str, plan: Plan, cells: Batch) -> list[Row]:
    if version != __version__:
        found = f"a worker of the cluster has Tightrope {__version__}, but the sweep was started by {version}"
        raise TightropeError(f"{found}: install the same version everywhere")
    return run_cells(plan, cells)


def _reach(address: str | None) -> None:
    """Refuse an address where nothing answers: Ray itself would try for half a minute."""
    found = re.fullmatch(r"\[?([^/]+?)\]?:(\d+)", address or "")
    if found is None:
        return
    try:
        socket.create_connection((found[1], int(found[2])), timeout=5.0).close()
    except OSError as error:
        raise TightropeError(f"no Ray cluster at {address!r}: {error.strerror or error}") from error
