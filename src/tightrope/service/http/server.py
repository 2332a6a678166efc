"""The server: specs in, HTTP out."""

from __future__ import annotations

import contextlib
import gc
import ipaddress
import logging
import os
import resource
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tightrope.errors import InvalidInput
from tightrope.service.experiment import Experiment
from tightrope.service.http.app import Service
from tightrope.service.http.connections import ConnectionLimits, Gate
from tightrope.service.http.keys import Keys
from tightrope.service.journal.heads import heads_folder, keep_head, set_aside
from tightrope.service.requests import Limits
from tightrope.service.storage import journals_at
from tightrope.spec import Spec, read_spec
from tightrope.validation import whole_number
from tightrope.words import Either, Text
from tightrope_client import Client

log = logging.getLogger("tightrope.service")


def serve(
    specs: Sequence[str | os.PathLike[str]],
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    keys: str | os.PathLike[str] | None = None,
    max_connections: int = 1_000,
    **options: Any,
) -> None:
    """Serve experiments over HTTP until stopped.

    Parameters
    ----------
    specs : sequence of paths
        One TOML file for each experiment; names must differ.
    host, port
        Where to listen; port 0 takes a free one, which the log names. Any host but loopback needs `keys`.
    keys : path, optional
        File of keys, see `create_key`.
    max_connections : int
        How many may be open at once; fewer if the process may not open that many files.
    options
        Those of `make_service`: `data` or `database`, `expire_after`, `max_pending`, `accept_changes`, `max_in_flight` …

    Raises
    ------
    InvalidInput
        The host is not loopback and there are no keys, or a spec can't be served.
    JournalLocked
        Another process serves this experiment from the same folder.
    """
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                at = self.servers[0].sockets[0].getsockname()[1]
                log.info("listening on http://%s:%d for %s", host, at, ", ".join(service.experiments))

    whole_number("port", port, high=_LAST_PORT)
    require_safe(host, keys)
    service = make_service(specs, keys=keys, **options)
    # Everything loaded so far stays: exempt it from garbage collection, which would stop everything for 50 ms each time.
    gc.collect()
    gc.freeze()
    gate = Gate(ConnectionLimits(connections=_affordable(max_connections, len(service.experiments))))
    server = Server(uvicorn.Config(service, host=host, port=port, **{**UVICORN, "http": gate}))
    with contextlib.suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise SystemExit(1)


@contextlib.contextmanager
def serving(
    *specs: str | os.PathLike[str] | Spec,
    host: str = "127.0.0.1",
    port: int = 0,
    keys: str | os.PathLike[str] | None = None,
    key: str | None = None,
    **options: Any,
) -> Iterator[Client]:
    """Serve in a thread of this process while a ``with`` block runs, and give a client: for notebooks and first steps.

    Parameters
    ----------
    specs, host, port, keys, options
        As in `serve`; a spec may also be a `Spec`, and by default the port is a free one.
    key : str, optional
        The client's key, one of those in `keys`.

    Examples
    --------
    >>> from tightrope.spec import make_spec
    >>> spec = make_spec({"name": "beds", "actions": ["icu", "other"], "policy": {"kind": "uniform"}})
    >>> with serving(spec, database="memory:") as client:
    ...     decision = client.decide()
    >>> decision["name"] in ("icu", "other")
    True
    """
    import uvicorn

    whole_number("port", port, high=_LAST_PORT)
    require_safe(host, keys)
    service = make_service(specs, keys=keys, **options)
    listener = socket.create_server((host, port))
    server = uvicorn.Server(uvicorn.Config(service, **UVICORN))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        with Client(f"http://{host}:{listener.getsockname()[1]}", key=key) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


_LAST_PORT = 65_535

UVICORN: dict[str, Any] = {
    "access_log": False,
    "log_level": "warning",
    "server_header": False,
    "date_header": False,
    "lifespan": "on",
    "ws": "none",
    # Nothing here depends on a proxy's word about the caller.
    "proxy_headers": False,
    "http": Gate(),
    "timeout_graceful_shutdown": 10,
}


def make_service(
    specs: Sequence[str | os.PathLike[str] | Spec],
    *,
    data: str | os.PathLike[str] | None = None,
    database: str | None = None,
    keys: str | os.PathLike[str] | None = None,
    max_in_flight: int = 512,
    max_body_bytes: int = 1 << 20,
    heads: str | os.PathLike[str] | None = None,
    accept_restored: bool = False,
    trust: bool = False,
    **options: Any,
) -> Service:
    """The ASGI application behind `serve`, with its experiments open: for servers other than Uvicorn.

    - data: Folder of the SQLite journals; `tightrope-data` by default.
    - database: ``postgresql://…`` instead; or ``env:NAME`` or ``file:PATH``, which contain it; or ``memory:``, which keeps nothing
      (`tightrope.service.storage`).
    - max_in_flight, max_body_bytes: How many requests at once, and the size of each; beyond them 503 and 413.
    - heads: Folder for the heads of journals in a database: see `journal.heads`. By default in the user's folder for state.
    - accept_restored: Start with a journal that lacks entries known to the head on this machine, such as a restored backup.
    - trust: Whether your own classes that specs and journals name may run: see `tightrope.trust`.
    - options: Those of `Experiment`: `expire_after`, `max_pending`, `accept_changes` …
    """
    if not specs:
        raise InvalidInput(field="specs", must="name at least one spec, but got none")
    if data is not None and database is not None:
        raise InvalidInput("give data or database, not both: journals are in SQLite files or in a database.")
    read = [one if isinstance(one, Spec) else read_spec(one, trust=trust) for one in specs]
    names = [spec.name for spec in read]
    for name, times in Counter(names).items():
        if times > 1:
            must = f"have different names, but {name!r} comes {times} times"
            raise InvalidInput(field="specs", must=must)
    address = database if database is not None else f"sqlite:{os.fspath(data or 'tightrope-data')}"
    limits = Limits(body_bytes=max_body_bytes)
    experiments: list[Experiment] = []
    try:
        for spec, journal in zip(read, journals_at(address, names), strict=True):
            keep_head(journal, heads_folder(heads))
            if accept_restored and journal.head_file is not None:
                set_aside(journal.head_file)
            experiment = Experiment(spec, journal, **options)
            experiments.append(experiment)
            experiment.warm_up()
            experiment.open()
        known = None if keys is None else Keys(keys)
        return Service(experiments, keys=known, limits=limits, max_in_flight=max_in_flight)
    except BaseException:
        for experiment in experiments:
            experiment.close()
        raise


def _affordable(connections: int, experiments: int) -> int:
    """That many connections, or fewer, so that the process keeps the file descriptors that it needs itself."""
    own = 64 + 16 * experiments
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < connections + own:
        soft = connections + own if hard == resource.RLIM_INFINITY else min(hard, connections + own)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = connections if soft == resource.RLIM_INFINITY else max(1, min(connections, soft - own))
    if most < connections:
        log.warning("at most %d connections, because the process may open only %d files", most, soft)
    return most


def require_safe(host: str, keys: object) -> None:
    """Refuse to listen beyond loopback without keys."""
    if keys is not None or host == "localhost":
        return
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        said = "host {host!r} can be reached from other machines, so it needs keys; use {keys}, or listen on 127.0.0.1."
        raise InvalidInput(Text(said, host=host, keys=Either("keys=", "--keys")), field="host")
