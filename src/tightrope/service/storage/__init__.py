"""Where journals are kept: one module for each storage, named like the scheme of its addresses.

To add a storage is to add a module here, with a function `journal(address, experiment, read_only=…)` that returns its `Journal`:
`tightrope serve --database NAME:…` finds it by its name. Its tests inherit `tightrope.service.conformance.JournalSuite`.

>>> storages()
['memory', 'postgresql', 'sqlite']
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from pathlib import Path
from typing import Any

from tightrope.errors import InvalidInput
from tightrope.service.journal import Journal


def storages() -> list[str]:
    """Their names."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def journal_at(address: str, experiment: str, *, read_only: bool = False) -> Journal:
    """The journal of an experiment at ``sqlite:FOLDER``, ``postgresql://…`` or ``memory:``, which keeps nothing; not open yet.

    >>> journal_at("memory:", "ward").last()
    0
    """
    scheme, colon, _ = address.partition(":")
    # libpq takes both.
    name = "postgresql" if scheme == "postgres" else scheme
    if not colon or name not in storages():
        known = ", ".join(f"{one}:…" for one in storages())
        raise InvalidInput(f"database must be one of {known}, but got {address!r}.")
    storage = _module(name)
    journal: Journal = storage.journal(address, experiment, read_only=read_only)
    return journal


def open_journal(source: str | os.PathLike[str], experiment: str | None = None) -> Journal:
    """A journal to read: a SQLite file, a folder of them, or the URL of a database; of several, by the experiment's name."""
    journal = _found(source, experiment, read_only=True)
    journal.open()
    return journal


def journal_to_write(source: str | os.PathLike[str], experiment: str | None = None) -> Journal:
    """The same to be written, not open yet."""
    if not (isinstance(source, str) and "://" in source) and not Path(source).exists():
        raise InvalidInput(f"there is no journal at {str(source)!r}.")
    return _found(source, experiment, read_only=False)


def _found(source: str | os.PathLike[str], experiment: str | None, *, read_only: bool) -> Journal:
    if isinstance(source, str) and "://" in source:
        if experiment is None:
            raise InvalidInput("experiment must be given: a database holds the journals of several.")
        return journal_at(source, experiment, read_only=read_only)
    if Path(source).is_dir():
        found = sorted(path.stem for path in Path(source).glob("*.sqlite"))
        if experiment is None and len(found) != 1:
            listed = ", ".join(found) or "none"
            raise InvalidInput(
                f"experiment must be given, unless the folder {str(source)!r} holds one journal: {listed}."
            )
        return journal_at(f"sqlite:{source}", experiment or found[0], read_only=read_only)
    journal: Journal = _module("sqlite").SqliteJournal(source, read_only=read_only)
    return journal


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        extra = "postgres" if name == "postgresql" else "service"
        words = f"{error.name} is not installed: pip install 'tightrope[{extra}]'"
        raise ModuleNotFoundError(words, name=error.name) from error
