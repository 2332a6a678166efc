"""Journals in PostgreSQL: one process writes those of its experiments, others stand by and take over when it dies or stops."""

from __future__ import annotations

from collections.abc import Sequence

from tightrope.errors import InvalidInput
from tightrope.service.storage.postgresql.connection import warn_unverified
from tightrope.service.storage.postgresql.journal import PostgresJournal
from tightrope.service.storage.postgresql.lease import Lease
from tightrope.service.storage.postgresql.schema import migrate

__all__ = ["PostgresJournal", "journal", "journals", "migrate"]


def journal(address: str, experiment: str, *, read_only: bool = False) -> PostgresJournal:
    if "://" not in address:
        must = "be postgresql://USER@HOST/DATABASE, but the address has no //"
        raise InvalidInput(field="database", must=must)
    return PostgresJournal(address, experiment, read_only=read_only)


def journals(address: str, experiments: Sequence[str]) -> list[PostgresJournal]:
    """The journals of all experiments of a process, which leads them all or stands by for them all."""
    warn_unverified(address)
    lease = Lease(address, experiments)
    return [PostgresJournal(address, one, lease=lease) for one in experiments]
