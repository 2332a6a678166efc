"""Checks of arrays and numbers, one for each kind of value, with errors that name the entry; and rounding tolerances."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tightrope.errors import InvalidInput
from tightrope.words import Place, Shown

Array = NDArray[np.float64]
# What is checked: an argument, or an entry of one.
Name: TypeAlias = str | Place

FLOAT = np.dtype(np.float64)

# ‖φ‖² and |W| may exceed 1 by rounding errors.
NORM_LIMIT = (1.0 + 1e-6) ** 2
COST_ROUNDING = 1e-9
COST_LIMIT = 1.0 + COST_ROUNDING
# Features, costs and rewards in any unit are at most this large, so that prices, values and sums of squares stay finite in any
# combination.
LARGEST = 1e30
# A cumulative cost counts as a violation above this: less may be the rounding error of an exact 0.
VIOLATION = 1e-9


def is_plain(value: Any) -> bool:
    """Whether `value` is an array of float64 that compiled code can read and write as it is."""
    return type(value) is np.ndarray and value.dtype is FLOAT and value.flags.carray


def real_array(name: Name, value: Any, *shapes: tuple[int | None, ...]) -> Array:
    """`value` as a C-contiguous, writeable float64 array of one of the shapes (None: any length).

    The values themselves are not checked: see `require_finite`, `require_unit_rows` and `require_range`.
    """
    array: Array = value if is_plain(value) else _converted(name, value)
    for shape in shapes:
        if array.ndim == len(shape) and all(n is None or n == m for n, m in zip(shape, array.shape)):
            return array
    expected = " or ".join(_shape_text(shape) for shape in shapes)
    raise InvalidInput(field=name, must=f"have shape {expected}", got=Shown(_shape_text(array.shape)))


def finite_array(name: Name, value: Any, *shapes: tuple[int | None, ...]) -> Array:
    """`real_array`, without NaN and Inf."""
    array = real_array(name, value, *shapes)
    require_finite(name, array)
    return array


def require_finite(name: Name, array: Array) -> None:
    """Refuse NaN and Inf, naming the entry."""
    bad = ~np.isfinite(array)
    if bad.any():
        at = first(bad)
        raise InvalidInput(field=_entry(name, at), must="be finite", got=float(array[at]))


def require_unit_rows(name: Name, rows: Array, limit: float) -> None:
    """Refuse a row whose Euclidean norm is above 1, naming it."""
    require_finite(name, rows)
    with np.errstate(over="ignore"):
        squared = np.einsum("ij,ij->i", rows, rows)
    bad = ~(squared <= limit)
    if bad.any():
        j = int(np.argmax(bad))
        raise InvalidInput(
            field=_entry(name, (j,)),
            must=f"have a Euclidean norm of at most 1, but its norm is {math.sqrt(squared[j]):.9g}",
            remedy="Divide all features by the largest norm that can occur.",
        )


def require_range(name: Name, array: Array, low: Array | float, high: Array | float) -> None:
    """Refuse an entry outside [low, high], naming it."""
    inside = (array >= low) & (array <= high)
    if np.count_nonzero(inside) == inside.size:
        return
    require_finite(name, array)
    low, high = np.broadcast_to(low, array.shape), np.broadcast_to(high, array.shape)
    bad = (array < low) | (array > high)
    if bad.any():
        at = first(bad)
        must, came = f"lie in [{low[at]:g}, {high[at]:g}]", Shown(f"{array[at]:g}")
        raise InvalidInput(field=_entry(name, at), must=must, got=came)


def finite_number(
    name: Name, value: Any, *, low: float = -math.inf, high: float = math.inf, open_low: bool = False
) -> float:
    """`value` as a float in [low, high], or (low, high] with open_low."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidInput(field=name, must="be a number", got=value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    inside = (low < number if open_low else low <= number) and number <= high
    if not (math.isfinite(number) and inside):
        if low <= -LARGEST and high >= LARGEST and not math.isfinite(number):
            wanted = "be finite"
        elif high == math.inf:
            wanted = f"be finite and {'>' if open_low else '>='} {low:g}"
        else:
            wanted = f"lie in {'(' if open_low else '['}{low:g}, {high:g}]"
        raise InvalidInput(field=name, must=wanted, got=value)
    return number


