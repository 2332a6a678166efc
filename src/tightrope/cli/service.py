"""`tightrope serve`, and what belongs to it: `replay` of its journals, `keys` to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cyclopts import App, Parameter

from tightrope.cli.app import DEFAULT, Output, app, command, import_extra
from tightrope.errors import InvalidInput

keys_app = App(name="keys", help="Keys for a service that listens beyond this machine.")
app.command(keys_app)


@Parameter(name="*")
@dataclass(frozen=True)
class Serving:
    """Where a service listens, where its journals are, and how long it waits for outcomes."""

    host: str = "127.0.0.1"
    "Where to listen; beyond loopback only with --keys."
    port: int = 8080
    "The port to listen on."
    data: Path | None = None
    "Folder of the SQLite journals; by default tightrope-data."
    database: str | None = None
    "postgresql://… instead of SQLite, or memory: to keep nothing."
    keys: Path | None = None
    "File of keys, made by `tightrope keys create`."
    expire_after: float = 2_592_000.0
    "Seconds until a decision without its whole outcome is no longer waited for."
    max_pending: int = 100_000
    "How many decisions may wait for their outcome at once."
    accept_changes: bool = False
    "Go on where a spec differs from the one in the journal, and note the change there."


_USUAL = Serving()


@command("tightrope serve examples/hospital.toml --data data")
def serve(*specs: Path, options: Serving = _USUAL) -> None:
    """Put policies behind HTTP, on a journal that loses nothing; the dashboard is at /.

    Parameters
    ----------
    specs
        One TOML file for each experiment.
    """
    import logging

    if not specs:
        raise InvalidInput("serve needs at least one SPEC.toml.")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    import_extra("tightrope.service.server", "service").serve(specs, **vars(options))


@command("tightrope replay data/ward-routing.sqlite --export all.parquet")
def replay(
    source: str, *, experiment: str | None = None, export: Path | None = None, output: Output = DEFAULT
) -> None:
    """Replay a journal from its first entry and compare every decision and snapshot with what was recorded.

    Parameters
    ----------
    source
        A SQLite journal, or postgresql://… with --experiment.
    experiment
        Which experiment of a database.
    export
        Also write all entries to this .csv or .parquet file.
    """
    replaying = import_extra("tightrope.service.replay", "service")
    journal = replaying.open_journal(source, experiment)
    try:
        found = replaying.verify(journal)
        written = None if export is None else replaying.export(journal, export)
    finally:
        journal.close()
    data = {**{name: getattr(found, name) for name in type(found).__dataclass_fields__}, "exported": written}
    parts = [
        f"{found.name}: {found.entries:,} entries, {found.decisions:,} decisions, {found.outcomes:,} outcomes: all as recorded",
        f"{found.snapshots:,} snapshots compared; state at the end {found.digest}",
    ]
    if written is not None:
        parts.append(f"{written:,} entries written to {export}")
    output.show(data, *parts)


@command(
    "tightrope keys create keys.json --scope decide --scope outcome --experiment ward-routing", of=keys_app
)
def create(
    file: Path,
    *,
    scope: list[Literal["decide", "outcome", "read", "admin"]] | None = None,
    experiment: list[str] | None = None,
) -> None:
    """Add a key to a file and print it once; the file keeps only its hash.

    Parameters
    ----------
    file
        The file of keys; made if it is not there.
    scope
        What the key may do; all by default.
    experiment
        Which experiments it opens; all by default.
    """
    keys = import_extra("tightrope.service.keys", "service")
    print(keys.create_key(file, scopes=scope or keys.SCOPES, experiments=experiment or ("*",)))


@command("tightrope keys revoke keys.json 1a2b3c4d", of=keys_app)
def revoke(file: Path, key: str) -> None:
    """Remove the key with this id: the part between its first two underscores."""
    import_extra("tightrope.service.keys", "service").revoke_key(file, key)
