"""Registries: what a spec, a saved file or a command line refers to by name, from the package or from your own file."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from tightrope.errors import InvalidInput
from tightrope.messages import did_you_mean
from tightrope.trust import absolute, grant, require_trusted
from tightrope.words import Shown

_Made = TypeVar("_Made")
_OWN = "_tightrope_own_"


class Registry(dict[str, Any]):
    """Classes or functions by name; `module:Name` and `path/to/file.py:Name` name what was never registered.

    `what` names the kind of thing in error messages, such as "policy". A name that is not registered yet is looked for in the files
    of `package`, so a new file there needs no other change; other distributions add names by entry points in the group called like
    the package. `elsewhere` maps names that our other distributions register to what to install for each.

    >>> pets = Registry("pet")
    >>> @pets.register("cat")
    ... class Cat: ...
    >>> pets.find("cat").kind
    'cat'
    >>> pets.find("dog")
    Traceback (most recent call last):
    ...
    tightrope.errors.InvalidInput: pet must be one of 'cat', or a class of your own as ..., but got 'dog'.
    """

    def __init__(
        self, what: str, package: str | None = None, *, elsewhere: Mapping[str, str] | None = None
    ) -> None:
        self.what, self.package, self.elsewhere = what, package, elsewhere or {}

    def register(self, name: str) -> Callable[[_Made], _Made]:
        """Decorator: make a class or function known under `name`, which becomes its `kind`."""

        def add(made: _Made) -> _Made:
            if name in self and not _read_again(self[name], made):
                known = f"is already registered: {self[name]!r}"
                raise InvalidInput(field=f"{self.what} {name!r}", problem=known)
            self[name] = made
            made.kind = name  # type: ignore[attr-defined]
            return made

        return add

    def find(self, name: str, folder: Path = Path(), *, trust: bool = False) -> Any:
        """What is registered under `name`, or the class that a text such as `file.py:Class` names; paths are relative to `folder`.

        A file or module that this program has not imported itself is read only if it is trusted: see `tightrope.trust`.
        """
        place, _, attribute = name.rpartition(":")
        if self.knows(name) and name in self:
            return self[name]
        if name in self.elsewhere:
            missing = f"is not installed: pip install {self.elsewhere[name]}"
            raise InvalidInput(f"{self.what} {name!r} {missing}")
        if not place:
            listed = ", ".join(map(repr, sorted(self)))
            own = "a class of your own as module:Class or path/to/file.py:Class"
            got = Shown(f"{name!r}{did_you_mean(name, self)}")
            raise InvalidInput(field=self.what, must=f"be one of {listed}, or {own}", got=got)
        if (present := _present(absolute(name, folder))) is not None:
            return present
        if trust:
            grant(name, folder)
        require_trusted(self.what, name, folder)
        read = self._module_of_file if place.endswith(".py") else self._module
        found = getattr(read(name, folder / place), attribute, None)
        if not callable(found):
            raise InvalidInput(f"{self.what} {name!r}: {place} has no class {attribute!r}.")
        if not isinstance(vars(found).get("kind"), str):
            # The name it is saved under: a file by its absolute path, so that another process finds it too.
            found.kind = absolute(name, folder)
        return found

    def knows(self, name: Any) -> bool:
        """Whether a name is registered, or has the form of a reference to your own class."""
        if not isinstance(name, str) or name in self or ":" in name:
            return isinstance(name, str)
        self.discover()
        return name in self

    def discover(self) -> None:
        """Import every file of the package, and what other distributions add to it, so that every name is known."""
        if self.package is not None:
            for module in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
                importlib.import_module(f"{self.package}.{module.name}")
            for one in additions(self.package):
                self.setdefault(one.name, one.load())

    def referred(self, made: type | str) -> Any:
        """The class behind another process's `reference`; a name that only that process knew becomes known here too."""
        found: Any = self.find(made, trust=True) if isinstance(made, str) else made
        if ":" not in found.kind or found.kind.startswith("__main__:"):
            self.setdefault(found.kind, found)
        return found

    def _module(self, name: str, place: Path) -> ModuleType:
        try:
            return importlib.import_module(place.name)
        except ModuleNotFoundError as error:
            raise InvalidInput(f"{self.what} {name!r}: {error}.") from error

    def _module_of_file(self, name: str, place: Path) -> ModuleType:
        path = place.resolve()
        if not path.is_file():
            raise InvalidInput(f"{self.what} {name!r}: there is no file {place}.")
        label = _label(path)
        if label in sys.modules:
            return sys.modules[label]
        spec = importlib.util.spec_from_file_location(label, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[label] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[label]
            raise
        return module


def _label(path: Path) -> str:
    return f"{_OWN}{path.stem}_{abs(hash(str(path))):x}"


def _present(name: str) -> Any:
    """The class of that name if this program has already imported it under this very name; nothing new is imported."""
    place, _, attribute = name.rpartition(":")
    labels = [_label(Path(place)), "__main__"] if place.endswith(".py") else [place]
    for label in labels:
        found = getattr(sys.modules.get(label), attribute, None)
        if isinstance(found, type) and vars(found).get("kind") == name:
            return found
    return None


def _read_again(known: Any, made: Any) -> bool:
    """Whether it is the same class from a script that was imported twice, as the program itself and as a file of classes."""
    own = any(one.__module__.startswith(("__main__", _OWN)) for one in (known, made))
    return own and bool(known.__qualname__ == made.__qualname__)


def additions(package: str) -> tuple[EntryPoint, ...]:
    """What installed distributions add to a package: the entry points in the group of its name, each name = module:Class."""
    return tuple(entry_points(group=package))


def found_by(made: type) -> str:
    """The reference of an unregistered class: module:Class, or file.py:Class if no other process could import it."""
    module, file = made.__module__, getattr(sys.modules.get(made.__module__), "__file__", None)
    if file is not None and (module == "__main__" or module.startswith(_OWN)):
        module = str(Path(file).resolve())
    return f"{module}:{made.__qualname__}"


def reference(made: type) -> type | str:
    """A class for another process: itself, or its reference if it comes from a file that no other process could import."""
    return found_by(made) if made.__module__.startswith(_OWN) else made