def require_choice(name: Name, value: Any, choices: Collection[str]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise InvalidInput(field=name, must=f"be one of {', '.join(map(repr, choices))}", got=value)


def labels(value: Any) -> NDArray[Any]:
    """An array of names or of whole numbers; pandas and polars keep names as objects."""
    array = np.asarray(value)
    if array.dtype.kind in "OT" and array.size:
        entries = array.ravel().tolist()
        if all(isinstance(one, str) for one in entries) or all(type(one) is int for one in entries):
            return np.array(entries).reshape(array.shape)
    return array


def whole_number(name: Name, value: Any, *, low: int = 0, high: int | None = None) -> int:
    """`value` as an int ≥ low, and ≤ high if given."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < low:
        raise InvalidInput(field=name, must=f"be a whole number >= {low}", got=value)
    if high is not None and value > high:
        raise InvalidInput(field=name, must=f"be a whole number <= {high}", got=value)
    return int(value)


def first(bad: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))


def _converted(name: Name, value: Any) -> Array:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidInput(field=name, must="be a rectangular array of numbers", got=value) from error
    if array.dtype.kind in "OUST":
        array = _numbers(name, value, array)
    if array.dtype.kind not in "bfiu":
        raise InvalidInput(field=name, must="hold real numbers", got=Shown(f"values of type {array.dtype}"))
    return np.array(array, dtype=np.float64, order="C")


def _numbers(name: Name, value: Any, array: NDArray[Any]) -> Array:
    """Numbers stored as objects, as in a frame with columns of several types; the error names an entry that is not one."""
    if array.size == 0:
        raise InvalidInput(field=name, must="be an array of numbers", got=value)
    for at, one in np.ndenumerate(array):
        one = str(one) if isinstance(one, str) else one
        if not isinstance(one, bool | int | float | np.bool_ | np.integer | np.floating):
            columns = getattr(value, "columns", None)
            column = f" (column {list(columns)[at[-1]]!r})" if columns is not None and len(at) == 2 else ""
            place = f" at [{', '.join(map(str, at))}]" if at else ""
            hint = "Use an Encoder to turn texts into numbers." if isinstance(one, str) else ""
            came = Shown(f"{one!r}{place}{column}")
            raise InvalidInput(field=name, must="hold real numbers", got=came, remedy=hint)
    return np.array(array, dtype=np.float64)


def _shape_text(shape: tuple[int | None, ...]) -> str:
    return str(tuple("any" if n is None else int(n) for n in shape)).replace("'", "")


def _entry(name: Name, at: tuple[int, ...]) -> Place:
    return Place.of(name).at(*([at] if at else []))


# What happens to a number outside its range: it is moved to the nearer end, refused, or taken as it is.
Outside: TypeAlias = Literal["clip", "refuse", "take"]
# How far beyond the range, in widths of it, a number may be and still be taken as it is.
REACH: Final = 10.0


def taken_range(low: float, high: float, outside: Outside) -> tuple[float, float]:
    """The range in which a number is taken as it is; beyond it, the nearer end is used: the range itself, or with "take" more."""
    more = REACH * (high - low) if outside == "take" else 0.0
    return low - more, high + more


def number_schema(low: float, high: float, outside: Outside) -> dict[str, Any]:
    """The JSON Schema of a number with a range; numbers outside are invalid only if they are refused."""
    if outside == "refuse":
        return {"type": "number", "minimum": low, "maximum": high}
    done = "clipped" if outside == "clip" else "taken as it is"
    return {"type": "number", "description": f"From {low:g} to {high:g}; a number outside is {done}."}
