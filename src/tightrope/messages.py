"""Messages about mistakes in what a user wrote: near misses of a name, and msgspec's errors with the field first.

>>> import msgspec
>>> try:
...     msgspec.convert({"age": True}, dict[str, float | str])
... except msgspec.ValidationError as error:
...     fault(error, {"age": True}, dict[str, float | str])
Fault(path='.age', words='must be a number or a text, but got True', unknown='')
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, get_args, get_origin

import msgspec


class Fault(NamedTuple):
    """What is wrong with a value, and where in it."""

    path: str  # from the whole value down to the entry, such as ``.reward.bonus`` or ``.range[1]``; empty for the whole value
    words: str  # what goes after the entry's name: "is missing", "must be a number, but got 'x'"
    unknown: str = ""  # the name of a field that does not exist, the last step of `path`; else empty


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """A hint with the nearest known name, if one is near."""
    import difflib

    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def slip_of(name: str, known: Iterable[str]) -> str | None:
    """The known name that was surely meant, where other names may be right too: like `did_you_mean`, but more cautious.

    It differs only in capitals and punctuation, or in a letter or two of many; never in digits, and not only in its last letter.
    """
    import difflib

    def letters(text: str) -> str:
        return "".join(filter(str.isalnum, text.casefold()))

    plain, others = letters(name), {letters(one): one for one in known}
    if plain in others:
        return others[plain]
    for near in difflib.get_close_matches(plain, others, cutoff=0.85):
        digits = [[c for c in text if c.isdigit()] for text in (plain, near)]
        if digits[0] == digits[1] and plain[:-1] != near[:-1]:
            return others[near]
    return None


def fault(
    error: msgspec.ValidationError,
    value: Any,
    kind: Any,
    *,
    shown: Callable[[Any], str] = repr,
    table: str = "a table",
) -> Fault:
    """msgspec's error about `value`, plain data that was to become a `kind`: a Struct, or any type that msgspec reads.

    `shown` writes values into the message, and `table` is what the caller's format calls a mapping.
    """
    message, _, path = str(error).partition(" - at `$")
    path, within_mapping, _ = path.removesuffix("`").partition("[...]")
    what = _value_at(value, path)
    # JSON may give a field twice: msgspec refuses both, while `value` has only the last.
    if within_mapping and isinstance(what, Mapping):
        of = _entry_type(_type_at(kind, path))
        for key, entry in what.items():  # msgspec does not say which key: the first that is refused by itself
            try:
                msgspec.convert(entry, of)
            except msgspec.ValidationError as inner:
                found = fault(inner, entry, of, shown=shown, table=table)
                return Fault(f"{path}.{key}{found.path}", found.words, found.unknown)
    came = shown(what)
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", message):
        return Fault(f"{path}.{unknown[1]}", "is an unknown field", unknown[1])
    if missing := re.fullmatch(r"Object missing required field `(.*)`", message):
        at = f"{path}.{missing[1]}"
        admitted = _choices(_type_at(kind, at), shown)
        return Fault(at, f"is missing: it must be {' or '.join(admitted)}" if admitted else "is missing")
    expected = re.fullmatch(r"Expected `(.*?)`, got `.*`", message)
    if expected or message.startswith("Invalid enum value"):
        parts = expected[1].split(" | ") if expected else []
        words = [{**_WORDS, "object": table}.get(part, part) for part in parts if part != "null"]
        admitted = _choices(_type_at(kind, path), shown) or words
        return Fault(path, f"must be {' or '.join(admitted)}, but got {came}")
    if message == "Number out of range":
        infinite = (at for at, leaf in leaves(value) if isinstance(leaf, float) and math.isinf(leaf))
        return Fault(next(infinite, path), "must be a finite number, but the value is too large")
    if "matching regex" in message:
        return Fault(path, f"must hold no control characters, but got {came}")
    if bound := re.fullmatch(r"Expected `(?:int|float)` ([<>]=?) (.*)", message):
        return Fault(path, f"must be {_BOUNDS[bound[1]]} {bound[2]}, but got {came}")
    if length := re.fullmatch(r"Expected `(?:str|array)` of length (.*)", message):
        return Fault(path, f"must have a length {length[1]}, but got {came}")
    own = re.match(r"(\w+) (?=must )", message)
    if own and own[1] in fields_at(kind, path):
        # A Struct's own check says which of its fields it means.
        return Fault(f"{path}.{own[1]}", message[own.end() :])
    return Fault(path, message)


def fields_at(kind: Any, path: str) -> tuple[str, ...]:
    struct = _struct(_type_at(kind, path))
    return () if struct is None else struct.__struct_fields__


_WORDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
}
_BOUNDS: Final = {">=": "at least", "<=": "at most", ">": "above", "<": "below"}
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _value_at(value: Any, path: str) -> Any:
    for name, index in _STEP.findall(path):
        try:
            value = value[name] if name else value[int(index)]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _type_at(kind: Any, path: str) -> Any:
    """The type of the entry at `path` in something of type `kind`; None if no Struct says."""
    for name, _ in _STEP.findall(path):
        struct = _struct(kind)
        fields = () if struct is None else msgspec.structs.fields(struct)
        kind = next((one.type for one in fields if one.encode_name == name), None)
    return kind


def _struct(kind: Any) -> type[msgspec.Struct] | None:
    for one in (kind, *get_args(kind)):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            return one
    return None


def _choices(kind: Any, shown: Callable[[Any], str]) -> list[str]:
    """What a field accepts, in words, if it accepts only certain texts."""
    parts = getattr(kind, "__args__", ())
    texts = [shown(text) for part in (kind, *parts) for text in get_args(part) if isinstance(text, str)]
    return ["a number", *texts] if texts and float in parts else texts


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value in nested tables and lists, and its path."""
    if isinstance(value, Mapping):
        for name, entry in value.items():
            yield from leaves(entry, f"{path}.{name}")
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            yield from leaves(entry, f"{path}[{i}]")
    else:
        yield path, value


def _entry_type(kind: Any) -> Any:
    return next((get_args(one)[1] for one in (kind, *get_args(kind)) if get_origin(one) is dict), Any)
