"""Tables as TOML text: what `tomllib` reads back as the same data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import tomlkit
from tomlkit.items import InlineTable, Item, Table

from tightrope.errors import InvalidInput

Filled = TypeVar("Filled", Table, InlineTable)

_WIDTH = 100  # of an array on one line


def dumps(data: Mapping[str, Any]) -> str:
    """`data` as TOML: plain values first, then tables, then lists of tables; tables within these stay on one line."""
    document = tomlkit.document()
    later = {name: value for name, value in data.items() if isinstance(value, Mapping) or _tables(value)}
    for name, value in data.items():
        if name not in later:
            document.append(name, _item(value))
    for name, value in later.items():
        if document.body:
            document.add(tomlkit.nl())
        if isinstance(value, Mapping):
            document.append(name, _filled(tomlkit.table(), value))
        else:
            document.append(name, tomlkit.aot())
            for one in value:
                document[name].append(_filled(tomlkit.table(), one))
    return tomlkit.dumps(document)


def value_text(value: Any) -> str:
    """One value, as written after the equals sign."""
    return _item(value).as_string()


def key_text(name: str) -> str:
    """A name, quoted where it has to be."""
    return tomlkit.key(name).as_string()


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _filled(table: Filled, data: Mapping[str, Any]) -> Filled:
    for name, value in data.items():
        table.append(name, _item(value))
    return table


def _item(value: Any) -> Item:
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        if value:
            _filled(table.add(tomlkit.ws(" ")), value).add(tomlkit.ws(" "))
        return table
    if isinstance(value, list | tuple):
        array = tomlkit.array()
        for one in value:
            array.append(_item(one))
        return array.multiline(len(array.as_string()) > _WIDTH)
    try:
        found: Item = tomlkit.item(value)
    except ValueError as error:
        raise InvalidInput(f"TOML can't hold {value!r}, a {type(value).__name__}.") from error
    return found
