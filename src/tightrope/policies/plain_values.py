"""What callers send as a rule, plain arrays and numbers, for the fast paths of `decide` and `learn`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightrope.validation import FLOAT

# Of an array's flags: C-contiguous and aligned, which is what compiled code asks for.
READABLE = 0x101

_WHOLE = 2**53  # up to here every whole number is a float


def readable(value: Any) -> bool:
    """Whether compiled code can read `value` as it is."""
    return type(value) is np.ndarray and value.dtype is FLOAT and value.flags.num & READABLE == READABLE


def as_array(value: Any) -> Any:
    """A list of numbers as an array that compiled code can read; all else as it is."""
    if type(value) is list:
        try:
            array = np.asarray(value)
        except ValueError:
            return value
        return array if array.dtype is FLOAT else value
    return value


def as_float(value: Any) -> Any:
    """A whole number, one of NumPy's, or whether something came true, as a float; all else as it is."""
    kind = type(value)
    if kind is np.float64 or kind is bool or kind is np.bool_ or (kind is int and -_WHOLE <= value <= _WHOLE):
        return float(value)
    return value
