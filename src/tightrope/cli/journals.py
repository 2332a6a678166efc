"""What is done to the journals of a service: `backup`, `restore`, `migrate`, `erase`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tightrope.cli.app import DEFAULT, Output, Trust, command, import_extra
from tightrope.errors import InvalidInput


@command("tightrope backup data --out backups")
def backup(
    source: str, *, experiment: str | None = None, to: Path | None = None, output: Output = DEFAULT
) -> None:
    """Copy a journal to a SQLite file, also while the service writes it; every hash of its chain is checked on the way.

    Parameters
    ----------
    source
        A SQLite journal, the service's --data folder, or postgresql://…
    experiment
        Which experiment of a folder or database; needed where there are several.
    to
        The file to write; by default NAME.sqlite in the folder --out.
    """
    copying = import_extra("tightrope.service.offline.backup", "service")
    storage = import_extra("tightrope.service.storage", "service")
    journal = storage.open_journal(source, experiment)
    try:
        folder = output.folder()
        if to is None and folder is None:
            raise InvalidInput("backup needs --to FILE or --out FOLDER.")
        name = experiment or Path(getattr(journal, "path", "journal.sqlite")).stem
        target = to if to is not None else Path(folder or ".", f"{name}.sqlite")
        head = copying.copy_to_file(journal, target)
    finally:
        journal.close()
    output.show(
        {"file": str(target), "entries": head.position, "head": head.hash.hex()},
        f"{head.position:,} entries in {target}; head {head.hash.hex()}",
    )


@command("tightrope restore backups/ward-routing.sqlite data/ward-routing.sqlite")
def restore(backup: Path, journal: Path, *, trust: Trust = False, output: Output = DEFAULT) -> None:
    """Put a copy in the place of a journal, after a whole replay of it, and say how many acknowledged entries it lacks.

    Parameters
    ----------
    backup
        A copy: of `tightrope backup`, of the files, or of VACUUM INTO.
    journal
        Where the journal was. Move what is left of it away, its -wal and -shm too, but leave its .head.
    """
    found = import_extra("tightrope.service.offline.backup", "service").restore(backup, journal, trust=trust)
    lost = f"{found.lost:,} acknowledged entries after it are lost" if found.lost else "nothing known is lost"
    output.show(
        {"entries": found.head.position, "head": found.head.hash.hex(), "lost": found.lost},
        f"{found.head.position:,} entries in {journal}; head {found.head.hash.hex()}",
        lost,
    )


@command("tightrope migrate env:OWNER_DATABASE --service env:DATABASE")
def migrate(database: str, *, service: str, output: Output = DEFAULT) -> None:
    """Make the tables of a PostgreSQL database, and a role for the service that can't change or delete what is in a journal.

    Run it before the first start and after each upgrade; it may be run at any time. See docs/containers.md.

    Parameters
    ----------
    database
        postgresql://… with the role that shall own the tables; env:NAME or file:PATH, where that stands.
    service
        The same with the role that the service has: what `tightrope serve --database` gets. It is made if it is not there.
    """
    role = import_extra("tightrope.service.storage", "service").migrate(database, service)
    output.show({"role": role}, f"the tables are there, and {role!r} may read them and append to journals")


@command("tightrope erase data --before 2025-01-01 --archive 2024.sqlite")
def erase(
    data: str,
    *,
    experiment: str | None = None,
    event_id: list[str] | None = None,
    before: datetime | None = None,
    archive: Path | None = None,
    heads: Path | None = None,
    trust: Trust = False,
    output: Output = DEFAULT,
) -> None:
    """Erase for good what is personal in a journal's entries: of some events, or of all settled ones before a date.

    The service must not run on the journal; while it does, POST /v1/erasures erases events. See docs/erasure.md.

    Parameters
    ----------
    data
        A SQLite journal, the service's --data folder, or postgresql://…
    experiment
        Which experiment of a folder or database; needed where there are several.
    event_id
        An event; may be given several times.
    before
        A day, or a time, in UTC.
    archive
        First copy the whole journal to this file.
    heads
        Folder of the heads that `serve` keeps on this machine for journals in a database; by default in your folder for state.
    """
    if (event_id is None) == (before is None):
        raise InvalidInput("erase needs --event-id or --before, and not both.")
    retention = import_extra("tightrope.service.offline.retention", "service")
    storage = import_extra("tightrope.service.storage", "service")
    known = import_extra("tightrope.service.journal.heads", "service")
    journal = storage.journal_to_write(data, experiment)
    known.keep_head(journal, known.heads_folder(heads))
    opened = retention.reopened(journal, trust=trust)
    try:
        if before is not None:
            until = before if before.tzinfo is not None else before.replace(tzinfo=UTC)
            found = retention.erase_before(opened, int(until.timestamp() * 1e6), archive)
        else:
            found = retention.erase_events(opened, event_id, archive)
    finally:
        opened.close()
    data_out = {"entries": found.entries, "left": found.left}
    parts = [f"{found.entries:,} entries erased"]
    if found.left:
        parts.append(f"{found.left:,} decisions left: waited for still")
    if found.archive is not None:
        parts.append(
            f"archive: {found.archive.position:,} entries in {archive}; head {found.archive.hash.hex()}"
        )
    output.show(data_out, *parts)
