"""What Tightrope tells people: text that carries its data, and the language that it is written in.

A message is written once. If it mentions something that Python, the command line and HTTP call by different names, it is a `Text`,
and a `Language` puts its data into words: `PYTHON` for `str(error)`, `CommandLine` for a terminal, `JSON` for an HTTP answer.

>>> said = Text("give {keys} and {rows}", keys=Either("keys=", "--keys"), rows=Place("usage", Key("hours"), 2))
>>> str(said)
"give keys= and usage['hours'][2]"
>>> CommandLine().say(said)
'give --keys and usage.hours[2]'
"""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple


class Key(str):
    """A step of a `Place` into a mapping: ``['hours']`` in Python, ``.hours`` elsewhere."""

    __slots__ = ()


class Place(tuple[str | int | tuple[int, ...], ...]):
    """The place of a value: an argument or a field, then attributes, `Key`s and indices down to the entry.

    >>> print(Place("rules", 1, "range"), Place("costs", (0, 2)))
    rules[1].range costs[0, 2]
    """

    __slots__ = ()

    def __new__(cls, *steps: str | int | tuple[int, ...]) -> Place:
        return super().__new__(cls, steps)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def __str__(self) -> str:
        return PYTHON.field(self)

    def at(self, *steps: str | int | tuple[int, ...]) -> Place:
        return Place(*self, *steps)

    @classmethod
    def of(cls, name: str | Place) -> Place:
        """A field, given as one or only by its name."""
        return name if isinstance(name, Place) else cls(name)


class Either(NamedTuple):
    """Two wordings: what to write in Python, and what does the same on the command line and in a spec."""

    python: str
    command: str


class Shown(str):
    """A value that is only displayed: a number with fewer digits, or a value from another process.

    >>> Shown("0.25")
    0.25
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Text(str):
    """A template with its data; as a plain str, what it says in Python.

    In the template ``{name}`` is put into the reader's words and ``{name!r}`` is a value as the reader would write it.

    >>> Text("give {keys}, not {value!r}", keys=Either("keys=", "--keys"), value=None)
    'give keys=, not None'
    """

    template: str
    data: Mapping[str, Any]

    def __new__(cls, template: str, /, **data: Any) -> Text:
        made = super().__new__(cls, PYTHON.fill(template, data))
        made.template, made.data = template, data
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Text, self.template, **self.data), ()


def joined(separator: str, parts: Iterable[str]) -> Text:
    """The parts joined by a separator; each may be a `Text`."""
    data = {f"part{i}": part for i, part in enumerate(parts)}
    return Text(separator.join(f"{{{name}}}" for name in data), **data)


class Language:
    """How fields and values are written. This is Python's way; the others differ in a method or two."""

    def say(self, what: Any) -> str:
        """A text, a field, an error or words, in the reader's language."""
        if isinstance(what, Text):
            return self.fill(what.template, what.data)
        if isinstance(what, Place):
            return self.field(what)
        if isinstance(what, Either):
            return self.choose(what)
        if isinstance(what, Exception) and hasattr(what, "said"):
            return str(what.said(self))
        return str(what)

    def fill(self, template: str, data: Mapping[str, Any]) -> str:
        return _Filled(self).vformat(template, (), data)

    def field(self, field: Place) -> str:
        name, *steps = field
        return str(name) + "".join(f"[{str(one)!r}]" if isinstance(one, Key) else _step(one) for one in steps)

    def choose(self, words: Either) -> str:
        return words.python

    def value(self, value: Any) -> str:
        return repr(value)


class CommandLine(Language):
    """For someone who typed a command: its `options`, such as ``--keys``, and otherwise the fields of a spec."""

    def __init__(self, options: Collection[str] = ()) -> None:
        self.options = options

    def field(self, field: Place) -> str:
        option = f"--{str(field[0]).replace('_', '-')}"
        return option if option in self.options else _dotted(field)

    def choose(self, words: Either) -> str:
        return words.command

    def value(self, value: Any) -> str:
        """As in a spec, where models, policies and rules have names."""
        kind = getattr(value, "kind", None)
        if isinstance(kind, str):
            return kind
        constants = {"None": "nothing", "True": "true", "False": "false"}
        return constants.get(repr(value), repr(value))


class Json(Language):
    """For a caller over HTTP: fields of the request's body."""

    def field(self, field: Place) -> str:
        return _dotted(field)


PYTHON = Language()
JSON = Json()


class _Filled(string.Formatter):
    """`str.format` in a language."""

    def __init__(self, language: Language) -> None:
        self.language = language

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return self.language.value(value) if conversion == "r" else value

    def format_field(self, value: Any, format_spec: str) -> str:
        return format(value, format_spec) if format_spec else self.language.say(value)


def _step(step: str | int | tuple[int, ...]) -> str:
    if isinstance(step, str):
        return f".{step}"
    return f"[{', '.join(map(str, step if isinstance(step, tuple) else (step,)))}]"


def _dotted(field: Sequence[Any]) -> str:
    return str(field[0]) + "".join(map(_step, field[1:]))
