"""Objects of other libraries as plain data and back: estimators and transformers like scikit-learn's, nested ones too."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tightrope.errors import InvalidInput
from tightrope.extras import PACKAGES, package_of
from tightrope.trust import LIBRARIES, grant, is_allowed, require_trusted

_TUPLE = "tuple"


def object_as_data(value: Any, where: str) -> Any:
    """An object as a table of its `kind`, module:Class, and its non-default parameters; plain data as it is."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        made = type(value)
        kind = f"{_module_of(made, where)}:{made.__qualname__}"
        # Passing an object means trusting its class.
        grant(kind)
        usual = {name: one.default for name, one in inspect.signature(made).parameters.items()}
        return {"kind": kind} | {
            name: object_as_data(one, f"{where}.{name}")
            for name, one in value.get_params(deep=False).items()
            # A "not set" marker that is not plain data, such as XGBoost's NaN, counts as the default too.
            if one is not usual.get(name, usual) and not (isinstance(one, float) and math.isnan(one))
        }
    if isinstance(value, (np.generic, np.ndarray)):
        return object_as_data(value.tolist(), where)
    if isinstance(value, tuple):
        return {_TUPLE: [object_as_data(one, where) for one in value]}
    if isinstance(value, list):
        return [object_as_data(one, where) for one in value]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: object_as_data(one, f"{where}.{name}") for name, one in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InvalidInput(field=where, must="be plain data, or have get_params", got=value)


def object_from_data(data: Any, make: Callable[[str, dict[str, Any]], Any]) -> Any:
    """What `object_as_data` described; `make(kind, parameters)` makes the objects."""
    if isinstance(data, list):
        return [object_from_data(one, make) for one in data]
    if not isinstance(data, Mapping):
        return data
    if set(data) == {_TUPLE}:
        return tuple(object_from_data(one, make) for one in data[_TUPLE])
    parameters = {name: object_from_data(one, make) for name, one in data.items() if name != "kind"}
    return parameters if "kind" not in data else make(str(data["kind"]), parameters)


def made_of(kind: str, settings: Mapping[str, Any], what: str, methods: Sequence[Sequence[str]]) -> Any:
    """An object of the class that module:Class names; `what` describes it in messages.

    The class is checked before any of its code runs: it must be trusted, be a class, and have one method from each list in
    `methods`.
    """
    made = _class_of(kind, what)
    lacking = [names for names in methods if not any(hasattr(made, name) for name in names)]
    if not isinstance(made, type) or lacking:
        words = " and ".join(" or ".join(names) for names in methods)
        raise InvalidInput(f"{what} {kind!r} must be a class with {words}, but it is not.")
    if settings.get("memory") is not None:
        must = "be left out, since scikit-learn would read pickles from there"
        raise InvalidInput(field="memory", must=must, got=settings["memory"], within=f"{what} {kind!r}")
    try:
        return made(**settings)
    except TypeError as error:
        raise InvalidInput(f"{what} {kind!r} with {dict(settings)}: {error}.") from error


def _class_of(kind: str, what: str) -> Any:
    module, _, name = kind.partition(":")
    require_trusted(what, kind, libraries=LIBRARIES)
    try:
        found = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        missing = package_of(error)
        name, install = PACKAGES.get(missing, (missing, missing))
        how = f"{name}, which is not installed: pip install {install}"
        raise InvalidInput(f"{what} {kind!r} needs {how}") from error
    except (AttributeError, ImportError, ValueError) as error:
        raise InvalidInput(f"{what} {kind!r}: there is no class {name!r} in {module!r}.") from error
    # A name that a library only imported from elsewhere does not count as that library's.
    home = getattr(found, "__module__", None)
    if isinstance(home, str) and not is_allowed(home, LIBRARIES):
        require_trusted(what, kind)
    return found


def _module_of(made: type, where: str) -> str:
    module = made.__module__
    # The public package that exports it, so that a saved name survives a change of private modules.
    for public in (module.rpartition("._")[0], module):
        importable = public and public != "__main__" and "." not in made.__qualname__
        if importable and getattr(importlib.import_module(public), made.__qualname__, None) is made:
            return public
    problem = f"is a {made.__qualname__}, which no other process could import; move the class to a module"
    raise InvalidInput(field=where, problem=problem)
