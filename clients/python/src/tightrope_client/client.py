"""`Client`, and `AsyncClient` for asyncio.

The calls are in `endpoints`, when a request is sent again in `retries`, and how it travels in `transport`.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from tightrope_client import endpoints
from tightrope_client.batches import Part, batches
from tightrope_client.endpoints import Request, Settings
from tightrope_client.errors import ServiceError
from tightrope_client.retries import Attempts, Unanswered
from tightrope_client.transport import AsyncPool, Origin, Pool
from tightrope_client.version import __version__

if TYPE_CHECKING:
    from tightrope_client import responses

P = ParamSpec("P")
T = TypeVar("T")


class _Base:
    """What both clients share."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        experiment: str | None = None,
        timeout: float = 10.0,
        patience: float = 10.0,
        connections: int = 32,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.settings = Settings(url, key, experiment, timeout, patience)
        self._unanswered = Unanswered()
        headers = {"Content-Type": "application/json", "User-Agent": f"tightrope-client/{__version__}"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        self._connect(Origin.of(url, headers, tls), connections)

    def _connect(self, origin: Origin, connections: int) -> None:
        raise NotImplementedError

    @property
    def unanswered(self) -> dict[str, dict[str, Any]]:
        """Decisions that got no answer: cancelled, given up, or under way. Maps the event id to what `decide` was given.

        ``client.decide(**request)`` asks again, and gets the decision if it was made. The newest 10,000 are kept.
        """
        return self._unanswered.copy()


def _at_once(build: Callable[Concatenate[Settings, P], Request[T]]) -> Callable[Concatenate[Client, P], T]:
    """A call as a method of `Client`."""

    @functools.wraps(build)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._send(build(self.settings, *args, **kwargs))

    return method


def _awaited(
    build: Callable[Concatenate[Settings, P], Request[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """A call as a method of `AsyncClient`."""

    @functools.wraps(build)
    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._send(build(self.settings, *args, **kwargs))

    return method


class Client(_Base):
    """Talks to a service; one client serves any number of threads, over a pool of connections.

    Every decision has an event id, the caller's or one made here, so a request whose answer got lost can simply be sent again. A
    request that is refused for now (429, 503, a proxy's 502 and 504), times out or finds no connection is retried for `patience`
    seconds: after `Retry-After` where the service sends it, otherwise after growing pauses.

    Parameters
    ----------
    url : str
        Such as ``http://127.0.0.1:8080``.
    key : str, optional
    experiment : str, optional
        Required if the service has several.
    timeout : float
        How many seconds one attempt waits for the service.
    patience : float
        No attempt begins after this many seconds; a call's own `deadline` replaces it.
    connections : int
        The most to have open at once; further calls wait for their turn.
    tls : ssl.SSLContext, optional
        For certificates of your own; by default those that the system trusts.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:9", patience=0.0)
    >>> client.decide({"age": 71, "sex": "f", "prior_inpatient": 2}, event_id="visit-1")
    Traceback (most recent call last):
    ...
    tightrope_client.errors.Unavailable: 503 unreachable: no answer from the service in 1 attempt: ...
    >>> client.unanswered
    {'visit-1': {'event_id': 'visit-1', 'context': {'age': 71, 'sex': 'f', 'prior_inpatient': 2}}}
    """

    def _connect(self, origin: Origin, connections: int) -> None:
        self._pool = Pool(origin, connections)

    decide = _at_once(endpoints.decide)
    learn = _at_once(endpoints.learn)
    decision = _at_once(endpoints.decision)
    decisions = _at_once(endpoints.decisions)
    outcomes = _at_once(endpoints.outcomes)
    state = _at_once(endpoints.state)
    history = _at_once(endpoints.history)
    rules = _at_once(endpoints.rules)
    windows = _at_once(endpoints.windows)
    lift = _at_once(endpoints.lift)
    changes = _at_once(endpoints.changes)
    snapshots = _at_once(endpoints.snapshots)
    experiments = _at_once(endpoints.experiments)
    correct = _at_once(endpoints.correct)
    change = _at_once(endpoints.change)
    cancel_change = _at_once(endpoints.cancel_change)
    change_mode = _at_once(endpoints.change_mode)
    take_snapshot = _at_once(endpoints.take_snapshot)
    roll_back = _at_once(endpoints.roll_back)
    erase = _at_once(endpoints.erase)
    get = _at_once(endpoints.get)
    post = _at_once(endpoints.post)

    def decide_many(
        self, requests: Iterable[Mapping[str, Any]], *, concurrency: int = 16
    ) -> list[responses.Decision | ServiceError]:
        """Ask for many decisions, a limited number at a time. Each request holds the arguments of `decide`, by name.

        The answers are in the order of the requests; where one failed, its `ServiceError` stands in its place. The service decides
        in the order in which requests reach it.
        """
        return self._many(endpoints.decide, requests, concurrency)

    def learn_many(
        self, outcomes: Iterable[Mapping[str, Any]], *, concurrency: int = 16
    ) -> list[responses.Outcome | ServiceError]:
        """Report many outcomes, a limited number at a time. Each holds the arguments of `learn`; answers as in `decide_many`."""
        return self._many(endpoints.learn, outcomes, concurrency)

    def decide_batch(
        self, requests: Iterable[Mapping[str, Any]], *, deadline: float | None = None
    ) -> list[responses.Decision | ServiceError]:
        """Ask for many decisions, 256 in each request: the same as `decide_many`, with less work for both sides.

        They are made in the order given. A request that fails as a whole has failed for each of its decisions.
        """
        build = functools.partial(endpoints.decide_batch, deadline=deadline)
        return [one for part in batches(requests) for one in self._batch(build, part, "decision")]

    def learn_batch(
        self, outcomes: Iterable[Mapping[str, Any]], *, deadline: float | None = None
    ) -> list[responses.Outcome | ServiceError]:
        """Report many outcomes, 256 in each request; answers as in `decide_batch`."""
        build = functools.partial(endpoints.learn_batch, deadline=deadline)
        return [one for part in batches(outcomes) for one in self._batch(build, part, "outcome")]

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _send(self, request: Request[T]) -> T:
        attempts = Attempts(request, self.settings, self._unanswered)
        for attempt in attempts:
            if attempt.pause:
                time.sleep(attempt.pause)
            with attempt:
                attempt.take(self._pool.request(request, attempt.timeout, attempt.left))
        return attempts.result()

    def _batch(
        self, build: Callable[..., Request[Any]], items: Sequence[Mapping[str, Any]], name: str
    ) -> list[Any]:
        part = Part.of(items)
        request = build(self.settings, part.items)
        try:
            return part.answers(self._send(request), name, self._unanswered, request)
        except ServiceError as error:
            return part.failed(error)

    def _many(
        self, build: Callable[..., Request[T]], requests: Iterable[Mapping[str, Any]], concurrency: int
    ) -> list[T | ServiceError]:
        asked = [build(self.settings, **request) for request in requests]

        def send(request: Request[T]) -> T | ServiceError:
            try:
                return self._send(request)
            except ServiceError as error:
                return error

        with ThreadPoolExecutor(concurrency, thread_name_prefix="tightrope-client") as pool:
            return list(pool.map(send, asked))


class AsyncClient(_Base):
    """`Client` for asyncio: the same calls, each to be awaited.

    A call may be cancelled at any moment. The service may have made the decision anyway: its event id is in `unanswered`.

    Examples
    --------
    >>> async def visit():
    ...     async with AsyncClient("http://127.0.0.1:9") as client:
    ...         return await client.decide({"age": 71}, deadline=0.05)
    >>> asyncio.run(visit())
    Traceback (most recent call last):
    ...
    tightrope_client.errors.Unavailable: 503 unreachable: no answer from the service in 1 attempt: ...
    """

    def _connect(self, origin: Origin, connections: int) -> None:
        self._pool = AsyncPool(origin, connections)

    decide = _awaited(endpoints.decide)
    learn = _awaited(endpoints.learn)
    decision = _awaited(endpoints.decision)
    decisions = _awaited(endpoints.decisions)
    outcomes = _awaited(endpoints.outcomes)
    state = _awaited(endpoints.state)
    history = _awaited(endpoints.history)
    rules = _awaited(endpoints.rules)
    windows = _awaited(endpoints.windows)
    lift = _awaited(endpoints.lift)
    changes = _awaited(endpoints.changes)
    snapshots = _awaited(endpoints.snapshots)
    experiments = _awaited(endpoints.experiments)
    correct = _awaited(endpoints.correct)
    change = _awaited(endpoints.change)
    cancel_change = _awaited(endpoints.cancel_change)
    change_mode = _awaited(endpoints.change_mode)
    take_snapshot = _awaited(endpoints.take_snapshot)
    roll_back = _awaited(endpoints.roll_back)
    erase = _awaited(endpoints.erase)
    get = _awaited(endpoints.get)
    post = _awaited(endpoints.post)

    async def decide_many(
        self, requests: Iterable[Mapping[str, Any]], *, concurrency: int = 16
    ) -> list[responses.Decision | ServiceError]:
        """Ask for many decisions, as `Client.decide_many` does."""
        return await self._many(endpoints.decide, requests, concurrency)

    async def learn_many(
        self, outcomes: Iterable[Mapping[str, Any]], *, concurrency: int = 16
    ) -> list[responses.Outcome | ServiceError]:
        """Report many outcomes, as `Client.learn_many` does."""
        return await self._many(endpoints.learn, outcomes, concurrency)

    async def decide_batch(
        self, requests: Iterable[Mapping[str, Any]], *, deadline: float | None = None
    ) -> list[responses.Decision | ServiceError]:
        """Ask for many decisions, 256 in each request, as `Client.decide_batch` does."""
        build = functools.partial(endpoints.decide_batch, deadline=deadline)
        return [one for part in batches(requests) for one in await self._batch(build, part, "decision")]

    async def learn_batch(
        self, outcomes: Iterable[Mapping[str, Any]], *, deadline: float | None = None
    ) -> list[responses.Outcome | ServiceError]:
        """Report many outcomes, 256 in each request, as `Client.learn_batch` does."""
        build = functools.partial(endpoints.learn_batch, deadline=deadline)
        return [one for part in batches(outcomes) for one in await self._batch(build, part, "outcome")]

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def _send(self, request: Request[T]) -> T:
        attempts = Attempts(request, self.settings, self._unanswered)
        for attempt in attempts:
            if attempt.pause:
                await asyncio.sleep(attempt.pause)
            with attempt:
                attempt.take(await self._pool.request(request, attempt.timeout, attempt.left))
        return attempts.result()

    async def _batch(
        self, build: Callable[..., Request[Any]], items: Sequence[Mapping[str, Any]], name: str
    ) -> list[Any]:
        part = Part.of(items)
        request = build(self.settings, part.items)
        try:
            return part.answers(await self._send(request), name, self._unanswered, request)
        except ServiceError as error:
            return part.failed(error)

    async def _many(
        self, build: Callable[..., Request[T]], requests: Iterable[Mapping[str, Any]], concurrency: int
    ) -> list[T | ServiceError]:
        turns = asyncio.Semaphore(concurrency)

        async def send(request: Request[T]) -> T | ServiceError:
            async with turns:
                try:
                    return await self._send(request)
                except ServiceError as error:
                    return error

        return await asyncio.gather(*(send(build(self.settings, **request)) for request in requests))
