"""Where journals are kept: one module for each storage, named like the scheme of its addresses.

To add a storage, add a module here with a function `journal(address, experiment, read_only=…)` that returns its `Journal`:
`tightrope serve --database NAME:…` finds it by its name. Its tests inherit `journal.conformance.JournalSuite`. If the experiments
of a process lead or stand by together, it also has `journals(address, experiments)`, which returns all of their journals.

An address may hold a password, so it need not be on the command line: `env:NAME` is what the environment variable NAME holds,
`file:PATH` what is in a file. No error shows one.

>>> {"memory", "postgresql", "sqlite"} <= set(storages())
True
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tightrope.errors import InvalidInput
from tightrope.extras import remedy
from tightrope.service.journal.contract import Journal
from tightrope.words import Shown


def storages() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def stated_address(address: str) -> str:
    """The address itself, even if it is in an environment variable (`env:NAME`) or a file (`file:PATH`)."""
    scheme, _, where = address.partition(":")
    if scheme == "env":
        if where not in os.environ:
            why = f"is {address!r}, but there is no environment variable {where!r}"
            raise InvalidInput(field="database", problem=why)
        return os.environ[where].strip()
    if scheme == "file":
        try:
            return Path(where).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = f"is {address!r}, but the file can't be read: {error}"
            raise InvalidInput(field="database", problem=why) from error
    return address


def journals_at(address: str, experiments: Sequence[str]) -> list[Journal]:
    """The journals that one process writes, as `journal_at` gives them; not open yet."""
    stated = stated_address(address)
    storage = _storage(stated)
    if hasattr(storage, "journals"):
        found: list[Journal] = storage.journals(stated, experiments)
        return found
    return [journal_at(stated, one) for one in experiments]


def journal_at(address: str, experiment: str, *, read_only: bool = False) -> Journal:
    """The journal of an experiment at ``sqlite:FOLDER``, ``postgresql://…`` or ``memory:``, which keeps nothing; not open yet."""
    stated = stated_address(address)
    journal: Journal = _storage(stated).journal(stated, experiment, read_only=read_only)
    return journal


def open_journal(source: str | os.PathLike[str], experiment: str | None = None) -> Journal:
    """A journal to read: a SQLite file, a folder of them, or an address; `experiment` picks one of several."""
    journal = _found(source, experiment, read_only=True)
    journal.open()
    return journal


def journal_to_write(source: str | os.PathLike[str], experiment: str | None = None) -> Journal:
    """The same to be written, not open yet."""
    return _found(source, experiment, read_only=False)


def migrate(address: str, service: str) -> str:
    """Make the tables of a database with the role of `address`, and let that of `service` use them; returns its name."""
    stated = stated_address(address)
    storage = _storage(stated)
    if not hasattr(storage, "migrate"):
        scheme = Shown(f"{stated.partition(':')[0]}:…, which needs no migration")
        raise InvalidInput(field="database", must="be postgresql://…", got=scheme)
    role: str = storage.migrate(stated, stated_address(service))
    return role


def _found(source: str | os.PathLike[str], experiment: str | None, *, read_only: bool) -> Journal:
    if isinstance(source, str):
        source = stated_address(source)
        scheme, colon, place = source.partition(":")
        if colon and scheme == "sqlite":
            source = place
        elif "://" in source or (colon and scheme in storages()):
            if experiment is None:
                raise InvalidInput(
                    field="experiment", must="be given: a database holds the journals of several"
                )
            return journal_at(source, experiment, read_only=read_only)
    if not read_only and not Path(source).exists():
        raise InvalidInput(f"there is no journal at {str(source)!r}.")
    if Path(source).is_dir():
        found = sorted(path.stem for path in Path(source).glob("*.sqlite"))
        if experiment is None and len(found) != 1:
            listed = ", ".join(found) or "none"
            must = f"be given, unless the folder {str(source)!r} holds one journal: {listed}"
            raise InvalidInput(field="experiment", must=must)
        return journal_at(f"sqlite:{source}", experiment or found[0], read_only=read_only)
    journal: Journal = _storage("sqlite:").SqliteJournal(source, read_only=read_only)
    return journal


def _storage(address: str) -> ModuleType:
    scheme, colon, _ = address.partition(":")
    # libpq accepts both.
    name = "postgresql" if scheme == "postgres" else scheme
    if not colon or name not in storages():
        known = ", ".join(f"{one}:…" for one in [*storages(), "env", "file"])
        # The text after the scheme may be a password.
        shown = f"{scheme}:…" if colon else "no scheme"
        raise InvalidInput(field="database", must=f"be one of {known}", got=Shown(shown))
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(remedy(error), name=error.name) from error
