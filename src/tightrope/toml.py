"""Tables as TOML text: what `tomllib` reads back as the same data."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tightrope.errors import InvalidInput

_WIDTH = 100  # of an array on one line


def dumps(data: Mapping[str, Any]) -> str:
    """`data` as TOML: plain values first, then tables, then lists of tables; tables without tables in them stay on one line.

    >>> print(dumps({"name": "beds", "policy": {"slater": 0.1, "reward": {"bonus": 0.5}}, "rule": [{"kind": "share"}]}), end="")
    name = "beds"
    <BLANKLINE>
    [policy]
    slater = 0.1
    reward = { bonus = 0.5 }
    <BLANKLINE>
    [[rule]]
    kind = "share"
    """
    return "\n".join(_table(data, "")).strip("\n") + "\n"


def _table(data: Mapping[str, Any], prefix: str) -> Iterator[str]:
    later: list[tuple[str, Any]] = []
    for name, value in data.items():
        if prefix == "" and (isinstance(value, Mapping) or _tables(value)):
            later.append((key_text(name), value))
        else:
            yield f"{key_text(name)} = {value_text(value)}"
    for name, value in later:
        for table in value if isinstance(value, list) else [value]:
            yield ""
            yield f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
            yield from _table(table, name)


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def value_text(value: Any) -> str:
    """One value, as it stands after the equals sign."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        # As TOML writes them: whole numbers, decimals, nan, inf and -inf.
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key_text(name)} = {value_text(one)}" for name, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        parts = [value_text(one) for one in value]
        line = f"[{', '.join(parts)}]"
        if len(line) <= _WIDTH:
            return line
        return "[\n" + "".join(f"  {part},\n" for part in parts) + "]"
    raise InvalidInput(f"TOML can't hold {value!r}, a {type(value).__name__}.")


def key_text(name: str) -> str:
    """A name, quoted where it has to be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _text(text: str) -> str:
    # JSON's escapes are TOML's, but for DEL, which TOML wants escaped too.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
