"""`tightrope serve`, `openapi` for its callers, and the `keys` that they need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cyclopts import App, Parameter

from tightrope.cli.app import Flag, Trust, app, command
from tightrope.errors import InvalidInput

keys_app = App(name="keys", help="Keys for a service that listens beyond this machine.")
app.command(keys_app)


@Parameter(name="*")
@dataclass(frozen=True)
class Serving:
    """Where a service listens, where its journals are, and how long it waits for outcomes."""

    host: str = "127.0.0.1"
    "The address to listen on; any but loopback needs --keys."
    port: int = 8080
    "The port to listen on, up to 65535; 0 takes a free one, which the log names."
    data: Path | None = None
    "Folder of the SQLite journals; by default tightrope-data."
    database: str | None = None
    "postgresql://… instead of SQLite; env:NAME or file:PATH reads the address from there; memory: keeps nothing."
    heads: Path | None = None
    "Folder on this machine for the heads of journals in a database; by default your state folder."
    keys: Path | None = None
    "File of keys, made by `tightrope keys create`."
    expire_after: float = 2_592_000.0
    "Seconds to wait for the whole outcome of a decision."
    max_pending: int = 100_000
    "How many decisions may wait for their outcome at once."
    accept_changes: bool = False
    "Start even if a spec differs from the one in the journal, and record the change there."
    accept_clock: bool = False
    "Trust the machine's clock, however far it is past the journal's last entry: the service really was stopped for that long."
    accept_restored: bool = False
    "Start with a journal that lacks entries known on this machine, such as a restored backup."
    max_in_flight: int = 512
    "How many decisions, outcomes and changes may be in progress at once; one more gets a 503."
    max_connections: int = 1_000
    "How many connections may be open at once; one more replaces an idle one."
    reset_caps: tuple[str, ...] = ()
    "Hard caps that start again at 0 with --accept-changes; all others continue from what was spent."
    trust: Trust = False


_USUAL = Serving()


@command("tightrope serve examples/hospital.toml --data data")
def serve(
    *specs: Path, options: Serving = _USUAL, log: Literal["text", "json"] = "text", log_requests: bool = False
) -> None:
    """Put policies behind HTTP, on a journal that loses nothing; the dashboard is at /.

    Parameters
    ----------
    specs
        One TOML file for each experiment.
    log
        Lines for people, or one JSON object a line.
    log_requests
        Log every request, with route, status, experiment, key and seconds.
    """
    if not specs:
        raise InvalidInput("serve needs at least one SPEC.toml.")
    from tightrope.service.http import logs, server

    logs.configure(log, requests=log_requests)
    server.serve(specs, **vars(options))


@command("tightrope openapi examples/hospital.toml --to openapi.json")
def openapi(*specs: Path, to: Path | None = None, trust: Trust = False) -> None:
    """Print the service's API for programs (OpenAPI 3.1), as at /openapi.json: generate a client or types from it.

    Parameters
    ----------
    specs
        TOML files of experiments, whose contexts it then describes; optional.
    to
        Write it to this file instead.
    """
    import json

    from tightrope.service.http.app import document
    from tightrope.spec import read_spec

    api = document([read_spec(spec, trust=trust) for spec in specs])
    text = json.dumps(api, ensure_ascii=False, indent=2)
    if to is None:
        print(text)
    else:
        to.write_text(text + "\n", encoding="utf-8")


@command(
    "tightrope keys create keys.json --scope decide --scope outcome --experiment ward-routing", of=keys_app
)
def create(
    file: Path,
    *,
    scope: list[Literal["decide", "outcome", "read", "admin"]] | None = None,
    experiment: list[str] | None = None,
    days: float | None = None,
    never_expires: Flag = False,
    rate: float | None = None,
) -> None:
    """Add a key to a file and print it once; the file keeps only its hash.

    Parameters
    ----------
    file
        The file of keys; created if it does not exist.
    scope
        What the key may do; may be repeated. By default only decide.
    experiment
        Which experiments it gives access to; all by default.
    days
        For how many days it is valid; 90 by default.
    never_expires
        Make a key that never expires.
    rate
        How many requests per second it may send; by default as many as the service can handle.
    """
    from tightrope.service.http import keys

    if never_expires and days is not None:
        raise InvalidInput("--days and --never-expires exclude each other; use one of them.")
    until = None if never_expires else days if days is not None else keys.DAYS
    scopes, experiments = scope or keys.LEAST, experiment or ("*",)
    print(keys.create_key(file, scopes=scopes, experiments=experiments, days=until, rate=rate))


@command("tightrope keys revoke keys.json 1a2b3c4d", of=keys_app)
def revoke(file: Path, key: str) -> None:
    """Remove the key with this id: the part between its first two underscores."""
    from tightrope.service.http.keys import revoke_key

    revoke_key(file, key)
