"""msgspec's errors in words: the field first, what must hold, what came."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest

from tightrope.messages import did_you_mean, fault, slip_of

Short = Annotated[str, msgspec.Meta(min_length=1, max_length=3)]


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    low: float
    high: float = 1.0

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError(f"low must be at most high, but got {self.low}")


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: Inner | None = None
    mode: Literal["live", "paused"] | None = None
    slater: float | Literal["measure"] | None = None
    counts: list[int] = []
    usage: dict[str, dict[str, float]] = {}
    name: Short = "a"


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({"inner": {}}, ".inner.low", "is missing"),
        ({"inner": {"low": 0, "hihg": 1}}, ".inner.hihg", "is an unknown field"),
        ({"inner": {"low": "x"}}, ".inner.low", "must be a number, but got 'x'"),
        ({"inner": 3}, ".inner", "must be a table, but got 3"),
        ({"inner": {"low": 2}}, ".inner.low", "must be at most high, but got 2.0"),
        ({"mode": "lives"}, ".mode", "must be 'live' or 'paused', but got 'lives'"),
        ({"mode": 1}, ".mode", "must be 'live' or 'paused', but got 1"),
        ({"slater": "auto"}, ".slater", "must be a number or 'measure', but got 'auto'"),
        ({"counts": [1, 2.5]}, ".counts[1]", "must be a whole number, but got 2.5"),
        ({"counts": True}, ".counts", "must be a list, but got True"),
        ({"usage": {"h": {"a": 1.0, "b": None}}}, ".usage.h.b", "must be a number, but got None"),
        ({"name": "long"}, ".name", "must have a length <= 3, but got 'long'"),
        ([], "", "must be a table, but got []"),
    ],
)
def test_faults(value: Any, path: str, words: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, Outer)
    assert fault(caught.value, value, Outer)[:2] == (path, words)


def test_values_are_shown_in_the_callers_format() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(b'{"inner": true}', type=Outer)
    found = fault(caught.value, {"inner": True}, Outer, shown=json.dumps, table="an object")
    assert found.words == "must be an object, but got true"


def test_a_field_that_is_given_twice_may_be_refused_for_its_first_value() -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(b'{"usage": {"h": {"a": "x"}}, "usage": null}', type=Outer)
    found = fault(caught.value, {"usage": None}, Outer)
    assert (found.path, found.words) == (".usage", "must be a number, but got None")


@pytest.mark.parametrize("key", ["[...]", "a.b", "[0]", "[...][...]", ""])
def test_a_key_that_looks_like_a_step_is_named_like_any_other(key: str) -> None:
    value = {"good": 1.0, key: {"inner": 1.0, key: "x"}}
    try:
        msgspec.convert(value, dict[str, float | dict[str, float]])
    except msgspec.ValidationError as error:
        found = fault(error, value, dict[str, float | dict[str, float]])
    assert found.path == f".{key}.{key}"
    assert found.words.endswith("but got 'x'")


def test_the_nearest_name_is_suggested() -> None:
    assert did_you_mean("slatr", ["slater", "horizon"]) == " (did you mean 'slater'?)"


def test_slips_are_told_from_other_names() -> None:
    given = {"a": "A", "nrth": "north", "male": "female", "ward-b": "ward-a"}
    assert [slip_of(name, [known]) for name, known in given.items()] == ["A", "north", None, None]
